"""MQTT 5 properties (section 2.2.2): decoding with every check of the specification, and encoding.

A packet's properties are one `Properties` object; a PUBLISH on the hot path keeps its property bytes as they are and
asks here only when it has any.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import MalformedPacketError, ProtocolError

PAYLOAD_FORMAT_INDICATOR: Final = 0x01
MESSAGE_EXPIRY_INTERVAL: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_IDENTIFIER: Final = 0x0B
SESSION_EXPIRY_INTERVAL: Final = 0x11
ASSIGNED_CLIENT_IDENTIFIER: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTHENTICATION_METHOD: Final = 0x15
AUTHENTICATION_DATA: Final = 0x16
REQUEST_PROBLEM_INFORMATION: Final = 0x17
WILL_DELAY_INTERVAL: Final = 0x18
REQUEST_RESPONSE_INFORMATION: Final = 0x19
RESPONSE_INFORMATION: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
WILDCARD_SUBSCRIPTION_AVAILABLE: Final = 0x28
SUBSCRIPTION_IDENTIFIERS_AVAILABLE: Final = 0x29
SHARED_SUBSCRIPTION_AVAILABLE: Final = 0x2A

# More user properties than any packet holds.
ANY_NUMBER: Final = 1 << 30

_BYTE: Final = 1
_UINT16: Final = 2
_UINT32: Final = 3
_VARINT: Final = 4
_BINARY: Final = 5
_STRING: Final = 6
_PAIR: Final = 7

_KINDS: Final = {
    PAYLOAD_FORMAT_INDICATOR: _BYTE,
    MESSAGE_EXPIRY_INTERVAL: _UINT32,
    CONTENT_TYPE: _STRING,
    RESPONSE_TOPIC: _STRING,
    CORRELATION_DATA: _BINARY,
    SUBSCRIPTION_IDENTIFIER: _VARINT,
    SESSION_EXPIRY_INTERVAL: _UINT32,
    ASSIGNED_CLIENT_IDENTIFIER: _STRING,
    SERVER_KEEP_ALIVE: _UINT16,
    AUTHENTICATION_METHOD: _STRING,
    AUTHENTICATION_DATA: _BINARY,
    REQUEST_PROBLEM_INFORMATION: _BYTE,
    WILL_DELAY_INTERVAL: _UINT32,
    REQUEST_RESPONSE_INFORMATION: _BYTE,
    RESPONSE_INFORMATION: _STRING,
    SERVER_REFERENCE: _STRING,
    REASON_STRING: _STRING,
    RECEIVE_MAXIMUM: _UINT16,
    TOPIC_ALIAS_MAXIMUM: _UINT16,
    TOPIC_ALIAS: _UINT16,
    MAXIMUM_QOS: _BYTE,
    RETAIN_AVAILABLE: _BYTE,
    USER_PROPERTY: _PAIR,
    MAXIMUM_PACKET_SIZE: _UINT32,
    WILDCARD_SUBSCRIPTION_AVAILABLE: _BYTE,
    SUBSCRIPTION_IDENTIFIERS_AVAILABLE: _BYTE,
    SHARED_SUBSCRIPTION_AVAILABLE: _BYTE,
}

NAMES: Final = {
    PAYLOAD_FORMAT_INDICATOR: "Payload-Format-Indicator",
    MESSAGE_EXPIRY_INTERVAL: "Message-Expiry-Interval",
    CONTENT_TYPE: "Content-Type",
    RESPONSE_TOPIC: "Response-Topic",
    CORRELATION_DATA: "Correlation-Data",
    SUBSCRIPTION_IDENTIFIER: "Subscription-Identifier",
    SESSION_EXPIRY_INTERVAL: "Session-Expiry-Interval",
    ASSIGNED_CLIENT_IDENTIFIER: "Assigned-Client-Identifier",
    SERVER_KEEP_ALIVE: "Server-Keep-Alive",
    AUTHENTICATION_METHOD: "Authentication-Method",
    AUTHENTICATION_DATA: "Authentication-Data",
    REQUEST_PROBLEM_INFORMATION: "Request-Problem-Information",
    WILL_DELAY_INTERVAL: "Will-Delay-Interval",
    REQUEST_RESPONSE_INFORMATION: "Request-Response-Information",
    RESPONSE_INFORMATION: "Response-Information",
    SERVER_REFERENCE: "Server-Reference",
    REASON_STRING: "Reason-String",
    RECEIVE_MAXIMUM: "Receive-Maximum",
    TOPIC_ALIAS_MAXIMUM: "Topic-Alias-Maximum",
    TOPIC_ALIAS: "Topic-Alias",
    MAXIMUM_QOS: "Maximum-QoS",
    RETAIN_AVAILABLE: "Retain-Available",
    USER_PROPERTY: "User-Property",
    MAXIMUM_PACKET_SIZE: "Maximum-Packet-Size",
    WILDCARD_SUBSCRIPTION_AVAILABLE: "Wildcard-Subscription-Available",
    SUBSCRIPTION_IDENTIFIERS_AVAILABLE: "Subscription-Identifier-Available",
    SHARED_SUBSCRIPTION_AVAILABLE: "Shared-Subscription-Available",
}

# Which packet may carry what (table 2-4); PUBLISH and the will share their message properties.
ALLOWED_PUBLISH: Final = frozenset(
    {0x01, 0x02, 0x03, 0x08, 0x09, 0x23, 0x26}
)  # 0x0B only from the server [MQTT-3.3.4-6]
ALLOWED_PUBLISH_TO_CLIENT: Final = frozenset({0x01, 0x02, 0x03, 0x08, 0x09, 0x0B, 0x23, 0x26})
ALLOWED_WILL: Final = frozenset({0x01, 0x02, 0x03, 0x08, 0x09, 0x18, 0x26})
ALLOWED_CONNECT: Final = frozenset({0x11, 0x15, 0x16, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27})
ALLOWED_CONNACK: Final = frozenset(
    {0x11, 0x12, 0x13, 0x15, 0x16, 0x1A, 0x1C, 0x1F, 0x21, 0x22, 0x24, 0x25, 0x26, 0x27, 0x28, 0x29, 0x2A}
)
ALLOWED_ACK: Final = frozenset({0x1F, 0x26})
ALLOWED_SUBSCRIBE: Final = frozenset({0x0B, 0x26})
ALLOWED_UNSUBSCRIBE: Final = frozenset({0x26})
ALLOWED_DISCONNECT: Final = frozenset({0x11, 0x1C, 0x1F, 0x26})
ALLOWED_AUTH: Final = frozenset({0x15, 0x16, 0x1F, 0x26})

_NOT_ZERO: Final = frozenset({SUBSCRIPTION_IDENTIFIER, RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE})
_BOOLEAN: Final = frozenset(
    {
        PAYLOAD_FORMAT_INDICATOR,
        REQUEST_PROBLEM_INFORMATION,
        REQUEST_RESPONSE_INFORMATION,
        MAXIMUM_QOS,
        RETAIN_AVAILABLE,
        WILDCARD_SUBSCRIPTION_AVAILABLE,
        SUBSCRIPTION_IDENTIFIERS_AVAILABLE,
        SHARED_SUBSCRIPTION_AVAILABLE,
    }
)


class Properties:
    """The properties of one packet, by their identifiers; user properties keep order and duplicates."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.strings: dict[int, str] = {}
        self.binaries: dict[int, bytes] = {}
        self.user: list[tuple[str, str]] = []
        self.subscription_ids: list[int] = []

    def number(self, identifier: int, default: int) -> int:
        return self.numbers.get(identifier, default)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Properties)
            and self.numbers == other.numbers
            and self.strings == other.strings
            and self.binaries == other.binaries
            and self.user == other.user
            and self.subscription_ids == other.subscription_ids
        )

    def __repr__(self) -> str:
        return f"Properties({self.named()!r})"

    def named(self) -> dict[str, object]:
        """The properties under their standard names; `User-Property` is a list of pairs."""
        result: dict[str, object] = {}
        for identifier, number in self.numbers.items():
            result[NAMES[identifier]] = number
        for identifier, text in self.strings.items():
            result[NAMES[identifier]] = text
        for identifier, data in self.binaries.items():
            result[NAMES[identifier]] = data
        if self.subscription_ids:
            result[NAMES[SUBSCRIPTION_IDENTIFIER]] = list(self.subscription_ids)
        if self.user:
            result[NAMES[USER_PROPERTY]] = list(self.user)
        return result


