"""A keyed table as a database: streams, iterators, preconditions, deletion, for whoever knows only the interface.

There is one shard and one generation, and a stream for each structure of topics that was learned. A topic that is
changed behind an iterator is not read again: an iterator goes through the topics once. What is stored and deleted here
is on the disk when the call returns.
"""

from collections.abc import Callable, Sequence
from typing import Final

from heliograph.storage.errors import (
    OneGenerationError,
    PreconditionFailedError,
    UnknownGenerationError,
    UnknownStreamError,
)
from heliograph.storage.interface import (
    END_OF_STREAM,
    Batch,
    Deleted,
    EndOfStream,
    GenerationInfo,
    OnGrown,
    Position,
    Precondition,
    Rank,
    StorableMessage,
    Stream,
    StreamId,
    StreamIterator,
    poll_in_turns,
)
from heliograph.storage.keyed import records as records_of
from heliograph.storage.keyed.table import KeyedTable
from heliograph.storage.keyed.walk import KeyedWalk
from heliograph.storage.topic_filter import topic_filter as checked_filter

_SHARD: Final = 0
_GENERATION: Final = 1
_WITHOUT_LIMIT: Final = 1 << 62
_PAGE_BYTES: Final = 1 << 20


class KeyedDatabase:
    """A `DeletingDatabase`. Owned by whoever opened it, with its table.

    Args:
        table: Its messages; open.
    """

    def __init__(self, table: KeyedTable) -> None:
        self.table = table
        self._listeners: list[OnGrown] = []

    @property
    def name(self) -> str:
        """Its name."""
        return self.table.name

    def store_batch(
        self,
        messages: Sequence[StorableMessage],
        *,
        atomic: bool = False,
        preconditions: Sequence[Precondition] = (),
    ) -> None:
        """See `Database.store_batch`; batches are always atomic."""
        self.table.check_usable()
        for precondition in preconditions:
            if self._holds(precondition) != precondition.exists:
                raise PreconditionFailedError(f"{precondition} does not hold", database=self.name)
        if messages:
            stored_at = self.table.next_time()
            self.table.commit([self.table.put(message, stored_at=stored_at) for message in messages])
            self._tell()

    def add_generation(self) -> None:
        """There is only one.

        Raises:
            OneGenerationError: Always.
        """
        raise OneGenerationError("it keeps the newest message of each topic", database=self.name)

    def list_generations(self) -> Sequence[GenerationInfo]:
        """See `Database.list_generations`."""
        self.table.check_usable()
        layout, version = records_of.LAYOUT, records_of.LAYOUT_VERSION
        return [GenerationInfo(_SHARD, _GENERATION, layout, version, self.table.since, None)]

    def drop_generation(self, number: int) -> None:
        """See `Database.drop_generation`."""
        raise UnknownGenerationError(f"there is no closed generation {number}", database=self.name)

    def get_streams(self, topic_filter: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """See `Database.get_streams`."""
        self.table.check_usable()
        topics, rank = self.table.topics, Rank(_SHARD, _GENERATION)
        numbers = topics.streams(topic_filter)
        if end is not None and end <= self.table.since:
            return []
        return [Stream(self._stream_id(number), rank, topics.structure_of(number) or "", False) for number in numbers]

    def make_iterator(self, stream: StreamId, topic_filter: str, start: int | None = None) -> StreamIterator:
        """See `Database.make_iterator`."""
        self._check(stream)
        checked_filter(topic_filter, self.name)
        return StreamIterator(stream, topic_filter, Position.before(start or 0))

    def update_iterator(self, iterator: StreamIterator, position: Position) -> StreamIterator:
        """See `Database.update_iterator`."""
        self._check(iterator.stream)
        return StreamIterator(iterator.stream, iterator.topic_filter, position)

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """See `Database.next`."""
        found = self._following(iterator, n)
        if not found:
            return Batch(iterator, ())
        messages = [records_of.stored_message(key, record) for key, record in found]
        positions = [iterator.position._replace(topic=message.topic) for message in messages]
        behind = StreamIterator(iterator.stream, iterator.topic_filter, positions[-1])
        return Batch(behind, messages, positions)

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
        found = self._following(iterator, n)
        if not found:
            return END_OF_STREAM
        self.table.commit([change for key, _ in found if (change := self.table.remove_key(key)) is not None])
        behind = iterator.position._replace(topic=records_of.topic_of(found[-1][0]))
        return Deleted(StreamIterator(iterator.stream, iterator.topic_filter, behind), len(found))

    def close(self) -> None:
        """See `Database.close`."""
        self.table.close()
        self._listeners.clear()

    def _holds(self, precondition: Precondition) -> bool:
        """Whether the message of its topic is like that."""
        key, record = self.table.topics.find(precondition.topic), self.table.get(precondition.topic)
        if key is None or record is None:
            return False
        return precondition.matches(records_of.stored_message(key, record))

    def _check(self, stream: StreamId) -> None:
        self.table.check_usable()
        is_here = stream[:3] == (self.name, _SHARD, _GENERATION)
        if not is_here or self.table.topics.structure_of(stream.number) is None:
            raise UnknownStreamError("there is no such stream", database=self.name, stream=str(stream))

    def _following(self, iterator: StreamIterator, n: int) -> list[tuple[bytes, bytes]]:
        """The next records of an iterator."""
        self._check(iterator.stream)
        topics, number, position = self.table.topics, iterator.stream.number, iterator.position
        if not topics.meets(iterator.topic_filter, number):
            return []
        after = b""
        if position.topic:
            after = records_of.message_key(number, records_of.levels_of(position.topic))
        walk = KeyedWalk(iterator.topic_filter, topics, [number], after)
        found: list[tuple[bytes, bytes]] = []
        while not walk.is_done and len(found) < n:
            some = self.table.step(walk, n - len(found), _PAGE_BYTES, _WITHOUT_LIMIT).records
            found += [one for one in some if records_of.times(one[1]).stored_at > position.time]
        return found

    def _tell(self) -> None:
        """Tell whoever subscribed which streams have grown."""
        streams = [self._stream_id(number) for number in sorted(self.table.grown)]
        self.table.committed()
        for listener in list(self._listeners):
            listener(streams)

    def _stream_id(self, number: int) -> StreamId:
        return StreamId(self.name, _SHARD, _GENERATION, number)

    def __repr__(self) -> str:
        return f"KeyedDatabase({self.table!r})"
