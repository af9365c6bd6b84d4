"""Shares the turns of an event loop among requests: one piece of work a turn, however many there are.

After each piece the loop has two milliseconds to itself. Otherwise a list would keep it busy from begin to end, and
every packet of a client would wait for a piece when it is read, and again when it is answered. So most wait for none.
"""

import asyncio
from collections import deque
from typing import Final, Protocol

_REST_S: Final = 0.002


class Steps(Protocol):
    """Work in pieces."""

    def step(self) -> bool:
        """Do one piece; whether there is more to do now."""


class RequestTurns:
    """Gives each request a piece of work in turn, one a turn of the loop; owned by a server."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Steps] = deque()
        self._is_scheduled = False

    def add(self, work: Steps) -> None:
        """Give it turns until it has no more to do; it must not be among those that get some."""
        self._waiting.append(work)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        work = self._waiting.popleft()
        try:
            if work.step():
                self._waiting.append(work)
        finally:  # one that raises does not take the turns of the others
            self._is_scheduled = bool(self._waiting)
            if self._is_scheduled:
                self._loop.call_later(_REST_S, self._turn)

    def __repr__(self) -> str:
        return f"RequestTurns({len(self._waiting)} wait)"
