"""Packets to bytes. The caller knows the limits of the peer; nothing here refuses a valid packet."""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import Properties, encode_binary, encode_properties, encode_string, encode_varint
from heliograph.mqtt.reason_codes import SUCCESS, connack_return_code

# Every two-byte number as bytes, so that a packet identifier costs a list access (2.6 MB, built in 3 ms).
UINT16: Final[list[bytes]] = [number.to_bytes(2, "big") for number in range(65_536)]

_BRIDGE: Final = 0x80
PINGREQ: Final = b"\xc0\x00"
PINGRESP: Final = b"\xd0\x00"


def encode_publish(
    version: i64, topic: bytes, payload: bytes, qos: i64, retain: bool, dup: bool, packet_id: int, property_bytes: bytes
) -> bytes:
    """A whole PUBLISH; `property_bytes` is in wire form without its length, and left out for MQTT 3."""
    head = publish_head(version, topic, qos, retain, dup, len(payload), property_bytes)
    identifier = UINT16[packet_id] if qos != 0 else b""  # [MQTT-2.2.1-2] 3.1.1 [MQTT-2.3.1-5]
    return b"".join((head, identifier, publish_properties(version, property_bytes), payload))


def publish_head(
    version: i64, topic: bytes, qos: i64, retain: bool, dup: bool, payload_bytes: i64, property_bytes: bytes
) -> bytes:
    """A PUBLISH up to and with its topic; the packet identifier, properties and payload follow."""
    length: i64 = 2 + len(topic) + payload_bytes
    if qos != 0:
        length += 2
    if version == p.V5:
        count: i64 = len(property_bytes)
        length += count + (1 if count < 0x80 else len(encode_varint(count)))
    first: i64 = 0x30 | (qos << 1) | (1 if retain else 0) | (8 if dup else 0)
    if length < 0x80:
        return b"".join((UINT16[(first << 8) | length], UINT16[len(topic)], topic))
    return b"".join((bytes([first]), encode_varint(length), UINT16[len(topic)], topic))


def publish_properties(version: i64, property_bytes: bytes) -> bytes:
    """The properties of a PUBLISH with their length; nothing for MQTT 3."""
    if version != p.V5:
        return b""
    if not property_bytes:
        return b"\x00"  # [MQTT-2.2.2-1]
    return encode_varint(len(property_bytes)) + property_bytes


def alias_property(property_bytes: i64, alias: i64) -> bytes:
    """A topic alias that stands before other properties of `property_bytes` in a PUBLISH, with the length of all."""
    if property_bytes == 0:
        return b"\x03\x23" + UINT16[alias]
    return b"".join((encode_varint(property_bytes + 3), b"\x23", UINT16[alias]))


def encode_ack(kind: i64, packet_id: int, code: int, version: i64, properties: Properties | None = None) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP in the shortest form that says `code`."""
    first: i64 = (kind << 4) | (2 if kind == p.PUBREL else 0)
    if version != p.V5 or (code == SUCCESS and properties is None):
        return UINT16[(first << 8) | 2] + UINT16[packet_id]
    if properties is None:
        # [MQTT-3.4.2-2] [MQTT-3.4.2-3] [MQTT-3.5.2-2] [MQTT-3.5.2-3] [MQTT-3.6.2-2] [MQTT-3.6.2-3] [MQTT-3.7.2-2]
        # [MQTT-3.7.2-3]
        return b"".join((UINT16[(first << 8) | 3], UINT16[packet_id], bytes([code])))
    return _packet(first, UINT16[packet_id] + bytes([code]) + _with_length(properties))


def encode_packet(packet: p.Packet, version: i64) -> bytes:
    kind = packet.kind
    if isinstance(packet, p.Publish):
        return encode_publish(
            version,
            packet.topic,
            packet.payload,
            packet.qos,
            packet.retain,
            packet.dup,
            packet.packet_id,
            packet.property_bytes,
        )
    if isinstance(packet, p.Ack):
        return encode_ack(kind, packet.packet_id, packet.code, version, packet.properties)
    if isinstance(packet, p.Connack):
        return encode_connack(packet, version)
    if isinstance(packet, p.Connect):
        return encode_connect(packet)
    if isinstance(packet, p.Subscribe):
        body = UINT16[packet.packet_id] + _v5(packet.properties, version)
        return _packet(0x82, body + b"".join([_subscribe_entry(entry) for entry in packet.entries]))
    if isinstance(packet, p.Unsubscribe):
        body = UINT16[packet.packet_id] + _v5(packet.properties, version)
        return _packet(0xA2, body + b"".join([encode_string(topic_filter) for topic_filter in packet.topic_filters]))
    if isinstance(packet, p.Suback):
        body = UINT16[packet.packet_id] + _v5(packet.properties, version)
        if kind == p.UNSUBACK and version != p.V5:
            return _packet(kind << 4, body)
        return _packet(kind << 4, body + bytes(packet.codes))
    if isinstance(packet, p.ReasonPacket):
        return encode_reason(packet, version)
    return PINGREQ if kind == p.PINGREQ else PINGRESP


def encode_connack(packet: p.Connack, version: i64) -> bytes:
    """CONNACK; MQTT 3 gets the return code that says the same."""
    flags = 1 if packet.session_present else 0  # [MQTT-3.2.2-1]
    if version != p.V5:
        return bytes([0x20, 2, flags, connack_return_code(packet.code)])
    return _packet(0x20, bytes([flags, packet.code]) + _with_length(packet.properties))


def encode_connect(packet: p.Connect) -> bytes:
    will = packet.will
    flags = 2 if packet.clean_start else 0
    parts = [encode_string(packet.clientid)]
    if will is not None:
        flags |= 4 | (will.qos << 3) | (0x20 if will.retain else 0)
        parts.append(_v5(will.properties, packet.version))
        parts.append(encode_string(will.topic))
        parts.append(encode_binary(will.payload))
    if packet.username is not None:
        flags |= 0x80
        parts.append(encode_string(packet.username))
    if packet.password is not None:
        flags |= 0x40
        parts.append(encode_binary(packet.password))
    name = encode_string("MQIsdp" if packet.version == p.V3_1 else "MQTT")
    version = packet.version | (_BRIDGE if packet.is_bridge else 0)
    head = name + bytes([version, flags]) + UINT16[packet.keepalive_s] + _v5(packet.properties, packet.version)
    return _packet(0x10, head + b"".join(parts))


def encode_reason(packet: p.ReasonPacket, version: i64) -> bytes:
    """DISCONNECT or AUTH; MQTT 3 knows neither a reason nor AUTH."""
    first = packet.kind << 4
    properties = encode_properties(packet.properties)
    if version != p.V5 or (packet.code == SUCCESS and not properties):
        return _packet(first, b"")
    if not properties:
        return _packet(first, bytes([packet.code]))
    return _packet(first, bytes([packet.code]) + encode_varint(len(properties)) + properties)


def _subscribe_entry(entry: p.SubscribeEntry) -> bytes:
    options = entry.qos | (4 if entry.no_local else 0) | (8 if entry.retain_as_published else 0)
    return encode_string(entry.topic_filter) + bytes([options | (entry.retain_handling << 4)])


def _v5(properties: Properties, version: i64) -> bytes:
    return _with_length(properties) if version == p.V5 else b""


def _with_length(properties: Properties) -> bytes:
    encoded = encode_properties(properties)
    return encode_varint(len(encoded)) + encoded


def _packet(first: i64, body: bytes) -> bytes:
    return bytes([first]) + encode_varint(len(body)) + body
