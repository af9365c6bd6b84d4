"""Packets to a client that must fit what it takes: reasons and user properties are left out of those that would not.

A packet that is too large even so is not sent at all [MQTT-3.1.2-24].
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.authentication import AuthStep
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_ack, encode_connack, encode_packet, encode_reason
from heliograph.mqtt.properties import Properties

_REASON_CHARACTERS_MAX: Final = 512
# What a DISCONNECT says instead of a reason code that only CONNACK has.
_TO_DISCONNECT: Final = {
    rc.CLIENT_IDENTIFIER_NOT_VALID: rc.NOT_AUTHORIZED,
    rc.BAD_USERNAME_OR_PASSWORD: rc.NOT_AUTHORIZED,
    rc.BANNED: rc.NOT_AUTHORIZED,
    rc.SERVER_UNAVAILABLE: rc.SERVER_BUSY,
}


def add_reason(properties: Properties, reason: str) -> None:
    """Add a Reason String, in ASCII so that nothing a client sent comes back as something else."""
    if reason:
        text = reason[:_REASON_CHARACTERS_MAX].encode("ascii", "backslashreplace").decode("ascii")
        properties.strings[props.REASON_STRING] = text


def add_authentication(properties: Properties, method: str, step: AuthStep) -> None:
    """Add the method of an enhanced authentication, and what it says last."""
    properties.strings[props.AUTHENTICATION_METHOD] = method
    if step.data is not None:
        properties.binaries[props.AUTHENTICATION_DATA] = step.data


def auth(method: str, step: AuthStep, bytes_max: i64) -> bytes | None:
    """AUTH: a challenge, or that a repeated authentication succeeded; None where it is too large for the client."""
    properties = Properties()
    add_authentication(properties, method, step)  # [MQTT-3.15.2-2] [MQTT-3.15.2-3]
    data = encode_reason(p.Auth(step.code, properties), p.V5)
    return data if _fits(data, bytes_max) else None


def connack(present: bool, code: int, properties: Properties, version: i64, bytes_max: i64) -> bytes | None:
    """CONNACK, or None where even the shortest exceeds what the client takes (0 for anything)."""
    present = present and version != p.V3_1  # whose CONNACK has no flags
    if code not in rc.CONNACK_CODES:  # a callback's
        code = rc.UNSPECIFIED_ERROR
    data = encode_connack(p.Connack(present, code, properties), version)
    if _fits(data, bytes_max):
        return data
    _strip(properties)  # [MQTT-3.2.2-19] [MQTT-3.2.2-20]
    data = encode_connack(p.Connack(present, code, properties), version)
    return data if _fits(data, bytes_max) else None


def disconnect(code: int, reason: str, bytes_max: i64) -> bytes:
    """DISCONNECT for a client of MQTT 5, with a reason if it fits [MQTT-3.14.2-3]."""
    if code not in rc.DISCONNECT_FROM_SERVER:
        code = _TO_DISCONNECT.get(code, rc.UNSPECIFIED_ERROR)
    properties = Properties()
    add_reason(properties, reason)
    data = encode_reason(p.Disconnect(code, properties), p.V5)
    if _fits(data, bytes_max):
        return data
    return encode_reason(p.Disconnect(code, Properties()), p.V5)


def refused(ack: bytes, code: int, reason: str, bytes_max: i64) -> bytes:
    """The MQTT 5 PUBACK or PUBREC that refuses what `ack` would have accepted.

    Args:
        reason: Why, if the client asks for reasons [MQTT-3.1.2-29].
        bytes_max: What the client takes; 0 for anything.
    """
    kind, packet_id = ack[0] >> 4, (ack[2] << 8) | ack[3]  # [MQTT-2.2.1-5]
    if reason:
        properties = Properties()
        add_reason(properties, reason)
        data = encode_ack(kind, packet_id, code, p.V5, properties)
        if _fits(data, bytes_max):  # [MQTT-3.4.2-2] [MQTT-3.5.2-2]
            return data
    return encode_ack(kind, packet_id, code, p.V5)  # [MQTT-3.4.2-1] [MQTT-3.5.2-1]


def suback(kind: int, packet_id: int, codes: list[int], reason: str, version: i64, bytes_max: i64) -> bytes | None:
    """SUBACK or UNSUBACK, or None where it is too large for the client."""
    if version != p.V5:
        codes = [code if code <= 2 else 0x80 for code in codes]  # MQTT 3 knows one failure 3.1.1 [MQTT-3.9.3-2]
        reason = ""
    properties = Properties()
    add_reason(properties, reason)
    data = encode_packet(p.Suback(kind, packet_id, codes, properties), version)
    if not _fits(data, bytes_max):  # [MQTT-3.9.2-1] [MQTT-3.11.2-1]
        # [MQTT-3.9.2-1] [MQTT-3.9.2-2] [MQTT-3.11.2-1] [MQTT-3.11.2-2]
        data = encode_packet(p.Suback(kind, packet_id, codes, Properties()), version)
    return data if _fits(data, bytes_max) else None


def _fits(data: bytes, bytes_max: i64) -> bool:
    return bytes_max == 0 or len(data) <= bytes_max


def _strip(properties: Properties) -> None:
    properties.strings.pop(props.REASON_STRING, None)
    properties.user = []
