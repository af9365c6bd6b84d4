"""The `reference` backend: databases in memory, slow and obviously right, which others are compared with.

A generation is one list of messages in the order in which they were stored, and one stream. There is one shard,
whatever the options say. A database outlives its closing as long as its backend lives. It also deletes, which layouts
that only append do not, and it can keep only the newest message of each topic, as the `keyed` layout does.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from heliograph.mqtt.topic import topic_matches
from heliograph.storage.errors import (
    DroppedGenerationError,
    OneGenerationError,
    PreconditionFailedError,
    StorageClosedError,
    UnknownDatabaseError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    TIME_MAX,
    Batch,
    DatabaseOptions,
    Deleted,
    EndOfStream,
    GenerationInfo,
    OnGrown,
    Position,
    Precondition,
    Rank,
    StorableMessage,
    StoredMessage,
    Stream,
    StreamId,
    StreamIterator,
    poll_in_turns,
)
from heliograph.storage.topic_filter import topic_filter as checked_filter

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
    """One database in memory. Owned by its backend.

    Args:
        name: Its name.
        clock: Gives the time of commits in µs; a test that compares two databases gives both the same.
        newest_only: Whether a message takes the place of those before it on its topic.
    """

    def __init__(self, name: str, clock: Callable[[], int], newest_only: bool = False) -> None:
        self._name = name
        self._clock = clock
        self._newest_only = newest_only
        self._last_time = 0
        self._generations = [_Generation(self._info(1, clock()))]
        self._dropped: set[int] = set()
        self._listeners: list[OnGrown] = []
        self.is_open = True

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def store_batch(
        self,
        messages: Sequence[StorableMessage],
        *,
        atomic: bool = False,
        preconditions: Sequence[Precondition] = (),
    ) -> None:
        """See `Database.store_batch`."""
        self._check_open()
        for precondition in preconditions:
            stored = [message for generation in self._generations for _, message in generation.rows]
            if any(map(precondition.matches, stored)) != precondition.exists:
                raise PreconditionFailedError(f"{precondition} does not hold", database=self._name)
        if not messages:
            return
        now, current = self._next_time(), self._generations[-1]
        for row, message in enumerate(messages):
            if self._newest_only:
                current.rows = [one for one in current.rows if one[1].topic != message.topic]
            current.rows.append((Position(now, 0, row), _stored(message, now)))
        current.is_written = True
        self._tell(current)

    def add_generation(self) -> None:
        """See `Database.add_generation`."""
        self._check_open()
        if self._newest_only:
            raise OneGenerationError("it keeps the newest message of each topic", database=self._name)
        now, current = self._next_time(), self._generations[-1]
        current.info = replace(current.info, until=now)
        self._generations.append(_Generation(self._info(current.info.number + 1, now)))
        if current.is_written:
            self._tell(current)

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
            self._tell(going[0])

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

    def update_iterator(self, iterator: StreamIterator, position: Position) -> StreamIterator:
        """See `Database.update_iterator`."""
        self._generation_of(iterator.stream)
        return replace(iterator, position=position)

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """See `Database.next`."""
        generation = self._generation_of(iterator.stream)
        found = self._following(iterator)[:n]
        if not found:
            return END_OF_STREAM if generation.is_sealed else Batch(iterator, ())
        behind = replace(iterator, position=found[-1][0])
        return Batch(behind, [message for _, message in found], [position for position, _ in found])

    def poll(self, iterators: Sequence[StreamIterator], n: int) -> Sequence[Batch | EndOfStream]:
        """See `Database.poll`."""
        return poll_in_turns(self, iterators, n)

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """See `Database.subscribe`."""
        self._listeners.append(on_grown)
        return lambda: self._listeners.remove(on_grown)

    def get_delete_streams(
        self, topic_filter: str, start: int | None = None, end: int | None = None
    ) -> Sequence[StreamId]:
        """See `DeletingDatabase.get_delete_streams`."""
        return [stream.id for stream in self.get_streams(topic_filter, start, end)]

    def delete_next(self, iterator: StreamIterator, n: int) -> Deleted | EndOfStream:
        """See `DeletingDatabase.delete_next`."""
        generation = self._generation_of(iterator.stream)
        going = self._following(iterator)[:n]
        if not going:
            return END_OF_STREAM
        generation.rows = [row for row in generation.rows if row not in going]
        return Deleted(replace(iterator, position=going[-1][0]), len(going))

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

    def _tell(self, generation: _Generation) -> None:
        for listener in list(self._listeners):
            listener([self._stream(generation)])

    def _check_open(self) -> None:
        if not self.is_open:
            raise StorageClosedError("the database was closed", database=self._name)

    def __repr__(self) -> str:
        return f"ReferenceDatabase({self._name!r}, {len(self._generations)} generations)"


class ReferenceBackend:
    """Databases in memory. Owned by a test.

    Args:
        clock: Gives the time of commits in µs; the wall clock if None.
        newest_only: Whether its databases keep only the newest message of each topic.
    """

    def __init__(self, clock: Callable[[], int] | None = None, newest_only: bool = False) -> None:
        self._clock = clock or (lambda: time.time_ns() // 1000)
        self._newest_only = newest_only
        self._databases: dict[str, ReferenceDatabase] = {}

    @property
    def site_id(self) -> str:
        """Always the same."""
        return "reference"

    def open_db(self, name: str, options: DatabaseOptions) -> ReferenceDatabase:
        """See `Backend.open_db`."""
        database = self._databases.setdefault(name, ReferenceDatabase(name, self._clock, self._newest_only))
        database.is_open = True
        return database

    def drop_db(self, name: str) -> None:
        """See `Backend.drop_db`."""
        if name not in self._databases:
            raise UnknownDatabaseError("there is no such database", database=name)
        del self._databases[name]

    def list_dbs(self) -> Sequence[str]:
        """See `Backend.list_dbs`."""
        return sorted(self._databases)


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
