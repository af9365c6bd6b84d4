"""Automatic subscriptions: filters that every client is subscribed to when it connects, without its asking.

They are made as if the client had sent a SUBSCRIBE right behind its CONNECT: hooks, authorization and limits hold.
"""

from collections.abc import Callable, Sequence
from logging import Logger
from typing import Final, Protocol

from heliograph.broker.client import ClientInfo
from heliograph.config.services import AutoSubscribeTopic
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.topic import subscription_fault
from heliograph.observe.bounded_log import BoundedLog
from heliograph.policies.template import TopicTemplate, topic_fault

_NAMES: Final = ("clientid", "username", "host", "port", "client_attrs")


class SubscribingChannel(Protocol):
    def subscribe_unasked(self, entries: list[p.SubscribeEntry], done: Callable[[list[int]], None]) -> None: ...


class AutomaticSubscriptions:
    """The automatic subscriptions of one node; owned by `AutoSubscribePart`, which hooks it in where there are any."""

    def __init__(
        self,
        topics: Sequence[AutoSubscribeTopic],
        find: Callable[[str], SubscribingChannel | None],
        levels_max: Callable[[], int],
        logger: Logger,
        clock: Callable[[], int],
    ) -> None:
        self.prepare(topics)()
        self._find = find
        self._levels_max = levels_max
        self._log = BoundedLog(logger, clock)
        self._subscribed = 0
        self._skipped = 0

    def prepare(self, topics: Sequence[AutoSubscribeTopic]) -> Callable[[], None]:
        """Compile other filters: the returned function gives them to clients that connect later; counts go on."""
        templates = [(topic, TopicTemplate(topic.topic, _NAMES)) for topic in topics if topic.topic]

        def use() -> None:
            self._topics = templates

        return use

    @property
    def is_empty(self) -> bool:
        return not self._topics

    def on_client_connected(self, client: ClientInfo, _connect: object, _accumulator: object) -> None:
        channel = self._find(client.clientid)
        entries = self.entries_for(client)
        if channel is not None and entries:
            channel.subscribe_unasked(entries, lambda codes: self._on_subscribed(client.clientid, entries, codes))

    def _on_subscribed(self, clientid: str, entries: list[p.SubscribeEntry], codes: list[int]) -> None:
        for entry, code in zip(entries, codes, strict=True):
            if code < rc.UNSPECIFIED_ERROR:
                self._subscribed += 1
            else:
                self._skip(clientid, entry.topic_filter, rc.name_of(code))

    def _skip(self, clientid: str, topic: str, why: str) -> None:
        self._skipped += 1
        self._log.warn("client %.200r is not subscribed to %.200r: %s", clientid, topic, why)

    def entries_for(self, client: ClientInfo) -> list[p.SubscribeEntry]:
        """The subscriptions of a client; those without valid values are left out, logged and counted."""
        _, _, port = client.peername.rpartition(":")
        values = {"clientid": client.clientid, "username": client.username, "host": client.peerhost, "port": port}
        values |= {f"client_attrs.{name}": text for name, text in client.client_attrs.items()}
        entries: list[p.SubscribeEntry] = []
        for topic, template in self._topics:
            topic_filter = template.fill(values)
            if topic_filter is None:
                fault: str | None = "the client has no value for it that can stand in a topic"
            else:
                fault = topic_fault(topic_filter, subscription_fault(topic_filter, self._levels_max()))
            if topic_filter is None or fault is not None:
                self._skip(client.clientid, topic.topic, str(fault))
                continue
            entries.append(p.SubscribeEntry(topic_filter, topic.qos, topic.nl == 1, topic.rap == 1, topic.rh))
        return entries

    def statistics(self) -> dict[str, int]:
        return {"auto_subscribe.subscribed": self._subscribed, "auto_subscribe.skipped": self._skipped}
