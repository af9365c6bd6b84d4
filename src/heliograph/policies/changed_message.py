"""Copies of a message with another topic or content, and the same id, publisher and lifetime."""

from heliograph.broker.message import Message, make_message


def changed_message(
    message: Message, topic: str, payload: bytes, qos: int, retain: bool, property_bytes: bytes
) -> Message:
    other = make_message(
        message.id_high,
        message.id_low,
        topic,
        payload,
        qos,
        retain,
        property_bytes,
        message.clientid,
        message.username,
    )
    other.expiry_s = message.expiry_s  # it may be the broker's own, which is not in the properties
    other.made_by = message.made_by
    return other


def with_topic(message: Message, topic: str) -> Message:
    """The same message under another topic, which must be a valid name."""
    return changed_message(message, topic, message.payload, message.qos, message.retain, message.property_bytes)
