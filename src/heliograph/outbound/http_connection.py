"""HTTP/1.1 for a program that sends many requests: connections of a dialer, each kept, with one request under way.

A request by httpx takes over a millisecond of CPU time, one by this some 30 µs: requests go out as bytes, and httptools
(Node's llhttp) parses the answers. Nothing is followed: a redirect is an answer as others are.
"""

import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from re import compile as pattern
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, unquote, urlsplit

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from heliograph.outbound.dialing import Dialer

_PORTS: Final = {"http": 80, "https": 443}
_CONTROL: Final = pattern(r"[\x00-\x1f\x7f]")
_STRAY_PERCENT: Final = pattern(r"%(?![0-9A-Fa-f]{2})")
_SAFE: Final = "!$%&'()*+,/:;=?@[]~"
_HEADER_NAME: Final = pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")

_CONTENT_MAX: Final = 1024
_HEAD_BYTES_MAX: Final = 64 * 1024
# What is longer costs more to read than a new connection.
_BODY_BYTES_MAX: Final = 64 * 1024
_READ_BYTES: Final = 64 * 1024
# An answer that is there already is taken, however late.
_LEAST_S: Final = 0.001
# Of servers that rows name there may be any number.
_IDLE_MAX: Final = 64
_STATUS_FINAL: Final = 200


@dataclass(frozen=True, slots=True)
class HttpOrigin:
    """A server."""

    is_encrypted: bool
    host: str
    port: int

    @property
    def authority(self) -> str:
        """What the header Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host.encode("idna").decode()
        return host if self.port == _PORTS["https" if self.is_encrypted else "http"] else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HttpUrl:
    """A URL taken apart. `target` is path and query, in ASCII; `login` is the user and the password in it."""

    origin: HttpOrigin
    target: str
    login: tuple[str, str] | None

    @staticmethod
    def of(text: str) -> "HttpUrl":
        """Take a URL apart; characters that a request cannot have are encoded. Raises `ValueError`."""
        if _CONTROL.search(text) is not None:
            raise ValueError("the URL has a control character")
        parts = urlsplit(text)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError("the URL has no host")
        port = _PORTS[parts.scheme] if parts.port is None else parts.port
        target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
        login = None if parts.username is None else (unquote(parts.username), unquote(parts.password or ""))
        encoded = quote(_STRAY_PERCENT.sub("%25", target), _SAFE)
        return HttpUrl(HttpOrigin(parts.scheme == "https", parts.hostname, port), encoded, login)


def header_line(name: str, value: str) -> bytes:
    """A line of a request's head. Raises `ValueError` for what no header may be."""
    if _HEADER_NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:100]!r} is no name of a header")
    if _CONTROL.search(value) is not None:
        raise ValueError(f"the header {name} has a control character")
    return f"{name}: {value.strip()}\r\n".encode()


@dataclass(frozen=True, slots=True)
class HttpClientAnswer:
    """What a server answered: names of headers are in lower case, and of the body there is the beginning."""

    status: int
    reason: bytes
    headers: dict[bytes, bytes]
    content: bytes


