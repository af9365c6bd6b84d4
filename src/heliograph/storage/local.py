"""The `local` backend: databases on this machine's disk, one RocksDB each.

Shards share the RocksDB of their database (the shard number is part of every key), so that a commit is one write and
one sync however many shards it touches. A write that fails leaves RocksDB refusing everything until it is opened again;
that is done here, at the next write, but not more often than a second.
"""

import time
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from heliograph.storage import keys
from heliograph.storage.block import DamagedBlockError
from heliograph.storage.catalog import Catalog, generation_record, meta_record
from heliograph.storage.columnar import ColumnarWriter
from heliograph.storage.engine import COMPRESSIONS, Rdict, WriteBatch, new_batch, open_primary, translated
from heliograph.storage.errors import StorageBusyError, StorageClosedError, StorageDamagedError, StorageError
from heliograph.storage.interface import (
    Batch,
    DatabaseOptions,
    EndOfStream,
    GenerationInfo,
    Position,
    StorableMessage,
    Stream,
    StreamId,
    StreamIterator,
)
from heliograph.storage.replay import read_next
from heliograph.storage.site import read_or_make_site_id
from heliograph.storage.topic_filter import topic_filter
from heliograph.storage.wal import LogFiles, SyncRequest

_FOLDER: Final = "storage"


def databases_path(data_dir: Path) -> Path:
    """Where the databases of a node lie."""
    return data_dir / _FOLDER


class LocalBackend:
    """The databases of one node. Lives as long as the node; owned by it.

    Args:
        data_dir: The node's data directory; created if it does not exist.
        reopen_interval_s: How long a database that failed is left alone before a write opens it again.
    """

    def __init__(self, data_dir: Path, reopen_interval_s: float = 1.0) -> None:
        self._path = databases_path(data_dir)
        self.reopen_interval_s = reopen_interval_s
        self._site_id: str | None = None

    @property
    def site_id(self) -> str:
        """This node's persistent random id, made at its first use.

        Raises:
            StorageError: It cannot be read or written.
        """
        if self._site_id is None:
            try:
                self._site_id = read_or_make_site_id(self._path)
            except OSError as error:
                raise translated(error, "", self._path) from error
        return self._site_id

    def database(self, name: str, options: DatabaseOptions) -> "LocalDatabase":
        """A database that is not open yet, so that a node can run while it cannot be opened."""
        return LocalDatabase(self, name, self._path / name, options)

    def open_database(self, name: str, options: DatabaseOptions) -> "LocalDatabase":
        """Open a database, creating it if it does not exist.

        Raises:
            StorageError: It cannot be opened.
        """
        database = self.database(name, options)
        database.open()
        return database

    def databases(self) -> Sequence[str]:
        """The names of those that exist."""
        return existing_databases(self._path)


def existing_databases(path: Path) -> list[str]:
    """The databases in a directory, by name."""
    if not path.is_dir():
        return []
    return sorted(entry.name for entry in path.iterdir() if (entry / "CURRENT").is_file())


class _Opened:
    """What a database has while it is open."""

    def __init__(self, rocks: Rdict, catalog: Catalog, logs: LogFiles) -> None:
        self.rocks = rocks
        self.catalog = catalog
        self.logs = logs
        self.writers = [ColumnarWriter(rocks, catalog.current(shard)) for shard in range(catalog.n_shards)]
        times = [rocks.get(keys.last_commit(shard)) for shard in range(catalog.n_shards)]
        self.last_time = max((int.from_bytes(value, "big") for value in times if value is not None), default=0)


