"""A connection of a caller: uvicorn's, with bounds that it does not have, and refusals in the form of errors."""

import asyncio
import resource
from typing import Any, Final

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 256 << 10
HEAD_S: Final = 30.0
UNREAD_BYTES_MAX: Final = 8 << 20  # of a body that came behind its answer
READ_S: Final = 60.0  # for so long an answer waits for a caller who does not read
_CONNECTIONS_MAX: Final = 2_000
_PER_HANDSHAKE: Final = 4  # connections that may be there for each handshake that may be under way
_OTHER_FILES: Final = 200  # that the process has open


def connections_max() -> int:
    """How many connections there may be: each is an open file."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _CONNECTIONS_MAX
    return max(1, min(_CONNECTIONS_MAX, (soft - _OTHER_FILES) * _PER_HANDSHAKE // (_PER_HANDSHAKE + 1)))


def handshakes_max() -> int:
    """How many connections more there may be that are not made yet."""
    return max(1, connections_max() // _PER_HANDSHAKE)


class CallerConnection(HttpToolsProtocol):
    """Ends connections whose request has no end: of its head, in bytes and seconds, or of a body that is not read.

    One whose caller does not read ends too, and where there are too many, one that asks nothing.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._is_in_head = True
        self._bytes = 0
        self._has_body = False
        self._bytes_behind_body = 0  # of its chunks' lengths, and of fields behind it, which are kept
        self._head_end: asyncio.TimerHandle | None = None
        self._read_end: asyncio.TimerHandle | None = None
        self._is_evicted = False

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was asked is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Limit the time of the first head; where there is no place, take that of a connection that asks nothing."""
        if len(self.connections) >= connections_max():
            others = (one for one in self.connections if isinstance(one, CallerConnection) and one.is_idle)
            evicted = next((one for one in others if not one._is_evicted), None)
            if evicted is not None:
                evicted._is_evicted = True
                evicted.transport.abort()
        super().connection_made(transport)
        self._begin_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what belongs to no request that is read."""
        self._has_body = False
        super().data_received(data)
        if self._has_body:
            self._bytes_behind_body = -len(data)
        is_unread = self.cycle is not None and self.cycle.response_complete
        if not self._is_in_head and not is_unread:
            self._bytes_behind_body += len(data)
            if self._bytes_behind_body > HEAD_BYTES_MAX:
                self.transport.close()
            return
        self._bytes += len(data)
        if self._is_in_head and self._bytes > HEAD_BYTES_MAX:
            self.send_400_response(f"The head of a request has at most {HEAD_BYTES_MAX:,} bytes.")
        elif self._bytes > UNREAD_BYTES_MAX:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        if self.transport.is_closing():
            return
        body = orjson.dumps({"code": "BAD_REQUEST", "message": msg})
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
        self.transport.write(head.encode() + b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._has_body = True
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._read_end is None:
            self._read_end = self.loop.call_later(READ_S, self.transport.abort)

    def resume_writing(self) -> None:
        if self._read_end is not None:
            self._read_end.cancel()
            self._read_end = None
        super().resume_writing()

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._bytes = self._bytes_behind_body = 0

    def _begin_head(self) -> None:
        self._end_head()
        self._is_in_head = True
        self._head_end = self.loop.call_later(HEAD_S, self.transport.close)

    def _end_head(self) -> None:
        self._is_in_head = False
        self._bytes = 0
        if self._head_end is not None:
            self._head_end.cancel()
            self._head_end = None
