"""RocksDB as storage uses it: how a database is opened, how its records are walked, what its errors mean.

The only module that imports rocksdict. Two facts about it shape the callers: it holds the GIL during every call, and it
reports every failure as a bare `Exception` whose text is RocksDB's. Functions that take a `Rdict` let it through; the
databases translate it (`translating`).
"""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    BottommostLevelCompaction,
    CompactOptions,
    DBCompressionType,
    Options,
    Rdict,
    RdictIter,
    WriteBatch,
    WriteOptions,
)

from heliograph.storage.errors import (
    StorageBusyError,
    StorageClosedError,
    StorageDamagedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
)

__all__ = [
    "Rdict",
    "RdictIter",
    "WriteBatch",
    "last_record",
    "new_batch",
    "open_primary",
    "open_secondary",
    "records",
    "translated",
    "write_all",
    "write_files_again",
    "write_tables_again",
]

COMPRESSIONS: Final = ("zstd", "lz4", "none")

# A memtable is what the log may grow to, so also what a start after a crash must read again.
MEMTABLE_BYTES: Final = 32 << 20
_MEMTABLES_MAX: Final = 4
# SST blocks compress together; 32 KiB holds several small columnar blocks and is still little to read for one.
_SST_BLOCK_BYTES: Final = 32 << 10
_SST_FILE_BYTES: Final = 64 << 20
_FULL: Final = ("No space left on device", "File too large", "Disk quota exceeded")
_READ_ONLY: Final = ("Read-only file system", "Permission denied", "Operation not permitted")
_MANIFEST: Final = re.compile(r"MANIFEST-[0-9]+")
_CHECKS_MAX: Final = 3
_BATCH_BYTES: Final = 4 << 20
_BUSY: Final = "Write stall"


def open_primary(path: Path, compression: str, *, compacts: bool = True) -> Rdict:
    """Open a database for writing; one is created in an absent or empty directory only.

    RocksDB itself would begin an empty database wherever it finds no `CURRENT`, and delete the files of the one before.

    Args:
        compression: One of `COMPRESSIONS`.
        compacts: Whether tables are merged; a damaged one would end that, and every write with it.
    """
    options = _options()
    is_new = is_absent(path)
    options.create_if_missing(is_new)
    options.set_disable_auto_compactions(not compacts)
    if not is_new:
        _check_files(path)
    options.set_write_buffer_size(MEMTABLE_BYTES)
    options.set_max_write_buffer_number(_MEMTABLES_MAX)
    options.set_target_file_size_base(_SST_FILE_BYTES)
    options.set_max_background_jobs(2)
    options.set_bytes_per_sync(1 << 20)
    options.set_compression_type(_compression(compression))
    tables = BlockBasedOptions()
    tables.set_block_size(_SST_BLOCK_BYTES)
    tables.set_format_version(5)
    options.set_block_based_table_factory(tables)
    database = Rdict(str(path), options)
    write_options = WriteOptions()
    write_options.no_slowdown = True  # a stalled write would hold the GIL, and with it the whole broker
    database.set_write_options(write_options)
    return database


def open_to_read(path: Path) -> Rdict:
    """Open a database that nothing writes, for reading."""
    return Rdict(str(path), _options(), access_type=AccessType.read_only())


def open_secondary(path: Path, secondary_path: Path) -> Rdict:
    """Open a database that another process writes, for reading what that process has written so far.

    Args:
        secondary_path: An empty directory of its own for RocksDB's notes.
    """
    _check_files(path)
    options = _options()
    options.set_max_open_files(-1)  # files that the writer deletes stay readable while they are open
    database = Rdict(str(path), options, access_type=AccessType.secondary(str(secondary_path)))
    try:
        _check_tables(database, path)
    except Exception:
        database.close()
        raise
    return database


def is_absent(path: Path) -> bool:
    """Whether there is no database and nothing left of one: no directory, or an empty one."""
    try:
        with os.scandir(path) as entries:
            return next(entries, None) is None
    except FileNotFoundError:
        return True
    except NotADirectoryError as error:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error


def _check_files(path: Path) -> None:
    """Refuse a directory in which RocksDB would not find what it begins with; nothing in it is touched."""
    try:
        named = (path / "CURRENT").read_text("ascii", "replace").strip()
    except FileNotFoundError:
        raise Exception("Corruption: the file CURRENT, which names its list of tables, is missing") from None
    if not _MANIFEST.fullmatch(named):
        raise Exception(f"Corruption: the file CURRENT holds {named[:40]!r}, which names no list of tables")
    if not (path / named).is_file():
        raise Exception(f"Corruption: its list of tables, the file {named}, is missing")


