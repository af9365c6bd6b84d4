"""The seam to the client's protocol: writes the messages that a session sends.

A session decides which message is sent when, and under which packet identifier. What that is in bytes, its encoder
knows: `mqtt_encoder` for MQTT clients, another one for a gateway's.
"""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message
from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox


@mypyc_attr(allow_interpreted_subclasses=True)
class Encoder:
    """Writes messages for one connection, or for all connections that are alike; given to the session at `attach`.

    Args:
        is_shared: Whether messages at QoS 0 may take the shortest way, `put_plain`.
        repeats: Whether the session sends again what is not acknowledged in time while the client stays connected.
    """

    def __init__(self, is_shared: bool, repeats: bool) -> None:
        self.is_shared = is_shared
        self.repeats = repeats

    def put_plain(self, outbox: Outbox, message: Message) -> bool:
        """Write a message at QoS 0 without options of its subscription; False if it is too large for the client.

        Called only where `is_shared` is set.
        """
        raise NotImplementedError(type(self).__name__)

    def put(self, outbox: Outbox, delivery: Delivery, packet_id: int, is_repeated: bool, now_us: i64) -> str | None:
        """Write a message as its delivery says.

        Args:
            is_repeated: The client may have got it under this identifier before.
            now_us: The wall clock, for messages whose lifetime is counted down.

        Returns:
            Why the client cannot get it, as a reason for dropping it; None if it was written.
        """
        raise NotImplementedError(type(self).__name__)

    def put_release(self, outbox: Outbox, packet_id: int) -> None:
        """Write once more that a message at QoS 2 is released, after the client came back."""
        raise NotImplementedError(type(self).__name__)
