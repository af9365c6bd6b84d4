"""The generations of one open database: which is written, and how they are created, begun, dropped and written to.

Everything here puts records into a batch, which the database writes and then has taken in. Syncing, faults and who
waits for a commit are the business of `database`; when a generation is begun or dropped, that of `retention`.
"""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.catalog import Catalog, dropped_record, generation_record, meta_record
from heliograph.storage.columnar.extent import last_positions
from heliograph.storage.columnar.offloaded import OffloadState, offload_record
from heliograph.storage.columnar.writing import ColumnarWriter
from heliograph.storage.engine import Rdict, WriteBatch, new_batch
from heliograph.storage.errors import UnknownGenerationError
from heliograph.storage.interface import DatabaseOptions, GenerationInfo, StorableMessage, StreamId

DROPPED_REMEMBERED_MAX: Final = 256
_STREAMS_REMEMBERED_MAX: Final = 256  # of a dropped generation, in all shards: they are looked at in one loop turn


def wall_clock() -> int:
    return time.time_ns() // 1000


def create(rocks: Rdict, name: str, site_id: str, options: DatabaseOptions, generation: int = 1) -> None:
    """Write the first records of a database: what it is, and the first generation of every shard."""
    batch, now = new_batch(), wall_clock()
    batch.put(keys.META, meta_record(name, options.n_shards, site_id))
    for shard in range(options.n_shards):
        batch.put(keys.generation(shard, generation), generation_record(now, None, options.layout.wildcard_thresholds))
    rocks.write(batch)


