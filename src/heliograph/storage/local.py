"""The `local` backend: databases on this machine's disk, one RocksDB each.

Shards share the RocksDB of their database (the shard number is part of every key), so that a commit is one write and
one sync however many shards it touches. Opening, faults and the log are the business of `store`, generations that are
dropped by age or size that of `retention`.
"""

import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage import keys
from heliograph.storage.block import DamagedBlockError
from heliograph.storage.catalog import Catalog, Generation, dropped_record, generation_record, meta_record
from heliograph.storage.columnar import ColumnarWriter
from heliograph.storage.damage import Report, read_next_readable
from heliograph.storage.engine import COMPRESSIONS, Rdict, WriteBatch, new_batch, translated
from heliograph.storage.errors import (
    PreconditionFailedError,
    StorageDamagedError,
    StorageError,
    UnknownDatabaseError,
    UnknownGenerationError,
)
from heliograph.storage.interface import (
    END,
    Batch,
    DatabaseOptions,
    EndOfStream,
    GenerationInfo,
    OnGrown,
    Position,
    Precondition,
    StorableMessage,
    StoredMessage,
    Stream,
    StreamId,
    StreamIterator,
    poll_in_turns,
)
from heliograph.storage.replay import last_positions, progress, read_next
from heliograph.storage.retention import Usage
from heliograph.storage.site import read_or_make_site_id
from heliograph.storage.store import Store
from heliograph.storage.topic_filter import topic_filter
from heliograph.storage.wal import SyncRequest

_FOLDER: Final = "storage"
_PRECONDITION_ROWS: Final = 256
_DROPPED_REMEMBERED_MAX: Final = 256
_FREED_AGAIN_MAX: Final = 8
_STREAMS_REMEMBERED_MAX: Final = 256  # of a dropped generation; looking at 150 took 7 ms, in the event loop


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

    def open_db(self, name: str, options: DatabaseOptions) -> "LocalDatabase":
        """Open a database, creating it if it does not exist.

        Raises:
            StorageError: It cannot be opened.
        """
        database = self.database(name, options)
        database.open()
        return database

    def drop_db(self, name: str) -> None:
        """Remove a database that is not open, with everything in it.

        Raises:
            UnknownDatabaseError: It does not exist.
            StorageError: Its files cannot be removed.
        """
        names = self.list_dbs()
        if name not in names:
            raise UnknownDatabaseError(f"there is no such database; there are: {', '.join(names)}", database=name)
        path = self._path / name
        going = path.with_name(f".{name}.dropped")  # so that a crash does not leave half a database
        try:
            shutil.rmtree(going, ignore_errors=True)
            path.rename(going)
            shutil.rmtree(going)
        except OSError as error:
            raise translated(error, name, path) from error

    def list_dbs(self) -> Sequence[str]:
        """The names of those that exist."""
        return existing_databases(self._path)


def existing_databases(path: Path) -> list[str]:
    """The databases in a directory, by name."""
    if not path.is_dir():
        return []
    return sorted(entry.name for entry in path.iterdir() if entry.name[0] != "." and (entry / "CURRENT").is_file())


