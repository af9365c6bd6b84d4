"""A retained message at rest: one bytes object, a few times smaller than the objects that a message is made of.

It holds everything but the topic, which is the key that it is found by: a header of fixed size, client id, user name,
MQTT 5 properties, payload.
"""

import struct
from typing import Final

from heliograph.broker.message import Message, make_message

# Slot, sequence, when it expires and is due, both halves of the message id, its expiry interval; flags; lengths of
# what follows.
_HEADER: Final = struct.Struct("<IQQQQQqBHHI")
_LOOK: Final = struct.Struct("<IQQQ")  # its beginning
_SLOT_BYTES: Final = 4
_QOS: Final = 0x03
_HAS_USERNAME: Final = 0x04


class RecordHead:
    """What is known of a retained message without its texts.

    Attributes:
        slot: Its number in the topic index.
        sequence: How many messages the store had taken when it took this one.
        expires_us: When it expires, in microseconds since the epoch; 0 for never.
        due_s: The entry of the expiry table that it is listed under, 0 for none.
    """

    def __init__(self, record: bytes) -> None:
        fields = _LOOK.unpack_from(record)
        self.slot: int = fields[0]
        self.sequence: int = fields[1]
        self.expires_us: int = fields[2]
        self.due_s: int = fields[3]


def pack(slot: int, sequence: int, message: Message, expires_us: int, due_s: int) -> bytes:
    """The record of a message."""
    publish = message.publish
    clientid = message.clientid.encode("utf-8")
    flags: int = message.qos
    username = b""
    if message.username is not None:
        username = message.username.encode("utf-8")
        flags |= _HAS_USERNAME
    content = publish.data[publish.properties_at :]
    property_bytes = publish.payload_at - publish.properties_at
    header = _HEADER.pack(
        slot,
        sequence,
        expires_us,
        due_s,
        message.id_high,
        message.id_low,
        message.expiry_s,
        flags,
        len(clientid),
        len(username),
        property_bytes,
    )
    return b"".join((header, clientid, username, content))


def slot_of(record: bytes) -> int:
    """The slot alone."""
    return int.from_bytes(record[:_SLOT_BYTES], "little")


def unpack(topic: bytes, record: bytes) -> Message:
    """The message that a record was made of, with the retain flag set."""
    _, _, _, _, id_high, id_low, expiry_s, flags, clientid_bytes, username_bytes, property_bytes = _HEADER.unpack_from(
        record
    )
    username_at = _HEADER.size + clientid_bytes
    properties_at = username_at + username_bytes
    payload_at = properties_at + property_bytes
    message = make_message(
        id_high,
        id_low,
        topic.decode("utf-8"),
        record[payload_at:],
        flags & _QOS,
        True,
        record[properties_at:payload_at],
        record[_HEADER.size : username_at].decode("utf-8"),
        record[username_at:properties_at].decode("utf-8") if flags & _HAS_USERNAME else None,
    )
    message.expiry_s = expiry_s  # it may have one that its packet does not say
    return message