class LocalDatabase:
    """One database on the local disk. Owned by one thread; see `group_commit` for its use from an event loop.

    It may be made while it cannot be opened: writing then tries again to open it, and refuses what it cannot store.

    Args:
        backend: Whose it is.
        name: Its name.
        path: Its directory.
        options: How it is made if it does not exist, and how its files are compressed.
    """

    def __init__(self, backend: LocalBackend, name: str, path: Path, options: DatabaseOptions) -> None:
        if options.layout.compression not in COMPRESSIONS:
            raise ValueError(f"compression is {options.layout.compression!r}; valid are {', '.join(COMPRESSIONS)}")
        self._backend = backend
        self._name = name
        self.path = path
        self._options = options
        self._opened: _Opened | None = None
        self._closed = False
        self._fault: StorageError | None = None
        self._retry_at = 0.0

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written now."""
        return self._opened is not None and self._fault is None

    @property
    def open_rocks(self) -> Rdict:
        """The RocksDB under it, for maintenance and tests; it is another one after a fault.

        Raises:
            StorageError: The database is not open.
        """
        return self._usable().rocks

    def open(self) -> None:
        """Open it, creating it if it does not exist.

        Raises:
            StorageError: It cannot be opened; a later write tries again.
        """
        self._abandon()
        try:
            self._opened = self._open()
        except Exception as error:
            self._fail(error)
            raise self._error() from error
        self._fault = None
        self._closed = False

    def store_batch(self, messages: Sequence[StorableMessage]) -> None:
        """Store messages durably, all or none: `write`, then wait for the disk.

        Raises:
            StorageError: They were not stored, or may not outlive a power failure.
        """
        self.write(messages)
        request = self.sync_request()
        error: OSError | None = None
        try:
            request.run()
        except OSError as failed:
            error = failed
        self.finish_sync(request, error)

    def write(self, messages: Sequence[StorableMessage]) -> None:
        """Write messages so that they outlive this process; a sync must follow before they outlive the machine.

        Raises:
            StorageBusyError: Try the same again in a moment.
            StorageError: They were not stored.
        """
        if not messages:
            return
        opened = self._usable()
        batch = new_batch()
        now = max(time.time_ns() // 1000, opened.last_time + 1)
        try:
            touched = self._stage(opened, messages, now, batch)
        except DamagedBlockError as error:
            self._discard(opened)
            raise StorageDamagedError(str(error), database=self._name, path=self.path) from error
        except Exception as error:  # staging reads, and rocksdict has no narrower type
            self._discard(opened)
            raise translated(error, self._name, self.path) from error
        self._write(opened, batch)
        opened.last_time = now
        for shard in touched:
            opened.writers[shard].applied()

    def sync_request(self) -> SyncRequest:
        """What must be synced so that everything written so far outlives the machine; may run in another thread.

        Raises:
            StorageError: The database is not open.
        """
        return self._usable().logs.sync_request()

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None:
        """Say how a sync request went, None for well.

        After a failed sync the kernel may have dropped what it could not write and report success the next time, so
        the log is not trusted again: RocksDB writes what it has in memory to new files.

        Raises:
            StorageError: It went wrong; what the request covered may not outlive the machine.
        """
        opened = self._usable()
        if error is None:
            opened.logs.synced(request.write_count)
            return
        try:
            opened.rocks.flush()
            opened.logs.synced(request.write_count)
        except Exception as second:  # noqa: BLE001 - rocksdict has no narrower type
            self._fail(second)
        raise translated(error, self._name, self.path)

    def add_generation(self) -> None:
        """Close the current generation of every shard and begin the next, with the layout options of now.

        Raises:
            StorageError: It was not done.
        """
        opened = self._usable()
        now = max(time.time_ns() // 1000, opened.last_time + 1)
        batch = new_batch()
        for shard in range(opened.catalog.n_shards):
            current = opened.catalog.current(shard)
            number = current.info.number
            batch.put(keys.generation(shard, number), generation_record(current.info.since, now, current.thresholds))
            batch.put(keys.generation(shard, number + 1), self._new_generation(now))
        self._write(opened, batch)
        opened.last_time = now
        opened.catalog.refresh(opened.rocks)
        opened.writers = [ColumnarWriter(opened.rocks, opened.catalog.current(s)) for s in range(len(opened.writers))]

    def generations(self) -> list[GenerationInfo]:
        """All generations, by shard and number."""
        return [generation.info for generation in self._usable().catalog.generations()]

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> list[Stream]:
        """The streams that can hold messages of the filter stored in [start, end), times in µs.

        Raises:
            InvalidFilterError: The filter is malformed.
            StorageError: The database is not open.
        """
        wanted = topic_filter(topic_filter_text, self._name)
        return list(self._usable().catalog.streams([wanted], start, end))

    def make_iterator(self, stream: StreamId, topic_filter_text: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` (µs) or later.

        Raises:
            InvalidFilterError: The filter is malformed.
            UnknownStreamError: There is no such stream.
        """
        topic_filter(topic_filter_text, self._name)
        self._usable().catalog.generation_of(stream)
        return StreamIterator(stream, topic_filter_text, Position.before(start or 0))

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """Read up to `n` messages that follow the iterator; see `interface.Database.next`.

        Raises:
            UnknownStreamError: The stream does not exist.
            StorageDamagedError: A block of it does not pass its checksum.
        """
        opened = self._usable()
        try:
            return read_next(opened.rocks, opened.catalog, iterator, n)
        except Exception as error:
            raise translated(error, self._name, self.path) from error

    def close(self) -> None:
        """Bring everything to the disk in its final form and close; the next start then has nothing to recover."""
        if self._opened is not None and self._fault is None:
            try:
                self._opened.rocks.flush()
            except Exception as error:  # noqa: BLE001 - what was acknowledged is in the log; the next start reads it
                self._fail(error)
        self._abandon()
        self._closed = True

    def statistics(self) -> dict[str, int]:
        """Counts for metrics."""
        opened = self._opened
        structures = [] if opened is None else [one.structure for one in opened.catalog.generations()]
        return {
            "open": int(self.is_open),
            "generations": len(structures),
            "streams": sum(structure.stream_count for structure in structures),
            "last_commit_us": 0 if opened is None else opened.last_time,
        }

    def _usable(self) -> _Opened:
        """The open database, opened again after a fault if it is time."""
        if self._closed:
            raise StorageClosedError("the database was closed", database=self._name, path=self.path)
        if self._fault is not None and time.monotonic() < self._retry_at:
            raise self._error()
        if self._opened is None or self._fault is not None:
            self.open()
        if self._opened is None:
            raise self._error()
        return self._opened

    def _stage(self, opened: _Opened, messages: Sequence[StorableMessage], now: int, batch: WriteBatch) -> list[int]:
        n_shards = opened.catalog.n_shards
        parts = {0: messages} if n_shards == 1 else _by_shard(messages, n_shards)
        stamp = now.to_bytes(8, "big")
        for shard, part in parts.items():
            opened.writers[shard].stage(part, now, batch)
            batch.put(keys.last_commit(shard), stamp)
        return list(parts)

    def _write(self, opened: _Opened, batch: WriteBatch) -> None:
        try:
            opened.rocks.write(batch)
            opened.logs.written()
        except Exception as error:
            translation = translated(error, self._name, self.path)
            self._discard(opened)
            if not isinstance(translation, StorageBusyError):
                self._fail(error)
            raise translation from error

    def _discard(self, opened: _Opened) -> None:
        for writer in opened.writers:
            writer.discarded()

    def _open(self) -> _Opened:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rocks = open_primary(self.path, self._options.layout.compression)
        try:
            if rocks.get(keys.META) is None:
                self._create(rocks)
            catalog = Catalog(self._name, self.path)
            catalog.refresh(rocks)
            logs = LogFiles(self.path)
            logs.written()
            return _Opened(rocks, catalog, logs)
        except BaseException:
            _close_quietly(rocks)
            raise

    def _create(self, rocks: Rdict) -> None:
        batch = new_batch()
        batch.put(keys.META, meta_record(self._name, self._options.n_shards, self._backend.site_id))
        for shard in range(self._options.n_shards):
            batch.put(keys.generation(shard, 1), self._new_generation(0))
        rocks.write(batch)

    def _new_generation(self, since: int) -> bytes:
        return generation_record(since, None, self._options.layout.wildcard_thresholds)

    def _fail(self, error: Exception) -> None:
        self._fault = translated(error, self._name, self.path)
        self._retry_at = time.monotonic() + self._backend.reopen_interval_s

    def _error(self) -> StorageError:
        return self._fault or StorageClosedError("the database is not open", database=self._name, path=self.path)

    def _abandon(self) -> None:
        if self._opened is not None:
            self._opened.logs.close()
            _close_quietly(self._opened.rocks)
            self._opened = None

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed" if self._closed else f"not open: {self._fault}"
        return f"LocalDatabase({self._name!r} in {self.path}, {state})"


def _by_shard(messages: Sequence[StorableMessage], n_shards: int) -> dict[int, list[StorableMessage]]:
    """Share messages out by their clients; a part of the on-disk format, since a client's order is within its shard."""
    parts: dict[int, list[StorableMessage]] = {}
    shards: dict[str, int] = {}
    for message in messages:
        clientid = message.clientid
        shard = shards.get(clientid)
        if shard is None:
            shard = shards[clientid] = zlib.crc32(clientid.encode()) % n_shards
        parts.setdefault(shard, []).append(message)
    return parts


def _close_quietly(rocks: Rdict) -> None:
    """Close RocksDB, which repeats an earlier write error when it is closed, but closes."""
    try:
        rocks.close()
    except Exception:  # noqa: BLE001 - it says again what the failed write said
        return
