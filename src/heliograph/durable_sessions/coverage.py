"""Of which topics all messages are stored, also while that changes: then sessions are made ready for both."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from heliograph.durable_sessions import record
from heliograph.durable_sessions.journal import SessionJournal
from heliograph.durable_sessions.loading import SessionLoader
from heliograph.mqtt.topic import filter_covers
from heliograph.session.durable import DurableSession
from heliograph.session.table import SessionTable

_AT_ONCE: Final = 200  # sessions that are looked at in one turn


class Coverage:
    """Which topics are all stored, by filters; owned by `DurableSessions`."""

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._upcoming: Sequence[str] | None = None

    def covers(self, topic_filter: str) -> bool:
        """Whether every message that a filter matches is stored; while topics change, before and afterwards."""
        upcoming = self._upcoming
        return _covers(self._topics, topic_filter) and (upcoming is None or _covers(upcoming, topic_filter))

    def can_sleep(self, name: str, value: bytes) -> bool:
        """Whether a session may sleep with this subscription: all that it matches is stored."""
        if name.startswith("$"):  # shared, exclusive, or of topics that are not stored with others
            return False
        try:
            return self.covers(record.decode_subscription(value).mountpoint + name)
        except (ValueError, TypeError):
            return True  # it cannot be read, which is reported when its client comes

    async def prepare(
        self, topics: Sequence[str], table: SessionTable, journal: SessionJournal, loader: SessionLoader
    ) -> tuple[Callable[[], None], Callable[[], None]]:
        """Make sessions whose clients are away ready for other topics: publishing reaches what will not be stored.

        Returns:
            What sets the topics, and what keeps those before; sessions are right either way.
        """
        self._upcoming = topics
        try:
            await self._list(table)
            await self._awaken(table, journal, loader)
        except BaseException:
            self._upcoming = None
            raise
        return self._apply, self._undo

    def _apply(self) -> None:
        if self._upcoming is not None:
            self._topics, self._upcoming = self._upcoming, None

    def _undo(self) -> None:
        self._upcoming = None

    async def _list(self, table: SessionTable) -> None:
        """Put subscriptions into the routing table that it was spared; those that sleep or come later are right."""
        for number, session in enumerate(table.all(), 1):
            if isinstance(session, DurableSession):
                session.list_unstored()
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)

    async def _awaken(self, table: SessionTable, journal: SessionJournal, loader: SessionLoader) -> None:
        """Read the sessions from the disk that must be in memory to get what will not be stored."""
        awake = set()
        for number, (key, value) in enumerate(journal.scan(record.SUBSCRIPTION), 1):
            clientid, name = record.owner(key)
            if not self.can_sleep(name.decode(), value):
                awake.add(clientid)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        for clientid in awake:
            if table.held(clientid) is None:
                loader.load(clientid)
                await asyncio.sleep(0)

    def __repr__(self) -> str:
        return f"Coverage({list(self._topics)})"


def _covers(topics: Sequence[str], topic_filter: str) -> bool:
    return any(filter_covers(wide, topic_filter) for wide in topics)
