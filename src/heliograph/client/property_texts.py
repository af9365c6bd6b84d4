"""MQTT 5 properties as people write them: `COMMAND NAME VALUE`, with mosquitto's names of commands and properties."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from heliograph.mqtt import properties as props
from heliograph.mqtt.properties import Properties

_MOST: Final = {
    props.PAYLOAD_FORMAT_INDICATOR: 1,
    props.MESSAGE_EXPIRY_INTERVAL: 0xFFFF_FFFF,
    props.SESSION_EXPIRY_INTERVAL: 0xFFFF_FFFF,
    props.WILL_DELAY_INTERVAL: 0xFFFF_FFFF,
    props.REQUEST_PROBLEM_INFORMATION: 1,
    props.REQUEST_RESPONSE_INFORMATION: 1,
    props.RECEIVE_MAXIMUM: 0xFFFF,
    props.TOPIC_ALIAS_MAXIMUM: 0xFFFF,
    props.TOPIC_ALIAS: 0xFFFF,
    props.MAXIMUM_PACKET_SIZE: 0xFFFF_FFFF,
    props.SUBSCRIPTION_IDENTIFIER: 268_435_455,
}
_FROM_ONE: Final = frozenset(
    {props.RECEIVE_MAXIMUM, props.TOPIC_ALIAS, props.MAXIMUM_PACKET_SIZE, props.SUBSCRIPTION_IDENTIFIER}
)
_BINARY: Final = frozenset({props.CORRELATION_DATA})
_NOT_HERE: Final = frozenset({props.AUTHENTICATION_METHOD, props.AUTHENTICATION_DATA})
_ALLOWED: Final = {
    "connect": props.ALLOWED_CONNECT - _NOT_HERE,
    "publish": props.ALLOWED_PUBLISH,
    "subscribe": props.ALLOWED_SUBSCRIBE,
    "unsubscribe": props.ALLOWED_UNSUBSCRIBE,
    "disconnect": props.ALLOWED_DISCONNECT - {props.SERVER_REFERENCE},
    "will": props.ALLOWED_WILL,
}


class CommandProperties:
    """The properties of each packet that a client sends.

    Args:
        texts: Lists of `COMMAND NAME VALUE`, or `COMMAND user-property NAME VALUE`.

    Raises:
        ValueError: One is no property of that packet, or has no such value.
    """

    def __init__(self, texts: Iterable[Sequence[str]]) -> None:
        self._by_command = {command: Properties() for command in _ALLOWED}
        self.is_empty = True
        for words in texts:
            self._add(words)
            self.is_empty = False

    def of(self, command: str) -> Properties:
        """The properties of one kind of packet."""
        return self._by_command[command]

    def _add(self, words: Sequence[str]) -> None:
        shown = " ".join(words)
        command, *rest = words
        if command not in _ALLOWED:
            raise ValueError(f'"{shown}": there are no properties of {command}, but of {", ".join(_ALLOWED)}')
        names = {props.NAMES[identifier].lower(): identifier for identifier in sorted(_ALLOWED[command])}
        if not rest or rest[0] not in names:
            raise ValueError(f'"{shown}": properties of {command} are {", ".join(names)}')
        identifier, values = names[rest[0]], rest[1:]
        wanted = 2 if identifier == props.USER_PROPERTY else 1
        if len(values) != wanted:
            form = "a name and a value" if wanted == 2 else "one value"
            raise ValueError(f'"{shown}": {rest[0]} has {form}, not {len(values)} words')
        self._set(self._by_command[command], identifier, values, shown)

    def _set(self, properties: Properties, identifier: int, values: Sequence[str], shown: str) -> None:
        text = values[0]
        if identifier == props.USER_PROPERTY:
            properties.user.append((text, values[1]))
        elif identifier in _MOST:
            least = 1 if identifier in _FROM_ONE else 0
            if not (text.isascii() and text.isdecimal() and least <= int(text[:12]) <= _MOST[identifier]):
                raise ValueError(f'"{shown}": a whole number from {least} to {_MOST[identifier]} is expected')
            if identifier == props.SUBSCRIPTION_IDENTIFIER:
                properties.subscription_ids = [int(text)]
            else:
                properties.numbers[identifier] = int(text)
        elif identifier in _BINARY:
            properties.binaries[identifier] = text.encode()
        else:
            properties.strings[identifier] = text
