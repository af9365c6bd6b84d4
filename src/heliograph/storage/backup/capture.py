"""What of a data directory goes into a backup, as it is at one moment, in a directory beside it.

Databases are RocksDB's checkpoints, all taken in one turn of the event loop: their tables are hard links. A database
that is not open has no writer, and its files are linked or copied. Everything else is copied before and after by the
process that makes the backup.
"""

import json
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.engine import open_to_read, records
from heliograph.storage.store import open_stores

WORK: Final = ".backup"  # below the data directory, since hard links need the same file system
_DATABASES: Final = ("storage", "state", "keyed")
_REGISTER: Final = "databases"
_ROCKS_CONFIG: Final = "rocksdict-config.json"
_OF_A_PROCESS: Final = ("LOCK", "LOG")  # of RocksDB: a lock, and lines for its developers
_IMMUTABLE: Final = (".sst", ".blob", ".parquet")
_LINKED: Final = ".parquet"
_LEFT_OUT: Final = (WORK, "backup", "log", "node.lock", "databases.lock", "control.sock", _REGISTER)
_SECRETS: Final = ("flight_token", "certs", "tls", "management/logins.sqlite3")
_META: Final = b"\x00"
_KEYED_LAYOUT: Final = b"\x01"


def checkpoint(data_dir: Path, work: Path) -> None:
    """Take checkpoints of all databases. Called in the thread that writes them, which it holds for some milliseconds.

    Raises:
        StorageError: One cannot be taken.
        OSError: There is no room for what is not linked.
    """
    opened = open_stores(data_dir)
    with suppress(FileNotFoundError):  # first: what it lists is there
        shutil.copy2(data_dir / _REGISTER, work / _REGISTER)
    for source in _database_directories(data_dir):
        target = work / source.relative_to(data_dir)
        target.parent.mkdir(exist_ok=True)
        store = opened.get(source)
        if store is None or not store.is_open:
            _copy_closed(source, target)
        else:
            store.checkpoint(target)
            with suppress(FileNotFoundError):
                shutil.copy2(source / _ROCKS_CONFIG, target / _ROCKS_CONFIG)


def link_offloaded(data_dir: Path, work: Path) -> None:
    """Link Parquet files, before the checkpoint and after it, so that all are there that its databases name."""
    for path in _others(data_dir, secrets=False):
        target = work / path
        if path.suffix == _LINKED and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # its retention ended
                os.link(data_dir / path, target)


def copy_others(data_dir: Path, work: Path, *, secrets: bool) -> None:
    """Copy what is in no database of RocksDB: configuration, SQLite files, ids, files that the API wrote.

    Args:
        secrets: Whether to copy tokens and private keys too.
    """
    for path in _others(data_dir, secrets=secrets):
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
        if file.is_file() and file.name.partition(".")[0] not in _OF_A_PROCESS:
            yield file.relative_to(work)


def is_immutable(path: Path) -> bool:
    """Whether a file is never written a second time, so that one with the same inode and time is the same."""
    return path.suffix in _IMMUTABLE


def layouts(work: Path) -> dict[str, str]:
    """The layout of each database, by its folder and name: what a version must know to open it."""
    found = {}
    for directory in _database_directories(work):
        name = str(directory.relative_to(work))
        try:
            with closing(open_to_read(directory)) as rocks:
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


def _layout(record: bytes, version: str) -> str:
    fields = json.loads(record)
    return f"{fields.get('layout')} {fields.get(version)}"


def _database_directories(data_dir: Path) -> Iterator[Path]:
    for folder in _DATABASES:
        if (data_dir / folder).is_dir():
            yield from (one for one in sorted((data_dir / folder).iterdir()) if _is_database(one))


def _is_database(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _copy_closed(source: Path, target: Path) -> None:
    """Tables are linked. What RocksDB appends to is copied: it may be opened as soon as this turn ends."""
    target.mkdir()
    for file in source.iterdir():
        if file.is_file() and file.name.partition(".")[0] not in _OF_A_PROCESS:
            if is_immutable(file):
                os.link(file, target / file.name)
            else:
                shutil.copy2(file, target / file.name)


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


def _others(data_dir: Path, *, secrets: bool) -> Iterator[Path]:
    """The files that are in no database, relative to the data directory."""
    for folder, names, files in os.walk(data_dir):
        here = Path(folder).relative_to(data_dir)
        is_of_databases = str(here) in _DATABASES
        names[:] = [name for name in names if not (is_of_databases or _is_left_out(here / name, secrets))]
        for name in files:
            path = here / name
            if not _is_left_out(path, secrets) and (data_dir / path).is_file() and not (data_dir / path).is_symlink():
                yield path


def _is_left_out(path: Path, secrets: bool) -> bool:
    text = str(path)
    is_draft = path.name.endswith((".unfinished", "-journal", "-wal", "-shm"))
    return text in _LEFT_OUT or is_draft or (text in _SECRETS and not secrets)
