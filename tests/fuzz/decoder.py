"""Fuzz target: any bytes, in any version, as packets. What decodes can be said again, and means the same."""

from typing import Final

from fuzz.grammar import packet as generated
from fuzz.source import Source
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.errors import ProtocolError
from support.packets import plain

VERSIONS: Final = (p.V3_1, p.V3_1_1, p.V5)
_GRAMMAR: Final = 0x10


def run(data: bytes) -> None:
    """One input: a byte that says how the others are meant, then packets or decisions."""
    if not data:
        return
    version = VERSIONS[data[0] % 3]
    if data[0] & _GRAMMAR:
        source = Source(data[1:])
        stream = b"".join(generated(source, version, source.byte() & 15) for _ in range(3) if len(source))
    else:
        stream = data[1:]
    decode_stream(stream, version)


def decode_stream(stream: bytes, version: int) -> int:
    """Decode packet behind packet as far as it goes, and hold each against its encoding; how many there were."""
    at = count = 0
    while len(stream) - at >= 2:
        try:
            length, body = remaining_length(stream, at + 1, len(stream))
            if length < 0 or body + length > len(stream):
                break
            packet = decode_packet(stream, at, body, body + length, version)
        except ProtocolError as refusal:
            _check_refusal(refusal)
            break
        check(packet, version)
        at = body + length
        count += 1
    return count


def _check_refusal(refusal: ProtocolError) -> None:
    assert refusal.detail
    assert refusal.reason_code >= 0x80


def check(packet: p.Packet, version: int) -> None:
    """A packet that was decoded encodes to one that decodes to the same."""
    if isinstance(packet, p.Connack) and version != p.V5:
        return  # a return code that does not exist is read as an unspecified error
    if isinstance(packet, p.Connect):
        version = packet.version
    encoded = encode_packet(packet, version)
    length, body = remaining_length(encoded, 1, len(encoded))
    assert body + length == len(encoded)
    again = decode_packet(encoded, 0, body, len(encoded), version)
    assert plain(again) == plain(packet)
    if isinstance(packet, p.Publish) and packet.property_bytes:
        _check_properties(packet)


def _check_properties(packet: p.Publish) -> None:
    try:
        properties = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
    except ProtocolError:
        return
    encoded = props.encode_properties(properties)
    assert props.properties_from_wire(encoded, props.ALLOWED_PUBLISH_TO_CLIENT) == properties
