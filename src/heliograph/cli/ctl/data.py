"""`ctl data`: a backup of all that a node keeps; export of configuration, users, rules and bans, and import of them."""

import argparse
import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from heliograph.cli.ctl.asking import add_command, add_group, answer_of, data_dir
from heliograph.cli.ctl.printing import print_done
from heliograph.cli.ctl.times import size_of
from heliograph.cli.output import counted
from heliograph.cli.usage import Actions, UsageError
from heliograph.control.proto_v1.backups import BACKUPS_MAKE, BackupWanted
from heliograph.control.proto_v1.node import NODE_STATUS

Result = TypeVar("Result")


class Exported(msgspec.Struct, frozen=True):
    """Where an archive is."""

    file: str


class Imported(msgspec.Struct, frozen=True):
    """How many rows of tables were not taken."""

    refused: dict[str, int] = msgspec.field(default_factory=dict)


def add_parser(actions: Actions) -> None:
    """Add `data` and its commands."""
    group = add_group(
        actions,
        "data",
        "back up the node; export configuration, users, rules and bans into an archive, and import one",
        "Back up all that a node keeps, messages and sessions included. Or export the configuration that was changed "
        "while the node ran, users, rules, bans, retained messages and API keys into one archive, and import such an "
        "archive into another installation.",
        "heliograph ctl data backup /mnt/backups/node1",
        "heliograph ctl data export --passphrase-file passphrase.txt",
        "heliograph ctl data import emqx-export-2026-01-31-12-00-00.000.tar.gz",
    )
    backup = add_command(
        group,
        _backup,
        "backup",
        "make a backup of everything",
        "heliograph ctl data backup /mnt/backups/node1",
        "heliograph ctl data backup s3://bucket/node1 --secrets",
    )
    backup.add_argument("place", metavar="PLACE", nargs="?", help="a directory or a URI (default: `backup.place`)")
    backup.add_argument(
        "--secrets", action="store_true", help="also tokens and private keys (default: `backup.secrets`)"
    )
    export = add_command(
        group,
        _export,
        "export",
        "make an archive",
        "heliograph ctl data export --table-sets banned,builtin_authn --dir /var/backups",
    )
    export.add_argument("--root-keys", metavar="A,B", help="roots of the configuration (default: all)")
    export.add_argument("--table-sets", metavar="X,Y", help="tables (default: all)")
    export.add_argument("--dir", metavar="DIR", type=Path, help="put the archive there instead")
    take = add_command(
        group,
        _import,
        "import",
        "take an archive",
        "heliograph ctl data import emqx-export-2026-01-31-12-00-00.000.tar.gz",
    )
    take.add_argument("file", metavar="FILE", type=Path, help="the archive")
    for one in (export, take):
        one.add_argument(
            "--passphrase-file", metavar="FILE", type=Path, help="a file whose first line encrypts the archive"
        )


def _backup(args: argparse.Namespace) -> int:
    """Back up messages, sessions, retained messages, shared groups, users, configuration and all else that the node
    keeps, as they are at one moment, while it runs. Only what the place does not have is copied. `heliograph backup`
    lists, verifies and restores what is there.
    """
    place = args.place or ""
    if place and "://" not in place:
        place = str(Path(place).absolute())
    made = answer_of(args, BACKUPS_MAKE(BackupWanted(place, True if args.secrets else None)))
    sentence = (
        f"{made.place} has the backup {made.id}: {counted(made.files, 'file')} with {size_of(made.bytes)}, of which "
        f"{made.copied_files:,} with {size_of(made.copied_bytes)} were copied in {made.duration_s:.1f} s"
    )
    return print_done(made, sentence, args.json)


def _export(args: argparse.Namespace) -> int:
    """Make an archive in `backup` in the data directory. It has secrets and hashes of passwords: give a passphrase to
    encrypt it, or keep it where no one else can read it.
    """
    from heliograph.management.backups.backups import Backups

    roots, tables = _names(args.root_keys), _names(args.table_sets)
    passphrase = _passphrase(args)

    async def export(backups: Backups) -> Path:
        return await backups.export(roots, tables, passphrase)

    file = _done(args, export)
    if args.dir is not None:
        try:
            file = Path(shutil.move(file, args.dir / file.name))
        except OSError as error:
            raise UsageError(f"the archive is {file}, and cannot be moved to {args.dir}: {error.strerror}") from None
    return print_done(Exported(str(file)), f"{file} has everything that was asked for", args.json)


def _import(args: argparse.Namespace) -> int:
    """Merge the configuration of an archive into the one that holds, and have its rows replace those of the same key.
    Where the configuration is refused, nothing is taken.
    """
    from heliograph.management.backups.backups import Backups

    if not args.file.is_file():
        raise UsageError(f"there is no file {args.file}")
    passphrase = _passphrase(args)

    async def take(backups: Backups) -> dict[str, int]:
        return await backups.take(args.file, passphrase)

    refused = {table: count for table, count in _done(args, take).items() if count}
    if refused:
        text = ", ".join(f"{counted(count, 'row')} of {table}" for table, count in refused.items())
        print_done(
            Imported(refused), f"{args.file} is taken but {text}, which the settings here do not allow", args.json
        )
        return 1
    return print_done(Imported(), f"{args.file} is taken", args.json)


def _done(args: argparse.Namespace, do: "Callable[..., Awaitable[Result]]") -> Result:
    from heliograph.management.asking.nodes import Nodes
    from heliograph.management.backups.backups import Backups
    from heliograph.management.backups.errors import BackupError

    name = answer_of(args, NODE_STATUS()).name
    directory = data_dir(args)

    async def run() -> Result:
        nodes = Nodes(name, directory)
        try:
            return await do(Backups(nodes.own(), directory))
        finally:
            nodes.close()

    try:
        return asyncio.run(run())
    except BackupError as error:
        raise UsageError(f"[{error.code}] {error}") from None


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _passphrase(args: argparse.Namespace) -> str:
    if args.passphrase_file is None:
        return ""
    try:
        lines: list[str] = args.passphrase_file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the file {args.passphrase_file} cannot be read: {error}") from None
    if not lines or not lines[0]:
        raise UsageError(f"there is no passphrase in the first line of {args.passphrase_file}")
    return lines[0]
