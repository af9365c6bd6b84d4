"""The words of durable storage: databases, streams with ranks, positions, iterators, and what replaying them gives.

Only values and protocols live here; `local` implements them on RocksDB. A **database** has shards, a shard is cut in
time into generations, a generation holds streams, and a stream is the only unit of order. To replay a topic filter:

1. Ask `Database.get_streams` for its streams, and ask again from time to time, since new ones appear.
2. Streams with different `x` may be read in parallel; so may streams with the same `x` and `y`; groups of streams
   with the same `x` are read in the order of `y`.
3. Make an iterator on each stream and call `next`. `END_OF_STREAM` means that nothing will ever follow; a `Batch`
   without messages means that nothing has followed yet.
4. Take turns between streams: a stream that grows faster than it is read never ends.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from heliograph.storage.errors import UnknownStreamError
from heliograph.storage.wal import SyncRequest

TIME_MAX: Final = 2**64 - 1
SEQUENCE_MAX: Final = 0xFFFF
ROW_MAX: Final = 0xFFFF_FFFF
_ITERATOR_VERSION: Final = 1


class StorableMessage(Protocol):
    """What storage reads of a message; `heliograph.broker.message.Message` is one."""

    @property
    def id_high(self) -> int:
        """Microseconds since the epoch at which the broker received it."""

    @property
    def id_low(self) -> int:
        """Node (16 bits), channel (32 bits) and sequence (16 bits)."""

    @property
    def topic(self) -> str:
        """The topic name."""

    @property
    def payload(self) -> bytes:
        """The payload as published."""

    @property
    def qos(self) -> int:
        """0, 1 or 2, as published."""

    @property
    def retain(self) -> bool:
        """The retain flag as published."""

    @property
    def clientid(self) -> str:
        """Who published it."""

    @property
    def username(self) -> str | None:
        """Under which user name, if any."""

    @property
    def property_bytes(self) -> bytes:
        """The MQTT 5 properties in wire form without their length; empty where there are none."""


class StoredMessage(NamedTuple):
    """A message read back; itself a `StorableMessage`. Replays make hundreds of thousands a second."""

    id_high: int
    id_low: int
    topic: str
    payload: bytes
    qos: int
    retain: bool
    clientid: str
    username: str | None
    property_bytes: bytes
    stored_at: int

    @property
    def guid(self) -> bytes:
        """The 128-bit message id."""
        return self.id_high.to_bytes(8, "big") + self.id_low.to_bytes(8, "big")

    @property
    def received_at(self) -> int:
        """When the broker received it, in microseconds since the epoch."""
        return self.id_high


class StreamId(NamedTuple):
    """Names a stream; as text `database/shard/generation/number`."""

    database: str
    shard: int
    generation: int
    number: int

    def __str__(self) -> str:
        return f"{self.database}/{self.shard}/{self.generation}/{self.number}"

    @classmethod
    def parse(cls, text: str) -> "StreamId":
        """Read the text form.

        Raises:
            UnknownStreamError: It is not of that form.
        """
        database, *numbers = text.split("/")
        if len(numbers) != 3 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise UnknownStreamError(
                f"{text!r} is not a stream id; one reads like 'messages/0/1/5'", database=database, stream=text
            )
        shard, generation, number = map(int, numbers)
        return cls(database, shard, generation, number)


class Position(NamedTuple):
    """The last row of a stream that has been read: time and sequence of its block, and the row in it.

    Ordered within one stream. `ROW_MAX` stands for the whole block, however many rows it has. A stream of the `keyed`
    layout is read in the order of topics: there `topic` is the last that was read, and what was stored up to `time` is
    not wanted.
    """

    time: int
    sequence: int
    row: int
    topic: str = ""

    def __str__(self) -> str:
        if self == BEGINNING:
            return ""
        return f"{self.time}-{self.sequence}" + ("" if self.row == ROW_MAX else f"-{self.row}")

    @classmethod
    def parse(cls, text: str, stream: StreamId) -> "Position":
        """Read the text form; empty text is the beginning of the stream.

        Raises:
            UnknownStreamError: It is not of that form.
        """
        if not text:
            return BEGINNING
        parts = text.split("-")
        if len(parts) not in (2, 3) or not all(part.isascii() and part.isdigit() for part in parts):
            raise UnknownStreamError(
                f"{text!r} is not a position; positions come from a plan or are empty",
                database=stream.database,
                stream=str(stream),
            )
        time, sequence, row = (*map(int, parts), ROW_MAX)[:3]
        return cls(min(time, TIME_MAX), min(sequence, SEQUENCE_MAX), min(row, ROW_MAX))

    @classmethod
    def before(cls, time: int) -> "Position":
        """The position from which reading begins with what was stored at `time` (µs) or later."""
        return BEGINNING if time <= 0 else cls(time - 1, SEQUENCE_MAX, ROW_MAX)


BEGINNING: Final = Position(0, 0, 0)
END: Final = Position(TIME_MAX, SEQUENCE_MAX, ROW_MAX)


class Rank(NamedTuple):
    """Which streams may be read side by side: `x` is the shard, `y` the generation."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that can hold messages of a topic filter.

    Attributes:
        id: Names it.
        rank: Orders it among other streams.
        topics: The learned structure of its topics, such as `weather/+/obs`.
        sealed: Whether its generation is closed, so that nothing more can come.
    """

    id: StreamId
    rank: Rank
    topics: str
    sealed: bool


@dataclass(frozen=True, slots=True)
class StreamIterator:
    """A place in a stream for one topic filter; a plain value that can be kept anywhere."""

    stream: StreamId
    topic_filter: str
    position: Position

    def to_bytes(self) -> bytes:
        """A form that `from_bytes` of this and of every later version reads."""
        position = list(self.position if self.position.topic else self.position[:3])
        fields = [_ITERATOR_VERSION, str(self.stream), self.topic_filter, position]
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "StreamIterator":
        """Read what `to_bytes` gave.

        Raises:
            UnknownStreamError: These bytes are no iterator of a known version.
        """
        try:
            version, stream, topic_filter, (time, sequence, row, *topic) = json.loads(data)
            if version != _ITERATOR_VERSION or not isinstance(topic_filter, str):
                raise ValueError(version)
            position = Position(int(time), int(sequence), int(row), *topic)
            return cls(StreamId.parse(stream), topic_filter, position)
        except (ValueError, TypeError, AttributeError):
            raise UnknownStreamError(f"{data[:80]!r} is not a saved iterator", database="") from None


@dataclass(frozen=True, slots=True)
class Batch:
    """What `next` read.

    Attributes:
        iterator: Where to go on.
        messages: In the order of the stream; empty when nothing has followed yet.
        positions: Where each of them is, for `Database.update_iterator`.
    """

    iterator: StreamIterator
    messages: Sequence[StoredMessage]
    positions: Sequence[Position] = ()


@dataclass(frozen=True, slots=True)
class Deleted:
    """What `delete_next` deleted: where to go on, and how many messages it was."""

    iterator: StreamIterator
    count: int


class EndOfStream:
    """What `next` gives for a stream that was read to its last message and is sealed."""

    def __repr__(self) -> str:
        return "END_OF_STREAM"


END_OF_STREAM: Final = EndOfStream()


@dataclass(frozen=True, slots=True)
class Precondition:
    """What must be so before a batch is stored: that a message like this exists, or that none does.

    Finding it reads what is stored on the topic, so preconditions are for databases and topics with few messages;
    leases that change often belong into a state database.

    Attributes:
        exists: Whether there must be one, or must not.
        topic: Its topic name.
        clientid: Whose it is, or None for anybody's.
        payload: What it says, or None for anything.
        guid: Its message id, or None for any.
    """

    exists: bool
    topic: str
    clientid: str | None = None
    payload: bytes | None = None
    guid: bytes | None = None

    def matches(self, message: StoredMessage) -> bool:
        """Whether a message is like this."""
        return (
            message.topic == self.topic
            and self.clientid in (None, message.clientid)
            and self.payload in (None, message.payload)
            and self.guid in (None, message.guid)
        )


OnGrown = Callable[[Sequence[StreamId]], None]


@dataclass(frozen=True, slots=True)
class GenerationInfo:
    """One generation of one shard: `since` and `until` are commit times in µs, `until` None for the current one."""

    shard: int
    number: int
    layout: str
    layout_version: int
    since: int
    until: int | None


@dataclass(frozen=True, slots=True)
class ColumnarOptions:
    """How a generation of the `columnar` layout learns topics and is compressed.

    Attributes:
        wildcard_thresholds: How many names each topic level may have before further ones share one `+`; the last
            number is for all deeper levels.
        compression: `zstd`, `lz4` or `none`, for the files on disk.
    """

    wildcard_thresholds: tuple[int, ...] = (100, 10)
    compression: str = "zstd"


@dataclass(frozen=True, slots=True)
class KeyedOptions:
    """How a database of the `keyed` layout learns topics; settled when it is created.

    Attributes:
        wildcard_thresholds: As for the `columnar` layout.
        nodes_max: How many topic levels are learned; a wildcard looks through them.
    """

    wildcard_thresholds: tuple[int, ...] = (100, 10)
    nodes_max: int = 4096


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How a database is made. `n_shards` is settled when it is created; later values of it change nothing."""

    n_shards: int = 1
    layout: ColumnarOptions = ColumnarOptions()


