"""Settings of `rule_engine`: rules that run in the broker, and what they do with their rows."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from heliograph.config.actions.roots import TYPES
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Content, Node, Plain, to_json
from heliograph.settings.fields import named_sections, setting
from heliograph.settings.kinds import NAME, AnyText, Boolean, Duration, Integer, Kind, RefusedError

_FUNCTIONS: Final = ("republish", "console", "pipeline")
_PLACEHOLDER: Final = ("${", "}")
_USER_PROPERTIES: Final = "a placeholder as in ${user_properties}"
_SHOWN_LENGTH_MAX: Final = 60
_HERE: Final = SourcePosition("<metadata>")

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


@dataclass(frozen=True, slots=True)
class ConsoleAction:
    """Write each row into the log."""


@dataclass(frozen=True, slots=True)
class PipelineAction:
    """Store each row for the pipeline."""


@dataclass(frozen=True, slots=True)
class NamedAction:
    """Give each row to the action `type:name` of the configuration, which the pipeline runs.

    Attributes:
        is_on: Whether it runs; a rule's configuration does not say it, and who makes the rule fills it in.
    """

    type: str
    name: str
    is_on: bool = True

    @property
    def id(self) -> str:
        return f"{self.type}:{self.name}"


Action: TypeAlias = RepublishAction | ConsoleAction | PipelineAction | NamedAction


class Actions(Kind[tuple[Action, ...]]):
    """What is done with the rows of a rule."""

    expected = (
        "a list of actions, each { function = republish, args { topic, payload, ... } }, console, pipeline, or the "
        "type and name of an action as in http:my_action, as docs/rule_engine.md describes them"
    )

    def convert(self, value: Content) -> tuple[Action, ...]:
        """One action alone need not stand in a list."""
        items = value if isinstance(value, list) else None
        if items is None:
            return (_action(value, 1),)
        return tuple(_action(item.value, number) for number, item in enumerate(items, 1))

    def plain(self, value: tuple[Action, ...]) -> list[Plain]:
        """Only the default is ever shown."""
        return [action_name(one) for one in value]


class JsonObject(Kind[str]):
    """Anything that programs note beside what people set, kept as JSON."""

    expected = "an object"

    def convert(self, value: Content) -> str:
        if not isinstance(value, dict):
            raise RefusedError
        return to_json(Node(value, _HERE), None)

    def plain(self, value: str) -> Plain:
        found: Plain = json.loads(value)
        return found


@dataclass(frozen=True, slots=True)
class RuleConfig:
    enable: bool = setting(Boolean(), True, "Whether the rule runs.")
    name: str = setting(AnyText(), "", "What people call it; its id is the name of its group.")
    description: str = setting(AnyText(), "", "What the rule is for, for people.")
    sql: str = setting(AnyText("a rule, as docs/rules.md describes them"), "", "The rule.")
    actions: tuple[Action, ...] = setting(Actions(), (), "What is done with each row that the rule gives.")
    metadata: str = setting(JsonObject(), "{}", "What programs note of it, such as when it was made.")


@dataclass(frozen=True, slots=True)
class RuleEngineConfig:
    ignore_sys_message: bool = setting(Boolean(), True, "Whether no rule gets messages below `$SYS/`.")
    jq_function_default_timeout: float = setting(
        Duration(0.001, 3600.0),
        10.0,
        "How long `jq` may take where the rule does not say it.",
    )
    max_queued_messages: int = setting(
        Integer(1),
        100_000,
        "Messages of rules that may wait to be published; beyond it new ones are dropped.",
    )
    blocking_threads: int = setting(
        Integer(1, 64),
        2,
        "Threads for rules that may block, because they call `jq` or an external HTTP service.",
    )
    max_blocked_messages: int = setting(
        Integer(1),
        1000,
        "Messages that may wait for one such rule; beyond it the rule does not get new ones.",
    )
    rules: Mapping[str, RuleConfig] = named_sections(RuleConfig, (), "The rules.")


def rules_by_action(engine: RuleEngineConfig) -> dict[str, list[str]]:
    """The actions of the configuration that rules name, as `http:my_action`, each with these rules."""
    found: dict[str, list[str]] = {}
    for rule_id, rule in engine.rules.items():
        for action_id in dict.fromkeys(one.id for one in rule.actions if isinstance(one, NamedAction)):
            found.setdefault(action_id, []).append(rule_id)
    return found


def action_name(action: Action) -> str:
    """For people: `republish`, or `http:my_action`."""
    return action.id if isinstance(action, NamedAction) else type(action).__name__.removesuffix("Action").lower()


def _action(value: Content, number: int) -> Action:
    if isinstance(value, str):
        return _named_action(value, number)
    if not isinstance(value, dict):
        raise RefusedError(f"action {number} is neither a name nor an object with function")
    _refuse_unknown(value, ("function", "args"), f"action {number}")
    function = value.get("function")
    if function is None or not isinstance(function.value, str):
        raise RefusedError(f"action {number} has no function; there are {', '.join(_FUNCTIONS)}")
    if function.value not in _FUNCTIONS:
        return _named_action(function.value, number)  # which says so
    args = value.get("args")
    if args is None or args.value is None:
        return _named_action(function.value, number)
    place = f"action {number}, args"
    if not isinstance(args.value, dict):
        raise RefusedError(f"{place} is {_shown(args)}, not an object")
    if function.value == "republish":
        return _republish(args.value, place)
    _refuse_unknown(args.value, (), place)
    return _named_action(function.value, number)


def _named_action(name: str, number: int) -> Action:
    if name == "console":
        return ConsoleAction()
    if name == "pipeline":
        return PipelineAction()
    if name == "republish":
        raise RefusedError(f"action {number}, republish, needs args with topic")
    kind, colon, own_name = name.partition(":")
    if colon and kind in TYPES and NAME.fullmatch(own_name):
        return NamedAction(kind, own_name)
    hint = f", or type:name of an action; types are {', '.join(TYPES)}" if colon else ""
    raise RefusedError(f'action {number}: there is no "{name}", but {", ".join(_FUNCTIONS)}{hint}')


def _republish(args: Mapping[str, Node], place: str) -> RepublishAction:
    valid = RepublishAction.__slots__
    _refuse_unknown(args, tuple(valid), place)
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
            shown = _shown(args["user_properties"])
            raise RefusedError(f"{place}.user_properties is {shown}; valid is {_USER_PROPERTIES}")
        values["user_properties"] = text
    if "mqtt_properties" in args:
        values["mqtt_properties"] = dict(_mqtt_properties(args["mqtt_properties"], f"{place}.mqtt_properties"))
    return RepublishAction(**values)  # type: ignore[arg-type]  # each was converted to what its field is


def _mqtt_properties(node: Node, place: str) -> Iterator[tuple[str, str]]:
    if not isinstance(node.value, dict):
        raise RefusedError(f"{place} is {_shown(node)}, not an object")
    _refuse_unknown(node.value, MQTT_PROPERTIES, place)
    for name, child in node.value.items():
        yield name, _text(child, f"{place}.{name}")


def _or_placeholder(node: Node, kind: Kind[int] | Kind[bool], place: str) -> int | bool | str:
    if isinstance(node.value, str) and _is_placeholder(node.value):
        return node.value
    try:
        return kind.convert(node.value)
    except RefusedError:
        raise RefusedError(f"{place} is {_shown(node)}; valid is {kind.expected}, or a placeholder") from None


def _text(node: Node, place: str) -> str:
    if isinstance(node.value, bool | list | dict) or node.value is None:
        raise RefusedError(f"{place} is {_shown(node)}, not a text")
    return str(node.value)


def _is_placeholder(text: str) -> bool:
    before, behind = _PLACEHOLDER
    return text.startswith(before) and text.endswith(behind)


def _refuse_unknown(values: Mapping[str, Node], valid: tuple[str, ...], place: str) -> None:
    for name, node in values.items():
        if name not in valid:
            known = ", ".join(valid) or "nothing"
            raise RefusedError(f"{place}: unknown key {name} (line {node.position.line}); valid here: {known}")


def _shown(node: Node) -> str:
    text = to_json(node, None)
    return text if len(text) <= _SHOWN_LENGTH_MAX else f"{text[:_SHOWN_LENGTH_MAX]}..."
