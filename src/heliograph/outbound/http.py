"""Transports of httpx whose connections a dialer opens, so that each redirect is checked too.

httpx has no setting for how connections are opened, and httpcore, which it is made of, has: these transports are
httpx's own ones with that. TLS has the name of the URL, not the address.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, cast

import httpcore
import httpx

from heliograph.outbound.dialing import Dialer, OutboundDeniedError, SocketAddress

Options = Iterable[tuple[Any, ...]] | None
_LIMITS: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20)


class DialedTransport(httpx.BaseTransport):
    """Connections of a blocking client. `retries` is how often a connection is tried again that failed."""

    def __init__(
        self, dialer: Dialer, verify: ssl.SSLContext | bool = True, limits: httpx.Limits = _LIMITS, retries: int = 0
    ) -> None:
        self._pool = httpcore.ConnectionPool(
            **_pool_arguments(verify, limits), retries=retries, network_backend=_Backend(dialer)
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.BaseTransport`."""
        with _errors(request):
            answer = self._pool.handle_request(_plain_request(request))
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_Body(answer, request), extensions=answer.extensions
        )

    def close(self) -> None:
        """See `httpx.BaseTransport`."""
        self._pool.close()


class AsyncDialedTransport(httpx.AsyncBaseTransport):
    """Connections of a client in an event loop."""

    def __init__(self, dialer: Dialer, verify: ssl.SSLContext | bool = True, limits: httpx.Limits = _LIMITS) -> None:
        self._pool = httpcore.AsyncConnectionPool(
            **_pool_arguments(verify, limits), network_backend=_AsyncBackend(dialer)
        )

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        with _errors(request):
            answer = await self._pool.handle_async_request(_plain_request(request))
        return httpx.Response(
            answer.status, headers=answer.headers, stream=_AsyncBody(answer, request), extensions=answer.extensions
        )

    async def aclose(self) -> None:
        """See `httpx.AsyncBaseTransport`."""
        await self._pool.aclose()


class _Backend(httpcore.NetworkBackend):
    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._system = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Options = None,
    ) -> httpcore.NetworkStream:
        try:
            addresses = self._dialer.addresses(host, port)
        except OSError as error:
            raise _connect_error(error) from error
        problem: Exception | None = None
        for address in addresses:
            try:
                return self._system.connect_tcp(address.host, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        assert problem is not None  # there is one address at least
        raise problem

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # a pause between two tries


class _AsyncBackend(httpcore.AsyncNetworkBackend):
    def __init__(self, dialer: Dialer) -> None:
        self._dialer = dialer
        self._system = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore has it
        local_address: str | None = None,
        socket_options: Options = None,
    ) -> httpcore.AsyncNetworkStream:
        problem: Exception | None = None
        for address in await self._addresses(host, port, timeout):
            try:
                return await self._system.connect_tcp(address.host, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error
        assert problem is not None
        raise problem

    async def _addresses(self, host: str, port: int, timeout_s: float | None) -> list[SocketAddress]:
        try:
            async with asyncio.timeout(timeout_s):
                return await self._dialer.resolve(host, port)
        except TimeoutError:
            raise httpcore.ConnectTimeout(f"{host!r} was not resolved within {timeout_s:g} s") from None
        except OSError as error:
            raise _connect_error(error) from error

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # a pause between two tries


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        with _errors(self._request):
            yield from cast(Iterable[bytes], self._answer.stream)

    def close(self) -> None:
        self._answer.close()


class _AsyncBody(httpx.AsyncByteStream):
    def __init__(self, answer: httpcore.Response, request: httpx.Request) -> None:
        self._answer = answer
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors(self._request):
            async for piece in cast(AsyncIterable[bytes], self._answer.stream):
                yield piece

    async def aclose(self) -> None:
        await self._answer.aclose()


def _connect_error(error: OSError) -> Exception:
    """What httpcore raises for it; a denial stays, or it would be tried again."""
    return error if isinstance(error, OutboundDeniedError) else httpcore.ConnectError(str(error))


def _pool_arguments(verify: ssl.SSLContext | bool, limits: httpx.Limits) -> dict[str, Any]:
    context = verify if isinstance(verify, ssl.SSLContext) else httpx.create_ssl_context(verify, trust_env=False)
    return {
        "ssl_context": context,
        "max_connections": limits.max_connections,
        "max_keepalive_connections": limits.max_keepalive_connections,
        "keepalive_expiry": limits.keepalive_expiry,
    }


def _plain_request(request: httpx.Request) -> httpcore.Request:
    url = request.url
    return httpcore.Request(
        request.method,
        httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
        headers=request.headers.raw,
        content=cast(Any, request.stream),
        extensions=request.extensions,
    )


@contextmanager
def _errors(request: httpx.Request) -> Iterator[None]:
    """Raise httpx's error of the same name for one of httpcore's."""
    try:
        yield
    except OutboundDeniedError as error:
        raise httpx.ConnectError(str(error), request=request) from error
    except Exception as error:
        kind = getattr(httpx, type(error).__name__, None)
        if type(error).__module__.partition(".")[0] != "httpcore" or kind is None:
            raise
        raise kind(str(error), request=request) from error
