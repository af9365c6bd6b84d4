"""A device that writes and reads bytes: what a client of any maker could do, and some that none should."""

import socket
from types import TracebackType
from typing import Final, Self

from support.wire import wire

_WAIT_S: Final = 60.0


class Device:
    """One connection of MQTT 5, or of 3.1.1."""

    def __init__(self, port: int, version: int = 5) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), _WAIT_S)
        self._version = version

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()

    def connect(self, clientid: str, user: str, *, clean: bool = True) -> bytes:
        """CONNECT with the user's name as its password and, in MQTT 5, a session that outlives it; its answer."""
        flags = 0xC2 if clean else 0xC0
        properties = "{ 11 00000258 }" if self._version == 5 else ""
        return self.ask(f'10 # "MQTT" 0{self._version} {flags:02x} 0000 {properties} "{clientid}" "{user}" "{user}"')

    def send(self, notation: str) -> None:
        self._socket.sendall(wire(notation))

    def ask(self, notation: str) -> bytes:
        """Send a packet, and read the next one."""
        self.send(notation)
        return self.read()

    def say_no_more(self) -> None:
        """Close the half of the connection that it writes to."""
        self._socket.shutdown(socket.SHUT_WR)

    def read(self) -> bytes:
        """The next packet; empty once the broker has closed the connection."""
        head = self._take(2)
        while head and head[-1] & 0x80:
            head += self._take(1)
        if not head:
            return b""
        length = sum((digit & 0x7F) << 7 * place for place, digit in enumerate(head[1:]))
        return head + self._take(length)

    def _take(self, count: int) -> bytes:
        taken = b""
        while len(taken) < count:
            try:
                more = self._socket.recv(count - len(taken))
            except ConnectionResetError:
                return b""
            if not more:
                return b""
            taken += more
        return taken
