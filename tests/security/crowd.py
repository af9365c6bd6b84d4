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
        self._say(data, self._open)

    def hear(self, count: int, meanwhile: Callable[[], object] = bool) -> None:
        """Wait until so many of them have heard something; call `meanwhile` now and then."""
        heard: set[socket.socket] = set()
        end = time.monotonic() + WAIT_S
        while len(heard) < count:
            assert time.monotonic() < end, f"only {len(heard)} of {count} were answered"
            heard |= self._look().keys()
            meanwhile()

    def answer(self, words: bytes, trickle: bytes, last: bytes, meanwhile: Callable[[], object]) -> None:
        """Have each answer what it hears first, and trickle then, until all have heard what ends with `last`."""
        waiting, greeted = set(self._open), set[socket.socket]()
        end = time.monotonic() + WAIT_S
        while waiting:
            assert time.monotonic() < end, f"{len(waiting)} have not heard the last words"
            for each, data in self._look().items():
                if each not in greeted:
                    greeted.add(each)
                    with suppress(OSError):
                        each.send(words)
                if data.endswith(last):
                    waiting.discard(each)
            assert waiting <= self._open, f"{len(waiting - self._open)} were closed before they heard the last words"
            self._say(trickle, greeted & self._open)
            meanwhile()

    def wait_until_closed(self, meanwhile: Callable[[], object]) -> None:
        """Wait until the other side has closed all of them; call `meanwhile` now and then."""
        end = time.monotonic() + WAIT_S
        while self._open:
            assert time.monotonic() < end, f"{len(self._open)} connections are still open"
            self._look()
            meanwhile()

    def _say(self, data: bytes, to: set[socket.socket]) -> None:
        for each in to:
            with suppress(OSError):
                each.send(data)

    def _look(self) -> dict[socket.socket, bytes]:
        """What they have heard now."""
        spoken = {}
        for key, _ in self._selector.select(0.05):
            each = key.fileobj
            assert isinstance(each, socket.socket)
            try:
                data = each.recv(_READ_BYTES)
            except OSError:
                data = b""
            if data:
                spoken[each] = data
            else:
                self._forget(each)
        return spoken

    def _forget(self, each: socket.socket) -> None:
        self._selector.unregister(each)
        self._open.discard(each)
        each.close()
