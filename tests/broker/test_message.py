"""What a receiver of any version gets of a message that any version published."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.broker.message import NEVER, Message, make_message
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.encode import UINT16
from heliograph.mqtt.properties import Properties, encode_properties, properties_from_wire
from support.cases import cases
from support.packets import decode_one, plain, properties, publish
from support.strategies import VERSIONS, publishes, subscription_ids

NOW_US = 1_700_000_000_000_000
TO_BROKER = props.ALLOWED_PUBLISH - {props.TOPIC_ALIAS}


def message_of(packet: p.Publish, clientid: str = "pub") -> Message:
    named = properties_from_wire(packet.property_bytes, TO_BROKER)
    expiry_s = named.number(props.MESSAGE_EXPIRY_INTERVAL, NEVER)
    return Message(NOW_US, 7, packet.topic.decode(), packet, clientid, None, expiry_s)


def expected(
    packet: p.Publish, version: int, qos: int, retain: bool, dup: bool, packet_id: int, property_bytes: bytes
) -> tuple[object, ...]:
    shown = property_bytes if version == p.V5 else b""
    return ("PUBLISH", packet.topic, packet.payload, qos, retain, dup, packet_id if qos else 0, shown)


@cases("publisher", VERSIONS)
@cases("receiver", VERSIONS)
@given(data=st.data())
def test_the_shared_encoding_of_qos_0(publisher: int, receiver: int, data: st.DataObject) -> None:
    packet = data.draw(publishes(publisher, TO_BROKER))
    message = message_of(packet)
    chunk = message.wire(receiver)
    assert plain(decode_one(chunk, receiver)) == expected(packet, receiver, 0, False, False, 0, packet.property_bytes)
    assert message.wire(receiver) is chunk


@cases("publisher", VERSIONS)
@cases("receiver", VERSIONS)
@given(data=st.data())
def test_head_and_tail_around_the_packet_identifier(publisher: int, receiver: int, data: st.DataObject) -> None:
    packet = data.draw(publishes(publisher, TO_BROKER))
    message = message_of(packet)
    for qos in data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=4)):
        head, tail = message.head_and_tail(receiver, qos)
        assert plain(decode_one(head + UINT16[513] + tail, receiver)) == expected(
            packet, receiver, qos, False, False, 513, packet.property_bytes
        )


@cases("publisher", VERSIONS)
@cases("receiver", VERSIONS)
@given(data=st.data(), subscription_id=st.just(0) | subscription_ids, waited_s=st.integers(0, 100_000))
def test_the_encoding_for_one_receiver(
    publisher: int, receiver: int, data: st.DataObject, subscription_id: int, waited_s: int
) -> None:
    packet = data.draw(publishes(publisher, TO_BROKER))
    qos = data.draw(st.integers(0, 2))
    retain, dup = data.draw(st.booleans()), qos > 0 and data.draw(st.booleans())
    message = message_of(packet)
    now_us = NOW_US + waited_s * 1_000_000 + 5
    chunk = message.encode(receiver, qos, retain, dup, 9, subscription_id, now_us, packet.topic, 0)
    got = decode_one(chunk, receiver)
    assert isinstance(got, p.Publish)
    assert plain(got) == expected(packet, receiver, qos, retain, dup, 9, got.property_bytes)
    if receiver != p.V5:
        return
    named = properties_from_wire(got.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
    original = properties_from_wire(packet.property_bytes, TO_BROKER)
    assert named.subscription_ids == ([subscription_id] if subscription_id else [])
    if props.MESSAGE_EXPIRY_INTERVAL in original.numbers:
        left_s = max(0, original.numbers[props.MESSAGE_EXPIRY_INTERVAL] - waited_s)
        original.numbers[props.MESSAGE_EXPIRY_INTERVAL] = left_s  # [MQTT-3.3.2-6]
    named.subscription_ids = []
    assert named == original


def test_the_publishers_own_bytes_are_shared_where_they_fit() -> None:
    plain_packet = publish("a", b"x", content_type="t")
    assert message_of(plain_packet).wire(p.V5) is plain_packet.data
    assert message_of(publish("a", b"x", 1, 5)).wire(p.V5) == plain_packet_without_properties()
    old = publish("a", b"x", version=p.V3_1)
    assert message_of(old).wire(p.V3_1_1) is old.data


def plain_packet_without_properties() -> bytes:
    return publish("a", b"x").data


@cases(
    ("expiry_s", "after_us", "expired"),
    [
        (NEVER, 10**15, False),
        (10, 0, False),
        (10, 9_999_999, False),
        (10, 10_000_000, True),
        (0, 0, True),
        (0xFFFFFFFF, 10**15, False),
    ],
)
def test_expiry(expiry_s: int, after_us: int, expired: bool) -> None:
    message = Message(NOW_US, 7, "a", publish("a"), "pub", None, expiry_s)
    assert message.expired(NOW_US + after_us) is expired


@given(
    payload=st.binary(max_size=300),
    qos=st.integers(0, 2),
    retain=st.booleans(),
    named=st.sampled_from([Properties(), properties(message_expiry_interval=5, user_property=[("k", "v")])]),
)
def test_a_message_that_did_not_come_as_a_packet(payload: bytes, qos: int, retain: bool, named: Properties) -> None:
    message = make_message(NOW_US, 7, "ä/b", payload, qos, retain, encode_properties(named), "pub", "user")
    assert (message.topic, message.payload, message.qos, message.retain) == ("ä/b", payload, qos, retain)
    assert (message.clientid, message.username, message.received_at) == ("pub", "user", NOW_US)
    assert message.properties == named
    assert message.property_bytes == encode_properties(named)
    assert message.expiry_s == named.number(props.MESSAGE_EXPIRY_INTERVAL, NEVER)
    for version in VERSIONS:
        got = decode_one(message.wire(version), version)
        assert isinstance(got, p.Publish)
        assert (got.topic.decode(), got.payload, got.qos, got.retain) == ("ä/b", payload, 0, False)


def test_what_a_message_says_of_itself() -> None:
    message = make_message(1, 0x0001_0000_0002_0003, "t", b"", 1, False, b"", "pub", None)
    assert message.guid.hex() == "0000000000000001" + "0001" + "00000002" + "0003"
    assert repr(message) == "Message(id=00000000000000010001000000020003, topic='t', qos=1, clientid='pub')"
