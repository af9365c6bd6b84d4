"""Bounds what one connection may send to the reader process, and closes those that say nothing.

gRPC takes a request of any size into memory before anybody can look at its token, and keeps silent connections for
ever; Arrow lets neither be set. So a thread looks at what the kernel counts for each of the process's own connections,
and shuts down those that send more than requests need.
"""

import contextlib
import os
import socket
import stat
import struct
import threading
import time
from typing import Final

BURST_BYTES: Final = 16 << 20  # a few of the largest requests
BYTES_PER_S: Final = 2 << 20
SILENT_S: Final = 15.0  # for one that has not sent as much as a request
IDLE_S: Final = 3600.0
_REQUEST_BYTES: Final = 256  # the least that HTTP/2 with a call and its headers takes
_LOOK_S: Final = 0.05
_LOOK_IDLE_S: Final = 0.5  # where there are no connections
_INFO_BYTES: Final = 136
_LAST_SENT_AT: Final = 44  # milliseconds since, in `struct tcp_info` of Linux; then acknowledged, then received
_BYTES_RECEIVED_AT: Final = 128


class _Seen:
    """One connection."""

    def __init__(self, now: float) -> None:
        self.looked_at = now
        self.received = 0
        self.allowed = float(BURST_BYTES)


class ConnectionGuard:
    """Watches the connections of this process, in a thread of its own; owned by the reader.

    Args:
        port: The port that they came to.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: dict[tuple[int, int], _Seen] = {}
        self.closed = 0

    def start(self) -> None:
        """Watch until the process ends."""
        threading.Thread(target=self._run, name="connection-guard", daemon=True).start()

    def look(self) -> None:
        """Look at every connection once, and shut down those that go too far."""
        now = time.monotonic()
        found: dict[tuple[int, int], _Seen] = {}
        try:
            names = os.listdir("/proc/self/fd")
        except OSError:  # no more open files
            return
        for name in names:
            with contextlib.suppress(OSError):
                status = os.fstat(int(name))
                seen = self._connections.get((int(name), status.st_ino)) or _Seen(now)
                if stat.S_ISSOCK(status.st_mode) and self._is_within_bounds(int(name), status.st_ino, seen, now):
                    found[int(name), status.st_ino] = seen
        self._connections = found

    def _is_within_bounds(self, descriptor: int, inode: int, seen: _Seen, now: float) -> bool:
        """Whether this is one of the connections, and goes on.

        Raises:
            OSError: It is no connection.
        """
        with _socket(os.dup(descriptor)) as connection:
            # The number may be another file's by now.
            if os.fstat(connection.fileno()).st_ino != inode or connection.getsockname()[1:2] != (self._port,):
                return False
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            connection.getpeername()
            sent_ms, _, received_ms = struct.unpack_from("=III", info, _LAST_SENT_AT)
            (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)
            seen.allowed = min(BURST_BYTES, seen.allowed + (now - seen.looked_at) * BYTES_PER_S)
            seen.allowed -= received - seen.received
            seen.received, seen.looked_at = received, now
            silent_s = min(sent_ms, received_ms) / 1000
            if seen.allowed >= 0 and silent_s < (SILENT_S if received < _REQUEST_BYTES else IDLE_S):
                return True
            connection.shutdown(socket.SHUT_RDWR)
            self.closed += 1
            return False

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(_LOOK_S if self._connections else _LOOK_IDLE_S)


def _socket(descriptor: int) -> socket.socket:
    """The socket of a file, which it then owns.

    Raises:
        OSError: It is none; the file is closed.
    """
    try:
        return socket.socket(fileno=descriptor)
    except OSError:
        os.close(descriptor)
        raise
