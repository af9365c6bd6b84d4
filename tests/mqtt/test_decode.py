import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt.decode import remaining_length
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.errors import MalformedPacketError, ProtocolError
from mqtt.bank import CASES, Case, each, ids
from support.cases import cases
from support.packets import decode_all, decode_one, plain
from support.strategies import VERSIONS, packets

GOOD = [case for case in CASES if case.packet is not None]
BAD = [case for case in CASES if case.fault is not None and case.in_decoder]


def test_the_bank_is_large_and_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names)) >= 150


@cases(("case", "version"), each(GOOD), ids=ids(GOOD))
def test_a_valid_packet_decodes(case: Case, version: int) -> None:
    assert case.packet is not None
    assert plain(decode_one(case.data, version)) == plain(case.packet)


@cases(("case", "version"), each(GOOD), ids=ids(GOOD))
def test_a_valid_packet_encodes(case: Case, version: int) -> None:
    assert case.packet is not None
    encoded = encode_packet(case.packet, version)
    if case.is_canonical:
        assert encoded == case.data
    assert plain(decode_one(encoded, version)) == plain(case.packet)


@cases(("case", "version"), each(BAD), ids=ids(BAD))
def test_an_invalid_packet_is_refused(case: Case, version: int) -> None:
    assert case.fault is not None
    with pytest.raises(ProtocolError) as caught:
        decode_one(case.data, version)
    assert (type(caught.value), caught.value.reason_code) == case.fault
    assert caught.value.detail


@cases("version", VERSIONS)
@given(data=st.data())
def test_any_packet_encodes_and_decodes_to_itself(version: int, data: st.DataObject) -> None:
    packet = data.draw(packets(version))
    encoded = encode_packet(packet, version)
    assert plain(decode_one(encoded, version)) == plain(packet)


@cases("version", VERSIONS)
@given(data=st.data())
def test_packets_one_behind_the_other_decode_each(version: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(version), max_size=5))
    stream = b"".join(encode_packet(packet, version) for packet in sent)
    assert [plain(packet) for packet in decode_all(stream, version)] == [plain(packet) for packet in sent]


@cases("version", VERSIONS)
@given(first=st.integers(0, 255), body=st.binary(max_size=40))
@example(first=0x82, body=b"\0\1\0")
def test_arbitrary_bytes_raise_only_protocol_errors(version: int, first: int, body: bytes) -> None:
    decode_or_refuse(bytes([first, len(body)]) + body, version)


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """A packet of the bank with some of its bytes changed, lost or added, and its remaining length put right."""
    case = draw(st.sampled_from([case for case in CASES if len(case.data) < 128]))
    body = bytearray(case.data[2:])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        change = draw(st.sampled_from(["set", "drop", "add"]))
        byte = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        if change == "add":
            body.insert(at, byte)
        elif at < len(body) and change == "set":
            body[at] = byte
        elif at < len(body):
            del body[at]
    return bytes([case.data[0], min(len(body), 127)]) + bytes(body[:127])


@cases("version", VERSIONS)
@given(data=mutations())
def test_damaged_packets_raise_only_protocol_errors(version: int, data: bytes) -> None:
    decode_or_refuse(data, version)


def decode_or_refuse(data: bytes, version: int) -> None:
    try:
        packet = decode_one(data, version)
    except ProtocolError:
        return
    if isinstance(packet, p.Connack) and version != p.V5:
        return  # a return code that does not exist is read as an unspecified error
    # What was taken can be said again, and means the same.
    assert plain(decode_one(encode_packet(packet, version), version)) == plain(packet)


@cases(
    ("data", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\x80\x01", 128),
        (b"\xff\x7f", 16_383),
        (b"\x80\x80\x01", 16_384),
        (b"\xff\xff\x7f", 2_097_151),
        (b"\x80\x80\x80\x01", 2_097_152),
        (b"\xff\xff\xff\x7f", 268_435_455),
    ],
)
def test_remaining_length(data: bytes, value: int) -> None:
    assert remaining_length(b"\xc0" + data, 1, 1 + len(data)) == (value, 1 + len(data))
    for cut in range(len(data)):
        assert remaining_length(b"\xc0" + data[:cut], 1, 1 + cut) == (-1, 1)


def test_a_remaining_length_that_does_not_end_is_refused_before_it_is_complete() -> None:
    with pytest.raises(MalformedPacketError, match="longer than four bytes"):
        remaining_length(b"\xc0\x80\x80\x80\x80", 1, 5)