def decode_varint(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Read a variable byte integer: its value and the position behind it.

    Raises:
        MalformedPacketError: It runs past `end` or past four bytes, or has bytes that it does not need.
    """
    value: i64 = 0
    shift: i64 = 0
    while at < end and shift <= 21:
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift != 0:  # it would be passed on as it is [MQTT-1.5.5-1]
                raise MalformedPacketError("a variable byte integer is longer than it needs to be")
            return value, at
        shift += 7
    raise MalformedPacketError("a variable byte integer does not end within four bytes or within its packet")


def encode_varint(value: i64) -> bytes:
    """The shortest variable byte integer of `value` (0 to 268,435,455)."""
    if value < 0x80:
        return bytes([value])
    out = bytearray()
    while value >= 0x80:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def decode_string(data: bytes, at: i64, end: i64) -> tuple[str, i64]:
    """Read a UTF-8 encoded string: the text and the position behind it.

    Raises:
        MalformedPacketError: It is cut off, not UTF-8, or holds U+0000 [MQTT-1.5.4-1] [MQTT-1.5.4-2].
    """
    raw, behind = decode_binary(data, at, end)
    try:
        text = raw.decode("utf-8")  # [MQTT-1.5.4-1] [MQTT-1.5.4-3] 3.1.1 [MQTT-1.5.3-1] 3.1.1 [MQTT-1.5.3-3]
    except UnicodeDecodeError as error:
        raise MalformedPacketError(f"a string is not UTF-8: {error.reason}") from None
    if "\0" in text:
        raise MalformedPacketError("a string holds U+0000")  # [MQTT-1.5.4-2] 3.1.1 [MQTT-1.5.3-2]
    return text, behind


def decode_binary(data: bytes, at: i64, end: i64) -> tuple[bytes, i64]:
    """Read binary data with its two-byte length: the bytes and the position behind them."""
    if at + 2 > end:
        raise MalformedPacketError("a length is cut off")
    start = at + 2
    behind = start + ((data[at] << 8) | data[at + 1])
    if behind > end:
        raise MalformedPacketError("a field is longer than its packet")
    return data[start:behind], behind


def decode_properties(
    data: bytes, at: i64, end: i64, allowed: frozenset[int], user_max: i64 = ANY_NUMBER
) -> tuple[Properties, i64]:
    """Read a property length and its properties: them and the position behind them.

    Args:
        user_max: How many user properties there may be. One costs five bytes at least, and half a microsecond.

    Raises:
        MalformedPacketError: A property is unknown, not allowed here, or cut off (section 2.2.2.2).
        ProtocolError: A property stands twice or has a value that the specification forbids, or there are too many.
    """
    length, at = decode_varint(data, at, end)
    stop = at + length
    if stop > end:
        raise MalformedPacketError("the properties are longer than their packet")
    properties = Properties()
    while at < stop:
        identifier: i64 = data[at]
        if identifier not in allowed:
            raise MalformedPacketError(f"property 0x{int(identifier):02x} may not stand in this packet")
        if identifier == USER_PROPERTY and len(properties.user) >= user_max:
            detail = f"more than {int(user_max)} user properties in one packet (mqtt.max_user_properties)"
            raise ProtocolError(detail, rc.QUOTA_EXCEEDED)
        at = _decode_one(properties, identifier, data, at + 1, stop)
    return properties, at


def _decode_one(properties: Properties, identifier: int, data: bytes, at: i64, stop: i64) -> i64:
    kind = _KINDS[identifier]
    if kind == _PAIR:
        key, at = decode_string(data, at, stop)  # [MQTT-1.5.7-1]
        text, at = decode_string(data, at, stop)
        properties.user.append((key, text))
        return at
    if kind == _STRING:
        text, at = decode_string(data, at, stop)
        _refuse_second(identifier in properties.strings, identifier)
        properties.strings[identifier] = text  # [MQTT-3.3.2-13] [MQTT-3.3.2-19]
        return at
    if kind == _BINARY:
        binary, at = decode_binary(data, at, stop)
        _refuse_second(identifier in properties.binaries, identifier)
        properties.binaries[identifier] = binary
        return at
    number, at = _decode_number(kind, data, at, stop)
    if number == 0 and identifier in _NOT_ZERO:
        raise ProtocolError(f"{NAMES[identifier]} is 0")
    if number > 1 and identifier in _BOOLEAN:
        raise ProtocolError(f"{NAMES[identifier]} is {int(number)}; 0 and 1 are valid")
    if identifier == SUBSCRIPTION_IDENTIFIER:
        properties.subscription_ids.append(number)
        return at
    _refuse_second(identifier in properties.numbers, identifier)
    properties.numbers[identifier] = number
    return at


def _decode_number(kind: int, data: bytes, at: i64, stop: i64) -> tuple[i64, i64]:
    if kind == _VARINT:
        return decode_varint(data, at, stop)
    width: i64 = 1 if kind == _BYTE else (2 if kind == _UINT16 else 4)
    if at + width > stop:
        raise MalformedPacketError("a property is cut off")
    value: i64 = 0
    for offset in range(width):
        value = (value << 8) | data[at + offset]
    return value, at + width


def _refuse_second(present: bool, identifier: int) -> None:
    if present:
        raise ProtocolError(f"{NAMES[identifier]} stands twice in one packet")


def encode_string(text: str) -> bytes:
    """A UTF-8 encoded string with its two-byte length."""
    return encode_binary(text.encode("utf-8"))


def encode_binary(data: bytes) -> bytes:
    """Binary data with its two-byte length; `ValueError` beyond 65,535 bytes."""
    if len(data) > 0xFFFF:
        raise ValueError(f"a field of {len(data)} bytes; at most 65535 fit")  # [MQTT-4.7.3-3] 3.1.1 [MQTT-4.7.3-3]
    return len(data).to_bytes(2, "big") + data


def encode_properties(properties: Properties) -> bytes:
    """The properties in wire form, without the length in front."""
    parts: list[bytes] = []
    for identifier, number in properties.numbers.items():
        parts.append(bytes([identifier]) + _encode_number(_KINDS[identifier], number))
    for identifier, text in properties.strings.items():
        parts.append(bytes([identifier]) + encode_string(text))
    for identifier, data in properties.binaries.items():
        parts.append(bytes([identifier]) + encode_binary(data))
    for subscription_id in properties.subscription_ids:
        parts.append(bytes([SUBSCRIPTION_IDENTIFIER]) + encode_varint(subscription_id))
    for key, text in properties.user:  # [MQTT-3.1.3-10]
        parts.append(bytes([USER_PROPERTY]) + encode_string(key) + encode_string(text))
    return b"".join(parts)


def _encode_number(kind: int, number: int) -> bytes:
    if kind == _VARINT:
        return encode_varint(number)
    width = 1 if kind == _BYTE else (2 if kind == _UINT16 else 4)
    return number.to_bytes(width, "big")


def properties_from_wire(property_bytes: bytes, allowed: frozenset[int], user_max: i64 = ANY_NUMBER) -> Properties:
    """Decode property bytes that lost their length in front (a stored message's)."""
    wire = encode_varint(len(property_bytes)) + property_bytes
    properties, _ = decode_properties(wire, 0, len(wire), allowed, user_max)
    return properties
