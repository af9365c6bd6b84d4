"""Wills between their publication and its commit: forgotten once they are stored, published again if refused."""

from collections import deque
from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.session.will import Will

# While the disk refuses, one will asks whether it takes messages again; subscribers may hear it each time.
_RETRY_FIRST_US: Final = 1_000_000
_RETRY_LAST_US: Final = 30_000_000
_REFUSED_MAX: Final = 10_000  # that are not saved with a session and would be lost with the process anyway


class PublishedWill:
    """A will that was published under a ticket."""

    def __init__(self, clientid: str, will: Will, ticket: i64) -> None:
        self.clientid = clientid
        self.will = will
        self.ticket = ticket


class PublishedWills:
    """The wills of one node that are published and not stored yet; owned by its session table."""

    def __init__(self) -> None:
        self._awaited: deque[PublishedWill] = deque()  # by their tickets
        self._refused: deque[PublishedWill] = deque()
        self._unsaved_count: i64 = 0  # of those that were refused
        self._is_proven = True  # the disk takes messages, as far as anybody knows
        self._pause_us: i64 = _RETRY_FIRST_US
        self._due_us: i64 = 0  # when the next one is tried while it does not
        self._lost_count: i64 = 0

    def add(self, clientid: str, will: Will, ticket: i64) -> None:
        """A will was published, and this commit will store it."""
        self._awaited.append(PublishedWill(clientid, will, ticket))

    def answered(self, ticket: i64, is_refused: bool, uptime_us: i64) -> list[PublishedWill]:
        """A commit is done or refused: the wills that it stored. Those that it refused are kept."""
        stored: list[PublishedWill] = []
        while self._awaited and self._awaited[0].ticket <= ticket:
            published = self._awaited.popleft()
            if not is_refused:
                stored.append(published)
            elif published.will.number == 0 and self._unsaved_count >= _REFUSED_MAX:
                self._lost_count += 1
            else:
                self._keep(published, uptime_us)
        if stored:
            self._is_proven = True
            self._pause_us = _RETRY_FIRST_US
        return stored

    def take_due(self, uptime_us: i64) -> PublishedWill | None:
        """The next will to be published again: one now and then until one is stored, then all."""
        if not self._refused or (not self._is_proven and uptime_us < self._due_us):
            return None
        if not self._is_proven:
            self._due_us = uptime_us + self._pause_us
            self._pause_us = min(2 * self._pause_us, _RETRY_LAST_US)
        published = self._refused.popleft()
        if published.will.number == 0:
            self._unsaved_count -= 1
        published.will.message = _copy(published.will.message)
        return published

    def statistics(self) -> dict[str, int]:
        """How many wait to be published again, and how many found no place to wait."""
        return {"wills.refused": len(self._refused), "wills.lost": int(self._lost_count)}

    def _keep(self, published: PublishedWill, uptime_us: i64) -> None:
        if self._is_proven:
            self._is_proven = False
            self._due_us = uptime_us + self._pause_us
        if published.will.number == 0:
            self._unsaved_count += 1
        self._refused.append(published)


def _copy(message: Message) -> Message:
    """The same message; queues may still hold the one that was refused, under its ticket."""
    return Message(
        message.id_high,
        message.id_low,
        message.topic,
        message.publish,
        message.clientid,
        message.username,
        message.expiry_s,
    )
