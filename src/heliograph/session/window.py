"""The inflight window of a session: what was sent to its client at QoS 1 and 2, and is not acknowledged."""

from mypy_extensions import i64

from heliograph.session.mqueue import Delivery


class Window:
    """Deliveries by their packet identifiers, in the order in which they were sent first; owned by its session.

    It outlives connections. What is in flight when one begins has to be sent again on it, oldest first, and takes a
    place from then on.

    Attributes:
        sent_count: How many of them were sent on this connection.
        last_id: The packet identifier that was given away last.
    """

    def __init__(self, size: i64) -> None:
        self.size = size
        self.sent_count: i64 = 0
        self.last_id: i64 = 0
        self.deliveries: dict[int, Delivery] = {}
        self._again: dict[int, None] | None = None  # to be sent again, the last first; never empty

    def begin(self, size: i64) -> None:
        """A connection begins, whose client takes so many: all that is in flight is to be sent again."""
        self.size = size
        self.sent_count = 0
        # Known before anything new can come: that must not overtake them, and they are sent again only once, members of
        # shared groups included. [MQTT-4.8.2-4] 3.1.1 [MQTT-4.4.0-1] 3.1.1 [MQTT-4.6.0-1]
        self._again = dict.fromkeys(reversed(list(self.deliveries))) if self.deliveries else None

    def end(self) -> None:
        self._again = None

    def has_room(self) -> bool:
        return self.sent_count < self.size  # [MQTT-3.3.4-10] [MQTT-4.9.0-2] [MQTT-4.9.0-3]

    def has_repeats(self) -> bool:
        return self._again is not None

    def next_repeat(self) -> int:
        again = self._again
        if again is None:
            return 0
        packet_id = again.popitem()[0]
        if not again:
            self._again = None
        return packet_id

    def next_id(self) -> int:
        packet_id = self.last_id
        while True:  # ends: the window is smaller than the number of identifiers
            packet_id = packet_id + 1 if packet_id < 65_535 else 1
            # [MQTT-2.2.1-4] [MQTT-4.3.2-1] [MQTT-4.3.3-1] 3.1.1 [MQTT-2.3.1-4] 3.1.1 [MQTT-4.3.2-1]
            if packet_id not in self.deliveries:
                self.last_id = packet_id
                return packet_id

    def add(self, packet_id: int, delivery: Delivery) -> None:
        """A delivery was sent for the first time, and is in flight until it is acknowledged."""
        # [MQTT-4.3.2-3] [MQTT-4.3.3-3] 3.1.1 [MQTT-4.3.2-1] 3.1.1 [MQTT-4.3.3-1]
        self.deliveries[packet_id] = delivery
        self.sent_count += 1

    def remove(self, packet_id: int) -> None:
        del self.deliveries[packet_id]
        again = self._again
        if again is not None and packet_id in again:
            del again[packet_id]  # not sent on this connection, so it took no place in the window
            if not again:
                self._again = None
        elif self.sent_count > 0:
            self.sent_count -= 1

    def __repr__(self) -> str:
        return f"Window({len(self.deliveries)} in flight, {int(self.sent_count)} of {int(self.size)} sent)"
