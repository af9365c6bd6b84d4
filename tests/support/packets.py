"""Packets for tests: made from names, compared as plain values, told in words."""

from typing import Final

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import encode_publish
from heliograph.mqtt.properties import Properties, encode_properties

_IDENTIFIERS: Final = {name.lower().replace("-", "_"): identifier for identifier, name in props.NAMES.items()}

PropertyValue = int | str | bytes | list[int] | list[tuple[str, str]]


def properties(**named: PropertyValue) -> Properties:
    """Properties by their standard names in snake case, as `session_expiry_interval=60` or `user_property=[(k, v)]`."""
    result = Properties()
    for name, value in named.items():
        identifier = _IDENTIFIERS[name]
        if isinstance(value, int):
            result.numbers[identifier] = value
        elif isinstance(value, str):
            result.strings[identifier] = value
        elif isinstance(value, bytes):
            result.binaries[identifier] = value
        else:
            for item in value:
                if isinstance(item, int):
                    result.subscription_ids.append(item)
                else:
                    result.user.append(item)
    return result


def publish(
    topic: str,
    payload: bytes = b"",
    qos: int = 0,
    packet_id: int = 0,
    *,
    retain: bool = False,
    dup: bool = False,
    version: int = p.V5,
    **named: PropertyValue,
) -> p.Publish:
    """A PUBLISH as it would come from a client of `version`."""
    data = encode_publish(
        version, topic.encode(), payload, qos, retain, dup, packet_id, encode_properties(properties(**named))
    )
    packet = decode_one(data, version)
    assert isinstance(packet, p.Publish)
    return packet


def properties_of(packet: p.Publish) -> dict[str, object]:
    """The properties of a PUBLISH to a client, under their standard names."""
    return props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT).named()


def decode_one(data: bytes, version: int) -> p.Packet:
    """The one packet that fills `data`."""
    length, body = remaining_length(data, 1, len(data))
    assert body + length == len(data), f"{data.hex(' ')} is not one whole packet"
    return decode_packet(data, 0, body, len(data), version)


def decode_all(data: bytes, version: int) -> list[p.Packet]:
    """The packets that `data` holds, one behind the other."""
    packets = []
    at = 0
    while at < len(data):
        length, body = remaining_length(data, at + 1, len(data))
        stop = body + length
        assert length >= 0, f"{data[at:].hex(' ')} is not a whole packet"
        assert stop <= len(data), f"{data[at:].hex(' ')} is not a whole packet"
        packets.append(decode_packet(data, at, body, stop, version))
        at = stop
    return packets


def plain(packet: p.Packet) -> tuple[object, ...]:
    """A packet as a value that compares, with everything that it says."""
    kind = p.NAMES[packet.kind]
    if isinstance(packet, p.Connect):
        return (
            kind,
            packet.version,
            packet.clientid,
            packet.clean_start,
            packet.keepalive_s,
            None if packet.will is None else _plain_will(packet.will),
            packet.username,
            packet.password,
            packet.properties.named(),
        )
    if isinstance(packet, p.Connack):
        return (kind, packet.session_present, packet.code, packet.properties.named())
    if isinstance(packet, p.Publish):
        return (
            kind,
            packet.topic,
            packet.payload,
            packet.qos,
            packet.retain,
            packet.dup,
            packet.packet_id,
            packet.property_bytes,
        )
    if isinstance(packet, p.Ack):
        named = {} if packet.properties is None else packet.properties.named()
        return (kind, packet.packet_id, packet.code, named)
    if isinstance(packet, p.Subscribe):
        entries = [
            (entry.topic_filter, entry.qos, entry.no_local, entry.retain_as_published, entry.retain_handling)
            for entry in packet.entries
        ]
        return (kind, packet.packet_id, entries, packet.properties.named())
    if isinstance(packet, p.Unsubscribe):
        return (kind, packet.packet_id, packet.topic_filters, packet.properties.named())
    if isinstance(packet, p.Suback):
        return (kind, packet.packet_id, packet.codes, packet.properties.named())
    if isinstance(packet, p.ReasonPacket):
        return (kind, packet.code, packet.properties.named())
    return (kind,)


def say(packet: p.Packet) -> str:
    """A packet in a few words, as `PUBLISH t 'x' q1 #1 dup`; properties are left out."""
    kind = p.NAMES[packet.kind]
    if isinstance(packet, p.Publish):
        words = [kind, packet.topic.decode(), repr(packet.payload)[1:], f"q{int(packet.qos)}"]
        words += [f"#{int(packet.packet_id)}"] if packet.qos else []
        words += ["dup"] if packet.dup else []
        words += ["retain"] if packet.retain else []
        return " ".join(words)
    if isinstance(packet, p.Connack):
        return f"{kind} 0x{packet.code:02x}" + (" present" if packet.session_present else "")
    if isinstance(packet, p.Ack):
        return f"{kind} #{packet.packet_id}" + (f" 0x{packet.code:02x}" if packet.code else "")
    if isinstance(packet, p.Suback):
        return f"{kind} #{packet.packet_id} [{' '.join(f'0x{code:02x}' for code in packet.codes)}]"
    if isinstance(packet, p.ReasonPacket):
        return f"{kind} 0x{packet.code:02x}"
    return kind


def _plain_will(will: p.Will) -> tuple[object, ...]:
    return (will.topic, will.payload, will.qos, will.retain, will.properties.named())
