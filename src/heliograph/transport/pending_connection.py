"""A connection between its acceptance and its first byte of TLS, WebSocket or MQTT.

Two things may have to come first: the header of a proxy, and, before TLS spends memory on it, the client's first words.
Both are peeked at in the socket and stay there for the next reader, except for a proxy's header.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Final

from heliograph.transport.proxy_protocol import ProxyHeader, ProxyHeaderParser, ProxyProtocolError

_PEEKED_BYTES: Final = 512

# A TLS record's type, version and length.
_RECORD_HEADER_BYTES: Final = 5
_HANDSHAKE: Final = b"\x16\x03"
_RECORD_BYTES_MAX: Final = 16_384

Done = Callable[["PendingConnection"], None]
Failed = Callable[["PendingConnection", str], None]


class PendingConnection:
    """A socket that was accepted and belongs to no connection yet; owned by the listener.

    Attributes:
        deadline_us: When that must be there which it waits for; 0 while it waits for nothing.
    """

    __slots__ = ("_wanted_bytes", "connection", "deadline_us", "header", "peername")

    def __init__(self, connection: socket.socket, peername: str) -> None:
        self.connection = connection
        self.peername = peername
        self.deadline_us = 0
        self.header: ProxyHeader | None = None
        self._wanted_bytes = 0

    def read_header(self, deadline_us: int, done: Done, failed: Failed) -> None:
        """Read the PROXY protocol's header and nothing behind it, then call `done`, or `failed` with why not."""
        self.deadline_us = deadline_us
        loop = asyncio.get_running_loop()
        loop.add_reader(self.connection, self._read_header, ProxyHeaderParser(), done, failed)

    def await_hello(self, deadline_us: int, done: Done, failed: Failed) -> None:
        """Wait for the whole beginning of a TLS handshake, then call `done`, or `failed` with why not.

        A client that is silent, drips, or speaks something else then costs a socket, and not the 60 KB of a handshake.
        """
        self.deadline_us = deadline_us
        asyncio.get_running_loop().add_reader(self.connection, self._look_for_hello, done, failed)

    def close(self) -> None:
        self._stop_waiting()
        self.connection.close()

    def _read_header(self, parser: ProxyHeaderParser, done: Done, failed: Failed) -> None:
        try:
            data = self.connection.recv(_PEEKED_BYTES, socket.MSG_PEEK)
            if not data:
                raise ProxyProtocolError("the connection ends")
            self.connection.recv(parser.take(data))
        except BlockingIOError:
            return
        except (OSError, ProxyProtocolError) as error:
            self._stop_waiting()
            failed(self, f"PROXY protocol: {error}")
            return
        if parser.header is not None:
            self.header = parser.header
            self._stop_waiting()
            done(self)

    def _look_for_hello(self, done: Done, failed: Failed) -> None:
        try:
            fault = self._hello_fault()
        except BlockingIOError:
            return
        except OSError as error:
            fault = str(error)
        if fault is None:
            return
        self._stop_waiting()
        if fault:
            failed(self, f"TLS: {fault}")
        else:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
            done(self)

    def _hello_fault(self) -> str | None:
        """What is wrong with the first record; empty when it is whole, None while it has to be waited for."""
        start = self.connection.recv(_RECORD_HEADER_BYTES, socket.MSG_PEEK)
        if not start:
            return "the connection ends"
        if not _HANDSHAKE.startswith(start[:2]):
            return f"it begins with {start!r}"
        if len(start) < _RECORD_HEADER_BYTES:
            return self._wait_for(_RECORD_HEADER_BYTES)
        length = int.from_bytes(start[3:], "big")
        if length > _RECORD_BYTES_MAX:
            return f"its first record has {length} bytes"
        wanted = _RECORD_HEADER_BYTES + length
        if len(self.connection.recv(wanted, socket.MSG_PEEK)) < wanted:
            return self._wait_for(wanted)
        return ""

    def _wait_for(self, count: int) -> str | None:
        """Be woken when so many bytes are there, or none will come; woken with fewer before, let TLS judge it."""
        if self._wanted_bytes == count:
            return ""
        self._wanted_bytes = count
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
        return None

    def _stop_waiting(self) -> None:
        if self.deadline_us:
            self.deadline_us = 0
            asyncio.get_running_loop().remove_reader(self.connection)
