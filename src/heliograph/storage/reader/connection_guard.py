"""Bounds what one connection may send to the reader process, and closes those that say nothing.

gRPC takes a request of any size into memory before its token can be checked, and keeps silent connections for
ever; Arrow lets neither be set. So a thread looks at what the kernel counts for each of the process's own connections,
and shuts down those that send more than requests need.
"""

import contextlib
import errno
import os
import resource
import socket
import stat
import struct
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Final

BURST_BYTES: Final = 16 << 20  # a few of the largest requests
BYTES_PER_S: Final = 2 << 20
REQUEST_S: Final = 15.0  # how old one may be that has not sent as much as a request
IDLE_S: Final = 3600.0  # how long any other may be silent
_REQUEST_BYTES: Final = 256  # the least that HTTP/2 with a call and its headers takes
_LOOK_S: Final = 0.05
_LOOK_ANEW_S: Final = 0.1  # at files whose number may have become a connection's though as many are open as before
_INFO_BYTES: Final = 136
_LAST_SENT_AT: Final = 44  # milliseconds since, in `struct tcp_info` of Linux; then acknowledged, then received
_BYTES_RECEIVED_AT: Final = 128


class _Seen:
    def __init__(self, now: float) -> None:
        self.first_seen_at = now
        self.looked_at = now
        self.received = 0
        self.allowed = float(BURST_BYTES)


class ConnectionGuard:
    """Watches the connections of this process, in a thread of its own; owned by the reader.

    It needs no open file of its own, since connections that use up all of them are among those it is there for.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._connections: dict[tuple[int, int], _Seen] = {}
        self._others: set[int] = set()  # numbers of files, and of sockets that are no connections
        self._forget_others_at = 0.0
        self._open_count = -1
        self.closed = 0

    def start(self) -> None:
        """Watch until the process ends."""
        threading.Thread(target=self._run, name="connection-guard", daemon=True).start()

    def look(self) -> None:
        """Look at every connection once, and shut down those that go too far."""
        now, open_count = time.monotonic(), _open_count()
        if now >= self._forget_others_at or open_count != self._open_count:
            self._others.clear()
            self._forget_others_at = now + _LOOK_ANEW_S
            self._open_count = open_count
        elif not self._connections:
            return
        found: dict[tuple[int, int], _Seen] = {}
        for descriptor in self._descriptors():
            if descriptor in self._others:
                continue
            with contextlib.suppress(OSError):
                status = os.fstat(descriptor)
                self._others.add(descriptor)
                if stat.S_ISSOCK(status.st_mode):
                    key = descriptor, status.st_ino
                    seen = self._connections.get(key) or _Seen(now)
                    if self._is_within_bounds(*key, seen, now):
                        found[key] = seen
                        self._others.discard(descriptor)
        self._connections = found

    def _descriptors(self) -> Iterable[int]:
        try:
            return map(int, os.listdir("/proc/self/fd"))
        except OSError as error:
            if error.errno == errno.EMFILE:  # every number below the limit is in use
                return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
            return [descriptor for descriptor, _ in self._connections]

    def _is_within_bounds(self, descriptor: int, inode: int, seen: _Seen, now: float) -> bool:
        """Whether this is one of the connections, and goes on."""
        with _borrowed(descriptor) as connection:
            if connection.getsockname()[1:2] != (self._port,):
                return False
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
            connection.getpeername()
            sent_ms, _, received_ms = struct.unpack_from("=III", info, _LAST_SENT_AT)
            (received,) = struct.unpack_from("=Q", info, _BYTES_RECEIVED_AT)
            seen.allowed = min(BURST_BYTES, seen.allowed + (now - seen.looked_at) * BYTES_PER_S)
            seen.allowed -= received - seen.received
            seen.received, seen.looked_at = received, now
            if received < _REQUEST_BYTES:
                is_alive = now - seen.first_seen_at < REQUEST_S
            else:
                is_alive = min(sent_ms, received_ms) / 1000 < IDLE_S
            if seen.allowed >= 0 and is_alive:
                return True
            if os.fstat(descriptor).st_ino == inode:  # the number may be another connection's by now
                connection.shutdown(socket.SHUT_RDWR)
                self.closed += 1
            return False

    def _run(self) -> None:
        while True:
            self.look()
            time.sleep(_LOOK_S)  # gRPC says nothing of connections


def _open_count() -> int:
    """How many files the process has open; 0 where the system does not count them (Linux before 6.2)."""
    with contextlib.suppress(OSError):
        return os.stat("/proc/self/fd").st_size
    return 0


@contextlib.contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A socket that its caller does not own and must not close."""
    borrowed = socket.socket(fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()
