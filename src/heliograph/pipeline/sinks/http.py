"""The sink `http`: rows posted to a web service, one by one or as JSON arrays, signed, with an idempotency key.

Rows arrive at least once. A request that is sent again has the same idempotency key, also from the next driver, so that
a service that remembers keys takes each once. The key ends with a digest of the body: should a batch that runs again
bring its rows in other portions, no portion is taken for another one.
"""

import email.utils
import gzip
import hashlib
import hmac
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import INSTALL, Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, TransientError
from heliograph.pipeline.sinks.rows import PREFIX, Derived, Rows
from heliograph.pipeline.sinks.servers import ServerSink, revealed
from heliograph.pipeline.sinks.template import placeholders
from heliograph.pipeline.tls import tls_context
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, SecretText, Text, Texts
from heliograph.settings.secrets import Secret

if TYPE_CHECKING:
    import httpx

#: Headers of every request: what it is, when it was signed, and the signature of time and body.
IDEMPOTENCY_KEY: Final = "Idempotency-Key"
TIMESTAMP: Final = "X-Heliograph-Timestamp"
SIGNATURE: Final = "X-Heliograph-Signature"

_BATCH_ROWS: Final = 100
_ANSWER_MAX: Final = 300
_PIECE_BYTES: Final = 16 << 10
_PIECES_MAX: Final = 4
_URL: Final = "url"
_BODY: Final = "body"
_HEADER: Final = "header_"

# Too early, too many, and what a proxy says for a server that is away.
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429})
# The service refuses us or does not know the address: nothing that a row can help, unless the row made the address.
_LASTING_STATUS: Final = frozenset({401, 403, 407})
_ADDRESS_STATUS: Final = frozenset({404, 405, 410})


class Method(Choice):
    def __init__(self) -> None:
        super().__init__("POST", "PUT", "PATCH")

    def convert(self, value: Content) -> str:
        return super().convert(value.upper() if isinstance(value, str) else value)


@dataclass(frozen=True)
class HttpSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    url: str = required(
        Text("a template that begins with http:// or https://", r"(?s)https?://.+"),
        "Template of the address.",
        is_secret=True,
    )
    method: str = setting(Method(), "POST", "Method of the requests.")
    headers: Mapping[str, str] = setting(Texts(), {}, "Templates of headers, by name.", is_secret=True)
    body: str | None = optional(Text("a template"), "Template of the body for one row; without, the row as JSON.")
    batch_rows: int | None = optional(
        Integer(1, 10_000),
        "Rows of a request, more than one as a JSON array of their bodies; without, 100, and 1 where `url` or "
        "`headers` take something of the row.",
    )
    concurrency: int = setting(
        Integer(1, 64), 1, "Requests at a time; with more than one they may arrive in another order."
    )
    gzip: bool = setting(Boolean(), False, "Whether bodies are compressed.")
    sign_key: Secret | None = optional(SecretText(), "Key of the signature; without, requests have none.")
    timeout_s: float = setting(Duration(0.001, needs_unit=True), 30.0, "How long an answer may take.", name="timeout")

    def __post_init__(self) -> None:
        if self._is_single and (self.batch_rows or 1) > 1:
            raise RefusedError("must be 1: url or headers take something of the row", "batch_rows")

    @property
    def request_rows(self) -> int:
        return 1 if self._is_single else self.batch_rows or _BATCH_ROWS

    @property
    def _is_single(self) -> bool:
        return any(placeholders(text) for text in (self.url, *self.headers.values()))

    @property
    def target(self) -> str:
        """The method and the address, without what may be secret in it."""
        return f"HTTP {self.method} {_without_secrets(self.url)}"

    @property
    def derived(self) -> Sequence[Derived]:
        made = [Derived(_BODY, self.body, "body")]
        if placeholders(self.url):
            made.append(Derived(_URL, self.url, "url", is_text=True))
        for number, (name, template) in enumerate(self.headers.items()):
            if placeholders(template):
                made.append(Derived(f"{_HEADER}{number}", template, f"headers.{name}", is_text=True))
        return made

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        with (
            batch.connections.opened(self._client) as client,
            ThreadPoolExecutor(self.concurrency, "http-sink") as pool,
        ):
            poster = _Poster(self, client, batch)
            sent = _Sent()
            requests = _requests(rows, self.request_rows)
            for part in _in_parallel(pool, poster.post, requests, self.concurrency):
                sent.add(part)
                for row, reason in part.refused:
                    batch.refuse(rows.row(row, 0), reason)
        return Written(figures=sent.figures())

    def _client(self) -> "httpx.Client":
        try:
            import httpx
        except ImportError as error:
            raise SinkError(f"the sink http needs httpx: {INSTALL}") from error
        from heliograph.outbound.http import DialedTransport

        auth = None
        if self.username is not None:
            auth = httpx.BasicAuth(self.username, self.password_text or "")
        limits = httpx.Limits(max_connections=self.concurrency)
        # A context takes longer to make than some requests to send.
        is_encrypted = not self.url.lower().startswith("http://")
        system = httpx.create_ssl_context() if is_encrypted else False
        verify = tls_context(self.tls, SinkError) if self.tls is not None else system
        # No proxy of the environment: what is connected to would be the proxy, which resolves the name itself.
        return httpx.Client(
            auth=auth,
            timeout=self.timeout_s,
            # Not compressed: a few bytes of a hostile answer could become any number.
            headers={"Accept-Encoding": "identity"},
            transport=DialedTransport(self.dialer, verify, limits, answer_s=self.timeout_s),
            trust_env=False,
            follow_redirects=False,
        )


