"""Settings of what is watched of deliveries: `slow_subs`, `topic_metrics`."""

from dataclasses import dataclass
from typing import Final

from heliograph.mqtt.topic import topic_name_fault
from heliograph.settings.fields import setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, RefusedError, Text

COUNTED_TOPICS_MAX: Final = 512
TOP_K_MAX: Final = 1000
_LEVELS_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class SlowSubs:
    """The receivers and topics whose messages take longest."""

    enable: bool = setting(Boolean(), False, "Whether slow subscriptions are looked for.")
    threshold: float = setting(Duration(0.001), 0.5, "What a message may take and not be slow.")
    expire_interval: float = setting(
        Duration(1.0), 300.0, "How long one is listed after the last message that was slow."
    )
    top_k_num: int = setting(Integer(1, TOP_K_MAX), 10, "How many are listed: the slowest.")
    stats_type: str = setting(
        Choice("whole", "internal", "response"),
        "whole",
        "What is measured: `internal` from the publish until the message was sent, `response` from then until it was "
        "acknowledged, `whole` both. At QoS 0 a message is done when it is sent.",
    )


@dataclass(frozen=True, slots=True)
class TopicMetric:
    """One topic whose messages are counted."""

    topic: str = setting(Text("a topic without wildcards"), "", "The topic.")

    def __post_init__(self) -> None:
        fault = topic_name_fault(self.topic, _LEVELS_MAX) if self.topic else None
        if fault is not None:
            raise RefusedError(fault, "topic")
