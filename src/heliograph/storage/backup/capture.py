"""What of a data directory goes into a backup, as it is at one moment, in a directory beside it.

How databases get there says `moment`. Everything else is linked before and copied after by the process that makes the
backup.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.moment import DATABASES, IMMUTABLE, REGISTER, database_directories, is_saved
from heliograph.storage.engine import Rdict, open_to_read, records

WORK: Final = ".backup"  # below the data directory, since hard links need the same file system
_LINKED: Final = ".parquet"
_LEFT_OUT: Final = (WORK, "backup", "log", "node.lock", "databases.lock", "control.sock", REGISTER)
_SECRETS: Final = ("flight_token", "certs", "tls", "management/logins.sqlite3")
_META: Final = b"\x00"
_KEYED_LAYOUT: Final = b"\x01"


def link_offloaded(data_dir: Path, work: Path) -> None:
    """Link Parquet files, before the moment of the backup and after it: all that its databases name are there then."""
    for path in _others(data_dir, _LEFT_OUT):
        target = work / path
        if path.suffix == _LINKED and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # its retention ended
                os.link(data_dir / path, target)


def copy_others(data_dir: Path, work: Path, *, secrets: bool, tls_dir: str) -> None:
    """Copy what is in no database of RocksDB: configuration, SQLite files, ids, files that the API wrote.

    Args:
        secrets: Whether to copy tokens and private keys too.
        tls_dir: Where operators of the API find keys; a relative one lies in the data directory.
    """
    keys = os.path.relpath((data_dir / tls_dir).resolve(), data_dir.resolve())
    for path in _others(data_dir, _LEFT_OUT if secrets else (*_LEFT_OUT, *_SECRETS, keys)):
        source, target = data_dir / path, work / path
        if path.suffix == _LINKED:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # it was removed since it was listed
            if path.suffix == ".sqlite3":
                _copy_sqlite(source, target)
            else:
                shutil.copy2(source, target)


def captured(work: Path) -> Iterator[Path]:
    """The files to save, relative to `work`, in an order that does not depend on the disk."""
    for file in sorted(work.rglob("*")):
        if file.is_file() and is_saved(file):
            yield file.relative_to(work)


def is_immutable(path: Path) -> bool:
    """Whether a file is never written a second time, so that one with the same inode and time is the same."""
    return path.suffix in IMMUTABLE


def tidy_databases(work: Path) -> dict[str, str]:
    """Remove tables that no list of tables names: RocksDB was writing them, or has merged them.

    Returns:
        The layout of each database, by its folder and name: what a version must know to open it.
    """
    found = {}
    for directory in database_directories(work):
        name = str(directory.relative_to(work))
        try:
            with closing(open_to_read(directory)) as rocks:
                _remove_unnamed(rocks, directory)
                meta = json.loads(rocks.get(_META) or b"{}")
                pieces = [str(meta.get("format", "unknown"))]
                if directory.parent.name == "storage":
                    pieces += sorted({_layout(value, "version") for _, value in records(rocks, b"G", b"H")})
                elif directory.parent.name == "keyed":
                    pieces.append(_layout(rocks.get(_KEYED_LAYOUT) or b"{}", "layout_version"))
                found[name] = ", ".join(pieces)
        except Exception as error:  # noqa: BLE001 - it is saved as it is, for `check --repair`
            found[name] = f"cannot be read: {error}"
    return found


def _remove_unnamed(rocks: Rdict, directory: Path) -> None:
    named = {Path(table["name"]).name for table in rocks.live_files()}
    for table in directory.glob("*.sst"):
        if table.name not in named:
            table.unlink()


def _layout(record: bytes, version: str) -> str:
    fields = json.loads(record)
    return f"{fields.get('layout')} {fields.get(version)}"


def _copy_sqlite(source: Path, target: Path) -> None:
    """Copy what its last transaction left, beside its writers."""
    try:
        with (
            closing(sqlite3.connect(f"file:{source}?mode=ro", uri=True)) as database,
            closing(sqlite3.connect(target)) as copy,
        ):
            database.backup(copy)
    except sqlite3.Error as error:
        raise BackupFailedError(f"{source} cannot be copied: {error}") from error


def _others(data_dir: Path, left_out: Collection[str]) -> Iterator[Path]:
    """The files that are in no database, relative to the data directory."""
    for folder, names, files in os.walk(data_dir):
        here = Path(folder).relative_to(data_dir)
        is_of_databases = str(here) in DATABASES
        names[:] = [name for name in names if not (is_of_databases or _is_left_out(here / name, left_out))]
        for name in files:
            path = here / name
            if not _is_left_out(path, left_out) and (data_dir / path).is_file() and not (data_dir / path).is_symlink():
                yield path


def _is_left_out(path: Path, left_out: Collection[str]) -> bool:
    return str(path) in left_out or path.name.endswith((".unfinished", "-journal", "-wal", "-shm"))