@dataclass(frozen=True)
class _Request:
    name: str
    rows: pa.RecordBatch

    def halves(self) -> "tuple[_Request, _Request]":
        half = self.rows.num_rows // 2
        return (
            replace(self, name=f"{self.name}.0", rows=self.rows.slice(0, half)),
            replace(self, name=f"{self.name}.1", rows=self.rows.slice(half)),
        )

    def first(self, derived: str) -> Any:
        return self.rows.column(f"{PREFIX}{derived}")[0].as_py()


@dataclass
class _Sent:
    rows: int = 0
    bytes: int = 0
    requests: int = 0
    retries: int = 0
    refused: list[tuple[pa.RecordBatch, str]] = field(default_factory=list)
    refused_count: int = 0

    def add(self, part: "_Sent") -> None:
        self.rows += part.rows
        self.bytes += part.bytes
        self.requests += part.requests
        self.retries += part.retries
        self.refused_count += len(part.refused)

    def figures(self) -> dict[str, int]:
        return {
            "rows": self.rows,
            "bytes": self.bytes,
            "requests": self.requests,
            "retries": self.retries,
            "refused": self.refused_count,
        }


class _RefusedError(Exception):
    pass


class _Poster:
    """Posts the requests of one batch. Its threads share it; it has no state but the client."""

    def __init__(self, sink: HttpSink, client: "httpx.Client", batch: MicroBatch) -> None:
        self._sink = sink
        self._client = client
        self._batch = f"{batch.owner}-{batch.query}-{batch.number}"
        self._tell_retry = batch.tell_retry
        sign_key = revealed(sink.sign_key)
        self._sign_key = sign_key.encode() if sign_key is not None else None
        self._may_be_address = bool(placeholders(sink.url))

    def post(self, request: _Request) -> _Sent:
        """Post a request; a refused one is halved until the rows are found that the service does not take."""
        sent = _Sent()
        waiting = [request]
        while waiting:
            part = waiting.pop()
            body = self._body(part)
            attempts = Attempts(self._sink.retry, tell=self._tell_retry)
            sent.requests += 1
            try:
                attempts.run(partial(self._post_once, part, body))
            except _RefusedError as error:
                if part.rows.num_rows > 1:
                    waiting += reversed(part.halves())
                else:
                    sent.refused.append((part.rows, str(error)))
            else:
                sent.rows += part.rows.num_rows
                sent.bytes += len(body)
            sent.retries += attempts.retries
        return sent

    def _body(self, request: _Request) -> bytes:
        bodies = request.rows.column(f"{PREFIX}{_BODY}").to_pylist()
        body: bytes = bodies[0] if self._sink.request_rows == 1 else b"[" + b",".join(bodies) + b"]"
        # Without a time in it, so that the same rows are the same bytes.
        return gzip.compress(body, mtime=0) if self._sink.gzip else body

    def _headers(self, request: _Request, body: bytes) -> dict[str, str]:
        digest = hashlib.sha256(body).hexdigest()[:16]
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: f"{self._batch}-{request.name}-{digest}"}
        for number, (name, template) in enumerate(self._sink.headers.items()):
            headers[name] = request.first(f"{_HEADER}{number}") if placeholders(template) else template
        if self._sink.gzip:
            headers["Content-Encoding"] = "gzip"
        if self._sign_key is not None:
            headers[TIMESTAMP] = str(int(time.time()))
            headers[SIGNATURE] = signature(self._sign_key, headers[TIMESTAMP], body)
        return headers

    def _post_once(self, request: _Request, body: bytes) -> None:
        import httpx

        try:
            url = request.first(_URL) if self._may_be_address else self._sink.url
            headers = self._headers(request, body)
            with self._client.stream(self._sink.method, url, content=body, headers=headers) as answer:
                if answer.is_success:
                    _read_to_end(answer)
                    return
                content = _bounded_text(answer)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.LocalProtocolError, UnicodeError) as error:
            raise _RefusedError(f"no request can be made of it: {error}") from error
        except httpx.HTTPError as error:
            raise TransientError(f"{self._sink.target}: {error or type(error).__name__}") from error
        self._judge(answer, content)

    def _judge(self, answer: "httpx.Response", content: str) -> None:
        status = answer.status_code
        text = f"answered {status} {answer.reason_phrase}{': ' if content else ''}{content}"
        if status in _TRANSIENT_STATUS or status >= 500:
            raise TransientError(f"{self._sink.target} {text}", _retry_after_s(answer.headers.get("Retry-After")))
        is_address = status in _ADDRESS_STATUS and not self._may_be_address
        if status < 400 or status in _LASTING_STATUS or is_address:
            raise SinkError(f"{self._sink.target} {text}")
        raise _RefusedError(text)


