"""The few packets that a load client builds, and what it reads from the broker's answers. No state, no I/O.

Encoding PUBLISH and acknowledging in bulk live in `publisher` and `subscriber`, finding packets in a stream of bytes
lives in `runs`.
"""

from dataclasses import dataclass
from typing import Final

from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import MalformedPacketError
from heliograph.mqtt.properties import decode_properties, decode_varint, encode_binary, encode_string, encode_varint

CONNECT: Final = 0x10
CONNACK: Final = 0x20
PUBLISH: Final = 0x30
PUBACK: Final = 0x40
PUBREC: Final = 0x50
PUBREL: Final = 0x62
PUBCOMP: Final = 0x70
SUBSCRIBE: Final = 0x82
SUBACK: Final = 0x90
PINGRESP: Final = 0xD0
DISCONNECT: Final = 0xE0

PINGREQ_PACKET: Final = b"\xc0\x00"
DISCONNECT_PACKET: Final = b"\xe0\x00"

V3_1_1: Final = 4
V5: Final = 5

_CLEAN_START: Final = 0x02
_HAS_PASSWORD: Final = 0x40
_HAS_USERNAME: Final = 0x80

# What a CONNACK of MQTT 3.1.1 says (table 3.1).
_V3_REFUSALS: Final = {
    1: "unacceptable protocol version",
    2: "identifier rejected",
    3: "server unavailable",
    4: "bad user name or password",
    5: "not authorized",
}


@dataclass(frozen=True)
class GrantedLimits:
    """What the broker granted in its CONNACK; an MQTT 3.1.1 broker grants everything."""

    receive_maximum: int = 65535
    maximum_qos: int = 2
    keepalive_s: int | None = None


@dataclass(frozen=True)
class PublishLayout:
    """Offsets inside a PUBLISH, and the offsets of the bytes that must be equal for the next one to share them."""

    qos: int
    packet_id: int
    payload: int
    shape: tuple[int, ...]
    cacheable: bool

    @classmethod
    def of(cls, data: bytes, at: int, length: int, body: int, version: int) -> "PublishLayout":
        """Read a PUBLISH."""
        qos = (data[at] >> 1) & 3
        packet_id = body + 2 + ((data[at + body] << 8) | data[at + body + 1]) if length >= body + 2 else length + 1
        payload = packet_id + (2 if qos else 0)
        shape = [*range(1, body + 2)]
        has_properties = False
        if version == V5:
            size, behind = decode_varint(data, at + payload, at + length)
            shape += range(payload, behind - at)
            has_properties = size > 0
            payload = behind - at + size
        if payload > length or qos == 3:
            raise MalformedPacketError("the broker sent a PUBLISH that is shorter than its parts, or of QoS 3")
        return cls(qos, packet_id, payload, tuple(shape), not has_properties)


class BrokerRefusedError(Exception):
    """The broker turned the client away, in words for the person who started the run."""


def connect(
    clientid: str,
    version: int,
    keepalive_s: int,
    username: str | None,
    password: str | None,
    session_expiry_s: int = 0,
) -> bytes:
    """A CONNECT without a will; with clean start, unless the session is to outlive the connection."""
    flags = 0 if session_expiry_s else _CLEAN_START
    fields = encode_string(clientid)
    if username is not None:
        flags |= _HAS_USERNAME
        fields += encode_string(username)
    if password is not None:
        flags |= _HAS_PASSWORD
        fields += encode_binary(password.encode())
    properties = b"\0" if version == V5 else b""
    if version == V5 and session_expiry_s:
        properties = bytes((5, props.SESSION_EXPIRY_INTERVAL)) + session_expiry_s.to_bytes(4, "big")
    return packet(CONNECT, b"\0\4MQTT" + bytes([version, flags]) + keepalive_s.to_bytes(2, "big") + properties + fields)


def subscribe(packet_id: int, topic_filters: list[str], qos: int, version: int) -> bytes:
    """A SUBSCRIBE of all the filters at one QoS."""
    properties = b"\0" if version == V5 else b""
    filters = b"".join(encode_string(topic_filter) + bytes([qos]) for topic_filter in topic_filters)
    return packet(SUBSCRIBE, packet_id.to_bytes(2, "big") + properties + filters)


def packet(header: int, body: bytes) -> bytes:
    """A control packet from its first byte and all that follows the remaining length."""
    return bytes([header]) + encode_varint(len(body)) + body


def read_connack(body: bytes, version: int) -> GrantedLimits:
    """What the broker granted."""
    if len(body) < 2:
        raise MalformedPacketError(f"a CONNACK of {len(body)} bytes; at least 2 are needed")
    code = body[1]
    if version == V5:
        if code:
            raise BrokerRefusedError(f"the broker refused the connection: {describe(code)}{_reason(body)}")
        if len(body) == 2:
            return GrantedLimits()
        granted, _ = decode_properties(body, 2, len(body), props.ALLOWED_CONNACK)
        return GrantedLimits(
            receive_maximum=granted.number(props.RECEIVE_MAXIMUM, 65535),
            maximum_qos=granted.number(props.MAXIMUM_QOS, 2),
            keepalive_s=granted.numbers.get(props.SERVER_KEEP_ALIVE),
        )
    if code:
        raise BrokerRefusedError(
            f"the broker refused the connection: {_V3_REFUSALS.get(code, 'unknown')} (code {code})"
        )
    return GrantedLimits()


def read_suback(body: bytes, version: int, qos: int) -> int:
    """How many subscriptions the broker granted."""
    at = 2
    if version == V5:
        _, at = decode_properties(body, 2, len(body), props.ALLOWED_ACK)
    codes = body[at:]
    for code in codes:
        if code >= 0x80:
            meaning = describe(code) if version == V5 else f"failure (code {code})"
            raise BrokerRefusedError(f"the broker refused the subscription: {meaning}")
        if code < qos:
            raise BrokerRefusedError(f"the broker granted QoS {code} where QoS {qos} was asked for")
    return len(codes)


def read_disconnect(body: bytes) -> str:
    return describe(body[0]) if body else describe(rc.SUCCESS)


def describe(code: int) -> str:
    return f"{rc.name_of(code).replace('_', ' ')} (0x{code:02x})"


def _reason(connack: bytes) -> str:
    try:
        refused, _ = decode_properties(connack, 2, len(connack), props.ALLOWED_CONNACK)
    except MalformedPacketError:
        return ""
    text = refused.strings.get(props.REASON_STRING)
    return f": {text}" if text else ""
