"""Sources: messages that come in from elsewhere, and what is asked of their sources."""

from typing import Annotated, Any

import msgspec

from heliograph.rpc.asks import EQUAL, FEEDS, STATE, Ask
from heliograph.rpc.methods import Args, NarrowingArgs

Qos = Annotated[int, msgspec.Meta(ge=0, le=2)]


class SourceMessage(Args, frozen=True):
    """A message that came in.

    Attributes:
        topic: Where it was published there.
        dup: Whether it was sent before.
        properties: Of MQTT 5, in wire form without their length.
        received_at_ms: Milliseconds since the epoch.
        fault: Why it cannot be taken, where its process found that; the payload is left out then.
        headers: Of a request of HTTP, without secrets.
        query: The same of what stood behind its path.
        columns: What else its type has for rules, by the names of the columns.
        signature: Of a request, what it shows as the signature of its body.
        count: How many messages a fault stands for.
    """

    topic: str
    payload: bytes = b""
    qos: Qos = 0
    retain: bool = False
    dup: bool = False
    properties: bytes = b""
    received_at_ms: int = 0
    fault: str = ""
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    query: dict[str, str] = msgspec.field(default_factory=dict)
    columns: dict[str, Any] = msgspec.field(default_factory=dict)
    signature: str = ""
    count: Annotated[int, msgspec.Meta(ge=1)] = 1


class SourceBatch(NarrowingArgs, frozen=True):
    """Messages of one source, in the order in which they came.

    Attributes:
        source: Its id, as `mqtt:my_source`.
        server: HOST:PORT from which they came.
    """

    source: str
    server: str
    messages: list[SourceMessage]


class RefusedMessage(msgspec.Struct, frozen=True):
    """A message that never can be taken; it is dropped, and counts as taken.

    Attributes:
        index: Its place in the batch.
        reason: A word, as drops are counted by it.
        text: The same for people.
    """

    index: int
    reason: str
    text: str


class Delivered(msgspec.Struct, frozen=True):
    """What became of a batch: all that is kept of the first `taken` messages is durable.

    Attributes:
        refused: Those of them that were dropped.
        hold: Why the others were not taken, and are to be brought again later; empty where all were.
    """

    taken: int
    refused: list[RefusedMessage]
    hold: str


class SourceCaller(Args, frozen=True):
    """A caller of a source that takes requests, with the token that it has shown."""

    source: str
    token: str = ""


class SourceAdmitted(msgspec.Struct, frozen=True):
    """What an admitted caller may send: so many bytes, as a message of this QoS.

    Attributes:
        signed_by: The header with the signature of the body, without which it is not taken; empty for none.
    """

    bytes_max: int
    qos: int
    signed_by: str = ""


class ReportedSource(Args, frozen=True):
    """How a source is.

    Attributes:
        status: `connected`, `connecting` or `disconnected`.
        reason: Why, where it is not connected.
    """

    source: str
    status: str
    reason: str = ""


class SourceStates(NarrowingArgs, frozen=True):
    """How all sources of the process with this number are."""

    pid: int
    states: list[ReportedSource]


class SourcesKnown(msgspec.Struct, frozen=True):
    """How many of the reported sources the node has."""

    count: int


SOURCES_DELIVER = Ask("sources.deliver", SourceBatch, Delivered, STATE, FEEDS)
SOURCES_ADMIT = Ask("sources.admit", SourceCaller, SourceAdmitted, STATE, FEEDS, secrets=frozenset({"token"}))
SOURCES_REPORT = Ask("sources.report", SourceStates, SourcesKnown, EQUAL, FEEDS)
