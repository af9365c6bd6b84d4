"""Shares the turns of an event loop among requests: one piece of work a turn, however many there are."""

import asyncio
import time
from collections import deque
from typing import Final, Protocol

# A loop that comes back later than this has enough to do: requests then leave it more of its time.
_LATE_S: Final = 0.005
_PAUSE_FACTOR: Final = 4.0
_PAUSE_S_MAX: Final = 0.25


class Steps(Protocol):
    """Work in pieces."""

    def step(self) -> bool:
        """Do one piece; whether there is more to do now."""


class RequestTurns:
    """Gives each request a piece of work in turn, one a turn of the loop; owned by a server.

    Where turns take long, it lets others go first: the next piece waits several times as long as the last turn took.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Steps] = deque()
        self._is_scheduled = False
        self._scheduled_at = 0.0
        self.pauses_count = 0

    def add(self, work: Steps) -> None:
        """Give it turns until it has no more to do; it must not be among those that get some."""
        self._waiting.append(work)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._scheduled_at = time.perf_counter()
        self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        late_s = time.perf_counter() - self._scheduled_at
        if late_s > _LATE_S:
            self.pauses_count += 1
            self._loop.call_later(min(late_s * _PAUSE_FACTOR, _PAUSE_S_MAX), self._one)
        else:
            self._one()

    def _one(self) -> None:
        self._is_scheduled = False
        work = self._waiting.popleft()
        if work.step():
            self._waiting.append(work)
        if self._waiting and not self._is_scheduled:
            self._schedule()

    def __repr__(self) -> str:
        return f"RequestTurns({len(self._waiting)} wait)"
