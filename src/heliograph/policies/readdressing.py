"""The same message under another topic."""

from heliograph.broker.message import Message, make_message
from heliograph.mqtt.topic import MAX_TOPIC_BYTES


def readdressed(message: Message, topic: str) -> Message:
    """A message that differs from `message` in its topic only: id, publisher, QoS, flags, properties, lifetime stay.

    Args:
        topic: A valid topic name.
    """
    other = make_message(
        message.id_high,
        message.id_low,
        topic,
        message.payload,
        message.qos,
        message.retain,
        message.property_bytes,
        message.clientid,
        message.username,
    )
    other.expiry_s = message.expiry_s  # it may be the broker's own, of which the properties say nothing
    other.made_by = message.made_by
    return other


def topic_fault(topic: str, fault: str | None) -> str | None:
    """`fault`, or that `topic` has too many bytes for a packet."""
    if (
        fault is None
        and len(topic) > MAX_TOPIC_BYTES // 4
        and len(topic.encode("utf-8", "surrogatepass")) > MAX_TOPIC_BYTES
    ):
        return f"it has more than {MAX_TOPIC_BYTES} bytes"
    return fault
