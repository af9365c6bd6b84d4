"""`heliograph conf import`: the configuration of another broker as ours, and what became of each of its settings."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from heliograph.cli.usage import Actions
from heliograph.settings.errors import ConfigError

if TYPE_CHECKING:
    from heliograph.config.reading import Check as ConfigCheck
    from heliograph.migration.draft import ImportDraft

Check = Callable[[Path, Path], tuple[list[str], list[str]]]
"""Finds what keeps a node from starting with a file and a data directory, and what it would not do."""

_BROKERS: Final = ("mosquitto", "emqx")
_SECRET_MODE: Final = 0o600


def add_import(actions: Actions) -> None:
    """Add `conf import`."""
    parser = actions.add_parser(
        "import",
        help="make a configuration of another broker's",
        description="Make a configuration of a mosquitto.conf and what it names, or of EMQX's emqx.conf, cluster.hocon "
        "and exported data (emqx-export-*.tar.gz). It says of each setting what became of it: kept, changed, dropped, "
        "or that it cannot be imported and what to do. Without --output it prints that as comments, and the "
        "configuration. It makes nothing where a user could not log in any more, but says who and why.",
    )
    parser.add_argument("files", metavar="FILE", type=Path, nargs="+", help="a file of the other broker")
    parser.add_argument(
        "--from", dest="broker", choices=_BROKERS, help="whose files they are; default: by what they say"
    )
    parser.add_argument(
        "--output",
        metavar="DIR",
        type=Path,
        help="write heliograph.conf, the users, the rules and report.txt there; nothing is overwritten",
    )
    parser.add_argument(
        "--lose-logins",
        action="store_true",
        help="go on although some cannot log in any more; the report names them",
    )


def run_import(args: argparse.Namespace, check: Check, languages: ConfigCheck) -> int:
    """Carry out `conf import`; 1 if something could not be read, is lost, or keeps a node from starting."""
    from heliograph.migration.choosing import import_files
    from heliograph.migration.errors import ImportRefusedError
    from heliograph.migration.outcomes import report_lines

    try:
        draft = import_files(args.files, args.broker, (languages,))
    except (ImportRefusedError, ConfigError) as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1
    report = list(report_lines(draft.outcomes))
    if draft.lost_logins and not args.lose_logins:
        print("\n".join(report))
        _say(f"{len(draft.lost_logins)} logins would be lost, so nothing is made:", map(str, draft.lost_logins))
        _say("see to them, or give --lose-logins to go on without them")
        return 1
    faults, warnings = _checked(draft, check)
    if args.output is None:
        print("".join(f"# {line}\n" for line in report))
        sys.stdout.write(draft.configuration(Path()))
        if draft.files:
            _say(f"with --output DIR these are written too: {', '.join(draft.files)}")
    elif not _write(draft, args.output, report):
        return 1
    for warning in warnings:
        _say(f"warning: {warning}")
    if faults:
        _say("before a node starts with it, mend what heliograph conf check finds:", faults)
    return 1 if faults else 0


def _checked(draft: ImportDraft, check: Check) -> tuple[list[str], list[str]]:
    """What `conf check` finds, tried in a directory of its own."""
    from heliograph.migration.draft import CONFIGURATION

    with tempfile.TemporaryDirectory(prefix="heliograph-import-") as name:
        folder = Path(name)
        _put(draft, folder, folder)
        found = check(folder / CONFIGURATION, folder / "data")
    faults, warnings = ([text.replace(f"{folder}/", "") for text in texts] for texts in found)
    return faults, warnings


def _write(draft: ImportDraft, folder: Path, report: list[str]) -> bool:
    """Write everything to a directory; False if something is there already, or cannot be written."""
    from heliograph.migration.draft import CONFIGURATION, REPORT

    there = [name for name in (CONFIGURATION, REPORT, *draft.files) if os.path.lexists(folder / name)]
    if there:
        _say(f"{folder} has {', '.join(there)} already, and nothing is overwritten: give another directory")
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _put(draft, folder, folder.resolve())
        _put_file(folder / REPORT, "".join(f"{line}\n" for line in report))
    except OSError as error:
        _say(f"{error.filename} cannot be written: {error.strerror}")
        return False
    print(report[-1])
    print(f"written to {folder}: {', '.join((CONFIGURATION, *draft.files, REPORT))}")
    return True


def _put(draft: ImportDraft, folder: Path, named: Path) -> None:
    from heliograph.migration.draft import CONFIGURATION

    for name, text in draft.files.items():
        _put_file(folder / name, text)
    _put_file(folder / CONFIGURATION, draft.configuration(named))


def _put_file(file: Path, text: str) -> None:
    """A new file that only its owner reads: hashes of passwords are in some."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _SECRET_MODE), "w", encoding="utf-8") as out:
        out.write(text)


def _say(text: str, lines: Iterable[str] = ()) -> None:
    print(f"heliograph: {text}", *(f"  {line}" for line in lines), sep="\n", file=sys.stderr)
