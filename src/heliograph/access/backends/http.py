"""HTTP services as backends: so many requests at a time, answers of bounded size and time, no redirects."""

import logging
import ssl
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import httpx
import msgspec

from heliograph.access.backends.interface import Connector, Fault
from heliograph.config.backends.http import FORM, JSON, HttpConnection
from heliograph.outbound import Dialer
from heliograph.outbound.http import AsyncDialedTransport

ANSWER_BYTES_MAX: Final = 1 << 20
_PORTS: Final = {"http": 80, "https": 443}
_FIELDS_MAX: Final = 1000


# They log the URLs of requests, which may hold what clients sent: passwords too.
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)


class HttpAnswerError(Exception):
    """An answer that is not taken; the text says why."""


@dataclass(frozen=True, slots=True)
class HttpQuestion:
    """One request; equal ones may have the same answer. What a client sent, and keys of the service, are not shown."""

    method: str
    url: str = field(repr=False)
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(default=b"", repr=False)


def http_client(
    dialer: Dialer, tls: ssl.SSLContext | bool, connections: int, connect_s: float, idle_s: float
) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections, keepalive_expiry=idle_s)
    return httpx.AsyncClient(
        transport=AsyncDialedTransport(dialer, tls, limits),
        timeout=httpx.Timeout(None, connect=connect_s),  # the whole question has a deadline
        trust_env=False,  # neither a proxy nor a password from the environment
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
    )


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    content_type: str | None
    body: bytes


async def ask_http(client: httpx.AsyncClient, question: HttpQuestion) -> HttpAnswer:
    """Asked once more if the service ends the connection. Raises `HttpAnswerError` or `httpx.HTTPError`."""
    try:
        return await _asked_once(client, question)
    except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError):
        return await _asked_once(client, question)


async def _asked_once(client: httpx.AsyncClient, question: HttpQuestion) -> HttpAnswer:
    headers = [(name.encode(), value.encode()) for name, value in question.headers]
    stream = client.stream(question.method, question.url, headers=headers, content=question.body or None)
    async with stream as response:
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > ANSWER_BYTES_MAX:
                raise HttpAnswerError(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
        return HttpAnswer(response.status_code, response.headers.get("content-type"), bytes(body))


def http_fault(error: Exception) -> Fault:
    if isinstance(error, httpx.ConnectTimeout | httpx.ConnectError | OSError):
        return Fault(f"no connection: {str(error) or type(error).__name__}", is_lost=True)
    if isinstance(error, httpx.LocalProtocolError | httpx.InvalidURL | UnicodeError):
        return Fault("the request cannot be sent with what a client brought", is_lost=False)
    if isinstance(error, HttpAnswerError):
        return Fault(str(error), is_lost=False)
    return Fault(f"the request failed: {type(error).__name__}", is_lost=False)


class HttpConnector(Connector[httpx.AsyncClient]):
    """Finds out whether a service can be reached, through connections of httpx. `OSError` for a bad file of TLS."""

    kind = "http"

    def __init__(self, settings: HttpConnection, url: str, dialer: Dialer) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
        self.server = f"{self._host}:{self._port}"
        self.questions_each = settings.pool_size
        self._settings = settings
        self._dialer = dialer
        self._context = None if settings.tls is None else settings.tls.context()

    async def open(self) -> httpx.AsyncClient:
        await self._reach()
        settings = self._settings
        connect_s, idle_s = settings.connect_timeout, settings.max_inactive
        return http_client(self._dialer, self._context or False, settings.pool_size, connect_s, idle_s)

    async def close(self, client: httpx.AsyncClient) -> None:
        await client.aclose()

    async def check(self, client: httpx.AsyncClient) -> None:
        await self._reach()

    def fault(self, error: Exception) -> Fault:
        return http_fault(error)

    async def _reach(self) -> None:
        _, writer = await self._dialer.open_connection(self._host, self._port)
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


def object_of(answer: HttpAnswer, default_type: str = "") -> Mapping[str, object] | None:
    """The names and values of a body of `default_type` where the service says none; None if it cannot be read."""
    content_type = (default_type if answer.content_type is None else answer.content_type).strip().lower()
    try:
        if content_type.startswith(JSON):
            body = msgspec.json.decode(answer.body)
            return body if isinstance(body, dict) else None
        if content_type.startswith(FORM):
            text = answer.body.decode()
            return dict(parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=_FIELDS_MAX))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return None
