import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.mqtt import properties as props
from heliograph.mqtt.errors import MalformedPacketError, ProtocolError
from heliograph.mqtt.properties import (
    Properties,
    decode_binary,
    decode_properties,
    decode_string,
    decode_varint,
    encode_binary,
    encode_properties,
    encode_string,
    encode_varint,
    properties_from_wire,
)
from support.cases import cases
from support.packets import properties
from support.strategies import property_sets
from support.wire import varint, wire

EVERY = frozenset(props.NAMES)


@given(named=property_sets(EVERY))
def test_properties_encode_and_decode_to_themselves(named: Properties) -> None:
    encoded = encode_properties(named)
    assert properties_from_wire(encoded, EVERY) == named
    decoded, behind = decode_properties(encode_varint(len(encoded)) + encoded + b"rest", 0, len(encoded) + 5, EVERY)
    assert decoded == named
    assert behind == len(encode_varint(len(encoded))) + len(encoded)


@given(data=st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_protocol_errors(data: bytes) -> None:
    try:
        named, behind = decode_properties(data, 0, len(data), EVERY)
    except ProtocolError:
        return
    assert behind <= len(data)
    assert properties_from_wire(encode_properties(named), EVERY) == named


@cases("identifier", sorted(props.NAMES))
def test_a_property_may_only_stand_where_the_specification_allows_it(identifier: int) -> None:
    data = bytes([identifier]) + bytes(8)
    with pytest.raises(MalformedPacketError, match=f"0x{identifier:02x} may not stand in this packet"):
        properties_from_wire(data, EVERY - {identifier})


# Table 2-4 of the specification, packet by packet.
@cases(
    ("allowed", "identifiers"),
    [
        (props.ALLOWED_CONNECT, "11 21 27 22 19 17 26 15 16"),
        (props.ALLOWED_CONNACK, "11 21 24 25 27 12 22 1f 26 28 29 2a 13 1a 1c 15 16"),
        (props.ALLOWED_PUBLISH_TO_CLIENT, "01 02 23 08 09 26 0b 03"),
        (props.ALLOWED_WILL, "18 01 02 03 08 09 26"),
        (props.ALLOWED_ACK, "1f 26"),
        (props.ALLOWED_SUBSCRIBE, "0b 26"),
        (props.ALLOWED_UNSUBSCRIBE, "26"),
        (props.ALLOWED_DISCONNECT, "11 1f 26 1c"),
        (props.ALLOWED_AUTH, "15 16 1f 26"),
    ],
)
def test_what_each_packet_may_carry(allowed: frozenset[int], identifiers: str) -> None:
    assert allowed == set(bytes.fromhex(identifiers))


@cases("identifier", sorted(set(props.NAMES) - {props.SUBSCRIPTION_IDENTIFIER, props.USER_PROPERTY}))
def test_no_other_property_stands_twice(identifier: int) -> None:
    once = next(
        value for value in (b"\x01", b"\0\x01", b"\0\0\0\x01", b"\0\x011") if is_valid(bytes([identifier]) + value)
    )
    with pytest.raises(ProtocolError, match="stands twice"):
        properties_from_wire((bytes([identifier]) + once) * 2, EVERY)


def is_valid(data: bytes) -> bool:
    try:
        properties_from_wire(data, EVERY)
    except ProtocolError:
        return False
    return True


def test_user_properties_keep_order_and_duplicates() -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "1"), ("", "")]
    assert properties_from_wire(encode_properties(properties(user_property=pairs)), EVERY).user == pairs


def test_names_are_those_of_the_specification() -> None:
    named = properties(
        message_expiry_interval=7,
        content_type="text",
        correlation_data=b"\0",
        subscription_identifier=[3],
        user_property=[("k", "v")],
    )
    assert named.named() == {
        "Message-Expiry-Interval": 7,
        "Content-Type": "text",
        "Correlation-Data": b"\0",
        "Subscription-Identifier": [3],
        "User-Property": [("k", "v")],
    }
    assert "Content-Type" in repr(named)
    assert named != properties(content_type="text")


@given(value=st.integers(0, 268_435_455))
def test_variable_byte_integers(value: int) -> None:
    data = encode_varint(value)
    assert data == varint(value)
    assert decode_varint(b"x" + data + b"x", 1, len(data) + 2) == (value, len(data) + 1)
    for cut in range(len(data)):
        with pytest.raises(MalformedPacketError):
            decode_varint(data, 0, cut)


@cases("data", [b"\x80\x00", b"\xff\x80\x00", b"\x80\x80\x80\x00", b"\x81\x00"])
def test_a_variable_byte_integer_longer_than_needed_is_malformed(data: bytes) -> None:
    with pytest.raises(MalformedPacketError, match="longer than it needs to be"):  # [MQTT-1.5.5-1]
        decode_varint(data, 0, len(data))


@cases(
    "notation",
    ["0001 00", "0003 610062", "0002 c328", "0003 eda080", "0002 c080", "0004 f4908080", "0001 80", "0002 61"],
)
def test_strings_that_are_malformed(notation: str) -> None:
    data = wire(notation)
    with pytest.raises(MalformedPacketError):
        decode_string(data, 0, len(data))


@cases("text", ["", "a", "ü😀", "\ufeff", "\uffff", "\x01", "a" * 65_535])
def test_strings_that_are_valid(text: str) -> None:
    data = encode_string(text)
    assert decode_string(data, 0, len(data)) == (text, len(data))


def test_binary_data_has_at_most_65535_bytes() -> None:
    longest = bytes(65_535)
    assert decode_binary(encode_binary(longest), 0, 65_537) == (longest, 65_537)
    with pytest.raises(ValueError, match="65536 bytes; at most 65535 fit"):
        encode_binary(bytes(65_536))
