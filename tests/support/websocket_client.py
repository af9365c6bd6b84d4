"""A WebSocket as the streams that `running.MqttClient` reads and writes."""

import asyncio
import socket
import ssl
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol


class WebSocketStream:
    """Reads and writes the messages of one WebSocket, one behind the other.

    Attributes:
        connection: The WebSocket.
        messages_count: How many messages came.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.messages_count = 0
        self._sending: set[asyncio.Task[None]] = set()

    async def read(self, _count: int = 0) -> bytes:
        """The next message; nothing at the end."""
        try:
            message = await self.connection.recv(decode=False)
        except ConnectionClosed:
            return b""
        self.messages_count += 1
        return message

    def write(self, data: bytes) -> None:
        """Send a message."""
        self._later(self.connection.send(data))

    def close(self) -> None:
        """Close it."""
        self._later(self.connection.close())

    def _later(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.ensure_future(_quietly(work))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)


async def _quietly(work: Any) -> None:
    with suppress(ConnectionClosed):
        await work


async def open_websocket(
    sock: socket.socket,
    path: str,
    tls: ssl.SSLContext | None = None,
    *,
    subprotocol: str = "mqtt",
    origin: str = "",
    headers: dict[str, str] | None = None,
    compress: bool = False,
) -> WebSocketStream:
    """Ask for a WebSocket over a connected socket.

    Raises:
        InvalidStatus: It is refused.
    """
    connection = await connect(
        f"{'ws' if tls is None else 'wss'}://localhost{path}",
        sock=sock,
        ssl=tls,
        subprotocols=[Subprotocol(subprotocol)] if subprotocol else None,
        origin=Origin(origin) if origin else None,
        additional_headers=headers,
        compression="deflate" if compress else None,
        ping_interval=None,
        proxy=None,
    )
    return WebSocketStream(connection)
