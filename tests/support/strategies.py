"""Hypothesis strategies for everything that stands in packets."""

from typing import Final

from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.encode import encode_publish
from heliograph.mqtt.properties import Properties, encode_properties
from support.packets import decode_one

VERSIONS: Final = (p.V3_1, p.V3_1_1, p.V5)

# The types of table 2-4, written down a second time so that a slip in the first is seen.
_FLAGS: Final = {0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A}
_UINT16: Final = {0x13, 0x21, 0x22, 0x23}
_UINT32: Final = {0x02, 0x11, 0x18, 0x27}
_STRINGS: Final = {0x03, 0x08, 0x12, 0x15, 0x1A, 0x1C, 0x1F}
_BINARY: Final = {0x09, 0x16}
_NOT_ZERO: Final = {0x21, 0x27}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
binaries = st.binary(max_size=12)
packet_ids = st.integers(1, 4) | st.integers(1, 65_535)
subscription_ids = st.integers(1, 268_435_455)

_levels = st.sampled_from(["", "a", "b", "ab", "$SYS", "$", "ä", " "])


@st.composite
def topic_names(draw: st.DrawFn) -> str:
    """Valid topic names over few levels, so that filters match them often."""
    return "/".join(draw(st.lists(_levels, min_size=1, max_size=4))) or "/"


@st.composite
def topic_filters(draw: st.DrawFn) -> str:
    """Valid topic filters over the same levels."""
    levels = draw(st.lists(st.one_of(_levels, st.just("+")), max_size=4))
    if draw(st.booleans()):
        levels.append("#")
    return "/".join(levels) or "+"


@st.composite
def property_sets(draw: st.DrawFn, allowed: frozenset[int], subscription_ids_max: int = 3) -> Properties:
    """Properties that a packet may carry, user properties with repeated names among them."""
    result = Properties()
    for identifier in draw(st.lists(st.sampled_from(sorted(allowed)), unique=True, max_size=6)):
        if identifier in _FLAGS:
            result.numbers[identifier] = draw(st.integers(0, 1))
        elif identifier in _UINT16 | _UINT32:
            largest = 0xFFFF if identifier in _UINT16 else 0xFFFFFFFF
            result.numbers[identifier] = draw(st.integers(1 if identifier in _NOT_ZERO else 0, largest))
        elif identifier in _STRINGS:
            result.strings[identifier] = draw(texts)
        elif identifier in _BINARY:
            result.binaries[identifier] = draw(binaries)
        elif identifier == props.SUBSCRIPTION_IDENTIFIER:
            result.subscription_ids = draw(st.lists(subscription_ids, min_size=1, max_size=subscription_ids_max))
        else:
            result.user = draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
    return result


@st.composite
def publishes(draw: st.DrawFn, version: int, allowed: frozenset[int] = props.ALLOWED_PUBLISH_TO_CLIENT) -> p.Publish:
    """PUBLISH packets at any QoS."""
    qos = draw(st.integers(0, 2))
    named = draw(property_sets(allowed)) if version == p.V5 else Properties()
    data = encode_publish(
        version,
        draw(topic_names()).encode(),
        draw(st.binary(max_size=200)),
        qos,
        draw(st.booleans()),
        qos > 0 and draw(st.booleans()),
        draw(packet_ids) if qos else 0,
        encode_properties(named),
    )
    packet = decode_one(data, version)
    assert isinstance(packet, p.Publish)
    return packet


@st.composite
def wills(draw: st.DrawFn, version: int) -> p.Will:
    """Wills."""
    named = draw(property_sets(props.ALLOWED_WILL)) if version == p.V5 else Properties()
    return p.Will(draw(topic_names()), draw(binaries), draw(st.integers(0, 2)), draw(st.booleans()), named)


@st.composite
def connects(draw: st.DrawFn, version: int) -> p.Connect:
    """CONNECT packets."""
    named = draw(property_sets(props.ALLOWED_CONNECT)) if version == p.V5 else Properties()
    if props.AUTHENTICATION_METHOD not in named.strings:
        named.binaries.pop(props.AUTHENTICATION_DATA, None)
    username = draw(st.none() | texts)
    password = draw(st.none() | binaries) if version == p.V5 or username is not None else None
    will = draw(st.none() | wills(version))
    keepalive_s = draw(st.integers(0, 65_535))
    return p.Connect(version, draw(texts), draw(st.booleans()), keepalive_s, will, username, password, named)


