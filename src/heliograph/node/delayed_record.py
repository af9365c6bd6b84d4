"""The records of delayed messages: a number as the key, and what is needed to publish the message."""

import json
from struct import Struct
from typing import Final, NamedTuple

from heliograph.broker.message import Message, make_message

MESSAGE: Final = b"m"
PROBE: Final = b"p"  # deleted now and then, to see whether the disk takes changes
_HEAD: Final = Struct(">II")  # bytes of the fields, bytes of the properties


class DelayedRecord(NamedTuple):
    due_at: int  # microseconds since the epoch
    message: Message


def message_key(number: int) -> bytes:
    """Numbers and keys have the same order."""
    return MESSAGE + number.to_bytes(8, "big")


def number_of(key: bytes) -> int:
    return int.from_bytes(key[1:], "big")


def encode(due_at: int, message: Message) -> bytes:
    numbers = (int(message.qos), bool(message.retain), int(message.expiry_s), int(message.id_high), int(message.id_low))
    made = (message.clientid, message.username, message.made_by)
    fields = json.dumps((due_at, message.topic, *numbers, *made), separators=(",", ":")).encode()
    properties = message.property_bytes
    return b"".join((_HEAD.pack(len(fields), len(properties)), fields, properties, message.payload))


def decode(value: bytes) -> DelayedRecord:
    """Raises `ValueError`."""
    if len(value) < _HEAD.size:
        raise ValueError("it is too short")
    fields_bytes, properties_bytes = _HEAD.unpack_from(value)
    properties_at = _HEAD.size + fields_bytes
    payload_at = properties_at + properties_bytes
    if payload_at > len(value):
        raise ValueError("it is too short")
    fields = json.loads(value[_HEAD.size : properties_at])
    due_at, topic, qos, retain, expiry_s, id_high, id_low, clientid, username, made_by = fields
    properties = value[properties_at:payload_at]
    message = make_message(
        id_high, id_low, topic, value[payload_at:], qos, bool(retain), properties, clientid, username
    )
    message.expiry_s = expiry_s
    message.made_by = tuple(made_by)
    return DelayedRecord(due_at, message)
