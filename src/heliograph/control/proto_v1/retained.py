"""Retained messages: what is asked of them, and answers."""

from typing import Annotated

import msgspec

from heliograph.control.columns import Fact, columns_of
from heliograph.rpc.asks import ACTS, EQUAL, ONE, STATE, Ask, ListAsk
from heliograph.rpc.methods import Args, NarrowingArgs, NoArgs


class RetainedInfo(msgspec.Struct, frozen=True):
    """How much is retained.

    Attributes:
        storage: `ram` or `disc`.
        bytes: What topics and messages have.
        streams: Streams of topics on the disk; 0 in memory.
        counts: The counters, by the names that metrics have.
    """

    messages: int
    bytes: int
    streams: int
    storage: str
    counts: dict[str, float]


class RetainedTopics(Args, frozen=True):
    """Which retained messages.

    Attributes:
        filter: A topic filter; empty for all topics, those below `$SYS/` too.
        limit: How many at most; 0 for all.
        skip: Pass over so many before.
    """

    filter: str = ""
    limit: int = 0
    skip: int = 0


class RetainedTopic(Args, frozen=True):
    """The retained message of one topic.

    Attributes:
        payload_max: Bytes of its payload that are shown.
    """

    topic: str
    payload_max: int = 256 << 10


class RetainedRow(msgspec.Struct, frozen=True):
    """A retained message without its payload; times are microseconds since the epoch.

    Attributes:
        bytes: Of its payload.
        expires_at: 0 for never.
        msgid: In hexadecimal digits.
    """

    topic: str
    qos: int
    bytes: Annotated[int, Fact("payload_bytes")]
    clientid: Annotated[str, Fact("from_clientid")]
    received_at: Annotated[int, Fact("publish_at", time_us=1)]
    expires_at: Annotated[int, Fact(time_us=1, is_shown=False)]
    msgid: Annotated[str, Fact(answered=str.upper)] = ""
    username: Annotated[str | None, Fact("from_username", unknown="")] = None


class RetainedMessageRow(msgspec.Struct, frozen=True):
    """A retained message with its payload.

    Attributes:
        payload: Its beginning, as much as was asked for.
        properties: Those that MQTT 5 names, by these names.
    """

    row: RetainedRow
    username: str | None
    payload: bytes
    properties: dict[str, object]


class RetainedClean(NarrowingArgs, frozen=True):
    """Which retained messages to delete.

    Attributes:
        dry_run: Only count them.
    """

    filter: str = "#"
    dry_run: bool = False


class RetainedCleaned(msgspec.Struct, frozen=True):
    """How many messages were found, and deleted."""

    found: int
    deleted: int


class RetainedIndex(msgspec.Struct, frozen=True):
    """What makes lookups cheaper: `ready`, `building`, or `off` where the disk is asked for each lookup."""

    state: str
    storage: str


class RetainedRecord(msgspec.Struct, frozen=True):
    """A retained message as another node takes it.

    Attributes:
        msgid: In hexadecimal digits; it has the time at which the message was received.
        properties: MQTT 5 properties in wire form, without their length.
    """

    topic: str
    payload: bytes
    qos: int
    clientid: str
    username: str | None
    msgid: str
    properties: bytes


class RetainedImport(Args, frozen=True):
    """Messages to retain, without publishing them; each takes the place of the one of its topic."""

    messages: tuple[RetainedRecord, ...]


class RetainedImported(msgspec.Struct, frozen=True):
    """How many messages were taken, and how many not, since the settings of the retainer do not allow them."""

    taken: int
    refused: int


RETAINER_INFO = Ask("retainer.info", NoArgs, RetainedInfo, STATE)
RETAINER_TOPICS = ListAsk("retainer.topics", RetainedTopics, RetainedRow, STATE)
RETAINER_SHOW = Ask("retainer.show", RetainedTopic, RetainedMessageRow, STATE)
RETAINER_CLEAN = Ask("retainer.clean", RetainedClean, RetainedCleaned, STATE, ACTS)
RETAINER_REINDEX = Ask("retainer.reindex", NoArgs, RetainedIndex, EQUAL, ACTS)
RETAINER_INDEX = Ask("retainer.index", NoArgs, RetainedIndex, ONE)
RETAINER_EXPORT = ListAsk("retainer.export", RetainedTopics, RetainedRecord, STATE, ACTS)
RETAINER_IMPORT = Ask("retainer.import", RetainedImport, RetainedImported, STATE, ACTS, secrets=frozenset({"messages"}))

RETAINED = columns_of(
    RetainedRow,
    table=("topic", "qos", "bytes", "clientid", "received_at", "expires_at"),
)