class _Opened:
    """What a database has while it is open."""

    def __init__(self, rocks: Rdict, catalog: Catalog) -> None:
        self.rocks = rocks
        self.catalog = catalog
        times = [rocks.get(keys.last_commit(shard)) for shard in range(catalog.n_shards)]
        commits = [int.from_bytes(value, "big") for value in times if value is not None]
        self.last_time = max(*(generation.info.since - 1 for generation in catalog.generations()), *commits, 0)
        self.writers = self._make_writers()
        streams = catalog.streams_of(catalog.current(0).info.number)
        self.written_before = sum(progress(rocks, stream, END).message_bytes for stream in streams)

    def begin_generation(self) -> None:
        """Take in a new current generation."""
        self.catalog.refresh(self.rocks)
        self.writers = self._make_writers()
        self.written_before = 0

    def next_time(self) -> int:
        """The time of a commit that is made now, in µs; it never goes back."""
        return max(time.time_ns() // 1000, self.last_time + 1)

    def _make_writers(self) -> list[ColumnarWriter]:
        catalog = self.catalog
        return [ColumnarWriter(self.rocks, catalog.current(shard)) for shard in range(catalog.n_shards)]


class LocalDatabase:
    """One database on the local disk. Owned by one thread; see `group_commit` for its use from an event loop.

    It may be made while it cannot be opened: writing then tries again to open it, and refuses what it cannot store.

    Args:
        backend: Whose it is.
        name: Its name.
        path: Its directory.
        options: How it is made if it does not exist, how its next generation learns, and how its files are compressed.
    """

    def __init__(self, backend: LocalBackend, name: str, path: Path, options: DatabaseOptions) -> None:
        if options.layout.compression not in COMPRESSIONS:
            raise ValueError(f"compression is {options.layout.compression!r}; valid are {', '.join(COMPRESSIONS)}")
        self._backend = backend
        self._options = options
        self._store = Store(name, path, options.layout.compression, self._prepare, backend.reopen_interval_s)
        self._opened: _Opened | None = None
        self._grown: set[StreamId] = set()
        self._listeners: list[OnGrown] = []
        self._dropped_generations = 0

    @property
    def name(self) -> str:
        """Its name."""
        return self._store.name

    @property
    def path(self) -> Path:
        """Its directory."""
        return self._store.path

    @property
    def is_open(self) -> bool:
        """Whether it can be read and written now."""
        return self._store.is_open

    @property
    def open_rocks(self) -> Rdict:
        """The RocksDB under it, for maintenance and tests; it is another one after a fault.

        Raises:
            StorageError: The database is not open.
        """
        return self._store.usable()

    def open(self) -> None:
        """Open it, creating it if it does not exist.

        A generation that learns topics otherwise than the options say is closed and another one begun.

        Raises:
            StorageError: It cannot be opened; a later write tries again.
        """
        self._store.open()
        # What a crash kept from being freed; where nothing is left, looking for it costs nothing.
        catalog = self._usable().catalog
        for number in catalog.dropped_numbers()[-_FREED_AGAIN_MAX:]:
            for shard in range(catalog.n_shards):
                self._store.free(keys.ranges_of_generation(shard, number))

    def store_batch(
        self,
        messages: Sequence[StorableMessage],
        *,
        atomic: bool = False,
        preconditions: Sequence[Precondition] = (),
    ) -> None:
        """Store messages durably, all or none: `write`, then wait for the disk.

        Args:
            messages: What to store, in order.
            atomic: Whether they may only be stored together; here they always are.
            preconditions: What must hold before.

        Raises:
            PreconditionFailedError: One does not hold; nothing was stored.
            StorageError: They were not stored, or may not outlive a power failure.
        """
        for precondition in preconditions:
            self._check(precondition)
        self.write(messages)
        self._store.sync()
        self.committed()

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
        now = opened.next_time()
        try:
            touched = self._stage(opened, messages, now, batch)
        except DamagedBlockError as error:
            self._discard(opened)
            raise StorageDamagedError(str(error), database=self.name, path=self.path) from error
        except Exception as error:  # staging reads, and rocksdict has no narrower type
            self._discard(opened)
            raise translated(error, self.name, self.path) from error
        try:
            self._store.write(batch)
        except StorageError:
            self._discard(opened)
            raise
        opened.last_time = now
        for shard in touched:
            writer = opened.writers[shard]
            if self._listeners:
                self._grown.update(writer.staged_streams(self.name))
            writer.applied()

    def sync_request(self) -> SyncRequest:
        """What must be synced so that everything written so far outlives the machine; may run in another thread.

        Raises:
            StorageError: The database is not open.
        """
        return self._store.sync_request()

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None:
        """Say how a sync request went, None for well.

        Raises:
            StorageError: It went wrong; what the request covered may not outlive the machine.
        """
        self._store.finish_sync(request, error)

    def committed(self) -> None:
        """Everything written so far is as durable as it is wanted: wake whoever waits for it."""
        if self._grown:
            grown, self._grown = sorted(self._grown), set()
            self._tell(grown)

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """Have a function called with the streams that a commit added to or sealed, once it is durable.

        Returns:
            A function that ends this.
        """
        self._listeners.append(on_grown)
        return lambda: self._listeners.remove(on_grown)

    def add_generation(self) -> None:
        """Close the current generation of every shard and begin the next, with the layout options of now.

        Raises:
            StorageError: It was not done.
        """
        opened = self._usable()
        now = opened.next_time()
        batch = new_batch()
        for shard in range(opened.catalog.n_shards):
            self._stage_generation(opened.catalog.current(shard), now, batch)
        self._store.write(batch)
        opened.last_time = now
        closed = opened.catalog.streams_of(opened.catalog.current(0).info.number)
        with self._store.reading():
            opened.begin_generation()
        self._tell(closed)

    def list_generations(self) -> list[GenerationInfo]:
        """All generations, by shard and number."""
        return [generation.info for generation in self._usable().catalog.generations()]

    def drop_generation(self, number: int) -> None:
        """Remove a closed generation of all shards: at once for readers; its files are freed in the background.

        Raises:
            UnknownGenerationError: There is none of that number, or it is the current one.
            StorageError: It was not done.
        """
        opened = self._usable()
        numbers = {generation.info.number for generation in opened.catalog.generations()}
        current = opened.catalog.current(0).info.number
        if number not in numbers or number == current:
            raise UnknownGenerationError(
                f"generation {number} is the current one, which cannot be dropped before another is begun"
                if number == current
                else f"there is no generation {number}; there are {', '.join(map(str, sorted(numbers)))}",
                database=self.name,
                path=self.path,
            )
        batch = new_batch()
        ranges: list[tuple[bytes, bytes]] = []
        with self._store.reading() as rocks:
            for shard in range(opened.catalog.n_shards):
                streams = [stream for stream in opened.catalog.streams_of(number) if stream.shard == shard]
                last = last_positions(rocks, streams[:_STREAMS_REMEMBERED_MAX])
                complete = len(streams) <= _STREAMS_REMEMBERED_MAX
                batch.put(keys.dropped_generation(shard, number), dropped_record(last, complete))
                batch.delete(keys.generation(shard, number))
                ranges += keys.ranges_of_generation(shard, number)
                for forgotten in opened.catalog.dropped_numbers()[: 1 - _DROPPED_REMEMBERED_MAX]:
                    batch.delete(keys.dropped_generation(shard, forgotten))
        for lower, upper in ranges:
            batch.delete_range(lower, upper)
        self._store.write(batch)
        self._dropped_generations += 1
        going = opened.catalog.streams_of(number)
        with self._store.reading() as rocks:
            opened.catalog.refresh(rocks)
        self._store.free(ranges)
        self._tell(going)

    def contents(self) -> tuple[Rdict, Catalog]:
        """The open RocksDB and its catalog, for compaction.

        Raises:
            StorageError: The database is not open.
        """
        opened = self._usable()
        return opened.rocks, opened.catalog

    def rewrite(self, batch: WriteBatch) -> None:
        """Write records anew that say the same as before; without a sync, since nothing is lost without them.

        Raises:
            StorageError: They were not written.
        """
        self._store.write(batch)

    def usage(self) -> Usage:
        """How large the database and its current generation are, for retention.

        Raises:
            StorageError: It cannot be read.
        """
        opened = self._usable()
        written = opened.written_before + sum(writer.written_bytes for writer in opened.writers)
        is_empty = not any(writer.stream_count for writer in opened.writers)
        return Usage(self._store.table_bytes(), written, is_empty, self._store.is_freeing)

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> list[Stream]:
        """The streams that can hold messages of the filter stored in [start, end), times in µs.

        Raises:
            InvalidFilterError: The filter is malformed.
            StorageError: The database is not open.
        """
        wanted = topic_filter(topic_filter_text, self.name)
        return list(self._usable().catalog.streams([wanted], start, end))

    def make_iterator(self, stream: StreamId, topic_filter_text: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` (µs) or later.

        Raises:
            InvalidFilterError: The filter is malformed.
            UnknownStreamError: There is no such stream.
        """
        topic_filter(topic_filter_text, self.name)
        self._usable().catalog.generation_of(stream)
        return StreamIterator(stream, topic_filter_text, Position.before(start or 0))

    def update_iterator(self, iterator: StreamIterator, position: Position) -> StreamIterator:
        """The iterator behind a message that `next` gave at this position.

        Raises:
            UnknownStreamError: The stream does not exist any more.
        """
        self._usable().catalog.generation_of(iterator.stream)
        return StreamIterator(iterator.stream, iterator.topic_filter, position)

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
            raise translated(error, self.name, self.path) from error

    def next_readable(self, iterator: StreamIterator, n: int, report: Report) -> Batch | EndOfStream:
        """As `next`, but what is damaged is left out and told.

        Args:
            iterator: Where to begin.
            n: How many messages at most.
            report: Called for each damaged place that is come across, each time.

        Raises:
            UnknownStreamError: The stream does not exist.
            StorageError: The database is not open.
        """
        opened = self._usable()
        try:
            return read_next_readable(opened.rocks, opened.catalog, iterator, n, report)
        except Exception as error:
            raise translated(error, self.name, self.path) from error

    def poll(self, iterators: Sequence[StreamIterator], n: int) -> list[Batch | EndOfStream]:
        """Read up to `n` messages in all, the streams taking turns; one result for each iterator, in their order.

        Raises:
            StorageError: As for `next`.
        """
        return poll_in_turns(self, iterators, n)

    def close(self) -> None:
        """Bring everything to the disk in its final form and close; the next start then has nothing to recover."""
        self._store.close()
        self._opened = None

    def statistics(self) -> dict[str, int]:
        """Counts for metrics."""
        opened = self._opened
        structures = [] if opened is None else [one.structure for one in opened.catalog.generations()]
        return {
            "open": int(self.is_open),
            "generations": len(structures),
            "dropped_generations": self._dropped_generations,
            "streams": sum(structure.stream_count for structure in structures),
            "last_commit_us": 0 if opened is None else opened.last_time,
        }

    def _usable(self) -> _Opened:
        """What is open, opened again after a fault if it is time."""
        self._store.usable()
        assert self._opened is not None  # `_prepare` made it
        return self._opened

    def _prepare(self, rocks: Rdict) -> None:
        if rocks.get(keys.META) is None:
            self._create(rocks)
        catalog = Catalog(self.name, self.path)
        catalog.refresh(rocks)
        self._opened = opened = _Opened(rocks, catalog)
        currents = [catalog.current(shard) for shard in range(catalog.n_shards)]
        if any(current.thresholds != self._options.layout.wildcard_thresholds for current in currents):
            batch, now = new_batch(), opened.next_time()
            for current in currents:
                self._stage_generation(current, now, batch)
            rocks.write(batch)
            opened.last_time = now
            opened.begin_generation()

    def _tell(self, streams: Sequence[StreamId]) -> None:
        if streams:
            for listener in list(self._listeners):
                listener(streams)

    def _check(self, precondition: Precondition) -> None:
        found = any(precondition.matches(message) for message in self._on_topic(precondition.topic))
        if found != precondition.exists:
            raise PreconditionFailedError(
                f"{precondition} does not hold: {'there is' if found else 'there is no'} such message",
                database=self.name,
                path=self.path,
            )

    def _on_topic(self, topic: str) -> Iterator[StoredMessage]:
        for stream in self.get_streams(topic):
            iterator = self.make_iterator(stream.id, topic)
            while isinstance(batch := self.next(iterator, _PRECONDITION_ROWS), Batch) and batch.messages:
                yield from batch.messages
                iterator = batch.iterator

    def _stage(self, opened: _Opened, messages: Sequence[StorableMessage], now: int, batch: WriteBatch) -> list[int]:
        n_shards = opened.catalog.n_shards
        parts = {0: messages} if n_shards == 1 else _by_shard(messages, n_shards)
        stamp = now.to_bytes(8, "big")
        for shard, part in parts.items():
            opened.writers[shard].stage(part, now, batch)
            batch.put(keys.last_commit(shard), stamp)
        return list(parts)

    def _discard(self, opened: _Opened) -> None:
        for writer in opened.writers:
            writer.discarded()

    def _create(self, rocks: Rdict) -> None:
        batch, now = new_batch(), time.time_ns() // 1000
        batch.put(keys.META, meta_record(self.name, self._options.n_shards, self._backend.site_id))
        for shard in range(self._options.n_shards):
            batch.put(keys.generation(shard, 1), self._new_generation(now))
        rocks.write(batch)

    def _stage_generation(self, current: Generation, now: int, batch: WriteBatch) -> None:
        """Close the current generation of a shard and begin another."""
        shard, number = current.info.shard, current.info.number
        record = generation_record(current.info.since, now, current.thresholds, current.info.layout_version)
        batch.put(keys.generation(shard, number), record)
        batch.put(keys.generation(shard, number + 1), self._new_generation(now))
        # Nothing may be stored under an earlier time, also when the clock is set back before the next start.
        batch.put(keys.last_commit(shard), now.to_bytes(8, "big"))

    def _new_generation(self, since: int) -> bytes:
        return generation_record(since, None, self._options.layout.wildcard_thresholds)

    def __repr__(self) -> str:
        return f"LocalDatabase({self._store!r})"


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
