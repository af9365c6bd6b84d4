"""Packets out of a fuzzer's bytes: valid for the most part, and wrong in one place now and then.

Bytes are written here, not by the encoder under test, which could not write what it must never accept.
"""

from typing import Final

from fuzz.source import Source
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from support.wire import varint

TOPICS: Final = (b"a", b"a/b", b"b", b"a/b/c", b"", b"$SYS/a", b"/", b"$delayed/1/a", b"denied/a", b"stored/a", b"r/a")
FILTERS: Final = (
    b"#",
    b"a",
    b"a/#",
    b"+/b",
    b"+",
    b"a/b",
    b"$share/g/a",
    b"$share/g/#",
    b"$queue/+",
    b"$exclusive/a",
    b"$exclusive/b",
    b"denied/#",
    b"stored/#",
    b"$SYS/#",
    b"r/+",
    b"/",
)
BAD_TEXTS: Final = (
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
    b"\x00",
    b"a\x00b",
    b"\xef\xbb\xbfa",
    b"\xef\xbf\xbf",
    b"\x01",
    b"+",
    b"#",
    b"a/#/b",
    b"a+",
    b"$share//a",
    b"$share/+/a",
    b"$share/g",
    b"$share/g/$queue/a",
    b"/" * 200,
    b"x" * 2000,
)
CLIENTIDS: Final = (b"one", b"two", b"three", b"", b"#", b"+", b"a/b", b"$SYS", b"kicked")
USERNAMES: Final = (b"user", b"admin", b"#", b"", b"wait", b"nobody")
METHODS: Final = (b"challenge", b"unknown", b"")
CODES: Final = (0, 0x80, 0x04, 0x10, 0x18, 0x19, 0x92, 0x97, 0x87, 0x8E, 0x01, 0x02, 0xFF)

_ALLOWED: Final = {
    p.CONNECT: props.ALLOWED_CONNECT,
    p.CONNACK: props.ALLOWED_CONNACK,
    p.PUBLISH: props.ALLOWED_PUBLISH,
    p.PUBACK: props.ALLOWED_ACK,
    p.PUBREC: props.ALLOWED_ACK,
    p.PUBREL: props.ALLOWED_ACK,
    p.PUBCOMP: props.ALLOWED_ACK,
    p.SUBSCRIBE: props.ALLOWED_SUBSCRIBE,
    p.SUBACK: props.ALLOWED_ACK,
    p.UNSUBSCRIBE: props.ALLOWED_UNSUBSCRIBE,
    p.UNSUBACK: props.ALLOWED_ACK,
    p.DISCONNECT: props.ALLOWED_DISCONNECT,
    p.AUTH: props.ALLOWED_AUTH,
}
_BYTES: Final = frozenset((0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A))
_UINT16S: Final = frozenset((0x13, 0x21, 0x22, 0x23))
_UINT32S: Final = frozenset((0x02, 0x11, 0x18, 0x27))
_STRINGS: Final = frozenset((0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F))
_FLAGS: Final = {p.PUBREL: 2, p.SUBSCRIBE: 2, p.UNSUBSCRIBE: 2}


def field(content: bytes) -> bytes:
    """Content behind its two-byte length."""
    return len(content).to_bytes(2, "big") + content


def text(source: Source, usual: tuple[bytes, ...]) -> bytes:
    """A usual text; rarely one with something wrong, or any bytes."""
    if source.rarely():
        return source.pick(BAD_TEXTS) if source.flag() else source.short()
    return source.pick(usual)


def one_property(source: Source, allowed: list[int]) -> bytes:
    """One property with its identifier; rarely one that may not stand there."""
    identifier = source.byte() if source.rarely() else source.pick(allowed)
    head = bytes((identifier,))
    if identifier in _BYTES:
        return head + bytes((source.byte() if source.rarely() else source.below(2),))
    if identifier in _UINT16S:
        return head + source.pick((0, 1, 2, 3, 10, 255, 65535)).to_bytes(2, "big")
    if identifier in _UINT32S:
        return head + source.pick((0, 1, 2, 5, 40, 100, 5000, 0xFFFFFFFF)).to_bytes(4, "big")
    if identifier == props.SUBSCRIPTION_IDENTIFIER:
        return head + varint(source.pick((1, 2, 0, 127, 128, 268_435_455)))
    if identifier == props.USER_PROPERTY:
        return head + field(source.short()) + field(text(source, TOPICS))
    if identifier == props.AUTHENTICATION_METHOD:
        return head + field(text(source, METHODS))
    if identifier in _STRINGS:
        return head + field(text(source, TOPICS))
    return head + field(source.short())


