"""What the operator says about retained messages, as the retainer needs it; made by `node/options.py`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RetainerOptions:
    """The settings of `retainer`, `retainer.backend` and `retainer.flow_control` of the same names, 0 for no limit.

    Attributes:
        msg_expiry_interval_override_us: How long any message is kept, whatever it says itself; 0 for ever, None to
            leave it.
        max_publish_rate: How many messages are retained in how many microseconds; None for no limit.
        delivery_rate: How many messages one client gets in how many microseconds; None for no limit.
    """

    max_retained_messages: int
    max_retained_bytes: int
    max_payload_size: int
    msg_expiry_interval_us: int
    msg_expiry_interval_override_us: int | None
    max_publish_rate: tuple[int, int] | None
    stop_publish_clear_msg: bool
    batch_read_number: int
    batch_deliver_number: int
    delivery_rate: tuple[int, int] | None
