"""One database of messages on the local disk: written, synced, subscribed to, read.

Shards share the RocksDB of their database (the shard number is part of every key), so that a commit is one write and
one sync however many shards it touches. Opening, faults and the log are the business of `store`, what is written of
generations that of `generations`, reading that of `replay`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import DamagedBlockError
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.damage import Report, read_next_readable
from heliograph.storage.columnar.generations import Generations, create, wall_clock
from heliograph.storage.columnar.replay import Fetch, read_next
from heliograph.storage.columnar.retention import Usage
from heliograph.storage.disk import THIS_DISK, Disk
from heliograph.storage.engine import COMPRESSIONS, Rdict, WriteBatch, new_batch, translated, translating
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.interface import (
    Batch,
    DatabaseOptions,
    EndOfStream,
    GenerationInfo,
    OnGrown,
    Position,
    StorableMessage,
    Stream,
    StreamId,
    StreamIterator,
)
from heliograph.storage.store import KeptInStore, Store
from heliograph.storage.topic_filter import topic_filter

FEW: Final = 8  # messages: a caller that wants so few looks for something, and does not replay
_FREED_AGAIN_MAX: Final = 8


class LocalDatabase(KeptInStore):
    """One database on the local disk. Owned by one thread; see `group_commit` for its use from an event loop.

    It may be made while it cannot be opened: writing then tries again to open it, and refuses what it cannot store.

    Args:
        options: How it is made if it does not exist, how its next generation learns, and how its files are compressed.
        site_id: Gives the id of the node, which a new database notes.
        reopen_interval_s: How long a database that failed is left alone before a write opens it again.
        clock: Gives the time of commits in µs; the wall clock if None.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        options: DatabaseOptions,
        site_id: Callable[[], str],
        *,
        reopen_interval_s: float = 1.0,
        disk: Disk = THIS_DISK,
        clock: Callable[[], int] | None = None,
    ) -> None:
        if options.layout.compression not in COMPRESSIONS:
            raise ValueError(f"compression is {options.layout.compression!r}; valid are {', '.join(COMPRESSIONS)}")
        self._options = options
        self._site_id = site_id
        self._clock = clock or wall_clock
        super().__init__(Store(name, path, options.layout.compression, self._prepare, reopen_interval_s, disk))
        self._opened: Generations | None = None
        self._grown: set[StreamId] = set()
        self._listeners: list[OnGrown] = []
        self._dropped_generations = 0
        self.fetch: Fetch | None = None  # gives the rows of what was offloaded
        self.fetch_few: Fetch | None = None  # to readers of at most `FEW` messages, where these are served otherwise

    @property
    def is_open(self) -> bool:
        return self._store.is_open

    def open(self) -> None:
        """Open it, creating it if it does not exist.

        A generation that learns topics otherwise than the options say is closed and another one begun.
        """
        self._store.open()
        # What a crash kept from being freed; where nothing is left, looking for it costs nothing.
        self._store.free(self._usable().dropped_ranges(_FREED_AGAIN_MAX))

    def write(self, messages: Sequence[StorableMessage]) -> None:
        """Write messages so that they outlive this process; a sync must follow before they outlive the machine."""
        if not messages:
            return
        opened = self._usable()
        batch = new_batch()
        now = opened.next_time()
        try:
            opened.stage(messages, now, batch)
        except DamagedBlockError as error:
            opened.discarded()
            raise StorageDamagedError(str(error), database=self.name, path=self.path) from error
        except Exception as error:  # staging reads, and rocksdict has no narrower type
            opened.discarded()
            raise translated(error, self.name, self.path) from error
        try:
            self._store.write(batch)
        except StorageError:
            opened.discarded()
            raise
        if self._listeners:
            self._grown.update(opened.staged_streams())
        opened.applied(now)

    def streams_written(self, messages: Sequence[StorableMessage]) -> list[StreamId]:
        """The stream of each of some messages of the last `write`, before anything else is done."""
        return self._usable().streams_of(messages)

    def committed(self) -> None:
        """All writes so far meet the configured durability; notify subscribers."""
        if self._grown:
            grown, self._grown = sorted(self._grown), set()
            self._tell(grown)

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """Call a function with the streams that a commit added to or sealed, once it is durable.

        Returns:
            A function that ends this.
        """
        self._listeners.append(on_grown)
        return lambda: self._listeners.remove(on_grown)

    def add_generation(self) -> None:
        """Close the current generation of every shard and begin the next, with the layout options of now."""
        opened = self._usable()
        now, batch = opened.next_time(), new_batch()
        opened.stage_next(self._options.layout.wildcard_thresholds, now, batch)
        self._store.write(batch)
        closed = opened.current_number
        with self._store.reading():
            opened.take_next(now)
        if self._listeners:
            self._tell(list(opened.catalog.streams_of(closed)))

    def list_generations(self) -> list[GenerationInfo]:
        return self._usable().infos()

    def drop_generation(self, number: int) -> None:
        """Remove a closed generation of all shards: at once for readers; its files are freed in the background.

        Raises:
            UnknownGenerationError: There is none of that number, or it is the current one.
        """
        opened = self._usable()
        batch = new_batch()
        with self._store.reading():
            ranges = opened.stage_drop(number, batch)
        going = list(opened.catalog.streams_of(number)) if self._listeners else []
        self._store.write(batch)
        self._dropped_generations += 1
        with self._store.reading() as rocks:
            opened.catalog.refresh(rocks)
        self._store.free(ranges)
        self._tell(going)

    def contents(self) -> tuple[Rdict, Catalog]:
        """The open RocksDB and its catalog, for compaction and offload; others after a fault."""
        opened = self._usable()
        return opened.rocks, opened.catalog

    def rewrite(self, batch: WriteBatch) -> None:
        """Write records again that say the same as before; without a sync, since nothing is lost without them."""
        self._store.write(batch)

    def free(self, ranges: list[tuple[bytes, bytes]]) -> None:
        """Free the space of removed records in the background; little or nothing is left between the keys."""
        self._store.free(ranges)

    def usage(self) -> Usage:
        """How large the database and its current generation are, for retention."""
        opened = self._usable()
        return Usage(self._store.table_bytes(), opened.current_bytes, opened.current_is_empty, self._store.is_freeing)

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> list[Stream]:
        """The streams that can hold messages of the filter stored in [start, end), times in µs."""
        wanted = topic_filter(topic_filter_text, self.name)
        return list(self._usable().catalog.streams([wanted], start, end))

    def make_iterator(self, stream: StreamId, topic_filter_text: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` (µs) or later."""
        topic_filter(topic_filter_text, self.name)
        self._usable().catalog.generation_of(stream)
        return StreamIterator(stream, topic_filter_text, Position.before(start or 0))

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """Read up to `n` messages that follow the iterator; see the replay rules in `interface`."""
        opened = self._usable()
        with translating(self.name, self.path):
            fetch = self.fetch_few if n <= FEW and self.fetch_few is not None else self.fetch
            return read_next(opened.rocks, opened.catalog, iterator, n, fetch=fetch)

    def next_readable(
        self, iterator: StreamIterator, n: int, report: Report, looked_at_max: int | None = None
    ) -> Batch | EndOfStream:
        """As `next`, but what is damaged is left out and reported, and it may take several calls to find something.

        Args:
            report: Called for each damaged place that is come across, each time.
            looked_at_max: After about so many messages that do not match it ends: an empty batch whose iterator has
                moved means that there may be more; None for no limit.
        """
        opened = self._usable()
        with translating(self.name, self.path):
            return read_next_readable(opened.rocks, opened.catalog, iterator, n, report, self.fetch, looked_at_max)

    def newest_commit_us(self) -> int:
        """The time of the newest commit, which everything that is stored has at most."""
        return self._usable().last_time

    def close(self) -> None:
        """Bring everything to the disk in its final form and close; the next start then has nothing to recover."""
        self._store.close()
        self._opened = None

    def statistics(self) -> dict[str, int]:
        opened = self._opened
        structures = [] if opened is None else [one.structure for one in opened.catalog.generations()]
        return {
            "open": int(self.is_open),
            "memory_bytes": self._store.memory_bytes(),
            "topics.memory_bytes": 0 if opened is None else opened.topics_bytes,
            "generations": len(structures),
            "dropped_generations": self._dropped_generations,
            "streams": sum(structure.stream_count for structure in structures),
            "last_commit_us": 0 if opened is None else opened.last_time,
        }

    def _usable(self) -> Generations:
        """What is open, opened again after a fault if it is time."""
        self._store.usable()
        assert self._opened is not None  # `_prepare` made it
        return self._opened

    def _prepare(self, rocks: Rdict) -> None:
        if rocks.get(keys.META) is None:
            self._store.check_is_new(rocks)
            create(rocks, self.name, self._site_id(), self._options, self._store.first_generation)
        catalog = Catalog(self.name, self.path)
        catalog.refresh(rocks)
        self._opened = opened = Generations(rocks, catalog, self._clock)
        thresholds = self._options.layout.wildcard_thresholds
        if opened.learns_otherwise(thresholds):
            now, batch = opened.next_time(), new_batch()
            opened.stage_next(thresholds, now, batch)
            rocks.write(batch)
            opened.take_next(now)

    def _tell(self, streams: Sequence[StreamId]) -> None:
        if streams:
            for listener in list(self._listeners):
                listener(streams)

    def __repr__(self) -> str:
        return f"LocalDatabase({self._store!r})"
