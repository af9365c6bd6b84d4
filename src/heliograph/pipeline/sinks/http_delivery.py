"""The requests of one batch on their way to a web service, and what is made of its answers."""

import base64
import email.utils
import gzip
import hashlib
import hmac
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import count
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa

from heliograph.actions.loops import VIA, nodes_in
from heliograph.outbound.http_connection import (
    HttpClientAnswer,
    HttpClientConnection,
    HttpConnections,
    HttpOrigin,
    HttpUrl,
    header_line,
)
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import MicroBatch
from heliograph.pipeline.sinks.retry import Attempts, SuspectRowsError, TransientError
from heliograph.pipeline.sinks.rows import PREFIX
from heliograph.pipeline.sinks.servers import ServerSink

#: Headers of every request: what it is, when it was signed, and the signature of time and body.
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
TIMESTAMP: Final = "X-Heliograph-Timestamp"
SIGNATURE: Final = "X-Heliograph-Signature"

#: What the derived columns of body and address are called.
BODY: Final = "body"
URL: Final = "url"

_ANSWER_MAX: Final = 300

# Too early, too many, and what a proxy says for a server that is away.
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429})
# The service refuses us or does not know the address: nothing that a row can help, unless the row made the address.
_LASTING_STATUS: Final = frozenset({401, 403, 407})
_FORBIDDEN: Final = 403  # also what a filter before a service answers to a body that it does not like
_ADDRESS_STATUS: Final = frozenset({404, 405, 410})

# What the request itself says of its body and its connection.
_OWN_HEADERS: Final = frozenset({"content-length", "transfer-encoding", "connection"})


@dataclass(frozen=True)
class RequestForm:
    """How requests are made of rows.

    Attributes:
        url: The address; None where each row has its own.
        headers: Those that are the same in all requests.
        header_columns: The derived columns of the others.
        login: User and password; None where the address may have them.
        rows: Rows of a request, more than one as a JSON array of their bodies.
    """

    method: str
    url: str | None
    headers: Mapping[str, str]
    header_columns: Mapping[str, str]
    login: tuple[str, str] | None
    sign_key: str | None
    rows: int
    has_body: bool
    is_compressed: bool


class _Rows:
    """The columns of some rows, from which requests are made."""

    def __init__(self, chunk: pa.RecordBatch, form: RequestForm) -> None:
        self.chunk = chunk
        self.bodies = _values(chunk, BODY) if form.has_body else None
        self.urls = _values(chunk, URL) if form.url is None else None
        self.headers = [(name, _values(chunk, column)) for name, column in form.header_columns.items()]


def _values(chunk: pa.RecordBatch, derived: str) -> list[Any]:
    values: list[Any] = chunk.column(f"{PREFIX}{derived}").to_pylist()
    return values


class _Request:
    """Some rows, next to each other; `name` tells it from others of the batch."""

    def __init__(self, name: str, rows: _Rows, begin: int, end: int) -> None:
        self.name = name
        self.rows = rows
        self.begin = begin
        self.end = end
        self.body: bytes | None = None

    @property
    def count(self) -> int:
        return self.end - self.begin

    def halves(self) -> "tuple[_Request, _Request]":
        half = self.begin + self.count // 2
        return (
            _Request(f"{self.name}.0", self.rows, self.begin, half),
            _Request(f"{self.name}.1", self.rows, half, self.end),
        )


