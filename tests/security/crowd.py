"""Many connections at once that say something wrong, or nothing, and wait for what becomes of them."""

import selectors
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Self

# How long everything together may take; nothing is measured by it.
WAIT_S: Final = 60.0
_READ_BYTES: Final = 4096


class Crowd:
    """So many connections to one port; use it as a context manager.

    Args:
        count: How many.
        first: What each says when it stands.
    """

    def __init__(self, port: int, count: int, first: bytes = b"") -> None:
        self._selector = selectors.DefaultSelector()
        self._open: set[socket.socket] = set()
        self.heard = b""  # what the last one to hear anything heard
        for _ in range(count):
            each = socket.create_connection(("127.0.0.1", port))
            if first:
                each.sendall(first)
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ)
            self._open.add(each)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self._open):
            self._forget(each)
        self._selector.close()

    @property
    def open_count(self) -> int:
        """How many the other side has not closed."""
        return len(self._open)

    def say(self, data: bytes) -> None:
        """Have all of them say something; one that the other side has closed may have words of it to hear yet."""
        for each in self._open:
            with suppress(OSError):
                each.send(data)

    def hear(self, count: int, meanwhile: Callable[[], object] = bool) -> None:
        """Wait until so many of them have heard something; call `meanwhile` now and then."""
        heard: set[socket.socket] = set()
        end = time.monotonic() + WAIT_S
        while len(heard) < count:
            assert time.monotonic() < end, f"only {len(heard)} of {count} were answered"
            heard |= set(self._look())
            meanwhile()

    def wait_until_closed(self, meanwhile: Callable[[], object]) -> None:
        """Wait until the other side has closed all of them; call `meanwhile` now and then."""
        end = time.monotonic() + WAIT_S
        while self._open:
            assert time.monotonic() < end, f"{len(self._open)} connections are still open"
            self._look()
            meanwhile()

    def _look(self) -> list[socket.socket]:
        spoken = []
        for key, _ in self._selector.select(0.05):
            each = key.fileobj
            assert isinstance(each, socket.socket)
            try:
                data = each.recv(_READ_BYTES)
            except OSError:
                data = b""
            if data:
                self.heard = data
                spoken.append(each)
            else:
                self._forget(each)
        return spoken

    def _forget(self, each: socket.socket) -> None:
        self._selector.unregister(each)
        self._open.discard(each)
        each.close()
