"""A connection between its acceptance and its first byte of TLS, WebSocket or MQTT: the PROXY protocol's place."""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from heliograph.transport.proxy_protocol import ProxyHeader, ProxyHeaderParser, ProxyProtocolError

_PEEKED_BYTES: Final = 512


class Arrival:
    """A socket that was accepted and belongs to no connection yet; owned by the listener.

    Args:
        connection: The socket; it does not block.
        peername: Where it comes from, as text.
        is_proxied: Whether it begins with a PROXY protocol header.
        deadline_us: When that header must be there.
    """

    __slots__ = ("_parser", "_reads", "connection", "deadline_us", "header", "peername")

    def __init__(self, connection: socket.socket, peername: str, *, is_proxied: bool, deadline_us: int) -> None:
        self.connection = connection
        self.peername = peername
        self.deadline_us = deadline_us
        self.header: ProxyHeader | None = None
        self._parser = ProxyHeaderParser() if is_proxied else None
        self._reads = False

    @property
    def awaits_header(self) -> bool:
        """Whether it has yet to say who is behind the proxy."""
        return self._parser is not None

    def read_header(self, done: Callable[["Arrival"], None], failed: Callable[["Arrival", str], None]) -> None:
        """Read the header and nothing behind it, then call `done`, or `failed` with why not."""
        self._reads = True
        asyncio.get_running_loop().add_reader(self.connection, self._read, done, failed)

    def close(self) -> None:
        """Close the socket."""
        self._stop_reading()
        self.connection.close()

    def _read(self, done: Callable[["Arrival"], None], failed: Callable[["Arrival", str], None]) -> None:
        parser = self._parser
        if parser is None:
            return
        try:
            # What lies behind the header may be TLS, which another reader has to find in the socket.
            count = parser.take(self._peek())
            self.connection.recv(count)
        except BlockingIOError:
            return
        except (OSError, ProxyProtocolError) as error:
            self._stop_reading()
            failed(self, str(error))
            return
        if parser.header is not None:
            self.header = parser.header
            self._parser = None
            self._stop_reading()
            done(self)

    def _peek(self) -> bytes:
        data = self.connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
        if not data:
            raise ProxyProtocolError("the connection ends")
        return data

    def _stop_reading(self) -> None:
        if self._reads:
            self._reads = False
            asyncio.get_running_loop().remove_reader(self.connection)