def properties(source: Source, kind: int, allowed: frozenset[int] | None = None) -> bytes:
    """Properties of a packet behind their length; mostly none."""
    known = sorted(_ALLOWED.get(kind, frozenset((props.USER_PROPERTY,))) if allowed is None else allowed)
    content = b"".join(one_property(source, known) for _ in range(max(0, source.below(8) - 4)))
    length = len(content) + (source.pick((1, -1, 3)) if source.rarely() else 0)
    return varint(max(0, length)) + content


def connect_body(source: Source, version: int) -> bytes:
    """The variable header and payload of a CONNECT."""
    flags = source.byte()
    with_will, with_username, with_password = flags & 4 != 0, flags & 0x80 != 0, flags & 0x40 != 0
    if not source.rarely():
        flags &= 0xFE
        flags &= 0xFF if with_will else 0xC7
        if flags & 0x18 == 0x18:
            flags &= 0xEF
        if version < p.V5 and not with_username:
            flags &= 0xBF
            with_password = False
    keepalive_s = source.pick((0, 1, 10, 60, 65535))
    name = b"MQIsdp" if version == p.V3_1 else b"MQTT"
    parts = [field(name), bytes((version, flags)), keepalive_s.to_bytes(2, "big")]
    if version == p.V5:
        parts.append(properties(source, p.CONNECT))
    parts.append(field(text(source, CLIENTIDS)))
    if with_will:
        if version == p.V5:
            parts.append(properties(source, 0, props.ALLOWED_WILL))
        parts += [field(text(source, TOPICS)), field(source.short())]
    if with_username:
        parts.append(field(text(source, USERNAMES)))
    if with_password:
        parts.append(field(source.short()))
    return b"".join(parts)


def publish_body(source: Source, version: int, qos: int) -> bytes:
    """The variable header and payload of a PUBLISH."""
    parts = [field(text(source, TOPICS))]
    if qos:
        parts.append(packet_id(source))
    if version == p.V5:
        parts.append(properties(source, p.PUBLISH))
    return b"".join(parts) + source.short() * (source.below(4) + 1 if source.rarely() else 1)


def packet_id(source: Source) -> bytes:
    """A packet identifier, a small one for the most part."""
    return (source.uint16() if source.rarely() else source.below(6) + 1).to_bytes(2, "big")


def body(source: Source, kind: int, version: int, flags: int) -> bytes:
    """What follows the fixed header of a packet of that type."""
    if kind == p.CONNECT:
        return connect_body(source, source.byte() if source.rarely() else version)
    if kind == p.PUBLISH:
        return publish_body(source, version, flags >> 1 & 3)
    if kind in (p.PINGREQ, p.PINGRESP):
        return b"" if not source.rarely() else source.short()
    if kind in (p.SUBSCRIBE, p.UNSUBSCRIBE):
        parts = [packet_id(source), properties(source, kind) if version == p.V5 else b""]
        for _ in range(1 + source.below(3)):
            parts.append(field(text(source, FILTERS)))
            if kind == p.SUBSCRIBE:
                parts.append(bytes((source.byte() & (0x2F if version == p.V5 else 3),)))
        return b"".join(parts)
    if kind in (p.SUBACK, p.UNSUBACK):
        return packet_id(source) + (properties(source, kind) if version == p.V5 else b"") + source.short()
    if kind == p.CONNACK:
        return bytes((source.below(2), source.pick(CODES))) + (properties(source, kind) if version == p.V5 else b"")
    code = b"" if version < p.V5 or source.flag() else bytes((source.pick(CODES),))
    more = properties(source, kind) if code and source.flag() else b""
    return (packet_id(source) if p.PUBACK <= kind <= p.PUBCOMP else b"") + code + more


def packet(source: Source, version: int, kind: int) -> bytes:
    """A whole packet of that type."""
    flags = _FLAGS.get(kind, 0)
    if kind == p.PUBLISH:
        flags = source.byte() & 0x0F
        if flags & 6 == 6:
            flags &= 0x0D
        if flags & 6 == 0:
            flags &= 0x07
    elif source.rarely():
        flags = source.byte() & 0x0F
    content = body(source, kind, version, flags)
    if source.rarely():
        content = _damaged(source, content)
    length = varint(len(content))
    if source.rarely() and source.flag():
        length = varint(source.uint16()) if source.flag() else source.take(4)
    return bytes((kind << 4 | flags,)) + length + content


def _damaged(source: Source, content: bytes) -> bytes:
    """Content with one byte lost, added or changed."""
    at = source.byte() % (len(content) + 1)
    how = source.below(3)
    put = b"" if how == 0 else bytes((source.byte(),))
    return content[:at] + put + content[at + (0 if how == 1 else 1) :]
