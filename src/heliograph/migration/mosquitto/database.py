"""mosquitto.db: what mosquitto keeps across a restart, in the formats 5 and 6 (mosquitto 1.6 and later).

After 15 bytes of magic come a checksum that is always 0 and the version, then chunks: kind and length in 4 bytes each,
a struct of fixed size, and texts whose lengths it has. Numbers are in network order, but for the ids of messages and
times, which are as the machine has them (little-endian is read).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from heliograph.migration.draft import ImportDraft
from heliograph.migration.outcomes import REFUSED, ForeignLine, ImportOutcome
from heliograph.migration.retained import RetainedMessage, api_properties, take_retained
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import ALLOWED_PUBLISH, decode_properties

_MAGIC: Final = b"\x00\xb5\x00mosquitto db"
_HEAD_BYTES: Final = 23
_VERSIONS: Final = (5, 6)
_MESSAGE, _CLIENT_MESSAGE, _RETAIN, _SUBSCRIPTION = 2, 3, 4, 5
_MESSAGE_BYTES, _CLIENT_MESSAGE_BYTES, _SUBSCRIPTION_BYTES = 32, 16, 12
_BY_HAND: Final = "mosquitto_sub -t '#' --retained-only shows them, heliograph publish --retain takes them over"
_SESSION: Final = (
    "sessions belong to their clients: it subscribes again when it connects here; messages that wait for it stay behind"
)


class DatabaseError(ValueError):
    """A file that is no such database, or is damaged; the text says why."""


@dataclass(slots=True)
class Database:
    """Retained messages, and of each client its subscriptions with their QoS and how many messages wait for it."""

    retained: list[RetainedMessage] = field(default_factory=list)
    subscriptions: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)


def read_database(data: bytes) -> Database:
    """What a file holds; raises `DatabaseError`."""
    try:
        return _read(data)
    except (struct.error, UnicodeDecodeError, ProtocolError, IndexError) as error:
        raise DatabaseError(f"it is damaged: {error}") from None


def import_database(draft: ImportDraft, file: Path, now_s: int) -> None:
    """Put the retained messages of a file beside the configuration, and say what else it has."""
    place = ForeignLine(str(file))
    try:
        found = read_database(file.read_bytes())
    except OSError as error:
        draft.outcomes.append(
            ImportOutcome(place, REFUSED, "the database", reason=f"it cannot be read: {error.strerror}; {_BY_HAND}")
        )
        return
    except DatabaseError as error:
        draft.outcomes.append(ImportOutcome(place, REFUSED, "the database", reason=f"{error}; {_BY_HAND}"))
        return
    take_retained(draft, found.retained, place, now_s)
    for client in sorted(found.subscriptions.keys() | found.waiting.keys()):
        filters = ", ".join(f"{topic} (QoS {qos})" for topic, qos in found.subscriptions.get(client, ()))
        waiting = found.waiting.get(client, 0)
        has = f"subscriptions {filters or 'none'}, messages that wait {waiting}"
        draft.outcomes.append(ImportOutcome(place, REFUSED, f"session of {client} ({has})", reason=_SESSION))


def _read(data: bytes) -> Database:
    if not data.startswith(_MAGIC):
        raise DatabaseError("it is no database of mosquitto")
    version = int.from_bytes(data[19:_HEAD_BYTES])
    if version not in _VERSIONS:
        raise DatabaseError(f"it has the format {version}, and {_VERSIONS} are read: start mosquitto 2 with it once")
    found = Database()
    messages: dict[bytes, RetainedMessage] = {}
    retained: list[bytes] = []
    for kind, chunk in _chunks(data):
        if kind == _MESSAGE:
            messages[chunk[:8]] = _message(chunk)
        elif kind == _RETAIN:
            retained.append(chunk[:8])
        elif kind == _SUBSCRIPTION:
            client, topic, qos = _subscription(chunk)
            found.subscriptions.setdefault(client, []).append((topic, qos))
        elif kind == _CLIENT_MESSAGE:
            (length,) = struct.unpack_from("!H", chunk, 10)
            client = chunk[_CLIENT_MESSAGE_BYTES : _CLIENT_MESSAGE_BYTES + length].decode()
            found.waiting[client] = found.waiting.get(client, 0) + 1
    missing = sum(key not in messages for key in retained)
    if missing:
        raise DatabaseError(f"it is damaged: {missing} retained messages are not there")
    found.retained = [messages[key] for key in retained]
    return found


def _chunks(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = _HEAD_BYTES
    while at < len(data):
        kind, length = struct.unpack_from("!II", data, at)
        chunk = data[at + 8 : at + 8 + length]
        if len(chunk) != length:
            raise DatabaseError("it is damaged: it ends within a chunk")
        yield kind, chunk
        at += 8 + length


def _message(chunk: bytes) -> RetainedMessage:
    (expires_s,) = struct.unpack_from("<q", chunk, 8)
    payload_length, _, *lengths, _ = struct.unpack_from("!IHHHHH", chunk, 16)
    source_length, username_length, topic_length = lengths
    qos = chunk[30]
    topic_at = _MESSAGE_BYTES + source_length + username_length
    payload_at = topic_at + topic_length
    end = payload_at + payload_length
    if end > len(chunk):
        raise DatabaseError("it is damaged: a message is longer than its chunk")
    properties = {}
    if end < len(chunk):
        properties = api_properties(decode_properties(chunk, end, len(chunk), ALLOWED_PUBLISH)[0].named())
    return RetainedMessage(chunk[topic_at:payload_at].decode(), chunk[payload_at:end], qos, expires_s, properties)


def _subscription(chunk: bytes) -> tuple[str, str, int]:
    client_length, topic_length = struct.unpack_from("!HH", chunk, 4)
    topic_at = _SUBSCRIPTION_BYTES + client_length
    return (
        chunk[_SUBSCRIPTION_BYTES:topic_at].decode(),
        chunk[topic_at : topic_at + topic_length].decode(),
        chunk[8],
    )
