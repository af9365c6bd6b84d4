"""Where a client connects to: a broker's address, over TCP, a Unix socket, TLS or WebSocket."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from heliograph.client.errors import EXIT_TLS, BrokerUnreachableError
from heliograph.client.stream import ByteStream, SocketStream

DEFAULT_PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 8083, "wss": 8084}
DEFAULT_WS_PATH: Final = "/mqtt"


@dataclass(frozen=True)
class BrokerUrl:
    """The parts of a URL; None for those that it does not have.

    Attributes:
        path: Behind the first slash, decoded.
    """

    scheme: str
    host: str
    port: int | None
    username: str | None
    password: str | None
    path: str | None

    @staticmethod
    def parse(text: str) -> BrokerUrl:
        """Read `mqtt://`, `mqtts://`, `ws://` or `wss://` and `[USER[:PASSWORD]@]HOST[:PORT][/PATH]`.

        Raises:
            ValueError: It is no such URL.
        """
        parts = urlsplit(text)
        if parts.scheme not in DEFAULT_PORTS:
            schemes = ", ".join(f"{scheme}://" for scheme in DEFAULT_PORTS)
            raise ValueError(f'"{text}" is no URL of a broker: it begins with one of {schemes}')
        if not parts.hostname:
            raise ValueError(f'"{text}" names no host')
        try:
            port = parts.port
        except ValueError:
            raise ValueError(f'"{text}" has no valid port: ports are 0 to 65535') from None
        username, password = (None if each is None else unquote(each) for each in (parts.username, parts.password))
        query = f"?{parts.query}" if parts.query else ""
        path = unquote(parts.path[1:]) + query if len(parts.path) > 1 else None
        return BrokerUrl(parts.scheme, parts.hostname, port, username, password, path)


@dataclass(frozen=True)
class BrokerTarget:
    """A broker's listener.

    Attributes:
        tls: How the broker's certificate is checked; None without TLS.
        ws_path: The WebSocket's path; None without WebSocket.
        unix_path: The path of a Unix socket, instead of host and port.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    ws_path: str | None = None
    unix_path: str | None = None

    def __str__(self) -> str:
        if self.unix_path is not None:
            return f"unix:{self.unix_path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def open(self, timeout_s: float) -> ByteStream:
        """A connection that carries MQTT.

        Raises:
            BrokerUnreachableError: It cannot be made.
        """
        try:
            stream: ByteStream = SocketStream(self._encrypted(self._socket(timeout_s)))
        except ssl.SSLError as error:
            why = getattr(error, "verify_message", "") or error.reason or str(error)
            raise BrokerUnreachableError(f"cannot connect to {self}: TLS: {why}", EXIT_TLS) from None
        except OSError as error:
            raise BrokerUnreachableError(f"cannot connect to {self}: {_why(error)}") from None
        return stream if self.ws_path is None else self._framed(stream)

    def _framed(self, stream: ByteStream) -> ByteStream:
        from heliograph.client.websocket import WebSocketStream  # others need not load it

        scheme = "ws" if self.tls is None else "wss"
        authority = "localhost" if self.unix_path is not None else str(self)
        try:
            return WebSocketStream(stream, f"{scheme}://{authority}{self.ws_path}")
        except (OSError, ValueError) as error:
            stream.close()
            raise BrokerUnreachableError(f"cannot connect to {self}: {_why(error)}") from None

    def _socket(self, timeout_s: float) -> socket.socket:
        if self.unix_path is None:
            connected = socket.create_connection((self.host, self.port), timeout_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connected
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.settimeout(timeout_s)
            connected.connect(self.unix_path)
        except OSError:
            connected.close()
            raise
        return connected

    def _encrypted(self, connected: socket.socket) -> socket.socket:
        if self.tls is None:
            return connected
        try:
            return self.tls.wrap_socket(connected, server_hostname=self.host)
        except OSError:
            connected.close()
            raise


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
