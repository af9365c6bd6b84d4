"""For which durable sessions a stored message waits: their saved subscriptions, read once for an answer."""

import asyncio
from typing import Final, NamedTuple

from heliograph.channel.context import ChannelContext
from heliograph.mqtt.topic import bare_filter, split_share, topic_matches
from heliograph.session.durable import DurableSession

_SUBSCRIPTIONS_MAX: Final = 200_000  # that are read for one answer


class Claimants(NamedTuple):
    """The clients that had subscribed to a topic when a message to it was stored, and were away or behind.

    Attributes:
        waiting: Those that get it.
        passed_by: Those that do not, since QoS 0 does not wait for them.
    """

    waiting: list[str]
    passed_by: list[str]


class _Saved(NamedTuple):
    made_us: int
    clientid: str
    qos: int
    no_local: bool


class SavedFilters:
    """The subscriptions of durable sessions as they are on the disk; made for one answer, and read when it needs them.

    Shared ones are left out: their groups stay in the routing table while their members are away.
    """

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._filters: dict[str, list[_Saved]] = {}
        self._found: dict[str, list[_Saved]] = {}  # by topic
        self._is_read = False
        self._is_whole = True

    async def claimants(self, topic: str, at_us: int, publisher: str, qos: int) -> Claimants | None:
        """Who may get a message that was stored then; None where there are too many to know."""
        if not self._is_read:
            self._is_read = True
            await self._read()
        if not self._is_whole:
            return None
        if topic not in self._found:
            self._found[topic] = await asyncio.to_thread(self._matching, topic)
        sessions = self._context.sessions
        waiting: set[str] = set()
        passed_by: set[str] = set()
        for one in self._found[topic]:
            clientid = one.clientid
            if one.made_us <= at_us and not (one.no_local and clientid == publisher) and sessions.knows(clientid):
                (waiting if waits_for(self._context, clientid, at_us, qos, one.qos) else passed_by).add(clientid)
        return Claimants(sorted(waiting), sorted(passed_by - waiting))

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
                    saved = _Saved(int(one.made_us), clientid, int(one.qos), bool(one.no_local))
                    self._filters.setdefault(topic_filter, []).append(saved)
            await asyncio.sleep(0)

    def _matching(self, topic: str) -> list[_Saved]:
        return [one for name, saved in self._filters.items() if topic_matches(topic, name) for one in saved]


def waits_for(context: ChannelContext, clientid: str, at_us: int, qos: int, subscribed_qos: int) -> bool:
    """Whether a message that was stored then waits for a client, by its QoS and that of the subscription."""
    session, durability = context.sessions.held(clientid), context.sessions.durability
    if session is not None:
        options = session.options
    elif durability is not None:
        options = durability.options
    else:
        return True
    if options.mqueue_store_qos0 or (subscribed_qos if options.upgrade_qos else min(qos, subscribed_qos)):
        return True
    return isinstance(session, DurableSession) and session.attached and at_us > int(session.backlog.came_us)
