"""Connections of the library `redis` that a dialer opens. Importing this loads the library.

Which class opens its sockets is the one place of the library where that can be said; its documentation calls `_connect`
what a subclass implements.
"""

import asyncio
import socket
from typing import Any

from redis.asyncio.connection import Connection as AsyncConnection
from redis.asyncio.connection import SSLConnection as AsyncSSLConnection
from redis.connection import Connection, SSLConnection

from heliograph.outbound.dialing import Dialer


class DialedConnection(Connection):
    """A blocking connection."""

    def __init__(self, *, dialer: Dialer, **arguments: Any) -> None:
        self._dialer = dialer
        super().__init__(**arguments)  # type: ignore[no-untyped-call]  # the library has no types here

    def _connect(self) -> socket.socket:
        connected = self._dialer.connect(self.host, self.port, self.socket_connect_timeout)
        _set_options(connected, self)
        connected.settimeout(self.socket_timeout)
        return connected


class DialedSSLConnection(SSLConnection, DialedConnection):
    """The same with TLS, which verifies the name."""


class AsyncDialedConnection(AsyncConnection):
    """A connection in an event loop, with TLS or without."""

    def __init__(self, *, dialer: Dialer, **arguments: Any) -> None:
        self._dialer = dialer
        super().__init__(**arguments)

    async def _connect(self) -> None:
        context = self.ssl_context.get() if isinstance(self, AsyncSSLConnection) else None
        async with asyncio.timeout(self.socket_connect_timeout):
            self._reader, self._writer = await self._dialer.open_connection(self.host, self.port, context)
        connected = self._writer.get_extra_info("socket")
        if connected is not None:
            _set_options(connected, self)


class AsyncDialedSSLConnection(AsyncSSLConnection, AsyncDialedConnection):
    """The same with TLS, which verifies the name."""


def connection_class(*, has_tls: bool) -> type[Connection]:
    """The class of a blocking connection, which takes a `dialer` beside the library's arguments."""
    return DialedSSLConnection if has_tls else DialedConnection


def async_connection_class(*, has_tls: bool) -> type[AsyncConnection]:
    """The class of a connection in an event loop, which takes a `dialer` beside the library's arguments."""
    return AsyncDialedSSLConnection if has_tls else AsyncDialedConnection


def _set_options(connected: socket.socket, connection: Any) -> None:
    """Those that the library's own connections have."""
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if connection.socket_keepalive:
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in connection.socket_keepalive_options.items():
            connected.setsockopt(socket.IPPROTO_TCP, name, value)
