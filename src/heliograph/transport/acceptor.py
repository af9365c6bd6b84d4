"""Accepts connections: as fast as the listener allows, while the process has files left.

What is not accepted waits in the system's backlog: to take it only to close it would tell clients to come again.
"""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from typing import Final

from heliograph.transport.limits import ConnectionRate
from heliograph.transport.open_files import OpenFiles

_log = logging.getLogger(__name__)

_ACCEPTED_AT_ONCE: Final = 32  # then others have their turn
# How long to wait when the process has no file left for a connection, or the system no memory: trying at once would
# take the whole time of the event loop, and closing other connections would only make room for a flood.
AFTER_FAILURE_S: Final = 1.0

# The connection is gone again, or its network is.
_GONE: Final = frozenset(
    (
        errno.ECONNABORTED,
        errno.EINTR,
        errno.EPROTO,
        errno.ENETDOWN,
        errno.ENOPROTOOPT,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EOPNOTSUPP,
        errno.ENETUNREACH,
        errno.EPERM,
    )
)


class Acceptor:
    """Accepts from the sockets of one listener; owned by it."""

    def __init__(
        self,
        name: str,
        sockets: list[socket.socket],
        rate: ConnectionRate,
        clock: Callable[[], int],
        on_accept: Callable[[socket.socket, object], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._name = name
        self._sockets = sockets
        self._rate = rate
        self._clock = clock
        self._on_accept = on_accept
        self._timer: asyncio.TimerHandle | None = None
        self._fails = False
        self._pauses_count = 0
        self._failures_count = 0
        self._files = OpenFiles()
        self._held: tuple[socket.socket, object] | None = None  # the one that got a file kept for others
        self.is_out_of_files = False

    def start(self) -> None:
        self._timer = None
        if self._held is not None and not self._let_in(*self._held):
            self._run_out()
            return
        if self.is_out_of_files:  # perhaps no client waits any more
            self.is_out_of_files = not self._files.has_room(self._sockets[0].fileno())
        for listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def limit(self, rate: ConnectionRate) -> None:
        self._rate = rate
        if self._timer is not None and not self.is_out_of_files:  # it waits as the rate before said
            self._timer.cancel()
            self.start()

    def stop(self) -> None:
        """Stop accepting; the sockets are their owner's to close."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for listening in self._sockets:
            self._loop.remove_reader(listening)

    def close(self) -> None:
        """Stop accepting, and drop the connection that waits for a file."""
        self.stop()
        if self._held is not None:
            self._held[0].close()
            self._held = None

    def statistics(self) -> dict[str, int]:
        return {
            "accept_pauses": self._pauses_count,
            "accept_failures": self._failures_count,
            "out_of_files": int(self.is_out_of_files),
        }

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._rate.is_limited and not self._rate.take(self._clock()):
                self._pauses_count += 1
                self._pause(self._rate.wait_s())
                return
            try:
                connection, address = listening.accept()
            except BlockingIOError:
                self._fails = self.is_out_of_files = False
                self._rate.give_back()
                return
            except OSError as error:
                self._rate.give_back()
                if error.errno in _GONE:
                    continue
                self._report(error)
                self._pause(AFTER_FAILURE_S)
                return
            if self._files.is_reserved(connection.fileno()):
                self._held = connection, address
                self._run_out()
                return
            self._fails = self.is_out_of_files = False
            connection.setblocking(False)
            self._on_accept(connection, address)

    def _let_in(self, held: socket.socket, address: object) -> bool:
        """Let the connection in that is held, if it can have another file now."""
        try:
            moved = held.dup()
        except OSError:
            return False
        if self._files.is_reserved(moved.fileno()):
            moved.close()
            return False
        held.close()
        self._held = None
        self._fails = self.is_out_of_files = False
        moved.setblocking(False)
        self._on_accept(moved, address)
        return True

    def _run_out(self) -> None:
        self._report(OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
        self._pause(AFTER_FAILURE_S)

    def _pause(self, seconds: float) -> None:
        self.stop()
        self._timer = self._loop.call_later(seconds, self.start)

    def _report(self, error: OSError) -> None:
        self._failures_count += 1
        self.is_out_of_files = error.errno == errno.EMFILE
        if not self._fails:
            self._fails = True
            advice = "; raise the limit of open files (ulimit -n)" if error.errno == errno.EMFILE else ""
            _log.error("listener %s cannot accept connections, which wait: %s%s", self._name, error.strerror, advice)
