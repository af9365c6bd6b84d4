"""Where load clients connect to, and over which transport: TCP, TLS, WebSocket or both. What is said is `clients`'s."""

import asyncio
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol, cast

from heliograph.mqtt.errors import ProtocolError
from heliograph_bench.packets import BrokerRefusedError
from heliograph_bench.websocket import Frames, OpeningHandshake


class Transport(StrEnum):
    TCP = "tcp"
    TLS = "tls"
    WS = "ws"
    WSS = "wss"

    @property
    def encrypted(self) -> bool:
        return self in (Transport.TLS, Transport.WSS)

    @property
    def framed(self) -> bool:
        return self in (Transport.WS, Transport.WSS)


class LoadConversation(Protocol):
    """The methods of an asyncio protocol, and one for a connection that cannot be made."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def fail(self, cause: str) -> None: ...


@dataclass(frozen=True)
class Endpoint:
    """A broker's listener.

    Args:
        tls: How to check the broker's certificate; None without TLS.
        path: The WebSocket's path; None without WebSocket.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    path: str | None = None

    async def connect(self, conversation: LoadConversation) -> None:
        """Open a connection for `conversation`."""
        protocol = conversation if self.path is None else _WebSocket(conversation, self._authority, self.path)
        loop = asyncio.get_running_loop()
        await loop.create_connection(
            lambda: cast(asyncio.Protocol, protocol),
            self.host,
            self.port,
            ssl=self.tls,
            server_hostname=self.host if self.tls is not None else None,
        )

    @property
    def _authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def without_delay(transport: asyncio.BaseTransport) -> None:
    transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _WebSocket(asyncio.Transport):
    """A WebSocket connection: an asyncio protocol towards the socket, a transport towards its conversation."""

    def __init__(self, conversation: LoadConversation, authority: str, path: str) -> None:
        super().__init__()
        self._above = conversation
        self._below: asyncio.Transport
        self._handshake: OpeningHandshake | None = OpeningHandshake(authority, path)
        self._frames = Frames()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast(asyncio.Transport, transport)
        without_delay(transport)
        if self._handshake is not None:
            self._below.write(self._handshake.request)

    def data_received(self, data: bytes) -> None:
        try:
            payload = self._unframe(data)
        except (BrokerRefusedError, ProtocolError) as error:
            self._above.fail(str(error))
            self._below.abort()
            return
        if self._frames.answers:
            self._below.write(self._frames.answers)
            self._frames.answers = b""
        if payload:
            self._above.data_received(payload)
        if self._frames.closed is not None:
            self._below.close()

    def _unframe(self, data: bytes) -> bytes:
        if self._handshake is not None:
            rest = self._handshake.receive(data)
            if rest is None:
                return b""
            self._handshake = None
            self._above.connection_made(self)
            data = rest
        return self._frames.receive(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._handshake is not None:
            self._above.fail("the server closed the connection during the WebSocket handshake")
        elif exc is None and self._frames.closed is not None:
            self._above.connection_lost(ConnectionError(self._frames.closed))
        else:
            self._above.connection_lost(exc)

    def pause_writing(self) -> None:
        self._above.pause_writing()

    def resume_writing(self) -> None:
        self._above.resume_writing()

    def eof_received(self) -> bool:
        """The server sends nothing more, so the connection can close."""
        return False

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        self._below.write(self._frames.data(bytes(data)))

    def close(self) -> None:
        self._below.write(self._frames.close())
        self._below.close()

    def abort(self) -> None:
        self._below.abort()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)
