"""How long deliveries take, for what looks for slow ones: the kernel compares, and reports those above a threshold."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message

WHOLE: Final = 0  # from the publish until the receiver acknowledged, at QoS 0 until it was sent
INTERNAL: Final = 1  # from the publish until it was sent
RESPONSE: Final = 2  # from then until the receiver acknowledged


@mypyc_attr(allow_interpreted_subclasses=True)
class DeliveryTimes:
    """Measures deliveries in turns of the event loop; joined to the broker while someone wants to know.

    Args:
        threshold_us: What takes no longer is not reported.
        measured: `WHOLE`, `INTERNAL` or `RESPONSE`.
    """

    def __init__(self, threshold_us: i64, measured: i64) -> None:
        self.threshold_us = threshold_us
        self.measured: i64 = measured

    def on_sent(self, clientid: str, message: Message, qos: i64, now_us: i64) -> None:
        """A message was written for a receiver, for the first time."""
        if self.measured == INTERNAL or (self.measured == WHOLE and qos == 0):
            took = now_us - message.id_high
            if took > self.threshold_us:
                self.on_slow(clientid, message, took)

    def on_completed(self, clientid: str, message: Message, now_us: i64, waited_us: i64) -> None:
        """A receiver has acknowledged a message, so long after it was sent."""
        took: i64 = waited_us
        if self.measured == WHOLE:
            took = now_us - message.id_high
        if took > self.threshold_us and self.measured != INTERNAL:
            self.on_slow(clientid, message, took)

    def on_slow(self, clientid: str, message: Message, took_us: i64) -> None:
        """A delivery took longer than the threshold."""
        raise NotImplementedError(type(self).__name__)
