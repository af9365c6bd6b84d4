"""Settings of `retainer`: retained messages."""

from dataclasses import dataclass

from heliograph.config.kinds import RateLimit
from heliograph.settings.fields import How, section, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, Size, Unless
from heliograph.settings.units import Rate

_MB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class FlowControl:
    batch_read_number: int = setting(
        Integer(0, 1_000_000),
        0,
        "Matches of a subscription that are found at once, four bytes each while the client takes them; 0 is 4096.",
    )
    batch_deliver_number: int = setting(
        Integer(0),
        0,
        "Retained messages that one client gets before others have their turn; 0 leaves it to the work that they make.",
    )


@dataclass(frozen=True, slots=True)
class RetainerBackend:
    type: str = setting(
        Choice("built_in_database"), "built_in_database", "Who keeps them: the broker itself.", how=How.RESTART
    )
    storage_type: str = setting(
        Choice("ram", "disc"),
        "disc",
        "Where: on the disk (`disc`), or in memory, which is faster, and gone when the broker stops (`ram`).",
        how=How.RESTART,
    )
    max_retained_messages: int | None = setting(
        Unless(Integer(1), "infinity", zero=True),
        2_000_000,
        "Topics with a retained message; beyond it messages of other topics are delivered but not retained.",
    )
    max_retained_bytes: int | None = setting(
        Unless(Size(1024), "infinity", zero=True),
        2048 * _MB,
        "Bytes of all retained messages; one beyond is delivered, and its topic then has no retained message.",
    )


@dataclass(frozen=True, slots=True)
class RetainerConfig:
    enable: bool = setting(Boolean(), True, "Whether retained messages are kept.")
    msg_expiry_interval: float = setting(
        Duration(), 0.0, "How long a retained message without an expiry of its own is kept; 0s is for ever."
    )
    msg_expiry_interval_override: float | None = setting(
        Unless(Duration(), "disabled"),
        None,
        "How long any retained message is kept, whatever it says itself; 0s is for ever.",
    )
    max_payload_size: int = setting(
        Size(1),
        _MB,
        "Largest payload that is retained. A larger one is delivered, and its topic then has no retained message.",
    )
    max_publish_rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"),
        None,
        "Messages retained in a time. One beyond is delivered, and its topic then has no retained message.",
    )
    stop_publish_clear_msg: bool = setting(
        Boolean(),
        False,
        "Whether an empty retained message, which clears its topic, is kept from subscribers and from storage.",
    )
    delivery_rate: Rate | None = setting(
        Unless(RateLimit(), "infinity"), None, "Retained messages that one client gets in a time."
    )
    flow_control: FlowControl = section(FlowControl, "How they are handed to clients.")
    backend: RetainerBackend = section(RetainerBackend, "Where they are kept.")
