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
    """A will that was published under a ticket; joined if further databases keep it too, whose refusals are its own."""

    def __init__(self, clientid: str, will: Will, ticket: i64, is_joined: bool) -> None:
        self.clientid = clientid
        self.will = will
        self.ticket = ticket
        self.is_joined = is_joined


class RefusedWills:
    """Wills that the same databases refused, and when they are published again; owned by `PublishedWills`."""

    def __init__(self) -> None:
        self.waiting: deque[PublishedWill] = deque()
        self._is_proven = True  # the disk takes messages, as far as is known
        self._asking: Will | None = None  # the one that is tried while it does not
        self._pause_us: i64 = _RETRY_FIRST_US
        self._due_us: i64 = 0  # when the next one is tried while it does not

    def keep(self, published: PublishedWill, uptime_us: i64) -> None:
        if self._is_proven:
            self._is_proven = False
            self._due_us = uptime_us + self._pause_us
        self.waiting.append(published)

    def stored(self, will: Will) -> None:
        """A will is on the disk: if it is the one that was tried, all others may follow."""
        if will is self._asking:
            self.prove()

    def prove(self) -> None:
        self._asking = None
        self._is_proven = True
        self._pause_us = _RETRY_FIRST_US

    def take_due(self, uptime_us: i64) -> PublishedWill | None:
        """The next one to be published again: one now and then until one is stored, then all."""
        if not self.waiting or (not self._is_proven and uptime_us < self._due_us):
            return None
        if not self._is_proven:
            self._due_us = uptime_us + self._pause_us
            self._pause_us = min(2 * self._pause_us, _RETRY_LAST_US)
            self._asking = self.waiting[0].will
        return self.waiting.popleft()


class PublishedWills:
    """The wills of one node that are published and not stored yet; owned by its session table."""

    def __init__(self) -> None:
        self._awaited: deque[PublishedWill] = deque()  # by their tickets
        self._refused = RefusedWills()
        self._refused_joined = RefusedWills()  # a will that only `messages` takes proves nothing for these
        self._unsaved_count: i64 = 0  # of those that were refused
        self._lost_count: i64 = 0

    def add(self, clientid: str, will: Will, ticket: i64, is_joined: bool) -> None:
        """A will was published, and this commit will store it, with those of further databases if it is joined."""
        self._awaited.append(PublishedWill(clientid, will, ticket, is_joined))

    def refused(self, clientid: str, will: Will, uptime_us: i64) -> None:
        self._keep(PublishedWill(clientid, will, 0, True), uptime_us)

    def answered(self, ticket: i64, is_refused: bool, is_joined_refused: bool, uptime_us: i64) -> list[PublishedWill]:
        """A commit is done or refused: the wills that it stored. Those that it refused are kept.

        Args:
            is_joined_refused: Whether it was refused for wills that are joined.
        """
        stored: list[PublishedWill] = []
        while self._awaited and self._awaited[0].ticket <= ticket:
            published = self._awaited.popleft()
            if is_joined_refused if published.is_joined else is_refused:
                self._keep(published, uptime_us)
                continue
            stored.append(published)
            self._refused.prove()
            self._refused_joined.stored(published.will)
            if published.is_joined:
                self._refused_joined.prove()
        return stored

    def take_due(self, uptime_us: i64) -> PublishedWill | None:
        """The next will to be published again, as a message of its own."""
        published = self._refused.take_due(uptime_us) or self._refused_joined.take_due(uptime_us)
        if published is None:
            return None
        if published.will.number == 0:
            self._unsaved_count -= 1
        published.will.message = _copy(published.will.message)
        return published

    def statistics(self) -> dict[str, int]:
        count = len(self._refused.waiting) + len(self._refused_joined.waiting)
        return {"wills.refused": count, "wills.lost": int(self._lost_count)}

    def _keep(self, published: PublishedWill, uptime_us: i64) -> None:
        if published.will.number == 0:
            if self._unsaved_count >= _REFUSED_MAX:
                self._lost_count += 1
                return
            self._unsaved_count += 1
        refused = self._refused_joined if published.is_joined else self._refused
        refused.keep(published, uptime_us)


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
