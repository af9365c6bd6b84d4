"""Shares the turns of an event loop among requests: one piece of work a turn, however many there are.

For the time that pieces take, the loop then has four times as long to itself, and eight times as long where a request
has taken some milliseconds already. Otherwise lists would keep it busy from begin to end, and each packet of a client
would wait for a piece when it is read, and again when it is answered. So most wait for none; a page comes soon, and a
list of everything takes its time.
"""

import asyncio
import time
from collections import deque
from typing import Final, Protocol

_REST_FACTOR: Final = 4.0
_LONG_REST_FACTOR: Final = 8.0
_LONG_S: Final = 0.005  # more than a page of a thousand rows takes
_REST_S_MIN: Final = 0.001  # timers know no shorter time
_REST_S_MAX: Final = 0.01


class Steps(Protocol):
    """Work in pieces; `spent_s` is counted here."""

    spent_s: float

    def step(self) -> bool:
        """Do one piece; whether there is more to do now."""


class RequestTurns:
    """Gives each request a piece of work in turn, one a turn of the loop; owned by a server."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Steps] = deque()
        self._is_scheduled = False
        self._owed_s = 0.0  # rest that the loop has yet to get

    def add(self, work: Steps) -> None:
        """Give it turns until it is done; it must not be among those that get some."""
        self._waiting.append(work)
        if not self._is_scheduled:
            self._schedule()

    def _turn(self) -> None:
        work = self._waiting.popleft()
        began = time.perf_counter()
        try:
            if work.step():
                self._waiting.append(work)
        finally:  # one that raises does not take the turns of the others
            took_s = time.perf_counter() - began
            work.spent_s += took_s
            self._owed_s += took_s * (_REST_FACTOR if work.spent_s < _LONG_S else _LONG_REST_FACTOR)
            self._is_scheduled = False
            if self._waiting:
                self._schedule()
            else:
                self._owed_s = 0.0

    def _schedule(self) -> None:
        self._is_scheduled = True
        if self._owed_s < _REST_S_MIN:
            self._loop.call_soon(self._turn)
        else:
            self._loop.call_later(min(self._owed_s, _REST_S_MAX), self._turn)
            self._owed_s = 0.0

    def __repr__(self) -> str:
        return f"RequestTurns({len(self._waiting)} wait)"
