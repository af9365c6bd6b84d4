"""For which durable sessions a stored message waits: their saved subscriptions, read once for an answer."""

import asyncio
from typing import Final

from heliograph.channel.context import ChannelContext
from heliograph.mqtt.topic import bare_filter, split_share, topic_matches

_SUBSCRIPTIONS_MAX: Final = 200_000  # that are read for one answer


class SavedFilters:
    """The subscriptions of durable sessions as they are on the disk; made for one answer, and read when it needs them.

    Shared ones are left out: their groups stay in the routing table while their members are away.
    """

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._filters: dict[str, list[tuple[int, str, bool]]] = {}  # when they were made, by which client, no local
        self._found: dict[str, list[tuple[int, str, bool]]] = {}  # by topic
        self._is_read = False
        self._is_whole = True

    async def waiting(self, topic: str, at_us: int, publisher: str) -> list[str] | None:
        """The clients that had subscribed to a topic when a message came; None where there are too many to know."""
        if not self._is_read:
            self._is_read = True
            await self._read()
        if not self._is_whole:
            return None
        if topic not in self._found:
            self._found[topic] = await asyncio.to_thread(self._matching, topic)
        sessions = self._context.sessions
        clients = {
            clientid
            for made_us, clientid, no_local in self._found[topic]
            if made_us <= at_us and not (no_local and clientid == publisher) and sessions.knows(clientid)
        }
        return sorted(clients)

    async def _read(self) -> None:
        durability, count = self._context.sessions.durability, 0
        for page in () if durability is None else durability.all_saved_subscriptions():
            count += len(page)
            if count > _SUBSCRIPTIONS_MAX:
                self._is_whole = False
                return
            for clientid, one in page:
                if not split_share(one.name)[0]:
                    topic_filter = one.mountpoint + bare_filter(one.name)
                    saved = int(one.made_us), clientid, bool(one.no_local)
                    self._filters.setdefault(topic_filter, []).append(saved)
            await asyncio.sleep(0)

    def _matching(self, topic: str) -> list[tuple[int, str, bool]]:
        return [one for name, saved in self._filters.items() if topic_matches(topic, name) for one in saved]
