"""What a broker has and does, by the names that live streams and the history show, with the metrics of nodes."""

from typing import Final

#: How many there are, with the metric of the node.
COUNTS: Final = {
    "connections": "live_connections.count",
    "sessions": "sessions.count",
    "subscriptions": "subscriptions.count",
    "topics": "topics.count",
    "retained": "retained.count",
    "alarms": "alarms.active",
}
#: What happens in a second, likewise.
RATES: Final = {
    "received": "messages.received",
    "sent": "messages.sent",
    "bytes_received": "bytes.received",
    "bytes_sent": "bytes.sent",
    "connected": "client.connected",
    "disconnected": "client.disconnected",
    "persisted": "messages.persisted",
}
#: Messages that a receiver, or all of them, did not get, by reason.
DROPS: Final = {
    "no_subscribers": "messages.dropped.no_subscribers",
    "await_pubrel_timeout": "messages.dropped.await_pubrel_timeout",
    "refused": "messages.refused",
    "queue_full": "delivery.dropped.queue_full",
    "qos0_msg": "delivery.dropped.qos0_msg",
    "no_local": "delivery.dropped.no_local",
    "expired": "delivery.dropped.expired",
    "too_large": "delivery.dropped.too_large",
    "not_authorized": "delivery.dropped.not_authorized",
}
