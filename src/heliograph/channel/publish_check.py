"""What the specification and the operator's settings have against a PUBLISH, before its topic is looked at."""

from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from heliograph.mqtt.strictness import strict_fault, strict_property_fault
from heliograph.mqtt.topic import MAX_TOPIC_BYTES


def check_properties(properties: Properties, options: ChannelOptions) -> None:
    """Refuse properties of a PUBLISH that are not allowed."""
    if properties.subscription_ids:
        raise ProtocolError("PUBLISH with a subscription identifier, which is the broker's")  # [MQTT-3.3.4-6]
    response_topic = properties.strings.get(props.RESPONSE_TOPIC)
    if response_topic is not None and ("+" in response_topic or "#" in response_topic):
        raise ProtocolError(f"response topic {response_topic!r} holds a wildcard")  # [MQTT-3.3.2-14]
    if options.strict_mode:
        _refuse_fault(strict_property_fault(properties))


def check_publish(publish: p.Publish, options: ChannelOptions, mountpoint_bytes: int) -> None:
    """Refuse a PUBLISH that is not allowed; its topic alias is resolved already.

    Args:
        mountpoint_bytes: How long what comes before its topic is.
    """
    if not publish.topic:
        raise ProtocolError("PUBLISH with neither a topic name nor a topic alias")
    if options.strict_mode:
        _refuse_fault(strict_fault(publish.topic.decode("utf-8", "replace")))
    if mountpoint_bytes > 0 and mountpoint_bytes + len(publish.topic) > MAX_TOPIC_BYTES:
        detail = f"topic of {len(publish.topic)} bytes, which leaves no room for the mountpoint"
        raise ProtocolError(detail, rc.TOPIC_NAME_INVALID)


def check_capabilities(publish: p.Publish, options: ChannelOptions) -> None:
    """Refuse a PUBLISH that its client may send, but not at this QoS, or not with the retain flag."""
    if publish.qos > options.max_qos_allowed:  # [MQTT-3.2.2-11]
        detail = f"PUBLISH at QoS {int(publish.qos)}; {int(options.max_qos_allowed)} is allowed"
        raise ProtocolError(detail, rc.QOS_NOT_SUPPORTED)
    if publish.retain and not options.retain_available:  # [MQTT-3.2.2-14]
        raise ProtocolError("PUBLISH with retain, which is not available", rc.RETAIN_NOT_SUPPORTED)


def _refuse_fault(fault: str | None) -> None:
    if fault is not None:
        raise ProtocolError(fault, rc.MALFORMED_PACKET)
