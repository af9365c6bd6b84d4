"""The catalogue of metrics and statistics that the broker publishes, named as EMQX names them.

Metrics only grow; statistics say how many of a thing there are, and the most there were. What EMQX counts and this
broker has no such thing for (packets that a gateway or a cluster would see, `packets.*.inuse`) is left out: a number
that is always 0 says nothing.
"""

from collections.abc import Mapping
from typing import Final

METRICS: Final = (
    "bytes.received",
    "bytes.sent",
    "packets.received",
    "packets.sent",
    "packets.connect.received",
    "packets.connack.sent",
    "packets.connack.error",
    "packets.connack.auth_error",
    "packets.publish.received",
    "packets.publish.sent",
    "packets.publish.error",
    "packets.publish.auth_error",
    "packets.publish.dropped",
    "packets.puback.received",
    "packets.puback.sent",
    "packets.pubrec.received",
    "packets.pubrec.sent",
    "packets.pubrel.received",
    "packets.pubrel.sent",
    "packets.pubcomp.received",
    "packets.pubcomp.sent",
    "packets.subscribe.received",
    "packets.subscribe.auth_error",
    "packets.suback.sent",
    "packets.unsubscribe.received",
    "packets.unsuback.sent",
    "packets.pingreq.received",
    "packets.pingresp.sent",
    "packets.disconnect.received",
    "packets.disconnect.sent",
    "packets.auth.received",
    "packets.auth.sent",
    "messages.received",
    "messages.sent",
    "messages.qos0.received",
    "messages.qos0.sent",
    "messages.qos1.received",
    "messages.qos1.sent",
    "messages.qos2.received",
    "messages.qos2.sent",
    "messages.publish",
    "messages.dropped",
    "messages.dropped.no_subscribers",
    "messages.delayed",
    "messages.delivered",
    "messages.acked",
    "messages.validation_succeeded",
    "messages.validation_failed",
    "messages.transformation_succeeded",
    "messages.transformation_failed",
    "delivery.dropped",
    "delivery.dropped.no_local",
    "delivery.dropped.too_large",
    "delivery.dropped.qos0_msg",
    "delivery.dropped.queue_full",
    "delivery.dropped.expired",
    "client.connect",
    "client.connack",
    "client.connected",
    "client.subscribe",
    "client.unsubscribe",
    "client.disconnected",
    "session.created",
    "session.resumed",
    "session.takenover",
    "session.discarded",
    "session.terminated",
    "authentication.failure",
    "authorization.deny",
)

# Each stands for two statistics: NAME.count and NAME.max.
STATISTICS: Final = (
    "connections",
    "live_connections",
    "channels",
    "sessions",
    "topics",
    "suboptions",
    "subscribers",
    "subscriptions",
    "subscriptions.shared",
    "retained",
    "delayed",
)

# What follows from another number: nothing is counted twice.
_SAME_AS: Final = {
    "client.connect": "packets.connect.received",
    "client.connack": "packets.connack.sent",
    "client.subscribe": "packets.subscribe.received",
    "client.unsubscribe": "packets.unsubscribe.received",
    "authentication.failure": "packets.connack.auth_error",
    "channels.count": "connections.count",
    "suboptions.count": "subscriptions.count",
    "subscribers.count": "subscriptions.count",
}


def metrics_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """The metrics that a node's statistics hold, in the order of the catalogue."""
    derived = dict(numbers)
    denied = [numbers.get(name) for name in ("packets.publish.auth_error", "packets.subscribe.auth_error")]
    if None not in denied:
        derived["authorization.deny"] = sum(number for number in denied if number is not None)
    found = {name: derived.get(_SAME_AS.get(name, name)) for name in METRICS}
    return {name: int(number) for name, number in found.items() if number is not None}


class Maxima:
    """The most that there ever was of each statistic; looked at once a tick, as EMQX does once a second."""

    def __init__(self) -> None:
        self._maxima: dict[str, int] = {}

    def look(self, numbers: Mapping[str, float]) -> dict[str, int]:
        """The statistics that a node's numbers hold, counts and maxima."""
        result: dict[str, int] = {}
        for name in STATISTICS:
            key = f"{name}.count"
            number = numbers.get(_SAME_AS.get(key, key))
            if number is None:
                continue
            count = int(number)
            self._maxima[name] = max(count, self._maxima.get(name, 0))
            result[key] = count
            result[f"{name}.max"] = self._maxima[name]
        return result


class Lifecycle:
    """Counts what happens to clients and sessions, from the hook points of the same names; view of one node.

    Each method is a callback that uses the event only, not its arguments.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {
            "client.connected": 0,
            "client.disconnected": 0,
            "session.created": 0,
            "session.resumed": 0,
            "session.takenover": 0,
            "session.discarded": 0,
            "session.terminated": 0,
        }

    def on_client_connected(self, *_told: object) -> None:
        """A client is connected."""
        self._counts["client.connected"] += 1

    def on_client_disconnected(self, *_told: object) -> None:
        """A client is not connected any more."""
        self._counts["client.disconnected"] += 1

    def on_session_created(self, *_told: object) -> None:
        """A session begins."""
        self._counts["session.created"] += 1

    def on_session_resumed(self, *_told: object) -> None:
        """A session goes on with a new connection."""
        self._counts["session.resumed"] += 1

    def on_session_takenover(self, *_told: object) -> None:
        """A connection lost its session to another one."""
        self._counts["session.takenover"] += 1

    def on_session_discarded(self, *_told: object) -> None:
        """A session ends because its client wants a new one."""
        self._counts["session.discarded"] += 1

    def on_session_terminated(self, *_told: object) -> None:
        """A session ends."""
        self._counts["session.terminated"] += 1

    def statistics(self) -> dict[str, int]:
        """The counts."""
        return dict(self._counts)