class _Messages:
    """Makes the bytes of the requests of a batch. Raises `ValueError` for what no request can be made of."""

    def __init__(self, form: RequestForm, batch: MicroBatch) -> None:
        self._form = form
        self._key = f"{batch.owner}-{batch.query}-{batch.number}"
        self._sign_key = None if form.sign_key is None else form.sign_key.encode()
        given = {name.lower() for name in (*form.headers, *form.header_columns)}
        # Not compressed: a few bytes of a hostile answer could become any number.
        usual = {"User-Agent": "heliograph", "Accept": "*/*", "Accept-Encoding": "identity"}
        if form.has_body:
            usual["Content-Type"] = "application/json"
        if form.is_compressed:
            usual["Content-Encoding"] = "gzip"
        same = {name: text for name, text in usual.items() if name.lower() not in given}
        same |= {name: text for name, text in form.headers.items() if name.lower() not in _OWN_HEADERS}
        self._same = b"".join(header_line(name, text) for name, text in same.items())
        self._has_host, self._has_login = "host" in given, "authorization" in given
        self._has_key = IDEMPOTENCY_KEY.lower() in given
        self._fixed = None if form.url is None else self._head(form.url)

    def body(self, request: _Request) -> bytes:
        if request.rows.bodies is None:
            return b""
        bodies = request.rows.bodies[request.begin : request.end]
        body: bytes = bodies[0] if self._form.rows == 1 else b"[" + b",".join(bodies) + b"]"
        # Without a time in it, so that the same rows are the same bytes.
        return gzip.compress(body, mtime=0) if self._form.is_compressed else body

    def message(self, request: _Request) -> tuple[HttpOrigin, bytes]:
        """The server, and what it is sent now."""
        rows, body = request.rows, request.body
        if body is None:
            request.body = body = self.body(request)
        origin, head = self._fixed or self._head(rows.urls[request.begin] if rows.urls is not None else "")
        pieces = [head, self._same]
        for name, values in rows.headers:
            if name.lower() not in _OWN_HEADERS:
                value = values[request.begin]
                pieces.append(header_line(name, ",".join(nodes_in([value])) if name == VIA else value))
        if not self._has_key:
            digest = hashlib.sha256(body if rows.bodies is not None else head).hexdigest()[:16]
            pieces.append(f"{IDEMPOTENCY_KEY}: {self._key}-{request.name}-{digest}\r\n".encode())
        if self._sign_key is not None:
            now = str(int(time.time()))
            pieces.append(header_line(TIMESTAMP, now) + header_line(SIGNATURE, signature(self._sign_key, now, body)))
        pieces.append(b"Content-Length: %d\r\n\r\n" % len(body) if rows.bodies is not None else b"\r\n")
        pieces.append(body)
        return origin, b"".join(pieces)

    def _head(self, address: str) -> tuple[HttpOrigin, bytes]:
        """The beginning of a request: its address, and who sends it."""
        url = HttpUrl.of(address)
        head = f"{self._form.method} {url.target} HTTP/1.1\r\n".encode()
        if not self._has_host:
            head += header_line("Host", url.origin.authority)
        login = self._form.login or url.login
        if login is not None and not self._has_login:
            head += header_line("Authorization", f"Basic {base64.b64encode(':'.join(login).encode()).decode()}")
        return url.origin, head


class _SuspectRequestError(SinkError):
    """A service refuses us, or what a row has made of a request: whether it takes other requests tells."""


class RefusedRequestError(Exception):
    """A service will never take a request. It does not leave the sinks."""


class _UnderWay:
    """A request that was sent, or was not for a reason."""

    def __init__(self, request: _Request) -> None:
        self.request = request
        self.connection: HttpClientConnection | None = None
        self.problem: Exception | None = None

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


