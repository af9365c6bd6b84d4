"""Settings of sources of the type `mqtt`."""

from dataclasses import dataclass
from typing import Final

from heliograph.config.sources.interface import ConnectedSource
from heliograph.hocon.values import Content
from heliograph.mqtt.topic import MAX_TOPIC_BYTES, subscription_fault
from heliograph.settings.fields import required, required_section, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, RefusedError, Text

_WEEK_S: Final = 7 * 86_400.0


class SubscriptionText(Text):
    """What a client may subscribe to."""

    def __init__(self) -> None:
        super().__init__('a topic filter, as in "weather/+/obs" or "$share/group/weather/#"', r"(?s).+")

    def convert(self, value: Content) -> str:
        """The filter, checked."""
        text = super().convert(value)
        fault = subscription_fault(text, MAX_TOPIC_BYTES)
        if fault is not None:
            raise RefusedError(fault)
        return text


@dataclass(frozen=True, kw_only=True)
class MqttSourceParameters:
    topic: str = required(
        SubscriptionText(), "What it subscribes to there; `$share/GROUP/FILTER` is a shared subscription."
    )
    qos: int = setting(Integer(0, 2), 1, "Quality of service of the subscription.")
    no_local: bool = setting(
        Boolean(), False, "Whether the broker leaves out what this source published itself; of MQTT 5 only."
    )
    session_expiry_interval: float = setting(
        Duration(0.0, 4_294_967_295.0),
        _WEEK_S,
        "How long the broker keeps messages while the source is away; with MQTT 3 it decides that itself.",
    )

    def __post_init__(self) -> None:
        if self.no_local and self.topic.startswith("$share/"):
            text = (
                "found true, and MQTT forbids it for a shared subscription: take $share/ from the topic, or set false"
            )
            raise RefusedError(text, "no_local")


@dataclass(frozen=True, kw_only=True)
class MqttSource(ConnectedSource):
    parameters: MqttSourceParameters = required_section(MqttSourceParameters, "The subscription.")
