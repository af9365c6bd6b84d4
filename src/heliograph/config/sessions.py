"""Settings of `durable_sessions`: which sessions outlive the broker, and how they are read back."""

from dataclasses import dataclass

from heliograph.settings.fields import setting
from heliograph.settings.how import How
from heliograph.settings.kinds import Boolean, Duration, Integer


@dataclass(frozen=True, slots=True)
class DurableSessionsConfig:
    """Sessions that outlive the broker."""

    enable: bool = setting(
        Boolean(),
        True,
        "Whether sessions with an expiry interval above zero are kept on the disk, as are the messages for them.",
        how=How.RESTART,
    )
    batch_size: int = setting(Integer(1, 65_536), 512, "Stored messages that a session gets in one turn of a replay.")
    checkpoint_interval: float = setting(
        Duration(0.1),
        1.0,
        "How often the positions of sessions are saved; after a crash, messages at QoS 1 since then are sent again.",
    )
