"""The records of the `keyed` layout, version 1: the newest message of each topic, found by topic.

A keyed database is one RocksDB of the form of a state database (`state.local`), so what is said of those holds for it.
Integers are big-endian, so that keys sort as numbers. Behind the byte that all keys of a state database have:

    01                                     the layout: JSON
    02                                     messages, their bytes, time of the newest change: 8 bytes each
    03 | node (4)                          parent (4), name: one level of the learned topic structure
    04 | stream (4)                        node (4): where the topics of a stream end
    05 | due (8) | stream (4) | levels     empty: when a message expires, in µs
    06 | stream (4) | levels               the message

`levels` is the topic name with a zero byte, which no topic holds, for each '/'. So topics sort level by level, and all
topics below one lie together. The message is a header, client id, user name, MQTT 5 properties and payload.

A released version is never changed; what is written differently is another version. `table` writes and reads them.
"""

import json
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from heliograph.storage.interface import StorableMessage, StoredMessage

LAYOUT: Final = "keyed"
LAYOUT_VERSION: Final = 1

META: Final = b"\x00"
_META_FORMAT: Final = "state-1"
_LAYOUT: Final = b"K\x01"
COUNTS: Final = b"K\x02"
_NODE: Final = b"K\x03"
_STREAM: Final = b"K\x04"
_DUE: Final = b"K\x05"
_MESSAGE: Final = b"K\x06"
_BEHIND_MESSAGES: Final = b"K\x07"

SEPARATOR: Final = b"\0"
BEHIND_SEPARATOR: Final = b"\x01"
_SLASH: Final = b"/"
_TOPIC_AT: Final = len(_MESSAGE) + 4
_DUE_AT: Final = len(_DUE)

_COUNTS: Final = struct.Struct(">QQQ")
# When it was stored; both halves of the message id; when it expires; its expiry interval, -1 for none; flags; lengths.
_HEADER: Final = struct.Struct(">QQQQqBHHI")
_TIMES: Final = struct.Struct(">Q16xQ")
_QOS: Final = 0x03
_RETAIN: Final = 0x04
_HAS_USERNAME: Final = 0x08


class Times(NamedTuple):
    """When a message was stored and when it expires, in µs; 0 for never."""

    stored_at: int
    expires_us: int


class KeyedMessage(NamedTuple):
    """A message as it lies in a record: in bytes, but for its numbers."""

    id_high: int
    id_low: int
    expiry_s: int
    qos: int
    retain: bool
    clientid: bytes
    username: bytes | None
    property_bytes: bytes
    payload: bytes


def message_key(stream: int, levels: bytes) -> bytes:
    """The key of a topic's message, or of the place where a walk through the stream begins."""
    return _MESSAGE + stream.to_bytes(4, "big") + levels


def levels_of(topic: str) -> bytes:
    return topic.encode("utf-8").replace(_SLASH, SEPARATOR)


def topic_of(key: bytes) -> str:
    return key[_TOPIC_AT:].replace(SEPARATOR, _SLASH).decode("utf-8")


def levels_in(key: bytes) -> bytes:
    """What stands behind the stream in a message's key."""
    return key[_TOPIC_AT:]


def stream_of(key: bytes) -> int:
    return int.from_bytes(key[len(_MESSAGE) : _TOPIC_AT], "big")


def is_message(key: bytes) -> bool:
    return key.startswith(_MESSAGE)


def messages_behind(stream: int) -> tuple[bytes, bytes]:
    """Between which keys the messages of later streams lie."""
    return end_of(stream), b"K\x07"


def end_of(stream: int) -> bytes:
    return _MESSAGE + (stream + 1).to_bytes(4, "big")


def message_range(after: bytes) -> tuple[bytes, bytes]:
    """Between which keys all messages lie that are behind a key, or all if it is empty."""
    return (after + b"\0" if after else _MESSAGE), _BEHIND_MESSAGES


def due_key(expires_us: int, key: bytes) -> bytes:
    """The entry for a message that expires then."""
    return _DUE + expires_us.to_bytes(8, "big") + key[len(_MESSAGE) :]


def due_range(since_us: int, now_us: int) -> tuple[bytes, bytes]:
    """Between which keys the entries of messages lie that expired from then to now."""
    return _DUE + since_us.to_bytes(8, "big"), _DUE + (now_us + 1).to_bytes(8, "big")


def read_due(entry: bytes) -> tuple[int, bytes]:
    """When the message of an entry expires, and its key."""
    behind = _DUE_AT + 8
    return int.from_bytes(entry[_DUE_AT:behind], "big"), _MESSAGE + entry[behind:]


def node_key(number: int) -> bytes:
    return _NODE + number.to_bytes(4, "big")


