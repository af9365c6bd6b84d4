"""The `$SYS` topics: what the broker publishes about itself, under EMQX's names.

$SYS/brokers                                       names of the nodes that run, retained
$SYS/brokers/NODE/version, sysdescr                retained
$SYS/brokers/NODE/uptime, datetime                 each heartbeat; uptime in milliseconds
$SYS/brokers/NODE/stats/connections/count, ...     each interval
$SYS/brokers/NODE/metrics/bytes/received, ...      each interval
$SYS/brokers/NODE/clients/CLIENTID/connected, disconnected, subscribed, unsubscribed
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

from heliograph.broker.client import ClientInfo
from heliograph.config.services import SysTopics
from heliograph.events import client_events
from heliograph.mqtt import packets as p
from heliograph.observe.metrics import COUNTERS, SIZES, metrics_of, statistics_of
from heliograph.observe.outgoing import SystemMessageQueue

_DESCRIPTION: Final = "Heliograph, an MQTT platform that keeps every message as a replayable stream"

Numbers = Callable[[Collection[str]], Mapping[str, float]]
"""Gives the values of some metrics by their names."""


class SysTopicMessages:
    """Publishes the `$SYS` topics of one node; owned by `SysTopicsPart`, which ticks it.

    Args:
        numbers: Gives the values of some metrics; only those that are looked at are asked for.
    """

    def __init__(
        self,
        node_name: str,
        version: str,
        outgoing: SystemMessageQueue,
        numbers: Numbers,
        now_us: Callable[[], int],
        datetime: Callable[[], str],
        find_client: Callable[[str], ClientInfo | None],
        settings: SysTopics,
    ) -> None:
        self._node_name = node_name
        self._version = version
        self._outgoing = outgoing
        self._numbers = numbers
        self._now_us = now_us
        self._datetime = datetime
        self._find_client = find_client
        self.use(settings)
        self._prefix = f"$SYS/brokers/{node_name}/"
        self._started_us: int | None = None
        self._rounds_skipped = 0

    # --- by time

    def use(self, settings: SysTopics) -> None:
        """Publish at the intervals of these settings; both are due at the next tick."""
        self._interval_us = _microseconds(settings.sys_msg_interval)
        self._heartbeat_us = _microseconds(settings.sys_heartbeat_interval)
        self._next_round_us = self._next_heartbeat_us = 0

    def tick(self, uptime_us: int) -> None:
        """Publish what is due; the first tick publishes everything."""
        if self._started_us is None:
            self._started_us = uptime_us
        if self._heartbeat_us is not None and uptime_us >= self._next_heartbeat_us:
            self._next_heartbeat_us = uptime_us + self._heartbeat_us
            self._put("uptime", str((uptime_us - self._started_us) // 1000))
            self._put("datetime", self._datetime())
        if self._interval_us is not None and uptime_us >= self._next_round_us:
            self._next_round_us = uptime_us + self._interval_us
            self._round(statistics_of(self._numbers(SIZES)), metrics_of(self._numbers(COUNTERS)))

    def _round(self, statistics: Mapping[str, int], metrics: Mapping[str, int]) -> None:
        if len(self._outgoing) > len(statistics):
            # Subscribers of the last round are still being served: another one behind it would only be older.
            self._rounds_skipped += 1
            return
        self._outgoing.put("$SYS/brokers", self._node_name.encode("utf-8"), retain=True)
        self._put("version", self._version, retain=True)
        self._put("sysdescr", _DESCRIPTION, retain=True)
        for name, value in statistics.items():
            self._put(f"stats/{name.replace('.', '/')}", str(value))
        for name, value in metrics.items():
            self._put(f"metrics/{name.replace('.', '/')}", str(value))

    def _put(self, name: str, text: str, retain: bool = False) -> None:
        self._outgoing.put(self._prefix + name, text.encode("utf-8"), retain)

    # --- callbacks of hook points

    def on_client_connected(self, client: ClientInfo, connect: p.Connect, _accumulator: object) -> None:
        topic = self._client_topic(client.clientid, "connected")
        if topic is not None:
            self._put_fields(topic, client_events.connected(client, connect, self._now_us() // 1000))

    def on_client_disconnected(self, client: ClientInfo, reason: str, *_more: object) -> None:
        topic = self._client_topic(client.clientid, "disconnected")
        if topic is not None:
            self._put_fields(topic, client_events.disconnected(client, reason, self._now_us() // 1000))

    def on_session_subscribed(self, clientid: str, topic_filter: str, qos: int, *_more: object) -> None:
        self._subscription("subscribed", clientid, topic_filter, qos)

    def on_session_unsubscribed(self, clientid: str, topic_filter: str, *_more: object) -> None:
        self._subscription("unsubscribed", clientid, topic_filter, None)

    def statistics(self) -> dict[str, int]:
        """Rounds that were left out because the last one was not through."""
        return {"sys_topics.rounds_skipped": self._rounds_skipped}

    def _subscription(self, event: str, clientid: str, topic_filter: str, qos: int | None) -> None:
        topic = self._client_topic(clientid, event)
        if topic is not None:
            client = self._find_client(clientid)
            fields = client_events.subscribed(clientid, client, topic_filter, qos, self._now_us() // 1000)
            self._put_fields(topic, fields)

    def _client_topic(self, clientid: str, event: str) -> str | None:
        # A client id may hold what a topic name may not; such a client has no event, and what it is named by is its
        # own affair.
        if "+" in clientid or "#" in clientid:
            return None
        topic = f"{self._prefix}clients/{clientid}/{event}"
        return topic if self._outgoing.wants(topic) else None

    def _put_fields(self, topic: str, fields: Mapping[str, object]) -> None:
        self._outgoing.put(topic, client_events.encode(fields))


def _microseconds(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1_000_000)
