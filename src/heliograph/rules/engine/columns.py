"""The columns of a live message or event, made only when a rule asks, without copying the message."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import orjson

from heliograph.broker.client import ClientInfo
from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import Properties
from heliograph.rules.columns import Columns
from heliograph.rules.events import COMMON_COLUMNS, Event
from heliograph.rules.values import UNDEFINED, Value, string_of

PUBLISHED: Final = "message.publish"
_LONG: Final = 19  # bytes; a shorter payload cannot hold an integer beyond 64 bits, which `decode_json` handles


class NodeFacts(Protocol):
    @property
    def node_name(self) -> str: ...

    def find_client(self, clientid: str) -> ClientInfo | None: ...


class LiveColumns(Columns):
    """The columns of a published message; lives while its rules are evaluated, one after another.

    `metadata` is each rule's own, and not here.

    Attributes:
        made_by: The rules that made the message, one through another.
    """

    __slots__ = ("_node", "made_by", "message")

    def __init__(self, message: Message, node: NodeFacts) -> None:
        self.message = message
        self.made_by = message.made_by
        self._node = node
        self._read = False
        self._fault = None

    def get(self, name: str) -> Value:
        make = _MAKERS.get(name)
        return UNDEFINED if make is None else make(self)

    def all(self) -> dict[str, Value]:
        made = {name: make(self) for name, make in _MAKERS.items()}
        return {name: value for name, value in made.items() if value is not UNDEFINED}

    def document(self) -> Value:
        """The payload decoded as JSON: once, at the first call."""
        if not self._read:
            payload = self.message.payload
            if len(payload) < _LONG:
                try:
                    self._document = orjson.loads(payload)
                except orjson.JSONDecodeError:
                    return super().document()
                self._read = True
                return self._document
        return super().document()

    def for_thread(self) -> "LiveColumns":
        return LiveColumns(self.message, self._node)

    @property
    def size(self) -> int:
        return len(self.message.payload) + len(self.message.property_bytes)

    @property
    def origin(self) -> str:
        message = self.message
        guid, client, topic = message.guid.hex().upper(), message.clientid[:200], message.topic[:200]
        return f"message {guid} of client {client!r} to {topic!r}"  # clients may put line ends into either

    def user_properties(self) -> list[tuple[str, str]]:
        return self.message.properties.user if self.message.property_bytes else []

    def _payload(self) -> Value:
        return self.message.payload

    def _client(self) -> ClientInfo | None:
        return self._node.find_client(self.message.clientid)

    def _client_value(self, name: str) -> Value:
        client = self._client()
        return UNDEFINED if client is None else _text_or_undefined(getattr(client, name))

    def _headers(self) -> Value:
        client = self._client()
        headers: dict[str, Value] = {"properties": pub_props(self.message)}
        if self.message.username is not None:
            headers["username"] = self.message.username
        if client is not None:
            headers |= {
                "peerhost": client.peerhost,
                "peername": client.peername,
                "protocol": "mqtt",
                "proto_ver": int(client.version),
                "client_attrs": attributes_of(client),
            }
        return headers


class ColumnsOfMessages:
    """The columns of messages for SQL; those of the last one are kept, so that its JSON is decoded once."""

    def __init__(self, node: NodeFacts) -> None:
        self._node = node
        self._columns: LiveColumns | None = None

    def of(self, message: Message) -> LiveColumns:
        columns = self._columns
        if columns is None or columns.message is not message:
            columns = LiveColumns(message, self._node)
            self._columns = columns
        return columns


class EventColumns(LiveColumns):
    """The columns of an event: those that it has, and of a message where it is about one."""

    __slots__ = ("_event", "_message", "_values")

    def __init__(
        self, event: Event, values: Mapping[str, Value], node: NodeFacts, message: Message | None = None
    ) -> None:
        self._event = event
        self._values = values
        self._message = message
        self._node = node
        self._read = False
        self._fault = None
        self.made_by: tuple[str, ...] = ()
        if message is not None:
            self.message = message
            self.made_by = message.made_by

    def get(self, name: str) -> Value:
        value = self._values.get(name, UNDEFINED)
        if value is not UNDEFINED:
            return value
        if name not in self._event.columns and name not in COMMON_COLUMNS:
            return UNDEFINED
        if name == "node" or (self._message is not None and name not in _RECEIVERS):
            return super().get(name)
        return UNDEFINED

    def all(self) -> dict[str, Value]:
        made = {name: self.get(name) for name in (*self._event.columns, *COMMON_COLUMNS)}
        return {name: value for name, value in made.items() if value is not UNDEFINED}

    def for_thread(self) -> "LiveColumns":
        return EventColumns(self._event, self._values, self._node, self._message)

    @property
    def size(self) -> int:
        return 0 if self._message is None else super().size

    @property
    def origin(self) -> str:
        if self._message is not None:
            return f"event {self._event.name} of {super().origin}"
        about = str(self._values.get("clientid", self._values.get("name", "")))
        return f"event {self._event.name} of {about[:200]!r}"

    def user_properties(self) -> list[tuple[str, str]]:
        return [] if self._message is None else super().user_properties()

    def document(self) -> Value:
        """The payload of the message which the event is about, decoded as JSON."""
        return UNDEFINED if self._message is None else super().document()

    def _payload(self) -> Value:
        return UNDEFINED if self._message is None else self.message.payload


class GivenColumns(LiveColumns):
    """Columns that were given as values, to try a rule."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value], node: NodeFacts) -> None:
        self._values = values
        self._node = node
        self._read = False
        self._fault = None
        self.made_by: tuple[str, ...] = ()

    def get(self, name: str) -> Value:
        return Columns.get(self, name)

    def all(self) -> dict[str, Value]:
        return Columns.all(self)

    def document(self) -> Value:
        return Columns.document(self)

    def for_thread(self) -> "LiveColumns":
        return GivenColumns(self._values, self._node)

    @property
    def size(self) -> int:
        return 0

    @property
    def origin(self) -> str:
        return "a test"

    def user_properties(self) -> list[tuple[str, str]]:
        properties = self._values.get("pub_props")
        user = properties.get("User-Property") if isinstance(properties, dict) else None
        return [(name, str(text)) for name, text in user.items()] if isinstance(user, dict) else []

    def _payload(self) -> Value:
        return self._values.get("payload", UNDEFINED)


