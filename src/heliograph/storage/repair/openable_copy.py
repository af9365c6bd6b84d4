"""Copies of a damaged database that can be opened; the files of the database itself are never changed.

Where RocksDB can still open the files, everything around damaged pieces is taken. Otherwise RocksDB makes a database of
the tables and logs that it finds, and leaves out tables with a damaged piece.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.salvage import is_damage, readable_records
from heliograph.storage.directory_swap import finish_swap
from heliograph.storage.engine import Rdict, mend_files, open_primary, write_all
from heliograph.storage.errors import StorageDamagedError

_TABLE: Final = re.compile(r"\b\d+\.sst\b")  # as RocksDB names them in its errors
FINISHED: Final = "an earlier repair of it was cut off; what that had mended was put in its place"
_BLOCK: Final = b"B"


def openable_copy(path: Path, scratch: Path, *, has_records: bool) -> Path:
    """A copy of a database of messages that RocksDB opens for writing, with everything that can be read.

    Args:
        scratch: An empty directory on the same file system.
        has_records: Whether its topics and generations can be read, so that only messages may be damaged.
        Exception: RocksDB's own, where it is not about damage.
    """
    linked = _linked(path, scratch / "linked", set())
    try:
        rocks = open_primary(linked, "zstd", compacts=False)
    except Exception as error:
        if not is_damage(error):
            raise
        return files_made_readable(path, scratch / "files", set())
    try:
        return linked if has_records else _salvaged(rocks, path, scratch)
    finally:
        rocks.close()


def put_back(name: str, path: Path, kept_in: Path) -> Path | None:
    """Put a mended database in its place if a crash kept it from there; damaged ones are in `kept_in`.

    Returns:
        Where the damaged one is kept; None if there is nothing, so that another may be made.

    Raises:
        StorageDamagedError: An earlier database is kept, which a person may want back.
    """
    try:
        return finish_swap(path, kept_in)
    except FileExistsError as error:
        raise StorageDamagedError(
            f"nothing is left of it in {path}, but {error.filename} was kept by an earlier repair; "
            "move that to its place, or elsewhere to begin an empty one",
            database=name,
        ) from error


def files_made_readable(path: Path, copy: Path, left_out: set[str]) -> Path:
    """A copy of a RocksDB with everything that RocksDB itself can find in its files, less those left out."""
    mend_files(_linked(path, copy, left_out))
    return copy


def named_tables(problem: str) -> list[str]:
    """The files of tables that an error of RocksDB names."""
    return _TABLE.findall(problem)


def _linked(path: Path, copy: Path, left_out: set[str]) -> Path:
    copy.mkdir()
    for entry in path.iterdir():
        if entry.name in left_out:
            continue
        if entry.suffix == ".sst":
            os.link(entry, copy / entry.name)  # tables are never changed, so they need no room twice
        elif entry.is_file() and not entry.name.startswith("LOG") and entry.name != "LOCK":
            shutil.copy2(entry, copy / entry.name)
    return copy


def _salvaged(rocks: Rdict, path: Path, scratch: Path) -> Path:
    """What can be read of a database, and the blocks that a damaged piece hides in whole tables."""
    tables: set[str] = set()
    target = open_primary(scratch / "salvaged", "zstd")
    try:
        _put_records(rocks, target, tables, only_blocks=False)
        if tables:
            rest = open_primary(files_made_readable(path, scratch / "rest", tables), "zstd")
            try:
                _put_records(rest, target, set(), only_blocks=True)
            finally:
                rest.close()
    finally:
        target.close()
    return scratch / "salvaged"


def _put_records(source: Rdict, target: Rdict, tables: set[str], *, only_blocks: bool) -> None:
    """Copy records past damage; the tables that are damaged are added to a set.

    Args:
        tables: Takes the names of damaged tables.
        only_blocks: Whether blocks alone are taken, and only those that are not there yet: other records may be older.
    """
    found = readable_records(source, lambda _, problem: tables.update(named_tables(problem)))
    if only_blocks:
        found = ((key, value) for key, value in found if key.startswith(_BLOCK) and target.get(key) is None)
    write_all(target, found)
