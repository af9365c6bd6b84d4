"""The interface of durable storage: databases, streams with ranks, positions, iterators, and what replaying them gives.

Only values and one protocol live here; `columnar` keeps messages on RocksDB. A **database** has shards, a shard is cut
in time into generations, a generation holds streams, and a stream is the only unit of order. To replay a topic filter:

1. Ask `LocalDatabase.get_streams` for its streams, and ask again from time to time, since new ones appear.
2. Streams with different `x` may be read in parallel; so may streams with the same `x` and `y`; groups of streams
   with the same `x` are read in the order of `y`.
3. Make an iterator on each stream and call `next`. `END_OF_STREAM` means that nothing will ever follow; a `Batch`
   without messages means that nothing has followed yet.
4. Take turns between streams: a stream that grows faster than it is read never ends.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from heliograph.storage.errors import UnknownStreamError
from heliograph.storage.wal import SyncRequest

TIME_MAX: Final = 2**64 - 1
SEQUENCE_MAX: Final = 0xFFFF
ROW_MAX: Final = 0xFFFF_FFFF


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
        """Read the text form; `UnknownStreamError` if it is not one."""
        database, *numbers = text.split("/")
        if len(numbers) != 3 or not all(number.isascii() and number.isdigit() for number in numbers):
            raise UnknownStreamError(
                f"{text!r} is not a stream id; one reads like 'messages/0/1/5'", database=database, stream=text
            )
        shard, generation, number = map(int, numbers)
        return cls(database, shard, generation, number)


class Position(NamedTuple):
    """The last row of a stream that has been read: time and sequence of its block, and the row in it.

    Ordered within one stream. `ROW_MAX` stands for the whole block, however many rows it has.
    """

    time: int
    sequence: int
    row: int

    def __str__(self) -> str:
        if self == BEGINNING:
            return ""
        return f"{self.time}-{self.sequence}" + ("" if self.row == ROW_MAX else f"-{self.row}")

    @classmethod
    def parse(cls, text: str, stream: StreamId) -> "Position":
        """Read the text form; empty text is the beginning of the stream; `UnknownStreamError` if it is neither."""
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


@dataclass(frozen=True, slots=True)
class Batch:
    """What `next` read.

    Attributes:
        messages: In the order of the stream; empty when nothing has followed yet.
        positions: Where each of them is.
    """

    iterator: StreamIterator
    messages: Sequence[StoredMessage]
    positions: Sequence[Position] = ()


class EndOfStream:
    """What `next` gives for a stream that was read to its last message and is sealed."""

    def __repr__(self) -> str:
        return "END_OF_STREAM"


END_OF_STREAM: Final = EndOfStream()


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
        """All writes so far meet the configured durability; notify subscribers."""