class Database(Protocol):
    """One database, whatever keeps it. Owned by the thread that opened it; every call may block on the disk."""

    @property
    def name(self) -> str:
        """Its name."""

    def store_batch(
        self,
        messages: Sequence[StorableMessage],
        *,
        atomic: bool = False,
        preconditions: Sequence[Precondition] = (),
    ) -> None:
        """Store messages durably.

        Args:
            messages: What to store, in order.
            atomic: Whether they may only be stored together; without it a backend may store some and refuse others.
            preconditions: What must hold before; checked and stored as one step.

        Raises:
            PreconditionFailedError: One does not hold; nothing was stored.
            StorageError: They were not stored, or may not outlive a power failure.
        """

    def add_generation(self) -> None:
        """Close the current generation of every shard and begin the next."""

    def list_generations(self) -> Sequence[GenerationInfo]:
        """All generations, by shard and number."""

    def drop_generation(self, number: int) -> None:
        """Remove a closed generation of all shards. What is read of it afterwards is a `DroppedGenerationError`.

        Raises:
            UnknownGenerationError: There is none of that number, or it is the current one.
            StorageError: It was not done.
        """

    def get_streams(self, topic_filter: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """The streams that can hold messages of the filter stored in [start, end), times in µs, None for open."""

    def make_iterator(self, stream: StreamId, topic_filter: str, start: int | None = None) -> StreamIterator:
        """An iterator before the first message of the filter stored at `start` or later."""

    def update_iterator(self, iterator: StreamIterator, position: Position) -> StreamIterator:
        """The iterator behind a message that `next` gave at this position.

        Raises:
            UnknownStreamError: The stream does not exist any more.
        """

    def next(self, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
        """Read up to `n` messages that follow the iterator.

        Raises:
            DroppedGenerationError: The stream was dropped with its generation.
            UnknownStreamError: The stream does not exist.
            StorageDamagedError: A block of it does not pass its checksum.
        """

    def poll(self, iterators: Sequence[StreamIterator], n: int) -> Sequence[Batch | EndOfStream]:
        """Read up to `n` messages in all, the streams taking turns; one result for each iterator, in their order."""

    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]:
        """Have a function called with the streams that a commit added to, or that were closed, once that is durable.

        So a consumer at the heads of its streams need not ask again and again. Called once for each commit, in the
        thread of the database, whoever made the commit; it must not block. New streams are among them.

        Returns:
            A function that ends this.
        """

    def close(self) -> None:
        """Leave everything on disk; the database cannot be used any more."""


@runtime_checkable
class DeletingDatabase(Database, Protocol):
    """A database out of which single messages can be deleted; what only appends drops generations instead."""

    def get_delete_streams(
        self, topic_filter: str, start: int | None = None, end: int | None = None
    ) -> Sequence[StreamId]:
        """The streams to go through so that all messages of the filter stored in [start, end) are deleted."""

    def delete_next(self, iterator: StreamIterator, n: int) -> Deleted | EndOfStream:
        """Delete up to `n` messages that follow the iterator; `END_OF_STREAM` if none do, sealed or not.

        Raises:
            UnknownStreamError: The stream does not exist.
            StorageError: They were not deleted, or not all.
        """


Item_contra = TypeVar("Item_contra", contravariant=True)


class Grouped(Protocol[Item_contra]):
    """What a commit queue needs of a database: writes that are made durable together, from an event loop.

    It may be out of order: a write then tries to mend it, and refuses what it cannot store.
    """

    @property
    def name(self) -> str:
        """Its name, for messages."""

    @property
    def path(self) -> Path:
        """Where it is, for messages."""

    def write(self, items: Sequence[Item_contra], /) -> None:
        """Write items, all or none, so that they outlive this process. Called in the event loop; must not wait.

        Raises:
            StorageBusyError: Try the same again in a moment.
            StorageError: They were not stored.
        """

    def sync_request(self) -> SyncRequest:
        """What must be done before everything written so far outlives the machine; it is run in a worker thread."""

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None:
        """Take the outcome of a request in.

        Raises:
            StorageError: What it was for may not outlive the machine.
        """

    def committed(self) -> None:
        """Everything written so far is as durable as it is wanted: wake whoever waits for it."""


class Backend(Protocol):
    """Where shards live."""

    @property
    def site_id(self) -> str:
        """This node's persistent random id, independent of its name."""

    def open_db(self, name: str, options: DatabaseOptions) -> Database:
        """Open a database, creating it if it does not exist."""

    def drop_db(self, name: str) -> None:
        """Remove a database that is not open, with everything in it.

        Raises:
            UnknownDatabaseError: It does not exist.
        """

    def list_dbs(self) -> Sequence[str]:
        """The names of those that exist."""


def poll_in_turns(database: Database, iterators: Sequence[StreamIterator], n: int) -> list[Batch | EndOfStream]:
    """What `Database.poll` gives, by means of `next`: each stream has an equal share, and what one leaves others take.

    A stream that has no share any more is given an empty batch, as one with nothing to read: ask again.
    """
    results: list[Batch | EndOfStream] = []
    left = n
    for place, iterator in enumerate(iterators):
        share = -(-left // (len(iterators) - place))
        result = database.next(iterator, share) if share else Batch(iterator, ())
        results.append(result)
        left -= len(result.messages) if isinstance(result, Batch) else 0
    return results
