"""`heliograph backup`: the backups in a place: listed, verified, restored. `heliograph ctl data backup` makes them."""

import argparse
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from heliograph.cli.ctl.printing import TableColumn, print_done, print_rows
from heliograph.cli.ctl.times import size_of, time_of
from heliograph.cli.usage import Actions, description_of
from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.place import open_place
from heliograph.storage.backup.restoring import Verified, listed, restore, verify

_COLUMNS: Sequence[str | TableColumn] = (
    "id",
    TableColumn("moment", lambda row: time_of(row.at)),
    "node",
    "version",
    "secrets",
    "files",
    TableColumn("size", lambda row: size_of(row.size)),
    TableColumn("state", lambda row: f"damaged in {len(row.problems)} places" if row.problems else "whole"),
)


def add_parser(subparsers: Actions) -> None:
    """Add `backup` and its actions to the command line."""
    parser = subparsers.add_parser(
        "backup",
        help="list, verify and restore backups",
        description="List, verify and restore the backups in a place: a directory, or a URI such as s3://bucket/path. "
        "No node is asked. `heliograph ctl data backup PLACE` makes one.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add(actions, _list, "list", "list the backups in a place")
    _add_choice(_add(actions, _verify, "verify", "compare all files with their checksums"))
    back = _add(actions, _restore, "restore", "make a data directory of a backup")
    _add_choice(back)
    back.add_argument("--data-dir", metavar="DIR", required=True, type=Path, help="the directory; new or empty")


def run(args: argparse.Namespace) -> int:
    """Carry out an action; the exit code."""
    act: Callable[[argparse.Namespace], int] = args.act
    try:
        return act(args)
    except BackupFailedError as error:
        print(f"heliograph: [{error.code}] {error}", file=sys.stderr)
        return 1


def _add(
    actions: Actions, act: Callable[[argparse.Namespace], int], name: str, summary: str
) -> argparse.ArgumentParser:
    parser = actions.add_parser(name, help=summary, description=description_of(act))
    parser.set_defaults(act=act)
    parser.add_argument("place", metavar="PLACE", help="a directory, or a URI such as s3://bucket/path")
    parser.add_argument("--json", action="store_true", help="answer in JSON")
    return parser


def _add_choice(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--id", metavar="ID", help="a backup, as `list` names it")


def _list(args: argparse.Namespace) -> int:
    """List the backups in a place, oldest first, and say of which files are missing. Exit code 1: of one, some are."""
    return _printed(listed(open_place(args.place)), args)


def _verify(args: argparse.Namespace) -> int:
    """Read all content of the backups in a place, or of one, and compare it with its checksums. Exit code 1: one is
    damaged.
    """
    return _printed(verify(open_place(args.place), args.id), args)


def _restore(args: argparse.Namespace) -> int:
    """Make a data directory of a backup, by default of the newest; all checksums are compared. The directory is new or
    empty, and appears when all of it is on the disk. Do not run the old node too: both are the same node.
    """
    manifest = restore(open_place(args.place), args.data_dir, args.id)
    moment = time_of(manifest.at)
    sentence = f"{args.data_dir} is the node {manifest.node} as it was at {moment}: {size_of(manifest.size)}"
    for target in manifest.offloaded:
        sentence += f"\nits offloaded generations lie in {target}, which the backup does not hold"
    return print_done(_looked_at(manifest.id, args), sentence, args.json)


def _looked_at(name: str, args: argparse.Namespace) -> Verified:
    return next(one for one in listed(open_place(args.place)) if one.id == name)


def _printed(rows: Iterable[Verified], args: argparse.Namespace) -> int:
    found = list(rows)
    print_rows(found, _COLUMNS, args.json)
    damaged = [one for one in found if one.problems]
    for one in damaged if not args.json else ():
        for problem in one.problems:
            print(f"{one.id}  {problem}")
    return 1 if damaged else 0
