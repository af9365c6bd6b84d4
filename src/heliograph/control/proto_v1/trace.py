"""Traces."""

import msgspec

from heliograph.rpc.methods import Args


class TraceStartArgs(Args, frozen=True):
    """`trace.start`: begins a trace.

    Attributes:
        name: How it is called from now on.
        kind: What it is about: `client`, `topic` or `ip_address`.
        value: The client id, the topic filter, or the address or network.
        file: The name of its file below `trace/` in the data directory; empty for one made of its name.
        duration_s: When it ends by itself.
        max_size: Bytes of its file at the most.
        payload: What it shows of payloads: `hidden`, `text` or `hex`.
    """

    name: str
    kind: str
    value: str
    file: str = ""
    duration_s: int = 600
    max_size: int = 16_777_216
    payload: str = "hidden"


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
        about: What it is about: `client`, `topic` or `ip_address`.
        value: The client id, the topic filter, or the address or network.
        state: `running`, why it ended, or `interrupted` if its node ended before it.
        left_s: Seconds until it ends by itself.
        size: Bytes of its file.
        dropped: Records that the file lacks.
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


class TraceDeleted(msgspec.Struct, frozen=True):
    """The answer of `trace.delete`."""

    name: str
