"""The columns that a rule reads: of a stored or published message, made only when asked for, or given as plain values.

Both engines and `heliograph rule test` make the columns of a message here, so that all three see the same. Columns
that only a live connection knows (`peerhost`, `node`, `client_attrs`, ...) are undefined: no stored message has them.
`metadata` is each rule's own, and `heliograph.rules.evaluator` knows it.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any, Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json
from heliograph.rules.values import UNDEFINED, Value, string_of
from heliograph.storage.message_columns import MESSAGE

_NUMBER_PROPERTIES: Final = frozenset({"Message-Expiry-Interval", "Payload-Format-Indicator"})
_USER_PROPERTY: Final = "User-Property"


class Columns:
    """Columns by name, given as plain values; a payload that is no text counts as decoded. Lives for one message."""

    __slots__ = ("_document", "_fault", "_read", "_values")

    def __init__(self, values: Mapping[str, Value]) -> None:
        self._values = values
        self._read = False
        self._document: Value = UNDEFINED
        self._fault: str | None = None

    def get(self, name: str) -> Value:
        value = self._values.get(name, UNDEFINED)
        return string_of(value) if isinstance(value, bytes) else value

    def all(self) -> dict[str, Value]:
        return {name: self.get(name) for name in self._values}

    def document(self) -> Value:
        """The payload decoded as JSON: once, at the first call."""
        if not self._read:
            self._read = True
            try:
                payload = self._payload()
                self._document = decode_json(payload) if isinstance(payload, str | bytes) else payload
            except EvaluationFault as fault:
                self._fault = f"the payload is {fault}"
        if self._fault is not None:
            raise EvaluationFault(self._fault)
        return self._document

    def _payload(self) -> Value:
        return self._values.get("payload", UNDEFINED)


class OverlaidColumns(Columns):
    """Columns below others, as INCASE and DO of FOREACH see results and elements; undefined hides nothing."""

    __slots__ = ("_base",)

    def __init__(self, base: Columns, over: Mapping[str, Value]) -> None:
        super().__init__(over)
        self._base = base

    def get(self, name: str) -> Value:
        value = self._values.get(name, UNDEFINED)
        return self._base.get(name) if value is UNDEFINED else value

    def all(self) -> dict[str, Value]:
        return {**self._base.all(), **self._values}

    def document(self) -> Value:
        """The payload that is on top decoded as JSON."""
        return super().document() if "payload" in self._values else self._base.document()


class MessageColumns(Columns):
    """The columns of one message.

    Args:
        properties: Its MQTT 5 properties by name, all as text, as stored messages hold them.
        guid: Its id, 16 bytes.
        received_at: When the broker received it, microseconds since the epoch.

    Attributes:
        message: All of these in the order of the public schema of stored messages.
    """

    __slots__ = ("message",)

    def __init__(
        self,
        topic: str,
        payload: bytes,
        qos: int = 0,
        retain: bool = False,
        clientid: str = "",
        username: str | None = None,
        properties: Mapping[str, str] | None = None,
        guid: bytes = bytes(16),
        received_at: int = 0,
    ) -> None:
        self.message = (topic, payload, qos, retain, clientid, username, properties, guid, received_at)
        self._read = False
        self._fault = None

    def take(self, message: tuple[Any, ...]) -> "MessageColumns":
        """Become the columns of another message, given as the attribute `message` holds it; spares a batch objects."""
        self.message = message
        self._read = False
        self._fault = None
        return self

    def get(self, name: str) -> Value:
        make = _MAKERS.get(name)
        return UNDEFINED if make is None else make(self)

    def all(self) -> dict[str, Value]:
        """Every column but undefined ones."""
        made = {name: make(self) for name, make in _MAKERS.items()}
        return {name: value for name, value in made.items() if value is not UNDEFINED}

    def _payload(self) -> Value:
        return self.message[1]

    def _username(self) -> Value:
        return UNDEFINED if self.message[5] is None else self.message[5]


_MAKERS: Final[dict[str, Callable[[MessageColumns], Value]]] = {
    "id": lambda columns: columns.message[7].hex().upper(),
    "clientid": lambda columns: columns.message[4],
    "username": lambda columns: columns._username(),
    "payload": lambda columns: string_of(columns.message[1]),
    "topic": lambda columns: columns.message[0],
    "qos": lambda columns: columns.message[2],
    "flags": lambda columns: {"dup": False, "retain": columns.message[3]},
    "pub_props": lambda columns: publish_properties(columns.message[6] or {}),
    "timestamp": lambda columns: columns.message[8] // 1000,
    "publish_received_at": lambda columns: columns.message[8] // 1000,
    "event": lambda columns: "message.publish",
}

MESSAGE_COLUMN_NAMES: Final = tuple(_MAKERS)

STORED_NAMES: Final = tuple(column.name for column in MESSAGE)
"""What stored messages call the arguments of `MessageColumns`, in its order."""

STORED_BY_COLUMN: Final[Mapping[str, str | None]] = {
    "id": "guid",
    "clientid": "clientid",
    "username": "username",
    "payload": "payload",
    "topic": "topic",
    "qos": "qos",
    "flags": "retain",
    "pub_props": "properties",
    "timestamp": "received_at",
    "publish_received_at": "received_at",
    "event": None,
}
"""Which column of the public schema of stored messages each column is made of."""


def publish_properties(properties: Mapping[str, str]) -> Value:
    """The column `pub_props`: MQTT 5 properties by their standard names, user properties in a map and as pairs.

    Stored messages keep one user property of each name, so their pairs are in order but without duplicates.
    """
    known: dict[str, Value] = {}
    user: dict[str, Value] = {}
    for name, text in properties.items():
        if name.startswith(_USER_PROPERTY + "."):
            user[name[len(_USER_PROPERTY) + 1 :]] = text
        else:
            known[name] = _property_value(name, text)
    if user:
        known[_USER_PROPERTY] = user
        known[f"{_USER_PROPERTY}-Pairs"] = [{"key": name, "value": text} for name, text in user.items()]
    return known


def _property_value(name: str, text: str) -> Value:
    # Stored properties are well-formed; what a user put into a frame stays the text that it is.
    if name in _NUMBER_PROPERTIES and text.isdecimal():
        return int(text)
    if name == "Correlation-Data":
        try:
            return string_of(b64decode(text, validate=True))
        except ValueError:
            return text
    return text