@st.composite
def acks(draw: st.DrawFn, version: int) -> p.Ack:
    """PUBACK, PUBREC, PUBREL and PUBCOMP."""
    kind = draw(st.sampled_from([p.PUBACK, p.PUBREC, p.PUBREL, p.PUBCOMP]))
    if version != p.V5:
        return p.Ack(kind, draw(packet_ids), 0)
    named = draw(st.none() | property_sets(props.ALLOWED_ACK))
    codes = [0, 0x10, 0x80, 0x87, 0x97] if kind in (p.PUBACK, p.PUBREC) else [0, 0x92]
    return p.Ack(kind, draw(packet_ids), draw(st.sampled_from(codes)), named)


@st.composite
def subscribes(draw: st.DrawFn, version: int) -> p.Subscribe:
    """SUBSCRIBE packets."""
    v5 = version == p.V5
    named = draw(property_sets(props.ALLOWED_SUBSCRIBE, subscription_ids_max=1)) if v5 else Properties()
    entries = [
        p.SubscribeEntry(
            draw(topic_filters()),
            draw(st.integers(0, 2)),
            v5 and draw(st.booleans()),
            v5 and draw(st.booleans()),
            draw(st.integers(0, 2)) if v5 else 0,
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    return p.Subscribe(draw(packet_ids), entries, named)


@st.composite
def unsubscribes(draw: st.DrawFn, version: int) -> p.Unsubscribe:
    """UNSUBSCRIBE packets."""
    named = draw(property_sets(props.ALLOWED_UNSUBSCRIBE)) if version == p.V5 else Properties()
    return p.Unsubscribe(draw(packet_ids), draw(st.lists(topic_filters(), min_size=1, max_size=3)), named)


@st.composite
def subacks(draw: st.DrawFn, version: int) -> p.Suback:
    """SUBACK and UNSUBACK."""
    kind = draw(st.sampled_from([p.SUBACK, p.UNSUBACK]))
    named = draw(property_sets(props.ALLOWED_ACK)) if version == p.V5 else Properties()
    codes = draw(st.lists(st.sampled_from([0, 1, 2, 0x80]), min_size=1, max_size=3))
    return p.Suback(kind, draw(packet_ids), codes if kind == p.SUBACK or version == p.V5 else [], named)


@st.composite
def disconnects(draw: st.DrawFn, version: int) -> p.ReasonPacket:
    """DISCONNECT, and AUTH in MQTT 5."""
    if version != p.V5:
        return p.Disconnect(0, Properties())
    if draw(st.booleans()):
        code = draw(st.sampled_from([0, 4, 0x80, 0x8E]))
        return p.Disconnect(code, draw(property_sets(props.ALLOWED_DISCONNECT)))
    return p.Auth(draw(st.sampled_from([0, 0x18, 0x19])), draw(property_sets(props.ALLOWED_AUTH)))


@st.composite
def connacks(draw: st.DrawFn, version: int) -> p.Connack:
    """CONNACK; for MQTT 3 with return codes, which decode to themselves."""
    if version != p.V5:
        return p.Connack(draw(st.booleans()), 0, Properties())
    code = draw(st.sampled_from([0, 0x80, 0x87]))
    return p.Connack(draw(st.booleans()), code, draw(property_sets(props.ALLOWED_CONNACK)))


def packets(version: int) -> st.SearchStrategy[p.Packet]:
    """Any control packet of a version."""
    return st.one_of(
        publishes(version),
        acks(version),
        subscribes(version),
        unsubscribes(version),
        subacks(version),
        connects(version),
        connacks(version),
        disconnects(version),
        st.sampled_from([p.PINGREQ, p.PINGRESP]).map(p.Ping),
    )


def client_packets(version: int) -> st.SearchStrategy[p.Packet]:
    """Packets that a client may send once it is connected."""
    return st.one_of(
        publishes(version, props.ALLOWED_PUBLISH - {props.TOPIC_ALIAS}),
        acks(version),
        subscribes(version),
        unsubscribes(version),
        st.just(p.Ping(p.PINGREQ)),
    )
