"""Rows of rules as the node hands them to the action runner after their commit; the log has them too.

A handover says which commit of its action it follows. So the runner notices where one is missing, and reads the log
instead.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

HANDED: Final = "rows"
"""What a line of the node begins with that says how many bytes follow: one `HandedRows`."""
HANDOVER_BYTES_MAX: Final = 1 << 20
"""Bytes of rows that are handed over at once; more are read from the log."""


class HandedStream(msgspec.Struct, array_like=True):
    """The rows of one stream, in its order.

    Attributes:
        payloads: The rows as JSON.
        ids: Of their messages.
        times: When their messages were received, in microseconds since the epoch.
    """

    stream: str
    payloads: list[bytes]
    ids: list[bytes]
    times: list[int]


class HandedRows(msgspec.Struct, array_like=True):
    """All rows that one commit has for one action.

    Attributes:
        query: The action, by the name of its query.
        after: The time of the commit before with rows for it, or a later time: what is stored between the two has none.
        time: That of the commit, in microseconds since the epoch; see `heliograph.storage.columnar.plan`.
        streams: In the order in which the log is read.
    """

    query: str
    after: int
    time: int
    streams: list[HandedStream]

    @property
    def generation(self) -> str:
        """That of all its streams: a commit is in one."""
        return self.streams[0].stream.split("/")[2]

    @property
    def count(self) -> int:
        return sum(len(stream.payloads) for stream in self.streams)

    @property
    def payload_bytes(self) -> int:
        return sum(sum(map(len, stream.payloads)) for stream in self.streams)


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(HandedRows)


def handover_bytes(rows: HandedRows) -> bytes:
    """The line and what follows it."""
    body = _ENCODER.encode(rows)
    return b"%s %d\n%s" % (HANDED.encode(), len(body), body)


def rows_of(body: bytes) -> HandedRows:
    """What follows the line; `msgspec.MsgspecError` if it is something else."""
    return _DECODER.decode(body)


def in_order(streams: Sequence[HandedStream]) -> list[HandedStream]:
    """Streams in the order in which the log is read, each once: what is handed over twice has the same order."""
    found: dict[str, HandedStream] = {}
    for one in sorted(streams, key=lambda one: one.stream):
        whole = found.setdefault(one.stream, HandedStream(one.stream, [], [], []))
        whole.payloads += one.payloads
        whole.ids += one.ids
        whole.times += one.times
    return list(found.values())