class HttpDelivery:
    """The requests of one batch. Owned by the thread that sends them, for a ``with`` block.

    Requests go out in order, each over an idle connection; where `concurrency` of them are under way, the answer to the
    oldest is awaited. One thread does so at a fraction of what a pool of threads costs.

    Args:
        concurrency: Requests that may be under way.
        refuse: Called with a row that is refused (its chunk and place there), and the reason.
    """

    def __init__(
        self,
        sink: ServerSink,
        form: RequestForm,
        concurrency: int,
        connections: HttpConnections,
        batch: MicroBatch,
        refuse: Callable[[pa.RecordBatch, int, str], None],
    ) -> None:
        self._sink = sink
        self._form = form
        self._concurrency = concurrency
        self._connections = connections
        self._tell_retry = batch.tell_retry
        self._refuse = refuse
        try:
            self._messages = _Messages(form, batch)
        except ValueError as error:
            raise SinkError(f"{sink.target}: no request can be made: {error}") from error
        self._under_way: deque[_UnderWay] = deque()
        self._suspects: list[_Request] = []
        self._witness: _Request | None = None  # that was taken
        self._numbers = count()
        self._figures = Counter(dict.fromkeys(("rows", "bytes", "requests", "retries", "refused"), 0))

    def __repr__(self) -> str:
        return f"HttpDelivery({self._sink.target}, {len(self._under_way)} under way)"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self._under_way:
            one.close()

    def send(self, chunk: pa.RecordBatch) -> None:
        """Send the requests of a chunk; the answers to the last ones may be awaited yet."""
        rows, step = _Rows(chunk, self._form), self._form.rows
        for begin in range(0, chunk.num_rows, step):
            request = _Request(str(next(self._numbers)), rows, begin, min(begin + step, chunk.num_rows))
            if len(self._under_way) >= self._concurrency:
                self._bring(self._under_way.popleft())
            self._under_way.append(self._start(request))

    def finish(self) -> dict[str, int]:
        """Await all answers; returns the figures of the batch."""
        while self._under_way:
            self._bring(self._under_way.popleft())
        if self._suspects:
            self._judge_suspects()
        return dict(self._figures)

    def _judge_suspects(self) -> None:
        """Find out whether requests that seemed to be refused for our login are refused for their rows.

        They are where the service takes another request before and after it has refused them again. That one is sent
        twice, with the same idempotency key. Rows are never refused by less: a login that has just been revoked, or a
        service that was wrong for a moment, would turn all of a batch into dead letters.
        """
        suspects, self._suspects = self._suspects, []
        if self._witness is None and (error := self._suspicion(suspects.pop(0))) is not None:
            raise SuspectRowsError(f"{error}; so it is with all requests of the batch")
        assert self._witness is not None
        found: list[tuple[_Request, SinkError]] = []
        suspects.reverse()
        while suspects:
            one = suspects.pop()
            if (error := self._suspicion(one)) is None:
                continue
            if one.count > 1:
                suspects += reversed(one.halves())
            else:
                found.append((one, error))
        if found and (error := self._suspicion(self._witness, counts=False)) is not None:
            raise error
        for one, error in found:
            self._figures["refused"] += 1
            self._refuse(one.rows.chunk, one.begin, f"{error}, and takes others")

    def _suspicion(self, request: _Request, *, counts: bool = True) -> SinkError | None:
        """Send a request again: why it is refused as before, None where it is taken."""
        try:
            Attempts(self._sink.retry, tell=self._tell_retry).run(lambda: self._conclude(self._start(request)))
        except _SuspectRequestError as error:
            return error
        if counts:
            self._taken(request)
        return None

    def _taken(self, request: _Request) -> None:
        self._witness = request
        self._figures["rows"] += request.count
        self._figures["bytes"] += len(request.body or b"")

    def _start(self, request: _Request) -> _UnderWay:
        made = _UnderWay(request)
        try:
            origin, message = self._messages.message(request)
        except ValueError as error:
            made.problem = RefusedRequestError(f"no request can be made of it: {error}")
            return made
        connection = self._connections.borrow(origin)
        try:
            connection.send(message)
        except OSError as error:
            made.problem = error
        else:
            made.connection = connection
        return made

    def _bring(self, first: _UnderWay) -> None:
        """Await an answer, and try again; a refused request is halved until the rows are found that are to blame."""
        request, waiting = first.request, [first]

        def attempt() -> None:
            self._conclude(waiting.pop() if waiting else self._start(request))

        attempts = Attempts(self._sink.retry, tell=self._tell_retry)
        self._figures["requests"] += 1
        try:
            attempts.run(attempt)
        except _SuspectRequestError:
            self._figures["retries"] += attempts.retries
            self._suspects.append(request)
        except RefusedRequestError as error:
            self._figures["retries"] += attempts.retries
            if request.count > 1:
                for half in request.halves():
                    self._bring(self._start(half))
            else:
                self._figures["refused"] += 1
                self._refuse(request.rows.chunk, request.begin, str(error))
        else:
            self._figures["retries"] += attempts.retries
            self._taken(request)

    def _conclude(self, sent: _UnderWay) -> None:
        with self._sink.connecting():
            if sent.connection is None:
                assert sent.problem is not None
                raise sent.problem
            answer = sent.connection.receive()
        self._connections.give_back(sent.connection)
        judge(answer, self._sink.target, is_fixed=self._form.url is not None, has_suspects=True)


def judge(answer: HttpClientAnswer, target: str, *, is_fixed: bool = True, has_suspects: bool = False) -> None:
    """Look whether a request was taken.

    Args:
        is_fixed: Whether no row made the address.
        has_suspects: Whether the caller looks for the row that has the service refuse us.

    Raises:
        TransientError: It may be when sent again.
        SinkError: The service refuses us.
        RefusedRequestError: The service will never take it.
    """
    if 200 <= answer.status < 300:
        return
    status, text = answer.status, sentence_of_answer(answer)
    if status in _TRANSIENT_STATUS or status >= 500:
        pause_s = _retry_after_s(answer.headers.get(b"retry-after"))
        raise TransientError(f"{target} {text}", pause_s)
    if has_suspects and status in _LASTING_STATUS and (not is_fixed or status == _FORBIDDEN):
        raise _SuspectRequestError(f"{target} {text}")
    if status < 400 or status in _LASTING_STATUS or (status in _ADDRESS_STATUS and is_fixed):
        raise SinkError(f"{target} {text}")
    raise RefusedRequestError(text)


def sentence_of_answer(answer: HttpClientAnswer) -> str:
    content = _shown(answer.content[:_ANSWER_MAX])
    return f"answered {answer.status} {_shown(answer.reason)}{': ' if content else ''}{content}"


def signature(key: bytes, timestamp: str, body: bytes) -> str:
    """The header `X-Heliograph-Signature`: HMAC-SHA256 of ``<timestamp>.<body>``, in hexadecimal digits."""
    return f"sha256={hmac.new(key, timestamp.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def _shown(text: bytes) -> str:
    """The words of a text, without what only a terminal would heed."""
    decoded = text.decode("utf-8", "replace")
    return " ".join("".join(one if one.isprintable() else " " for one in decoded).split())


def _retry_after_s(value: bytes | None) -> float | None:
    if value is None:
        return None
    text = value.decode("latin-1")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None
