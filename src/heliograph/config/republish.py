"""The action that publishes a message made of a row: its settings, of rules and of fallback actions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from heliograph.hocon.values import Node, to_json
from heliograph.settings.kinds import Boolean, Integer, Kind, RefusedError

_PLACEHOLDER: Final = ("${", "}")
_USER_PROPERTIES: Final = "a placeholder as in ${user_properties}"
_SHOWN_LENGTH_MAX: Final = 60

MQTT_PROPERTIES: Final = (
    "Payload-Format-Indicator",
    "Message-Expiry-Interval",
    "Content-Type",
    "Response-Topic",
    "Correlation-Data",
)
"""What `mqtt_properties` of a republished message may name."""


@dataclass(frozen=True, slots=True)
class RepublishAction:
    """Publish a message made of each row. Texts are templates in which `${name}` stands for a value of the row.

    Attributes:
        payload: The payload; empty for the whole row as JSON.
        qos: 0, 1, 2, or a placeholder; undefined is 0.
        retain: A boolean, or a placeholder; undefined is false.
        user_properties: A placeholder for a map, empty for none; `${pub_props.'User-Property'}` where the row has
            none are those of the message that the rule matched.
        direct_dispatch: Whether the message goes to subscribers at once, past retainer, hooks and rules.
    """

    topic: str
    payload: str = "${payload}"
    qos: int | str = "${qos}"
    retain: bool | str = "${retain}"
    user_properties: str = ""
    mqtt_properties: Mapping[str, str] = field(default_factory=dict)
    direct_dispatch: bool | str = False


def republish_action(args: Mapping[str, Node], place: str) -> RepublishAction:
    """The action of its arguments.

    Raises:
        RefusedError: They are not valid; it begins with their place.
    """
    valid = RepublishAction.__slots__
    refuse_unknown(args, tuple(valid), place)
    texts = {name: _text(node, f"{place}.{name}") for name, node in args.items() if name in ("topic", "payload")}
    if not texts.get("topic"):
        raise RefusedError(f"{place} has no topic")
    values: dict[str, object] = dict(texts)
    if "qos" in args:
        values["qos"] = _or_placeholder(args["qos"], Integer(0, 2), f"{place}.qos")
    for name in ("retain", "direct_dispatch"):
        if name in args:
            values[name] = _or_placeholder(args[name], Boolean(), f"{place}.{name}")
    if "user_properties" in args:
        text = _text(args["user_properties"], f"{place}.user_properties")
        if text and not _is_placeholder(text):
            shown = shown_value(args["user_properties"])
            raise RefusedError(f"{place}.user_properties is {shown}; valid is {_USER_PROPERTIES}")
        values["user_properties"] = text
    if "mqtt_properties" in args:
        values["mqtt_properties"] = dict(_mqtt_properties(args["mqtt_properties"], f"{place}.mqtt_properties"))
    return RepublishAction(**values)  # type: ignore[arg-type]  # each was converted to what its field is


def _mqtt_properties(node: Node, place: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node.value, dict):
        raise RefusedError(f"{place} is {shown_value(node)}, not an object")
    refuse_unknown(node.value, MQTT_PROPERTIES, place)
    for name, child in node.value.items():
        yield name, _text(child, f"{place}.{name}")


def _or_placeholder(node: Node, kind: Kind[int] | Kind[bool], place: str) -> int | bool | str:
    if isinstance(node.value, str) and _is_placeholder(node.value):
        return node.value
    try:
        return kind.convert(node.value)
    except RefusedError:
        raise RefusedError(f"{place} is {shown_value(node)}; valid is {kind.expected}, or a placeholder") from None


def _text(node: Node, place: str) -> str:
    if isinstance(node.value, bool | list | dict) or node.value is None:
        raise RefusedError(f"{place} is {shown_value(node)}, not a text")
    return str(node.value)


def _is_placeholder(text: str) -> bool:
    before, behind = _PLACEHOLDER
    return text.startswith(before) and text.endswith(behind)


def refuse_unknown(values: Mapping[str, Node], valid: tuple[str, ...], place: str) -> None:
    """Refuse a key that is not valid: a `RefusedError`."""
    for name, node in values.items():
        if name not in valid:
            known = ", ".join(valid) or "nothing"
            raise RefusedError(f"{place}: unknown key {name} (line {node.position.line}); valid here: {known}")


def shown_value(node: Node) -> str:
    """A value as errors show it."""
    text = to_json(node, None)
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
