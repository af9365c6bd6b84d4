"""What carries bytes to a broker and back: a socket, with TLS or without; `websocket` puts frames on one."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final, Protocol

_READ_BYTES: Final = 65_536


class ByteStream(Protocol):
    """A connection that carries bytes in both directions."""

    def fileno(self) -> int:
        """The file to wait for."""

    def send(self, data: bytes) -> None:
        """Send all of it; OSError if that is not possible."""

    def receive(self) -> bytes | None:
        """What is there: nothing if that makes no bytes yet, None at the end."""

    def close(self) -> None:
        """End it."""


class SocketStream:
    """A connected socket, with TLS or without."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._pending: Callable[[], int] = getattr(connected, "pending", lambda: 0)

    def fileno(self) -> int:
        """Its file."""
        return self._socket.fileno()

    def send(self, data: bytes) -> None:
        """Send all, and wait while the peer does not read."""
        self._socket.sendall(data)

    def receive(self) -> bytes | None:
        """What has come, also what TLS has read already and no file would show."""
        pieces = [self._socket.recv(_READ_BYTES)]
        while pieces[-1] and self._pending():
            pieces.append(self._socket.recv(_READ_BYTES))
        return b"".join(pieces) or None

    def close(self) -> None:
        """Close it."""
        self._socket.close()
