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


_DENIED: Final = ("packets.publish.auth_error", "packets.subscribe.auth_error")

#: The metrics of a node that the statistics are made of.
SIZES: Final = frozenset(_SAME_AS.get(f"{name}.count", f"{name}.count") for name in STATISTICS)
#: Those that the metrics are made of.
COUNTERS: Final = frozenset((*(_SAME_AS.get(name, name) for name in METRICS), *_DENIED))


def metrics_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """The metrics that a node's statistics hold, in the order of the catalogue."""
    derived = dict(numbers)
    denied = [numbers.get(name) for name in _DENIED]
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
