"""The counters of a node's hot path: plain 64-bit numbers that the metrics read."""

from mypy_extensions import i64


class Counters:
    """What a node did since it started. Names follow EMQX's metrics."""

    def __init__(self) -> None:
        self.bytes_received: i64 = 0
        self.bytes_sent: i64 = 0
        self.packets_received: i64 = 0
        self.messages_received: i64 = 0
        self.messages_delivered: i64 = 0
        self.messages_acked: i64 = 0
        self.messages_refused: i64 = 0
        self.messages_dropped_no_subscribers: i64 = 0
        self.delivery_dropped_queue_full: i64 = 0
        self.delivery_dropped_qos0: i64 = 0
        self.delivery_dropped_no_local: i64 = 0
        self.delivery_dropped_expired: i64 = 0
        self.delivery_dropped_too_large: i64 = 0
        self.connections_accepted: i64 = 0
        self.connections_closed: i64 = 0
        self.protocol_errors: i64 = 0

    def snapshot(self) -> dict[str, int]:
        """The counters by name."""
        return {
            "bytes.received": self.bytes_received,
            "bytes.sent": self.bytes_sent,
            "packets.received": self.packets_received,
            "messages.received": self.messages_received,
            "messages.delivered": self.messages_delivered,
            "messages.acked": self.messages_acked,
            "messages.refused": self.messages_refused,
            "messages.dropped.no_subscribers": self.messages_dropped_no_subscribers,
            "delivery.dropped.queue_full": self.delivery_dropped_queue_full,
            "delivery.dropped.qos0_msg": self.delivery_dropped_qos0,
            "delivery.dropped.no_local": self.delivery_dropped_no_local,
            "delivery.dropped.expired": self.delivery_dropped_expired,
            "delivery.dropped.too_large": self.delivery_dropped_too_large,
            "connections.accepted": self.connections_accepted,
            "connections.closed": self.connections_closed,
            "packets.protocol_errors": self.protocol_errors,
        }
