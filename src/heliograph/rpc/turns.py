"""Shares the turns of an event loop among requests: one piece of work a turn, however many there are.

A loop that has much else to do has long turns, so requests get less of its time by themselves.
"""

import asyncio
from collections import deque
from typing import Protocol


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
        self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        work = self._waiting.popleft()
        if work.step():
            self._waiting.append(work)
        if self._waiting:
            self._schedule()

    def __repr__(self) -> str:
        return f"RequestTurns({len(self._waiting)} wait)"
