"""A message on its way through transformations, and the names by which expressions read it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from heliograph.broker.message import Message
from heliograph.message_policies.errors import TransformationFault
from heliograph.mqtt.properties import Properties, encode_properties
from heliograph.policies.changed_message import changed_message
from heliograph.rules.engine.columns import LiveColumns, NodeFacts
from heliograph.rules.values import Value, bytes_of, describe, string_of

# What a packet may have, less room for a topic and properties.
_PAYLOAD_BYTES_MAX: Final = 268_435_455 - 4 * 65_536


class Draft(Mapping[str, Value]):
    """What a message has become so far; as a mapping, what expressions can read of it.

    Attributes:
        payload: Its payload now: bytes, or what a decoder or an operation made of them.
        user: Its user properties where they were changed, else None.
    """

    __slots__ = ("_columns", "_is_changed", "message", "payload", "qos", "retain", "topic", "user")

    def __init__(self, message: Message, node: NodeFacts) -> None:
        self.message = message
        self.topic = message.topic
        self.qos: int = message.qos
        self.retain: bool = message.retain
        self.payload: Value = message.payload
        self.user: list[tuple[str, str]] | None = None
        self._is_changed = False  # whether the payload is another one than that which came, decoded or not
        self._columns = LiveColumns(message, node)

    def copy(self) -> "Draft":
        other = object.__new__(Draft)
        other.message = self.message
        other.topic = self.topic
        other.qos = self.qos
        other.retain = self.retain
        other.payload = self.payload
        other.user = self.user
        other._is_changed = self._is_changed
        other._columns = self._columns
        return other

    def set_payload(self, payload: Value) -> None:
        """Set another payload. (Decoding one does not make it another: that sets the attribute alone.)"""
        self.payload = payload
        self._is_changed = True

    def set_user_property(self, name: str, text: str) -> None:
        """Set the one user property of that name, in the place of the first or after all others."""
        properties = self._columns.user_properties() if self.user is None else self.user
        names = [key for key, _ in properties]
        at = names.index(name) if name in names else len(names)
        before = properties[:at]
        self.user = [*before, (name, text), *[pair for pair in properties[at + 1 :] if pair[0] != name]]

    def finish(self) -> Message:
        """The message that it has become; the one that came where nothing is different."""
        message = self.message
        payload = message.payload
        if self._is_changed:
            if not isinstance(self.payload, str | bytes):
                raise TransformationFault(
                    f"the payload is {describe(self.payload)} in the end; a payload_encoder is needed"
                )
            payload = bytes_of(self.payload)
            if len(payload) > _PAYLOAD_BYTES_MAX:
                raise TransformationFault(
                    f"the payload has {len(payload)} bytes in the end, more than a packet can have"
                )
        elif self.user is None and (self.topic, self.qos, self.retain) == (message.topic, message.qos, message.retain):
            return message
        return self._message(payload)

    def _message(self, payload: bytes) -> Message:
        message = self.message
        property_bytes = message.property_bytes
        if self.user is not None:
            properties = message.properties if property_bytes else Properties()
            properties.user = self.user
            property_bytes = encode_properties(properties)
        return changed_message(message, self.topic, payload, self.qos, self.retain, property_bytes)

    # --- what expressions read

    def __getitem__(self, name: str) -> Value:
        return _READERS[name](self)

    def __contains__(self, name: object) -> bool:
        return name in _READERS

    def __iter__(self) -> Iterator[str]:
        return iter(_READERS)

    def __len__(self) -> int:
        return len(_READERS)

    def __repr__(self) -> str:
        return f"Draft({self.message!r})"

    def _user_properties(self) -> Value:
        pairs = self._columns.user_properties() if self.user is None else self.user
        return dict(pairs)

    def _payload(self) -> Value:
        return string_of(self.payload) if isinstance(self.payload, bytes) else self.payload


def _column(name: str) -> Callable[[Draft], Value]:
    return lambda draft: draft._columns.get(name)


_FIXED: Final = (
    *("id", "clientid", "username", "peerhost", "peername", "flags", "pub_props"),
    *("timestamp", "publish_received_at", "node", "client_attrs"),
)

_READERS: Final[dict[str, Callable[[Draft], Value]]] = {
    "topic": lambda draft: draft.topic,
    "qos": lambda draft: draft.qos,
    "retain": lambda draft: draft.retain,
    "payload": Draft._payload,
    "user_property": Draft._user_properties,
    **{name: _column(name) for name in _FIXED},
}