def _check_tables(database: Rdict, path: Path) -> None:
    """Refuse a secondary that shows an earlier state, or nothing, because a table is missing.

    RocksDB does not say so. But where it shows every table that there is, none is missing; otherwise opening for
    reading only tells.
    """
    shown = {Path(table["name"]).name for table in database.live_files()}
    if shown and shown >= {entry.name for entry in path.glob("*.sst")}:
        return
    for attempt in range(_CHECKS_MAX):
        try:
            open_to_read(path).close()
            return
        except Exception:
            # The broker may have removed a table since the list of tables was read, but not time and again.
            if attempt == _CHECKS_MAX - 1:
                raise


def mend_files(path: Path) -> None:
    """Make a database by RocksDB of the tables and logs in a directory, without what it cannot read at all."""
    Rdict.repair(str(path), _options())


def memory_state(database: Rdict) -> int | None:
    """A number that changes whenever RocksDB begins another memtable, which is also when it begins another log file."""
    state: int | None = database.property_int_value("rocksdb.current-super-version-number")
    return state


def write_all(rocks: Rdict, pairs: Iterable[tuple[bytes, bytes]]) -> int:
    """Write records in batches of a bounded size; how many there were."""
    batch, size, count = new_batch(), 0, 0
    for key, value in pairs:
        batch.put(key, value)
        size += len(key) + len(value)
        count += 1
        if size >= _BATCH_BYTES:
            rocks.write(batch)
            batch, size = new_batch(), 0
    rocks.write(batch)
    return count


def write_files_again(rocks: Rdict) -> None:
    """Write everything that there is into new tables, so that no file holds what was deleted; takes its time."""
    rocks.flush()
    write_tables_again(rocks)


def write_tables_again(rocks: Rdict) -> None:
    """The same for what is in tables; other compactions go on meanwhile, so that writes need not wait."""
    options = CompactOptions()
    options.set_bottommost_level_compaction(BottommostLevelCompaction.force())
    options.set_exclusive_manual_compaction(False)
    rocks.compact_range(None, None, options)


def new_batch() -> WriteBatch:
    return WriteBatch(raw_mode=True)


def records(database: Rdict, lower: bytes, upper: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Walk the records with lower <= key < upper, as they are when the walk begins."""
    walk = database.iter()
    walk.seek(lower)
    while walk.valid():
        key = walk.key()
        if key >= upper:
            return
        yield key, walk.value()
        walk.next()
    walk.status()


def last_record(database: Rdict, lower: bytes, upper: bytes) -> tuple[bytes, bytes] | None:
    """The record with the greatest key for which lower <= key <= upper."""
    return last_of(database.iter(), lower, upper)


def last_of(walk: RdictIter, lower: bytes, upper: bytes) -> tuple[bytes, bytes] | None:
    """As `last_record`, on an iterator that the caller uses several times."""
    walk.seek_for_prev(upper)
    if not walk.valid():
        walk.status()
        return None
    key: bytes = walk.key()
    return (key, walk.value()) if key >= lower else None


@contextmanager
def translating(database: str, path: Path) -> Iterator[None]:
    """Raise as storage errors what RocksDB or the system raise inside.

    What is one already comes out as it is: an error raised from itself is a cycle, which would keep the iterators of
    its frames, and so RocksDB and its lock, until the next garbage collection.
    """
    try:
        yield
    except StorageError:
        raise
    except Exception as error:
        raise translated(error, database, path) from error


def translated(error: Exception, database: str, path: Path) -> StorageError:
    """The storage error that an exception of RocksDB or of the operating system means."""
    if isinstance(error, StorageError):
        return error
    text = str(error)
    if any(full in text for full in _FULL):
        return StorageFullError(text, database=database, path=path)
    if any(refused in text for refused in _READ_ONLY):
        return StorageReadOnlyError(text, database=database, path=path)
    if _BUSY in text:
        return StorageBusyError(text, database=database, path=path)
    if "Corruption" in text or "checksum" in text:
        return StorageDamagedError(text, database=database, path=path)
    if "already closed" in text:
        return StorageClosedError("the database is closed", database=database, path=path)
    return StorageError(text, database=database, path=path)


def _options() -> Options:
    options = Options(raw_mode=True)
    options.set_keep_log_file_num(3)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    return options


def _compression(name: str) -> DBCompressionType:
    if name == "zstd":
        return DBCompressionType.zstd()
    if name == "lz4":
        return DBCompressionType.lz4()
    return DBCompressionType.none()
