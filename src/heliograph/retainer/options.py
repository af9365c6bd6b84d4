"""What the operator says about retained messages, as the retainer needs it."""

from typing import Final

NOT_SET: Final = -1


class RetainerOptions:
    """The settings of `retainer`. Intervals are microseconds.

    Args:
        max_retained_messages: How many topics may have one; 0 for no limit.
        max_retained_bytes: How many bytes all of them may have; 0 for no limit.
        max_payload_size: Larger payloads are delivered but not retained.
        msg_expiry_interval_us: How long a message without an expiry interval of its own is kept; 0 for ever.
        msg_expiry_interval_override_us: How long any message is kept, whatever it says itself; 0 for ever, or
            `NOT_SET`.
        max_publish_rate: How many messages are retained in how many microseconds; None for no limit.
        stop_publish_clear_msg: Whether a message that clears a topic is kept from its subscribers.
        batch_read_number: How many matches of a subscription are found at once; 0 leaves it to the store.
        batch_deliver_number: How many messages one client gets in one turn; 0 for what the turn's work allows.
        delivery_rate: How many messages one client gets in how many microseconds; None for no limit.
    """

    def __init__(
        self,
        *,
        max_retained_messages: int = 2_000_000,
        max_retained_bytes: int = 2_147_483_648,
        max_payload_size: int = 1_048_576,
        msg_expiry_interval_us: int = 0,
        msg_expiry_interval_override_us: int = NOT_SET,
        max_publish_rate: tuple[int, int] | None = None,
        stop_publish_clear_msg: bool = False,
        batch_read_number: int = 0,
        batch_deliver_number: int = 0,
        delivery_rate: tuple[int, int] | None = None,
    ) -> None:
        self.max_retained_messages = max_retained_messages
        self.max_retained_bytes = max_retained_bytes
        self.max_payload_size = max_payload_size
        self.msg_expiry_interval_us = msg_expiry_interval_us
        self.msg_expiry_interval_override_us = msg_expiry_interval_override_us
        self.max_publish_rate = max_publish_rate
        self.stop_publish_clear_msg = stop_publish_clear_msg
        self.batch_read_number = batch_read_number
        self.batch_deliver_number = batch_deliver_number
        self.delivery_rate = delivery_rate
