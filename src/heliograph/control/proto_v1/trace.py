"""Traces."""

import msgspec

from heliograph.rpc.asks import ACTS, EQUAL, LISTED, Ask, ListAsk
from heliograph.rpc.methods import Args, NoArgs


class TraceStartArgs(Args, frozen=True):
    """`trace.start`: begins a trace.

    Attributes:
        name: How it is called from now on.
        kind: What it is about: `client`, `topic`, `ip_address` or `rule`.
        value: The client id, the topic filter, the address or network, or the id of the rule.
        file: The name of its file below `trace/` in the data directory; empty for one made of its name.
        duration_s: When it ends by itself.
        max_size: Bytes of its file at the most.
        payload: What it shows of payloads: `hidden`, `text` or `hex`.
        start_at: When it begins, in seconds since the epoch; 0 for at once.
        formatter: How `trace.read` gives its records: `text` or `json`.
    """

    name: str
    kind: str
    value: str
    file: str = ""
    duration_s: int = 600
    max_size: int = 16_777_216
    payload: str = "hidden"
    start_at: float = 0.0
    formatter: str = "json"


class TraceNameArgs(Args, frozen=True):
    """`trace.stop` and `trace.delete`: which trace."""

    name: str


class TraceShowArgs(Args, frozen=True):
    """`trace.show`: the lines of a trace's file, each a JSON object.

    Attributes:
        follow: Whether to wait for further ones until the trace ends.
    """

    name: str
    follow: bool = False


class TraceRow(msgspec.Struct, frozen=True):
    """A row of `trace.list`, and the answer of `trace.start` and `trace.stop`.

    Attributes:
        about: What it is about: `client`, `topic`, `ip_address` or `rule`.
        value: The client id, the topic filter, the address or network, or the id of the rule.
        state: `waiting` for its time, `running`, why it ended, or `interrupted` if its node ended before it.
        left_s: Seconds until it ends by itself.
        size: Bytes of its file.
        dropped: Records that the file lacks.
        duration_s: How long it lasts.
        payload: What it shows of payloads.
        formatter: How `trace.read` gives its records.
        modified_at: When its file was written last, in seconds since the epoch; 0 while it is on.
    """

    name: str
    about: str
    value: str
    state: str
    started_at: str
    left_s: int
    size: int
    dropped: int
    file: str
    duration_s: int = 0
    payload: str = "hidden"
    formatter: str = "json"
    modified_at: float = 0.0


class TraceReadArgs(Args, frozen=True):
    """`trace.read`: some records of a trace.

    Attributes:
        position: Where they begin; 0, or what was answered before.
        bytes: How many of them, about: records come whole.
    """

    name: str
    position: int = 0
    bytes: int = 1000


class TraceRecords(msgspec.Struct, frozen=True):
    """The answer of `trace.read`.

    Attributes:
        text: The records; empty where there are no further ones so far.
        position: Where the next ones begin.
    """

    text: str
    position: int


class TraceDeleted(msgspec.Struct, frozen=True):
    """The answer of `trace.delete`."""

    name: str


TRACE_START = Ask("trace.start", TraceStartArgs, TraceRow, EQUAL, ACTS)
TRACE_LIST = ListAsk("trace.list", NoArgs, TraceRow, LISTED)
TRACE_SHOW = ListAsk("trace.show", TraceShowArgs, str, LISTED)
TRACE_READ = Ask("trace.read", TraceReadArgs, TraceRecords, LISTED)
TRACE_STOP = Ask("trace.stop", TraceNameArgs, TraceRow, EQUAL, ACTS)
TRACE_DELETE = Ask("trace.delete", TraceNameArgs, TraceDeleted, EQUAL, ACTS)
