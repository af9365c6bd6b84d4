"""One RocksDB and its log, as every database on the disk needs it: opened, written, synced, opened again after a fault.

A write that fails leaves RocksDB refusing everything until it is opened again; that is done here, at the next use, but
not more often than an interval, and after a full disk when there is room or a minute has passed. `health` raises the
alarm, and `node.refusals` says what publishers get meanwhile. What the records mean is the business of `columnar`,
`keyed` and `state`.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from heliograph.storage.disk import THIS_DISK, Aside, Disk
from heliograph.storage.engine import Rdict, WriteBatch, memory_state, records, translated, write_tables_again
from heliograph.storage.errors import (
    StorageBusyError,
    StorageClosedError,
    StorageDamagedError,
    StorageError,
    StorageFullError,
)
from heliograph.storage.wal import LogFiles, SyncRequest

# When what failed for want of room is tried again in less room than it may need: it often needs less, and only an open
# database can drop what is old.
FULL_INTERVAL_S: Final = 60.0
_FLUSH_PROPERTIES: Final = ("num-immutable-mem-table", "mem-table-flush-pending", "num-running-flushes")
# Of this process, by their places: what a backup flushes. It keeps none of them.
_OPEN: Final[WeakValueDictionary[Path, "Store"]] = WeakValueDictionary()
_MEMORY_PROPERTIES: Final = ("size-all-mem-tables", "block-cache-usage", "estimate-table-readers-mem")


class Store:
    """A RocksDB that may be out of order. Owned by the database that it keeps and used by its thread.

    Args:
        compression: One of `engine.COMPRESSIONS`.
        prepare: Called with each newly opened RocksDB, before anything else uses it; it may create records.
        reopen_interval_s: How long a RocksDB that failed is left alone.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        compression: str,
        prepare: Callable[[Rdict], None],
        reopen_interval_s: float = 1.0,
        disk: Disk = THIS_DISK,
    ) -> None:
        self.name = name
        self.path = path
        self._compression = compression
        self._prepare = prepare
        self._reopen_interval_s = reopen_interval_s
        self._disk = disk
        self._rocks: Rdict | None = None
        self._logs: LogFiles | None = None
        self._memory_state: int | None = None
        self._fault: StorageError | None = None
        self._retry_at = 0.0
        self._needed_bytes = 0  # free on its file system, before what failed for want of room is tried again
        self._is_closed = False
        self._freeing: Aside | None = None
        self._to_free: deque[tuple[bytes, bytes] | None] = deque()  # None for all tables, which are written again
        self._rewrites = 0
        self._free_lock = threading.Lock()  # held where the thread decides whether to end, and where it is begun

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written now."""
        return self._rocks is not None and self._fault is None

    @property
    def is_freeing(self) -> bool:
        """Whether the files of removed records are being freed."""
        return self._freeing is not None

    def open(self) -> None:
        """Open it, creating it if it does not exist."""
        self._abandon()
        try:
            self._open()
        except Exception as error:
            self._abandon()
            self._fail(error)
            raise self._error() from error
        self._fault = None
        self._is_closed = False

    def usable(self) -> Rdict:
        """The open RocksDB, opened again after a fault if it is time."""
        if self._is_closed:
            raise StorageClosedError("the database was closed", database=self.name, path=self.path)
        if self._fault is not None and not self._is_time():
            raise self._error()
        if self._rocks is None or self._fault is not None:
            self.open()
        if self._rocks is None:
            raise self._error()
        return self._rocks

    def memory_bytes(self) -> int:
        """What the database itself has in memory: what was written last, cached blocks, and indexes of its files."""
        rocks = self._rocks
        if rocks is None or not self.is_open:
            return 0
        return sum(rocks.property_int_value(f"rocksdb.{name}") or 0 for name in _MEMORY_PROPERTIES)

    def write(self, batch: WriteBatch) -> None:
        """Write a batch so that it outlives this process; a sync must follow before it outlives the machine."""
        rocks = self.usable()
        try:
            rocks.write(batch)
            state = memory_state(rocks)
            self._log_files().written(may_be_new=state is None or state != self._memory_state)
            self._memory_state = state
        except Exception as error:
            translation = translated(error, self.name, self.path)
            if isinstance(translation, StorageBusyError):
                raise translation from error
            self._fail(error)
            raise self._error() from error

    def sync_request(self) -> SyncRequest:
        """What must be synced so that everything written so far outlives the machine; may run in another thread."""
        self.usable()
        return self._log_files().sync_request()

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None:
        """Say how a sync request went, None for well.

        After a failed sync the kernel may have dropped what it could not write and report success the next time, so
        the log is not trusted again: RocksDB writes what it has in memory to new files. Where these are on the disk the
        commit is as durable as it was to be, and refusing it would have its publisher store it a second time.
        """
        rocks, logs = self.usable(), self._log_files()
        if error is None:
            logs.synced(request.write_count)
            return
        try:
            rocks.flush()
            logs.synced(request.write_count)
        except Exception as second:  # noqa: BLE001 - rocksdict has no narrower type
            self._fail(second)
            raise translated(error, self.name, self.path) from None

    def sync(self) -> None:
        """Wait until the disk has everything written so far."""
        request = self.sync_request()
        error: OSError | None = None
        try:
            request.run()
        except OSError as failed:
            error = failed
        self.finish_sync(request, error)

    @contextmanager
    def reading(self) -> Iterator[Rdict]:
        """The open RocksDB; what it raises meanwhile comes out as a storage error.

        One whose last write failed can be read all the same, as long as no write has closed it to open it again.
        """
        rocks = self._rocks
        if rocks is None or self._is_closed:
            rocks = self.usable()
        try:
            yield rocks
        except (StorageError, ValueError):
            raise
        except Exception as error:
            raise translated(error, self.name, self.path) from error

    def check_is_new(self, rocks: Rdict) -> None:
        """Refuse a RocksDB without the record that says what it is, unless it was never used."""
        if self._disk.is_known(self.path) or next(records(rocks, b"", b"\xff"), None) is not None:
            raise StorageDamagedError("the record that says what it is, is missing", database=self.name, path=self.path)

    @property
    def first_generation(self) -> int:
        """The number of the first generation of a database of messages that is being made."""
        return self._disk.first_generation(self.path)

    def begin_flush(self) -> None:
        """Begin to write in the background what RocksDB has in memory, so that a backup need not copy it as a log."""
        with self.reading() as rocks:
            rocks.flush(wait=False)

    @property
    def is_flushing(self) -> bool:
        """Whether RocksDB writes what it had in memory now."""
        rocks = self._rocks
        return rocks is not None and any(rocks.property_int_value(f"rocksdb.{name}") for name in _FLUSH_PROPERTIES)

    def free(self, ranges: list[tuple[bytes, bytes]]) -> None:
        """Free the space of removed records in a thread of its own; RocksDB does not hold the GIL for it."""
        rocks = self._rocks
        if rocks is None or not ranges:
            return
        self._free_aside(rocks, ranges)

    @property
    def rewrites(self) -> int:
        """How often all tables were written again."""
        return self._rewrites

    def write_tables_again(self) -> None:
        """Write all tables again in the background, after `begin_flush`: then no file holds what was deleted."""
        with self.reading() as rocks:
            self._free_aside(rocks, [None])

    def _free_aside(self, rocks: Rdict, ranges: Sequence[tuple[bytes, bytes] | None]) -> None:
        with self._free_lock:
            self._to_free.extend(ranges)
            if self._freeing is not None:
                return
            self._freeing = freeing = self._disk.aside(lambda: self._free(rocks), f"storage-free-{self.name}")
        freeing.start()

    def table_bytes(self) -> int:
        return self._disk.table_bytes(self.path)

    def close(self) -> None:
        """Bring everything to the disk in its final form and close; the next start then has nothing to recover."""
        if self._rocks is not None and self._fault is None:
            try:
                self._rocks.flush()
            except Exception as error:  # noqa: BLE001 - what was acknowledged is in the log; the next start reads it
                self._fail(error)
        self._abandon()
        self._is_closed = True

    def _open(self) -> None:
        self._rocks = self._disk.open(self.path, self._compression)
        self._prepare(self._rocks)
        self._logs = self._disk.log_files(self.path)
        self._logs.written()
        if not self._disk.is_known(self.path):
            self._disk.note(self.path, self._logs.sync_request())
        self._memory_state = None
        _OPEN[self.path] = self

    def _free(self, rocks: Rdict) -> None:
        """What the freeing thread does."""
        while True:
            with self._free_lock:
                if not self._to_free:
                    self._freeing = None
                    return
                some = self._to_free.popleft()
            with suppress(Exception):  # the database is closing, or failed; RocksDB frees it some time later
                if some is None:
                    write_tables_again(rocks)
                    self._rewrites += 1
                else:
                    rocks.compact_range(*some)

    def _log_files(self) -> LogFiles:
        assert self._logs is not None  # it is opened with RocksDB
        return self._logs

    def _is_time(self) -> bool:
        """Whether what failed is worth another attempt: when the room that was missing is there, or after a while."""
        if self._needed_bytes and self._disk.free_bytes(self.path) >= self._needed_bytes:
            return True
        return time.monotonic() >= self._retry_at

    def _fail(self, error: Exception) -> None:
        self._fault = fault = translated(error, self.name, self.path)
        self._retry_at = time.monotonic() + self._reopen_interval_s
        self._needed_bytes = 0
        if type(fault) is StorageFullError:
            free, needed = self._disk.free_bytes(self.path), self._disk.needed_bytes(self.path)
            if free < needed:  # and not a quota, or a limit on the size of files
                self._needed_bytes = needed
                self._retry_at += FULL_INTERVAL_S
                problem = f"{fault.problem}: storing resumes when {needed:,} bytes are free there, and {free:,} are"
                self._fault = StorageFullError(problem, database=fault.database, path=fault.path)

    def _error(self) -> StorageError:
        """Why it is not open: a new error each time, since an exception gathers the frames of all who raise it."""
        fault = self._fault
        if fault is None:
            return StorageClosedError("the database is not open", database=self.name, path=self.path)
        again = type(fault)(fault.problem, database=fault.database, path=fault.path, shard=fault.shard)
        again.needed_bytes = self._needed_bytes
        return again

    def _abandon(self) -> None:
        if _OPEN.get(self.path) is self:
            del _OPEN[self.path]
        if self._logs is not None:
            self._logs.close()
            self._logs = None
        if self._rocks is not None:
            with self._free_lock:
                self._to_free.clear()
                freeing = self._freeing
            if freeing is not None:
                self._rocks.cancel_all_background(False)
                freeing.join()
            _close_quietly(self._rocks)
            self._rocks = None

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._is_closed else f"not open: {self._fault}"
        return f"Store({self.name!r} in {self.path}, {state})"


def open_stores(data_dir: Path) -> dict[Path, Store]:
    """The stores of a data directory that are open in this process, by their places; for the thread that uses them."""
    return {path: store for path, store in _OPEN.items() if path.parent.parent == data_dir}


class KeptInStore:
    """What every database has that lies in one store: its name and place, and the halves of a sync for its commits.

    The methods are the store's own; the database opens and closes it.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.name: Final = store.name
        self.path: Final = store.path
        self.check_usable: Final = store.usable
        self.sync_request: Final = store.sync_request
        self.finish_sync: Final = store.finish_sync


def _close_quietly(rocks: Rdict) -> None:
    """Close RocksDB, which repeats an earlier write error when it is closed, but closes."""
    try:
        rocks.close()
    except Exception:  # noqa: BLE001 - it says again what the failed write said
        return
