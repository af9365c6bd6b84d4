"""A database of messages in memory, slow and obviously right, which the one on the disk is compared with.

A generation is one list of messages in the order in which they were stored, and one stream. There is one shard,
whatever the options say. It can be opened again after it was closed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.errors import (
    DroppedGenerationError,
    StorageClosedError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    TIME_MAX,
    Batch,
    EndOfStream,
    GenerationInfo,
    OnGrown,
    Position,
    Rank,
    StorableMessage,
    StoredMessage,
    Stream,
    StreamId,
    StreamIterator,
)
from heliograph.storage.topic_filter import topic_filter as checked_filter
from heliograph.storage.wal import SyncRequest

_STREAM: Final = 1


@dataclass
class _Generation:
    info: GenerationInfo
    rows: list[tuple[Position, StoredMessage]] = field(default_factory=list)
    is_written: bool = False

    @property
    def is_sealed(self) -> bool:
        return self.info.until is not None


class ReferenceDatabase:
    """One database in memory, open from the beginning. Owned by a test.

    Args:
        name: Its name.
        clock: Gives the time of commits in µs; a test that compares two databases gives both the same.
    """

    def __init__(self, name: str, clock: Callable[[], int]) -> None:
        self._name = name
        self._clock = clock
        self._last_time = 0
        self._generations = [_Generation(self._info(1, clock()))]
        self._dropped: set[int] = set()
        self._listeners: list[OnGrown] = []
        self._grown: list[StreamId] = []
        self.is_open = True

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def path(self) -> Path:
        """Nowhere."""
        return Path()

    def open(self) -> None:
        """Open it again; it has what it had."""
        self.is_open = True

    def write(self, items: Sequence[StorableMessage], /) -> None:
        """See `Grouped.write`."""
        self._check_open()
        if not items:
            return
        now, current = self._next_time(), self._generations[-1]
        current.rows += [(Position(now, 0, row), _stored(message, now)) for row, message in enumerate(items)]
        current.is_written = True
        self._grown = [self._stream(current)]

    def sync_request(self) -> SyncRequest:
        """See `Grouped.sync_request`; there is nothing to be done."""
        return SyncRequest([], None, 0)

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None:
        """See `Grouped.finish_sync`."""

    def committed(self) -> None:
        """See `Grouped.committed`."""
        grown, self._grown = self._grown, []
        for listener in list(self._listeners) if grown else ():
            listener(grown)

    def add_generation(self) -> None:
        """See `Database.add_generation`."""
        self._check_open()
        now, current = self._next_time(), self._generations[-1]
        current.info = replace(current.info, until=now)
        self._generations.append(_Generation(self._info(current.info.number + 1, now)))
        if current.is_written:
            self._grown = [self._stream(current)]
            self.committed()

    def list_generations(self) -> Sequence[GenerationInfo]:
        """See `Database.list_generations`."""
        self._check_open()
        return [generation.info for generation in self._generations]

    def drop_generation(self, number: int) -> None:
        """See `Database.drop_generation`."""
        self._check_open()
        going = [generation for generation in self._generations[:-1] if generation.info.number == number]
        if not going:
            raise UnknownGenerationError(f"there is no closed generation {number}", database=self._name)
        self._generations.remove(going[0])
        self._dropped.add(number)
        if going[0].is_written:
            self._grown = [self._stream(going[0])]
            self.committed()

    def get_streams(self, topic_filter: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """See `Database.get_streams`."""
        self._check_open()
        checked_filter(topic_filter, self._name)
        return [
            Stream(self._stream(generation), Rank(0, generation.info.number), "#", generation.is_sealed)
            for generation in self._generations
            if generation.is_written and _overlaps(generation.info, start, end)
        ]

    def make_iterator(self, stream: StreamId, topic_filter: str, start: int | None = None) -> StreamIterator:
        """See `Database.make_iterator`."""
        checked_filter(topic_filter, self._name)
        self._generation_of(stream)
        return StreamIterator(stream, topic_filter, Position.before(start or 0))

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """See `Database.next`."""
        generation = self._generation_of(iterator.stream)
        found = self._following(iterator)[:n]
        if not found:
            return END_OF_STREAM if generation.is_sealed else Batch(iterator, ())
        behind = replace(iterator, position=found[-1][0])
        return Batch(behind, [message for _, message in found], [position for position, _ in found])

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """See `Database.subscribe`."""
        self._listeners.append(on_grown)
        return lambda: self._listeners.remove(on_grown)

    def close(self) -> None:
        """See `Database.close`."""
        self.is_open = False
        self._listeners.clear()

    def _following(self, iterator: StreamIterator) -> list[tuple[Position, StoredMessage]]:
        return [
            (position, message)
            for position, message in self._generation_of(iterator.stream).rows
            if position > iterator.position and topic_matches(message.topic, iterator.topic_filter)
        ]

    def _generation_of(self, stream: StreamId) -> _Generation:
        self._check_open()
        for generation in self._generations:
            if generation.is_written and stream == self._stream(generation):
                return generation
        if stream.database == self._name and stream.generation in self._dropped:
            raise DroppedGenerationError("it was dropped", database=self._name, stream=str(stream))
        raise UnknownStreamError("there is no such stream", database=self._name, stream=str(stream))

    def _stream(self, generation: _Generation) -> StreamId:
        return StreamId(self._name, 0, generation.info.number, _STREAM)

    def _info(self, number: int, since: int) -> GenerationInfo:
        return GenerationInfo(0, number, "reference", 1, since, None)

    def _next_time(self) -> int:
        self._last_time = max(self._clock(), self._last_time + 1)
        return self._last_time

    def _check_open(self) -> None:
        if not self.is_open:
            raise StorageClosedError("the database was closed", database=self._name)

    def __repr__(self) -> str:
        return f"ReferenceDatabase({self._name!r}, {len(self._generations)} generations)"


def _overlaps(info: GenerationInfo, start: int | None, end: int | None) -> bool:
    until = TIME_MAX if info.until is None else info.until
    return (end is None or info.since < end) and (start is None or start < until)


def _stored(message: StorableMessage, now: int) -> StoredMessage:
    return StoredMessage(
        message.id_high,
        message.id_low,
        message.topic,
        message.payload,
        message.qos,
        message.retain,
        message.clientid,
        message.username,
        message.property_bytes,
        now,
    )
