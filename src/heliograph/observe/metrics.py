"""The metrics and statistics of EMQX, under its names, and which of our metrics each is.

Metrics only grow; statistics say how many of a thing there are, and the most there were. `$SYS` topics, the HTTP API
and the Prometheus endpoint are views of this catalogue. All of it is there at all times: what this broker has no such
thing for is 0, and docs/metrics.md says what that is.
"""

from collections.abc import Iterable, Mapping
from typing import Final

BYTES: Final = ("bytes.received", "bytes.sent")
PACKETS: Final = (
    "packets.received",
    "packets.sent",
    "packets.connect.received",
    *(f"packets.connack.{name}" for name in ("sent", "error", "auth_error")),
    *(f"packets.publish.{name}" for name in ("received", "sent", "inuse", "error", "auth_error", "dropped")),
    *(f"packets.puback.{name}" for name in ("received", "sent", "inuse", "missed")),
    *(f"packets.pubrec.{name}" for name in ("received", "sent", "inuse", "missed")),
    *(f"packets.pubrel.{name}" for name in ("received", "sent", "missed")),
    *(f"packets.pubcomp.{name}" for name in ("received", "sent", "inuse", "missed")),
    *(f"packets.subscribe.{name}" for name in ("received", "error", "auth_error")),
    "packets.suback.sent",
    "packets.unsubscribe.received",
    "packets.unsubscribe.error",
    "packets.unsuback.sent",
    "packets.pingreq.received",
    "packets.pingresp.sent",
    "packets.disconnect.received",
    "packets.disconnect.sent",
    "packets.auth.received",
    "packets.auth.sent",
)
MESSAGES: Final = (
    "messages.received",
    "messages.sent",
    *(f"messages.qos{qos}.{way}" for qos in range(3) for way in ("received", "sent")),
    "messages.publish",
    "messages.dropped",
    "messages.dropped.await_pubrel_timeout",
    "messages.dropped.no_subscribers",
    *(f"messages.{policy}_{end}" for policy in ("validation", "transformation") for end in ("failed", "succeeded")),
    *(f"messages.{name}" for name in ("forward", "delayed", "delivered", "acked", "persisted", "retained")),
)
DELIVERY: Final = (
    "delivery.dropped",
    *(f"delivery.dropped.{reason}" for reason in ("no_local", "too_large", "qos0_msg", "queue_full", "expired")),
)
CLIENT: Final = tuple(
    f"client.{name}"
    for name in (
        "connect",
        "connack",
        "connected",
        "authenticate",
        "auth.anonymous",
        "authorize",
        "subscribe",
        "unsubscribe",
        "disconnected",
    )
)
SESSION: Final = tuple(f"session.{name}" for name in ("created", "resumed", "takenover", "discarded", "terminated"))
AUTHORIZATION: Final = tuple(
    f"authorization.{name}"
    for name in (
        "allow",
        "deny",
        "cache_hit",
        "cache_miss",
        "superuser",
        "nomatch",
        "matched_allow",
        "matched_deny",
    )
)
AUTHENTICATION: Final = ("authentication.success", "authentication.success.anonymous", "authentication.failure")
OVERLOAD: Final = tuple(
    f"overload_protection.{name}" for name in ("delay.ok", "delay.timeout", "hibernation", "gc", "new_conn")
)

METRICS: Final = (
    *BYTES,
    *PACKETS,
    *MESSAGES,
    *DELIVERY,
    *CLIENT,
    *SESSION,
    *AUTHORIZATION,
    *AUTHENTICATION,
    *OVERLOAD,
)

# Each stands for two statistics: NAME.count and NAME.max.
STATISTICS: Final = (
    "connections",
    "live_connections",
    "channels",
    "sessions",
    "cluster_sessions",
    "topics",
    "suboptions",
    "subscribers",
    "subscriptions",
    "subscriptions.shared",
    "durable_subscriptions",
    "retained",
    "delayed",
)

# What follows from another number: nothing is counted twice. EMQX's connections are the clients that it knows,
# connected or not.
_SAME_AS: Final = {
    "client.connect": "packets.connect.received",
    "client.connack": "packets.connack.sent",
    "client.subscribe": "packets.subscribe.received",
    "client.unsubscribe": "packets.unsubscribe.received",
    "authentication.success.anonymous": "client.auth.anonymous",
    "messages.retained": "retained.count",
    "connections.count": "sessions.count",
    "channels.count": "sessions.count",
    "cluster_sessions.count": "sessions.count",
    "suboptions.count": "subscriptions.count",
    "subscribers.count": "subscriptions.count",
    "durable_subscriptions.count": "subscriptions.parked",
}


def source_of(name: str) -> str:
    return _SAME_AS.get(name, name)


#: The metrics of a node that EMQX's counts are made of,
COUNTS: Final = frozenset(source_of(f"{name}.count") for name in STATISTICS)
#: its statistics,
SIZES: Final = COUNTS | {f"{name}.max" for name in STATISTICS}
#: and its metrics.
COUNTERS: Final = frozenset(source_of(name) for name in METRICS)


def metrics_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """EMQX's metrics, in the order of the catalogue."""
    return _named(numbers, METRICS)


def counts_of(numbers: Mapping[str, float]) -> dict[str, int]:
    return _named(numbers, [f"{name}.count" for name in STATISTICS])


def statistics_of(numbers: Mapping[str, float]) -> dict[str, int]:
    """EMQX's statistics: how many there are, and the most there were."""
    return _named(numbers, [f"{name}.{end}" for name in STATISTICS for end in ("count", "max")])


def _named(numbers: Mapping[str, float], names: Iterable[str]) -> dict[str, int]:
    return {name: int(numbers.get(source_of(name), 0)) for name in names}
