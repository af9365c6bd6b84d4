"""Bytes to packets. Raises nothing but `ProtocolError`, whatever the bytes are.

`frame_length` finds packets in a stream; `decode_publish` is the hot path; `decode_packet` takes every other packet.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import MalformedPacketError, ProtocolError
from heliograph.mqtt.properties import Properties, decode_binary, decode_properties, decode_string

_PROTOCOL_NAMES: Final = {(3, "MQIsdp"), (4, "MQTT"), (5, "MQTT")}


def remaining_length(data: bytes, at: i64, end: i64) -> tuple[i64, i64]:
    """Read the remaining length at `at`: its value and where the packet's body begins; (-1, at) when it is cut off.

    Raises:
        MalformedPacketError: It is longer than four bytes.
    """
    value: i64 = 0
    shift: i64 = 0
    start = at
    while at < end:
        byte: i64 = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 21:
            raise MalformedPacketError("the remaining length is longer than four bytes")
    return -1, start


def decode_publish(data: bytes, start: i64, body: i64, stop: i64, version: i64) -> p.Publish:
    """Decode the PUBLISH that fills `data[start:stop]` with its body at `body`.

    Properties are checked here when there are any; the topic's characters are checked by routing, once per topic.
    """
    first: i64 = data[start]
    qos: i64 = (first >> 1) & 3
    if body + 2 > stop:
        raise MalformedPacketError("PUBLISH without a topic")
    topic_at: i64 = body + 2
    at: i64 = topic_at + ((data[body] << 8) | data[body + 1])
    if at > stop:
        raise MalformedPacketError("the topic is longer than its PUBLISH")
    topic = data[topic_at:at]  # [MQTT-3.3.2-1] 3.1.1 [MQTT-3.3.2-1]
    packet_id: i64 = 0
    if qos != 0:  # [MQTT-2.2.1-2] 3.1.1 [MQTT-2.3.1-5]
        if qos == 3:
            raise MalformedPacketError("PUBLISH with QoS 3")  # [MQTT-3.3.1-4] 3.1.1 [MQTT-3.3.1-4]
        if at + 2 > stop:
            raise MalformedPacketError("PUBLISH without its packet identifier")  # [MQTT-2.2.1-3] 3.1.1 [MQTT-2.3.1-1]
        packet_id = (data[at] << 8) | data[at + 1]
        at += 2
        if packet_id == 0:
            raise ProtocolError("PUBLISH with packet identifier 0")  # [MQTT-2.2.1-3] 3.1.1 [MQTT-2.3.1-1]
    elif first & 8:
        raise MalformedPacketError("PUBLISH with DUP at QoS 0")  # [MQTT-3.3.1-2] 3.1.1 [MQTT-3.3.1-2]
    properties_at: i64 = at
    if version == p.V5:
        if at < stop and data[at] == 0:  # [MQTT-2.2.2-1]
            at += 1
            properties_at = at
        else:
            length, properties_at = props.decode_varint(data, at, stop)
            at = properties_at + length
            if at > stop:
                raise MalformedPacketError("the properties are longer than their PUBLISH")
    return p.Publish(
        data[start:stop],
        version,
        qos,
        (first & 1) != 0,
        (first & 8) != 0,
        topic,
        packet_id,
        properties_at - start,
        at - start,
    )


def decode_packet(
    data: bytes,
    start: i64,
    body: i64,
    stop: i64,
    version: i64,
    user_max: i64 = props.ANY_NUMBER,
    filters_max: i64 = props.ANY_NUMBER,
) -> p.Packet:
    """Decode the packet that fills `data[start:stop]` with its body at `body`.

    Args:
        user_max: How many user properties it may have; not enforced for PUBLISH: the caller counts.
        filters_max: How many topic filters are decoded now; what is left is for `decode_entries` and
            `decode_topic_filters`.
    """
    first: i64 = data[start]
    kind: i64 = first >> 4
    flags: i64 = first & 15
    if kind == p.PUBLISH:
        return decode_publish(data, start, body, stop, version)
    if (
        flags != (2 if kind in (p.PUBREL, p.SUBSCRIBE, p.UNSUBSCRIBE) else 0)
        and not (flags == 10 and version == p.V3_1 and kind in (p.PUBREL, p.SUBSCRIBE, p.UNSUBSCRIBE))  # sent again
    ):
        # [MQTT-2.1.3-1] [MQTT-3.6.1-1] [MQTT-3.8.1-1] [MQTT-3.10.1-1] [MQTT-3.14.1-1] [MQTT-3.15.1-1]
        # 3.1.1 [MQTT-2.2.2-1] 3.1.1 [MQTT-2.2.2-2] 3.1.1 [MQTT-3.6.1-1] 3.1.1 [MQTT-3.8.1-1] 3.1.1 [MQTT-3.10.1-1]
        # 3.1.1 [MQTT-3.14.1-1]
        raise MalformedPacketError(f"{p.NAMES[kind]} with flags {int(flags)}")
    if p.PUBACK <= kind <= p.PUBCOMP:
        return _decode_ack(kind, data, body, stop, version, user_max)
    if kind == p.SUBSCRIBE:
        return _decode_subscribe(data, body, stop, version, user_max, filters_max)
    if kind == p.UNSUBSCRIBE:
        return _decode_unsubscribe(data, body, stop, version, user_max, filters_max)
    if kind == p.PINGREQ or kind == p.PINGRESP:
        if body != stop:
            raise MalformedPacketError(f"{p.NAMES[kind]} with a body")
        return p.Ping(kind)
    if kind == p.DISCONNECT:
        return _decode_disconnect(data, body, stop, version, user_max)
    if kind == p.AUTH and version == p.V5:
        return _decode_auth(data, body, stop, user_max)
    if kind == p.CONNECT:
        return decode_connect(data, body, stop, user_max)
    if kind == p.CONNACK:
        return _decode_connack(data, body, stop, version)
    if kind == p.SUBACK or kind == p.UNSUBACK:
        return _decode_suback(kind, data, body, stop, version)
    raise MalformedPacketError(f"packet type {int(kind)} does not exist in this protocol version")


def connect_version(data: bytes, at: i64, stop: i64) -> i64:
    """The version in which a CONNECT is answered that may turn out to be unreadable: that of its own if we speak it."""
    if stop - at >= 7 and data[at : at + 7] == b"\x00\x04MQTT\x05":
        return p.V5
    return p.V3_1_1


def decode_connect(data: bytes, at: i64, stop: i64, user_max: i64 = props.ANY_NUMBER) -> p.Connect:
    """Decode the body of a CONNECT; the error of an unknown version carries 0x84."""
    name, at = decode_string(data, at, stop)
    if at + 4 > stop:
        raise MalformedPacketError("CONNECT is cut off")
    version: int = data[at]
    # [MQTT-3.1.2-1] [MQTT-3.1.2-2] 3.1.1 [MQTT-3.1.2-1] 3.1.1 [MQTT-3.1.2-2]
    if (version, name) not in _PROTOCOL_NAMES:
        detail = f"protocol {name!r} version {version}; MQTT 3.1, 3.1.1 and 5 are supported"
        raise ProtocolError(detail, rc.UNSUPPORTED_PROTOCOL_VERSION)
    flags: int = data[at + 1]
    keepalive_s: int = (data[at + 2] << 8) | data[at + 3]
    at += 4
    if flags & 1:
        raise MalformedPacketError("CONNECT with its reserved flag set")  # [MQTT-3.1.2-3] 3.1.1 [MQTT-3.1.2-3]
    properties = Properties()
    if version == p.V5:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_CONNECT, user_max)
        if props.AUTHENTICATION_DATA in properties.binaries and props.AUTHENTICATION_METHOD not in properties.strings:
            raise ProtocolError("Authentication-Data without Authentication-Method")
    # [MQTT-3.1.3-3] [MQTT-3.1.3-4] 3.1.1 [MQTT-3.1.3-3] 3.1.1 [MQTT-3.1.3-4]
    clientid, at = decode_string(data, at, stop)
    will, at = _decode_will(flags, data, at, stop, version, user_max)  # [MQTT-3.1.3-1] 3.1.1 [MQTT-3.1.3-1]
    username: str | None = None
    password: bytes | None = None
    if flags & 0x80:
        # [MQTT-3.1.2-17] [MQTT-3.1.3-12] 3.1.1 [MQTT-3.1.2-19] 3.1.1 [MQTT-3.1.3-11]
        username, at = decode_string(data, at, stop)
    if flags & 0x40:
        if version != p.V5 and not flags & 0x80:
            raise MalformedPacketError("CONNECT with a password but no user name")  # 3.1.1 [MQTT-3.1.2-22]
        password, at = decode_binary(data, at, stop)  # [MQTT-3.1.2-19] 3.1.1 [MQTT-3.1.2-21]
    if at != stop:
        # [MQTT-3.1.2-16] [MQTT-3.1.2-18] 3.1.1 [MQTT-3.1.2-18] 3.1.1 [MQTT-3.1.2-20]
        raise MalformedPacketError("CONNECT has bytes behind its last field")
    return p.Connect(version, clientid, bool(flags & 2), keepalive_s, will, username, password, properties)


def _decode_will(flags: int, data: bytes, at: i64, stop: i64, version: int, user_max: i64) -> tuple[p.Will | None, i64]:
    qos = (flags >> 3) & 3
    if not flags & 4:
        if qos or flags & 0x20:
            # [MQTT-3.1.2-11] [MQTT-3.1.2-13] 3.1.1 [MQTT-3.1.2-11] 3.1.1 [MQTT-3.1.2-13] 3.1.1 [MQTT-3.1.2-15]
            raise MalformedPacketError("CONNECT with will QoS or will retain but no will")
        return None, at
    if qos == 3:
        raise MalformedPacketError("CONNECT with will QoS 3")  # [MQTT-3.1.2-12] 3.1.1 [MQTT-3.1.2-14]
    properties = Properties()
    if version == p.V5:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_WILL, user_max)
    # [MQTT-3.1.2-9] [MQTT-3.1.3-11] 3.1.1 [MQTT-3.1.2-9] 3.1.1 [MQTT-3.1.3-10]
    topic, at = decode_string(data, at, stop)
    payload, at = decode_binary(data, at, stop)
    return p.Will(topic, payload, qos, bool(flags & 0x20), properties), at


def _decode_connack(data: bytes, at: i64, stop: i64, version: i64) -> p.Connack:
    if at + 2 > stop:
        raise MalformedPacketError("CONNACK is cut off")
    if data[at] > 1:
        raise MalformedPacketError("CONNACK with reserved flags")
    session_present = data[at] == 1
    code: int = data[at + 1]
    at += 2
    properties = Properties()
    if version != p.V5:
        code = rc.connack_reason_code(code)
    elif at < stop:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_CONNACK)
    _nothing_behind(p.CONNACK, at, stop)
    return p.Connack(session_present, code, properties)


def _decode_ack(kind: i64, data: bytes, at: i64, stop: i64, version: i64, user_max: i64) -> p.Ack:
    packet_id = _packet_id(kind, data, at, stop)
    at += 2
    if at == stop:
        return p.Ack(kind, packet_id, rc.SUCCESS)
    if version != p.V5:
        raise MalformedPacketError(f"{p.NAMES[kind]} is longer than its packet identifier")
    code: int = data[at]
    if code not in (rc.ACK_CODES if kind <= p.PUBREC else rc.RELEASE_CODES):
        raise ProtocolError(f"{p.NAMES[kind]} with reason code 0x{code:02x}, which it does not have")
    properties: Properties | None = None
    if at + 1 < stop:
        properties, at = decode_properties(data, at + 1, stop, props.ALLOWED_ACK, user_max)
        _nothing_behind(kind, at, stop)
    return p.Ack(kind, packet_id, code, properties)


def _decode_subscribe(data: bytes, at: i64, stop: i64, version: i64, user_max: i64, filters_max: i64) -> p.Subscribe:
    packet_id = _packet_id(p.SUBSCRIBE, data, at, stop)
    at += 2
    properties = Properties()
    if version == p.V5:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_SUBSCRIBE, user_max)
        if len(properties.subscription_ids) > 1:
            raise ProtocolError("SUBSCRIBE with two subscription identifiers")
    packet = p.Subscribe(packet_id, [], properties)
    if at >= stop:
        raise ProtocolError("SUBSCRIBE without a topic filter")  # [MQTT-3.8.3-2] 3.1.1 [MQTT-3.8.3-3]
    packet.rest_at = at
    decode_entries(packet, data, stop, version, filters_max)
    return packet


def decode_entries(packet: p.Subscribe, data: bytes, stop: i64, version: i64, count_max: i64) -> None:
    """Decode so many more filters of a SUBSCRIBE at the most; it is whole when its `rest_at` is `stop`."""
    at = packet.rest_at
    while at < stop and count_max > 0:
        count_max -= 1
        topic_filter, at = decode_string(data, at, stop)  # [MQTT-3.8.3-1] 3.1.1 [MQTT-3.8.3-1]
        if not topic_filter:
            raise ProtocolError("SUBSCRIBE with an empty topic filter")  # [MQTT-4.7.3-1] 3.1.1 [MQTT-4.8.0-1]
        if at >= stop:
            raise MalformedPacketError("SUBSCRIBE without options behind a topic filter")
        options: int = data[at]
        at += 1
        if options & (0xC0 if version == p.V5 else 0xFC) or options & 3 == 3:  # [MQTT-3.8.3-5] 3.1.1 [MQTT-3.8.3-4]
            raise MalformedPacketError(f"SUBSCRIBE with options 0x{options:02x}")
        if (options >> 4) & 3 == 3:
            raise ProtocolError("SUBSCRIBE with retain handling 3")
        entry = p.SubscribeEntry(topic_filter, options & 3, bool(options & 4), bool(options & 8), (options >> 4) & 3)
        if entry.no_local and topic_filter.startswith(("$share/", "$queue/")):
            raise ProtocolError("no-local on a shared subscription")  # [MQTT-3.8.3-4]
        packet.entries.append(entry)
    packet.rest_at = at


def _decode_unsubscribe(
    data: bytes, at: i64, stop: i64, version: i64, user_max: i64, filters_max: i64
) -> p.Unsubscribe:
    packet_id = _packet_id(p.UNSUBSCRIBE, data, at, stop)
    at += 2
    properties = Properties()
    if version == p.V5:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_UNSUBSCRIBE, user_max)
    packet = p.Unsubscribe(packet_id, [], properties)
    if at >= stop:
        raise ProtocolError("UNSUBSCRIBE without a topic filter")  # [MQTT-3.10.3-2] 3.1.1 [MQTT-3.10.3-2]
    packet.rest_at = at
    decode_topic_filters(packet, data, stop, filters_max)
    return packet


def decode_topic_filters(packet: p.Unsubscribe, data: bytes, stop: i64, count_max: i64) -> None:
    """Decode so many more filters of an UNSUBSCRIBE at the most; it is whole when its `rest_at` is `stop`."""
    at = packet.rest_at
    while at < stop and count_max > 0:
        count_max -= 1
        topic_filter, at = decode_string(data, at, stop)  # [MQTT-3.10.3-1] 3.1.1 [MQTT-3.10.3-1]
        if not topic_filter:
            raise ProtocolError("UNSUBSCRIBE with an empty topic filter")  # [MQTT-4.7.3-1] 3.1.1 [MQTT-4.8.0-1]
        packet.topic_filters.append(topic_filter)
    packet.rest_at = at


def _decode_suback(kind: i64, data: bytes, at: i64, stop: i64, version: i64) -> p.Suback:
    packet_id = _packet_id(kind, data, at, stop)
    at += 2
    properties = Properties()
    if version == p.V5:
        properties, at = decode_properties(data, at, stop, props.ALLOWED_ACK)
    elif kind == p.UNSUBACK:
        _nothing_behind(kind, at, stop)
    return p.Suback(kind, packet_id, list(data[at:stop]), properties)


def _decode_disconnect(data: bytes, at: i64, stop: i64, version: i64, user_max: i64) -> p.Disconnect:
    if at == stop:
        return p.Disconnect(rc.SUCCESS, Properties())
    if version != p.V5:
        raise MalformedPacketError("DISCONNECT with a body")
    code: int = data[at]
    return p.Disconnect(code, _reason_properties(p.DISCONNECT, data, at + 1, stop, props.ALLOWED_DISCONNECT, user_max))


def _decode_auth(data: bytes, at: i64, stop: i64, user_max: i64) -> p.Auth:
    if at == stop:
        return p.Auth(rc.SUCCESS, Properties())
    code: int = data[at]
    properties = _reason_properties(p.AUTH, data, at + 1, stop, props.ALLOWED_AUTH, user_max)
    if code not in rc.AUTH_CODES:
        raise ProtocolError(f"AUTH with reason code 0x{code:02x}, which it does not have")
    return p.Auth(code, properties)


def _reason_properties(
    kind: i64, data: bytes, at: i64, stop: i64, allowed: frozenset[int], user_max: i64
) -> Properties:
    """The properties behind a reason code, which may be left out."""
    properties = Properties()
    if at < stop:
        properties, at = decode_properties(data, at, stop, allowed, user_max)
        _nothing_behind(kind, at, stop)
    return properties


def _packet_id(kind: i64, data: bytes, at: i64, stop: i64) -> int:
    if at + 2 > stop:
        raise MalformedPacketError(f"{p.NAMES[kind]} without its packet identifier")
    packet_id: int = (data[at] << 8) | data[at + 1]
    if packet_id == 0:
        raise ProtocolError(f"{p.NAMES[kind]} with packet identifier 0")  # [MQTT-2.2.1-3] 3.1.1 [MQTT-2.3.1-1]
    return packet_id


def _nothing_behind(kind: i64, at: i64, stop: i64) -> None:
    if at != stop:
        raise MalformedPacketError(f"{p.NAMES[kind]} has bytes behind its last field")