def signature(key: bytes, timestamp: str, body: bytes) -> str:
    """The header `X-Heliograph-Signature`: HMAC-SHA256 of ``<timestamp>.<body>``, in hexadecimal digits."""
    return f"sha256={hmac.new(key, timestamp.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def _requests(rows: Rows, batch_rows: int) -> Iterator[_Request]:
    for number, chunk in enumerate(rows.chunks(batch_rows)):
        yield _Request(str(number), chunk)


def _in_parallel(
    pool: ThreadPoolExecutor, action: Callable[[_Request], _Sent], requests: Iterable[_Request], count: int
) -> Iterator[_Sent]:
    """Run an action for each request, at most `count` at a time; the first that fails ends it."""
    running: set[Future[_Sent]] = set()
    for request in requests:
        running.add(pool.submit(action, request))
        if len(running) >= count:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (each.result() for each in done)
    yield from (each.result() for each in running)


def _read_to_end(answer: "httpx.Response") -> None:
    """Read the rest of an answer that is short, since its connection takes another request only then."""
    import httpx

    with suppress(httpx.HTTPError):  # the status has said that the row is there
        for _ in zip(answer.iter_raw(_PIECE_BYTES), range(_PIECES_MAX), strict=False):
            pass


def _bounded_text(answer: "httpx.Response") -> str:
    text = b""
    for piece in answer.iter_raw(_ANSWER_MAX):
        text += piece
        if len(text) >= _ANSWER_MAX:
            break
    shown = text[:_ANSWER_MAX].decode("utf-8", "replace")
    return " ".join("".join(character if character.isprintable() else " " for character in shown).split())


def _retry_after_s(text: str | None) -> float | None:
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _without_secrets(url: str) -> str:
    # Tokens are found in paths and queries, passwords before the host.
    scheme, slashes, rest = url.partition("?")[0].partition("://")
    return f"{scheme}{slashes}{rest.partition('/')[0].rpartition('@')[2]}"