class Generations:
    """The generations of a database while it is open. Made with each opening, dropped with it."""

    def __init__(self, rocks: Rdict, catalog: Catalog, clock: Callable[[], int]) -> None:
        self.rocks = rocks
        self.catalog = catalog
        self._clock = clock
        times = [rocks.get(keys.last_commit(shard)) for shard in range(catalog.n_shards)]
        commits = [int.from_bytes(value, "big") for value in times if value is not None]
        self.last_time = max(*(generation.info.since - 1 for generation in catalog.generations()), *commits, 0)
        self._writers = self._make_writers()

    @property
    def current_number(self) -> int:
        """The number of the generation that is written; all shards have the same."""
        return self.catalog.current(0).info.number

    @property
    def current_bytes(self) -> int:
        """What the current generation was given: topics and payloads, before compression."""
        return sum(writer.written_bytes for writer in self._writers)

    @property
    def topics_bytes(self) -> int:
        """What the topics that its writers remember have in memory."""
        return sum(writer.memory_bytes for writer in self._writers)

    @property
    def current_is_empty(self) -> bool:
        return not any(writer.stream_count for writer in self._writers)

    def infos(self) -> list[GenerationInfo]:
        return [generation.info for generation in self.catalog.generations()]

    def next_time(self) -> int:
        """The time of a commit that is made now, in µs; it never goes back."""
        return max(self._clock(), self.last_time + 1)

    def stage(self, messages: Sequence[StorableMessage], now: int, batch: WriteBatch) -> None:
        """Put messages into a batch, which is then said to be `applied` or `discarded`.

        Args:
            messages: At least one, in the order in which they came.
        """
        n_shards = self.catalog.n_shards
        parts = {0: messages} if n_shards == 1 else _by_shard(messages, n_shards)
        stamp = now.to_bytes(8, "big")
        for shard, part in parts.items():
            self._writers[shard].stage(part, now, batch)
            batch.put(keys.last_commit(shard), stamp)

    def staged_streams(self) -> list[StreamId]:
        return [stream for writer in self._writers for stream in writer.staged_streams(self.catalog.name)]

    def streams_of(self, messages: Sequence[StorableMessage]) -> list[StreamId]:
        """The stream of each of some messages, which were just written."""
        found: dict[tuple[int, str], StreamId] = {}
        streams = []
        name, number, n_shards = self.catalog.name, self.current_number, self.catalog.n_shards
        for message in messages:
            place = 0 if n_shards == 1 else shard_of(message.clientid, n_shards), message.topic
            stream = found.get(place)
            if stream is None:
                shard, topic = place
                stream = found[place] = StreamId(name, shard, number, self._writers[shard].stream_of(topic))
            streams.append(stream)
        return streams

    def applied(self, now: int) -> None:
        self.last_time = now
        for writer in self._writers:
            writer.applied()

    def discarded(self) -> None:
        for writer in self._writers:
            writer.discarded()

    def stage_next(self, thresholds: Sequence[int], now: int, batch: WriteBatch) -> None:
        """Close the current generation of every shard and begin another.

        Args:
            thresholds: How the new one learns topics.
            batch: Where the records go; once it is written, `take_next` follows.
        """
        for shard in range(self.catalog.n_shards):
            current = self.catalog.current(shard)
            info = current.info
            record = generation_record(info.since, now, current.thresholds, info.layout_version)
            batch.put(keys.generation(shard, info.number), record)
            batch.put(keys.generation(shard, info.number + 1), generation_record(now, None, thresholds))
            batch.delete(keys.written(shard, info.number))
            # Nothing may be stored under an earlier time, also when the clock is set back before the next start.
            batch.put(keys.last_commit(shard), now.to_bytes(8, "big"))

    def take_next(self, now: int) -> None:
        """Write the generation that `stage_next` began."""
        self.last_time = now
        self.catalog.refresh(self.rocks)
        self._writers = self._make_writers()

    def stage_drop(self, number: int, batch: WriteBatch) -> list[tuple[bytes, bytes]]:
        """Remove a closed generation of all shards, and remember how far its streams went.

        Args:
            batch: Where the records go; once it is written, the catalog is refreshed.

        Returns:
            The ranges of keys in which nothing is left, for freeing their space.

            UnknownGenerationError: There is none of that number, or it is the current one.
        """
        self._check_dropping(number)
        ranges: list[tuple[bytes, bytes]] = []
        for shard in range(self.catalog.n_shards):
            batch.put(keys.dropped_generation(shard, number), self._last_words(shard, number))
            batch.delete(keys.generation(shard, number))
            ranges += keys.ranges_of_generation(shard, number)
            offloaded = offload_record(self.rocks, shard, number)
            if offloaded is not None:
                batch.put(keys.offloaded(shard, number), replace(offloaded, state=OffloadState.DROPPED).to_bytes())
            for forgotten in self.catalog.dropped_numbers()[: 1 - DROPPED_REMEMBERED_MAX]:
                batch.delete(keys.dropped_generation(shard, forgotten))
        for lower, upper in ranges:
            batch.delete_range(lower, upper)
        return ranges

    def dropped_ranges(self, newest: int) -> list[tuple[bytes, bytes]]:
        """The ranges of keys of so many generations that were dropped last."""
        return [
            one
            for number in self.catalog.dropped_numbers()[-newest:]
            for shard in range(self.catalog.n_shards)
            for one in keys.ranges_of_generation(shard, number)
        ]

    def learns_otherwise(self, thresholds: tuple[int, ...]) -> bool:
        """Whether a current generation learns topics otherwise than these thresholds say."""
        return any(self.catalog.current(shard).thresholds != thresholds for shard in range(self.catalog.n_shards))

    def _last_words(self, shard: int, number: int) -> bytes:
        """What will be remembered of a generation of a shard."""
        generation = self.catalog.generation(shard, number)
        most = max(_STREAMS_REMEMBERED_MAX // self.catalog.n_shards, 1)
        last = last_positions(self.rocks, islice(self.catalog.streams_in(generation), most))
        return dropped_record(last, generation.structure.stream_count <= most)

    def _check_dropping(self, number: int) -> None:
        numbers = {info.number for info in self.infos()}
        if number not in numbers or number == self.current_number:
            raise UnknownGenerationError(
                f"generation {number} is the current one, which cannot be dropped before another is begun"
                if number == self.current_number
                else f"there is no generation {number}; there are {', '.join(map(str, sorted(numbers)))}",
                database=self.catalog.name,
                path=self.catalog.path,
            )

    def _make_writers(self) -> list[ColumnarWriter]:
        return [ColumnarWriter(self.rocks, self.catalog.current(shard)) for shard in range(self.catalog.n_shards)]

    def __repr__(self) -> str:
        return f"Generations({self.catalog.name!r}, {self.infos()})"


def shard_of(clientid: str, n_shards: int) -> int:
    """The shard that keeps the messages of a client."""
    return zlib.crc32(clientid.encode()) % n_shards


def _by_shard(messages: Sequence[StorableMessage], n_shards: int) -> dict[int, list[StorableMessage]]:
    """Share messages out by their clients; a part of the on-disk format, since a client's order is within its shard."""
    parts: dict[int, list[StorableMessage]] = {}
    shards: dict[str, int] = {}
    for message in messages:
        clientid = message.clientid
        shard = shards.get(clientid)
        if shard is None:
            shard = shards[clientid] = shard_of(clientid, n_shards)
        parts.setdefault(shard, []).append(message)
    return parts