def node_value(parent: int, level: str) -> bytes:
    return parent.to_bytes(4, "big") + level.encode("utf-8")


def read_node(key: bytes, value: bytes) -> tuple[int, int, str]:
    """Number, parent and name of a level of the topic structure."""
    return int.from_bytes(key[len(_NODE) :], "big"), int.from_bytes(value[:4], "big"), value[4:].decode("utf-8")


def stream_key(number: int) -> bytes:
    return _STREAM + number.to_bytes(4, "big")


def stream_value(node: int) -> bytes:
    return node.to_bytes(4, "big")


def read_stream(key: bytes, value: bytes) -> tuple[int, int]:
    """Number and node of a stream."""
    return int.from_bytes(key[len(_STREAM) :], "big"), int.from_bytes(value, "big")


def structure_ranges() -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
    """Between which keys the topic structure lies: its levels, its streams."""
    return (_NODE, _STREAM), (_STREAM, _DUE)


def layout_record(name: str, thresholds: Sequence[int], since: int) -> list[tuple[bytes, bytes]]:
    """What a new database begins with."""
    meta = {"format": _META_FORMAT, "database": name}
    layout = {
        "layout": LAYOUT,
        "layout_version": LAYOUT_VERSION,
        "wildcard_thresholds": list(thresholds),
        "since": since,
    }
    return [(META, json.dumps(meta).encode()), (_LAYOUT, json.dumps(layout).encode()), (COUNTS, pack_counts(0, 0, 0))]


class LayoutRecord(NamedTuple):
    """What a database says of itself; no thresholds if this version cannot read it."""

    described: str
    thresholds: tuple[int, ...]
    since: int


def layout_keys() -> tuple[bytes, bytes]:
    return META, _LAYOUT


def read_layout(meta: bytes | None, layout: bytes | None) -> LayoutRecord:
    """What a database that exists says of itself."""
    settings = json.loads(layout or b"{}")
    described = f"{json.loads(meta or b'{}').get('format')}, {settings.get('layout')} {settings.get('layout_version')}"
    if described != f"{_META_FORMAT}, {LAYOUT} {LAYOUT_VERSION}":
        return LayoutRecord(described, (), 0)
    return LayoutRecord(described, tuple(settings["wildcard_thresholds"]), settings["since"])


def pack_counts(messages: int, size_bytes: int, last_time: int) -> bytes:
    """The record of how much there is."""
    return _COUNTS.pack(messages, size_bytes, last_time)


def unpack_counts(value: bytes | None) -> tuple[int, int, int]:
    """Messages, their bytes, and the time of the newest change."""
    messages, size_bytes, last_time = _COUNTS.unpack(value or bytes(_COUNTS.size))
    return messages, size_bytes, last_time


def pack(message: StorableMessage, stored_at: int, expires_us: int = 0, expiry_s: int = -1) -> bytes:
    clientid = message.clientid.encode("utf-8")
    flags = message.qos | (_RETAIN if message.retain else 0)
    username = b""
    if message.username is not None:
        username = message.username.encode("utf-8")
        flags |= _HAS_USERNAME
    property_bytes = message.property_bytes
    header = _HEADER.pack(
        stored_at,
        message.id_high,
        message.id_low,
        expires_us,
        expiry_s,
        flags,
        len(clientid),
        len(username),
        len(property_bytes),
    )
    return b"".join((header, clientid, username, property_bytes, message.payload))


def times(record: bytes) -> Times:
    """When a message was stored, and when it expires."""
    return Times._make(_TIMES.unpack_from(record))


def unpack(record: bytes) -> KeyedMessage:
    """A message without its topic, which is in the key."""
    _, high, low, _, expiry_s, flags, clientid_bytes, username_bytes, property_bytes = _HEADER.unpack_from(record)
    username_at = _HEADER.size + clientid_bytes
    properties_at = username_at + username_bytes
    payload_at = properties_at + property_bytes
    return KeyedMessage(
        high,
        low,
        expiry_s,
        flags & _QOS,
        bool(flags & _RETAIN),
        record[_HEADER.size : username_at],
        record[username_at:properties_at] if flags & _HAS_USERNAME else None,
        record[properties_at:payload_at],
        record[payload_at:],
    )


def stored_message(key: bytes, record: bytes) -> StoredMessage:
    """A message as readers of databases get it."""
    found = unpack(record)
    return StoredMessage(
        found.id_high,
        found.id_low,
        topic_of(key),
        found.payload,
        found.qos,
        found.retain,
        found.clientid.decode("utf-8"),
        None if found.username is None else found.username.decode("utf-8"),
        found.property_bytes,
        times(record).stored_at,
    )