class SourceColumns(GivenColumns):
    """The columns of a message that came in from elsewhere.

    Args:
        origin: What it is, for people.
        payload_bytes: Of its payload.
    """

    __slots__ = ("_origin", "_payload_bytes")

    def __init__(self, values: Mapping[str, Value], node: NodeFacts, origin: str, payload_bytes: int) -> None:
        super().__init__(values, node)
        self._origin = origin
        self._payload_bytes = payload_bytes

    def for_thread(self) -> "LiveColumns":
        return SourceColumns(self._values, self._node, self._origin, self._payload_bytes)

    @property
    def size(self) -> int:
        return self._payload_bytes

    @property
    def origin(self) -> str:
        return self._origin


# The event says whose they are: not the publisher's.
_RECEIVERS: Final = frozenset({"clientid", "username", "peerhost", "peername"})

_MAKERS: Final[dict[str, Callable[[LiveColumns], Value]]] = {
    "id": lambda columns: columns.message.guid.hex().upper(),
    "clientid": lambda columns: columns.message.clientid,
    "username": lambda columns: _text_or_undefined(columns.message.username),
    "payload": lambda columns: string_of(columns.message.payload),
    "peerhost": lambda columns: columns._client_value("peerhost"),
    "peername": lambda columns: columns._client_value("peername"),
    "topic": lambda columns: columns.message.topic,
    "qos": lambda columns: int(columns.message.qos),
    "flags": lambda columns: {"dup": False, "retain": columns.message.retain},
    "headers": lambda columns: columns._headers(),
    "pub_props": lambda columns: pub_props(columns.message),
    "timestamp": lambda columns: columns.message.received_at // 1000,
    "publish_received_at": lambda columns: columns.message.received_at // 1000,
    "node": lambda columns: columns._node.node_name,
    "client_attrs": lambda columns: attributes_of(columns._client()),
    "event": lambda columns: PUBLISHED,
}


def pub_props(message: Message) -> dict[str, Value]:
    """The MQTT 5 properties of a message as rules see them."""
    return shown_properties(message.properties) if message.property_bytes else {}


def shown_properties(properties: Properties) -> dict[str, Value]:
    """Properties by their standard names; user properties as a map and, in order, as pairs."""
    shown: dict[str, Value] = {}
    for name, value in properties.named().items():
        if name == "User-Property":
            shown[name] = dict(properties.user)
            shown["User-Property-Pairs"] = [{"key": key, "value": text} for key, text in properties.user]
        elif name == "Authentication-Data":
            continue  # it may be a secret
        elif isinstance(value, bytes):
            shown[name] = string_of(value)
        elif isinstance(value, int | str):
            shown[name] = value
        elif isinstance(value, list):  # of a SUBSCRIBE, which has one
            shown[name] = value[0]
    return shown


def client_values(client: ClientInfo) -> dict[str, Value]:
    return {
        "clientid": client.clientid,
        "username": _text_or_undefined(client.username),
        "peername": client.peername,
        "peerhost": client.peerhost,
        "sockname": client.sockname,
        "mountpoint": _text_or_undefined(client.mountpoint or None),
        "proto_name": "MQIsdp" if client.version == p.V3_1 else "MQTT",
        "proto_ver": int(client.version),
        "client_attrs": attributes_of(client),
    }


def attributes_of(client: ClientInfo | None) -> dict[str, Value]:
    return {} if client is None else {**client.client_attrs}


def _text_or_undefined(text: str | None) -> Value:
    return UNDEFINED if text is None else text
