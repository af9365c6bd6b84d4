"""A connection's socket for an asyncio protocol: WebSocket's, which serve the event loop's own transports too.

Written for mypyc, like the packages below.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import cast

from heliograph.transport.sockets import Poller, SocketTransport


class ProtocolTransport(SocketTransport):
    """Has what this package uses of `asyncio.Transport`, with the same promises."""

    def __init__(self, poller: Poller, connection: socket.socket, protocol: asyncio.Protocol) -> None:
        super().__init__(poller, connection)
        self._protocol: asyncio.Protocol | None = protocol
        self._receive: Callable[[bytes], None] = protocol.data_received

    def set_protocol(self, protocol: asyncio.Protocol) -> None:
        self._protocol = protocol
        self._receive = protocol.data_received

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def on_connected(self) -> None:
        if self._protocol is not None:
            self._protocol.connection_made(cast("asyncio.Transport", cast("object", self)))

    def on_bytes(self, data: bytes) -> None:
        self._receive(data)

    def on_end(self) -> None:
        if self._protocol is not None:
            self._protocol.eof_received()
        self._poller.loop.call_soon(self.close)  # behind what this turn has to write

    def on_congested(self, congested: bool) -> None:
        if self._protocol is not None:
            if congested:
                self._protocol.pause_writing()
            else:
                self._protocol.resume_writing()

    def on_lost(self, error: Exception | None) -> None:
        protocol = self._protocol
        self._protocol = None
        self._receive = _ignore
        if protocol is not None:
            protocol.connection_lost(error)


def _ignore(data: bytes) -> None:
    """Bytes for a connection that is gone."""
