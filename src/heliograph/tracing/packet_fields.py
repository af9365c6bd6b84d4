"""What a trace shows of a packet, without passwords and authentication data; and packets out of bytes that leave."""

from collections.abc import Iterator
from typing import Final

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.errors import ProtocolError

_HIDDEN: Final = "******"
_FILTERS_MAX: Final = 50
_TEXT_MAX: Final = 512
# So much of a packet is kept to be shown: a PUBLISH has its topic and most properties in it.
_KEPT_BYTES: Final = 131_072

Fields = dict[str, object]


def fields_of(packet: bytes, version: int, size: int) -> tuple[Fields, bytes | None]:
    """What is shown of a packet of `size` bytes, of which `packet` may be the beginning, and a PUBLISH's payload."""
    name = p.NAMES[packet[0] >> 4]
    fields: Fields = {"packet": name, "bytes": size}
    try:
        _, body = remaining_length(packet, 1, len(packet))
        decoded = decode_packet(packet, 0, body, len(packet), version)
    except (ProtocolError, IndexError) as error:
        return {**fields, "fault": str(error)[:_TEXT_MAX]}, None
    if isinstance(decoded, p.Publish):
        fields |= _publish(decoded)
        return fields, decoded.payload
    fields |= _others(decoded)
    return fields, None


def _publish(packet: p.Publish) -> Fields:
    fields: Fields = {"topic": short(packet.topic.decode("utf-8", "replace")), "qos": int(packet.qos)}
    if packet.qos:
        fields["packet_id"] = int(packet.packet_id)
    fields |= {name: True for name, is_set in (("retain", packet.retain), ("dup", packet.dup)) if is_set}
    if packet.property_bytes:
        fields["properties"] = shown_properties(
            props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT | props.ALLOWED_PUBLISH)
        )
    return fields


def _others(packet: p.Packet) -> Fields:
    if isinstance(packet, p.Connect):
        return _connect(packet)
    if isinstance(packet, p.Connack):
        return {"session_present": packet.session_present, **_reason(packet.code, packet.properties)}
    if isinstance(packet, p.Ack):
        return {"packet_id": packet.packet_id, **_reason(packet.code, packet.properties)}
    if isinstance(packet, p.Subscribe):
        entries = [
            {"filter": short(entry.topic_filter), "qos": entry.qos, **_options(entry)}
            for entry in packet.entries[:_FILTERS_MAX]
        ]
        return {"packet_id": packet.packet_id, "filters": entries, **_more(len(packet.entries))}
    if isinstance(packet, p.Unsubscribe):
        filters = [short(name) for name in packet.topic_filters[:_FILTERS_MAX]]
        return {"packet_id": packet.packet_id, "filters": filters, **_more(len(packet.topic_filters))}
    if isinstance(packet, p.Suback):
        codes = [rc.name_of(code) if code > 2 else f"granted_qos{code}" for code in packet.codes[:_FILTERS_MAX]]
        if packet.kind == p.UNSUBACK:
            codes = [rc.name_of(code) for code in packet.codes[:_FILTERS_MAX]]
        return {"packet_id": packet.packet_id, "codes": codes, **_more(len(packet.codes))}
    if isinstance(packet, p.ReasonPacket):
        return _reason(packet.code, packet.properties)
    return {}


def _connect(packet: p.Connect) -> Fields:
    fields: Fields = {
        "version": packet.version,
        "clientid": short(packet.clientid),
        "clean_start": packet.clean_start,
        "keepalive_s": packet.keepalive_s,
    }
    if packet.username is not None:
        fields["username"] = short(packet.username)
    if packet.password is not None:
        fields["password"] = _HIDDEN
    if packet.will is not None:
        will = packet.will
        fields["will"] = {"topic": short(will.topic), "qos": will.qos, "retain": will.retain}
    shown = shown_properties(packet.properties)
    return {**fields, "properties": shown} if shown else fields


def _options(entry: p.SubscribeEntry) -> Fields:
    options: Fields = {"no_local": True} if entry.no_local else {}
    if entry.retain_as_published:
        options["retain_as_published"] = True
    if entry.retain_handling:
        options["retain_handling"] = entry.retain_handling
    return options


def _reason(code: int, properties: props.Properties | None) -> Fields:
    fields: Fields = {"code": f"0x{code:02x}", "reason": rc.name_of(code)} if code else {}
    shown = {} if properties is None else shown_properties(properties)
    return {**fields, "properties": shown} if shown else fields


def shown_properties(properties: props.Properties) -> Fields:
    """Properties by their names, without authentication data."""
    named = properties.named()
    return {
        name: _HIDDEN if name == props.NAMES[props.AUTHENTICATION_DATA] else _value(value)
        for name, value in named.items()
    }


def _value(value: object) -> object:
    if isinstance(value, bytes):
        return value[:_TEXT_MAX].hex()
    if isinstance(value, str):
        return short(value)
    if isinstance(value, list):
        return [[short(part) for part in one] if isinstance(one, tuple) else one for one in value[:_FILTERS_MAX]]
    return value


def short(text: str) -> str:
    """A text of a client, which may have chosen one of 64 KiB."""
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."


def _more(count: int) -> Fields:
    return {"more": count - _FILTERS_MAX} if count > _FILTERS_MAX else {}


class PacketStream:
    """Cuts bytes that leave into packets; of a large packet only the beginning is kept."""

    def __init__(self, skipped: int) -> None:
        self._skipped = skipped
        self._kept = bytearray()
        self._left = 0  # bytes that are still to come of a packet whose beginning is kept
        self._size = 0  # of that packet

    def feed(self, data: bytes) -> Iterator[tuple[bytes, int]]:
        at = min(self._skipped, len(data))
        self._skipped -= at
        while at < len(data):
            if self._left:
                at = self._go_on(data, at)
                if self._left:
                    return
                yield self._taken()
                continue
            at = self._begin(data, at)
            if self._size and not self._left:
                yield self._taken()

    def _begin(self, data: bytes, at: int) -> int:
        """Read a fixed header, of which a part may have come before; where the rest of the bytes is."""
        while at < len(data):
            self._kept.append(data[at])
            at += 1
            if len(self._kept) >= 2 and self._kept[-1] < 0x80:
                length, body = remaining_length(bytes(self._kept), 1, len(self._kept))
                self._size = body + length
                self._left = length
                break
        return at

    def _go_on(self, data: bytes, at: int) -> int:
        end = min(len(data), at + self._left)
        self._kept += data[at : min(end, at + max(0, _KEPT_BYTES - len(self._kept)))]
        self._left -= end - at
        return end

    def _taken(self) -> tuple[bytes, int]:
        packet, size = bytes(self._kept), self._size
        self._kept.clear()
        self._size = 0
        return packet, size
