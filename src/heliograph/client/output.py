"""Messages as text: as mosquitto_sub's formats write them, or as lines of JSON."""

from __future__ import annotations

import base64
import datetime
import json
import re
from collections.abc import Callable, Mapping
from typing import Final

from heliograph.client.conversation import ReceivedMessage
from heliograph.mqtt import properties as props

_ESCAPE: Final = re.compile(rb"%(.)|@(.)|\\(.)", re.DOTALL)
_BACKSLASH: Final = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\", b"0": b"\0", b"a": b"\a", b"e": b"\x1b"}


def as_json(message: ReceivedMessage, when: datetime.datetime, *, payload_is_json: bool = False) -> str:
    """One message as one line; a payload or property that is no UTF-8 text is `{"$base64": "..."}`.

    Args:
        payload_is_json: Whether the payload stands in it as the JSON that it is, where it is some.
    """
    packet = message.packet
    row: dict[str, object] = {
        "tst": when.isoformat(timespec="microseconds"),
        "topic": message.topic,
        "qos": int(packet.qos),
        "retain": int(packet.retain),
        "payloadlen": len(packet.payload),
    }
    if packet.packet_id:
        row["mid"] = int(packet.packet_id)
    named = message.properties.named()
    if named:
        row["properties"] = {_key(name): _value(value) for name, value in named.items()}
    row["payload"] = _payload(packet.payload, payload_is_json)
    return json.dumps(row, ensure_ascii=False)


def formatted(message: ReceivedMessage, template: str, when: datetime.datetime) -> bytes:
    """A message as a format of mosquitto_sub says, without an end of line.

    Raises:
        ValueError: The format has an escape that does not exist.
    """

    def replace(match: re.Match[bytes]) -> bytes:
        percent, at, backslash = match.groups()
        if percent is not None:
            return _field(percent.decode("latin-1"), message, when)
        if at is not None:
            return b"@" if at == b"@" else when.strftime(f"%{at.decode('latin-1')}").encode()
        return _BACKSLASH.get(backslash, b"\\" + backslash)

    return _ESCAPE.sub(replace, template.encode("utf-8", "surrogateescape"))


def check_template(template: str) -> None:
    """Refuse a format with an escape that does not exist.

    Raises:
        ValueError: It has one.
    """
    for percent, _, _ in _ESCAPE.findall(template.encode("utf-8", "surrogateescape")):
        name = percent.decode("latin-1")
        if name and name not in _FIELDS and name not in "%jJIU":
            valid = "".join(sorted([*_FIELDS, *"%jJIU"]))
            raise ValueError(f"the format has %{name}; behind % stands one of {valid}")


def _field(name: str, message: ReceivedMessage, when: datetime.datetime) -> bytes:
    if name in ("j", "J"):
        return as_json(message, when, payload_is_json=name == "J").encode()
    if name == "I":
        return when.strftime("%Y-%m-%dT%H:%M:%S%z").encode()
    if name == "U":
        return f"{when.timestamp():.6f}".encode()
    return b"%" if name == "%" else _FIELDS[name](message)


def _number(identifier: int) -> Callable[[ReceivedMessage], bytes]:
    return lambda message: str(message.properties.numbers.get(identifier, "")).encode()


def _text(identifier: int) -> Callable[[ReceivedMessage], bytes]:
    return lambda message: message.properties.strings.get(identifier, "").encode()


_FIELDS: Final[Mapping[str, Callable[[ReceivedMessage], bytes]]] = {
    "A": _number(props.TOPIC_ALIAS),
    "C": _text(props.CONTENT_TYPE),
    "D": lambda message: message.properties.binaries.get(props.CORRELATION_DATA, b""),
    "E": _number(props.MESSAGE_EXPIRY_INTERVAL),
    "F": _number(props.PAYLOAD_FORMAT_INDICATOR),
    "l": lambda message: str(len(message.packet.payload)).encode(),
    "m": lambda message: str(int(message.packet.packet_id)).encode(),
    "P": lambda message: " ".join(f"{name}:{value}" for name, value in message.properties.user).encode(),
    "p": lambda message: message.packet.payload,
    "q": lambda message: str(int(message.packet.qos)).encode(),
    "R": _text(props.RESPONSE_TOPIC),
    "r": lambda message: str(int(message.packet.retain)).encode(),
    "S": lambda message: " ".join(map(str, message.properties.subscription_ids)).encode(),
    "t": lambda message: message.topic.encode(),
    "x": lambda message: message.packet.payload.hex().encode(),
    "X": lambda message: message.packet.payload.hex().upper().encode(),
}


def _key(name: str) -> str:
    return name.lower()


def _payload(payload: bytes, is_json: bool) -> object:
    if is_json:
        try:
            return json.loads(payload)
        except ValueError:
            pass
    return _value(payload)


def _value(value: object) -> object:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"$base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [_value(each) for each in value]
    return value