class _Incoming:
    """What the parser has found of one answer."""

    def __init__(self, content_max: int) -> None:
        self._content_max = content_max
        self._parser = HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Expect another answer."""
        self.status = 0
        self.reason = b""
        self.headers: dict[bytes, bytes] = {}
        self.content = b""
        self.body_bytes = 0
        self.head_bytes = 0
        self.is_complete = False
        self.is_spoiled = False
        self._is_last = True

    @property
    def may_be_kept(self) -> bool:
        return self.is_complete and not self.is_spoiled and not self._is_last

    def feed(self, data: bytes) -> None:
        if not self.status:
            self.head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            self.is_spoiled = True
            if not self.status:
                raise ConnectionError(f"the answer is no HTTP: {error}") from error

    def on_message_begin(self) -> None:
        if self.is_complete:  # more than was asked
            self.is_spoiled = True

    def on_status(self, text: bytes) -> None:
        if not self.is_spoiled:
            self.reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_spoiled:
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _STATUS_FINAL and not self.is_spoiled:
            self.status = status

    def on_body(self, data: bytes) -> None:
        self.body_bytes += len(data)
        if len(self.content) < self._content_max:
            self.content += data[: self._content_max]

    def on_message_complete(self) -> None:
        if self.status:
            self.is_complete = True
            self._is_last = not self._parser.should_keep_alive()  # of the next message from here on
        else:  # an interim answer, such as 103
            self.reason, self.headers = b"", {}


class HttpClientConnection:
    """A connection to one server, which is made with a request. Owned by one thread, which closes it.

    Args:
        timeout_s: How long a request and its answer may take, and how long a try to connect.
        content_max: Bytes of an answer's body that are kept, about.
    """

    def __init__(
        self,
        origin: HttpOrigin,
        dialer: Dialer,
        context: ssl.SSLContext | None,
        timeout_s: float,
        content_max: int = _CONTENT_MAX,
    ) -> None:
        self.origin = origin
        self._dialer = dialer
        self._context = context
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._poll = select.poll()
        self._content_max = content_max
        self._incoming = _Incoming(content_max)
        self._deadline_s = 0.0

    def __repr__(self) -> str:
        return f"HttpClientConnection({self.origin}, {'closed' if self._socket is None else 'open'})"

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    def send(self, request: bytes) -> None:
        """Send a request, over a new connection where there is none or the server has closed it. Raises `OSError`."""
        if self._socket is not None and self._poll.poll(0):
            self.close()
        try:
            connected = self._socket or self._open()
            self._incoming.begin()
            self._deadline_s = time.monotonic() + self._timeout_s
            connected.settimeout(self._timeout_s)
            connected.sendall(request)
        except BaseException:
            self.close()
            raise

    def receive(self) -> HttpClientAnswer:
        """The answer to the last request. Its status stands, whatever becomes of its body. Raises `OSError`."""
        incoming = self._incoming
        try:
            self._take(incoming, _LEAST_S)
            while not incoming.is_complete and incoming.body_bytes <= max(self._content_max, _BODY_BYTES_MAX):
                self._take(incoming, 0.0)
        except OSError:
            self.close()
            if not incoming.status:
                raise
        if not incoming.may_be_kept:
            self.close()
        return HttpClientAnswer(incoming.status, incoming.reason, incoming.headers, incoming.content)

    def close(self) -> None:
        """Close it; another request opens it again."""
        connected, self._socket = self._socket, None
        if connected is not None:
            self._poll.unregister(connected)
            connected.close()

    def _take(self, incoming: _Incoming, least_s: float) -> None:
        assert self._socket is not None
        left_s = max(self._deadline_s - time.monotonic(), least_s)
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._socket.settimeout(left_s)
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise ConnectionError("the server closed the connection without an answer")
        incoming.feed(data)
        if incoming.head_bytes > _HEAD_BYTES_MAX and not incoming.status:
            raise ConnectionError("the head of the answer is too large")

    def _open(self) -> socket.socket:
        origin = self.origin
        connected = self._dialer.connect(origin.host, origin.port, self._timeout_s)
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connected = self._context.wrap_socket(connected, server_hostname=origin.host)
        except BaseException:
            connected.close()
            raise
        self._socket = connected
        self._poll.register(connected, select.POLLIN)
        self._incoming = _Incoming(self._content_max)
        return connected


class HttpConnections:
    """Connections that wait for requests. Owned by one thread, for a ``with`` block.

    Args:
        context: Makes what TLS needs, once.
    """

    def __init__(
        self,
        dialer: Dialer,
        context: Callable[[], ssl.SSLContext],
        timeout_s: float,
        content_max: int = _CONTENT_MAX,
    ) -> None:
        self._dialer = dialer
        self._make_context = context
        self._context: ssl.SSLContext | None = None
        self._timeout_s = timeout_s
        self._content_max = content_max
        self._idle: dict[HttpOrigin, list[HttpClientConnection]] = {}

    def __repr__(self) -> str:
        return f"HttpConnections({sum(map(len, self._idle.values()))} idle)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_idle()

    def borrow(self, origin: HttpOrigin) -> HttpClientConnection:
        """A connection to a server; `give_back` keeps it."""
        idle = self._idle.get(origin)
        if idle:
            return idle.pop()
        return HttpClientConnection(origin, self._dialer, self._tls(origin), self._timeout_s, self._content_max)

    def give_back(self, connection: HttpClientConnection) -> None:
        """Keep a connection whose answer was received, if it is open."""
        if connection.is_open:
            if sum(map(len, self._idle.values())) >= _IDLE_MAX:
                self._close_idle()
            self._idle.setdefault(connection.origin, []).append(connection)

    def _close_idle(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _tls(self, origin: HttpOrigin) -> ssl.SSLContext | None:
        if not origin.is_encrypted:
            return None
        if self._context is None:
            self._context = self._make_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context
