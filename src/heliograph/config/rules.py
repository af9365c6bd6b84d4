"""Settings of `rule_engine`: rules that run in the broker, and what they do with their rows."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from heliograph.config.actions.roots import ACTION_TYPES
from heliograph.config.republish import RepublishAction, refuse_unknown, republish_action, shown_value
from heliograph.hocon.errors import SourcePosition
from heliograph.hocon.values import Content, Node, Plain, to_json
from heliograph.settings.fields import named_sections, setting
from heliograph.settings.kinds import NAME, AnyText, Boolean, Duration, Integer, Kind, RefusedError

_FUNCTIONS: Final = ("republish", "console", "pipeline")
_HERE: Final = SourcePosition("<metadata>")


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
    refuse_unknown(value, ("function", "args"), f"action {number}")
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
        raise RefusedError(f"{place} is {shown_value(args)}, not an object")
    if function.value == "republish":
        return republish_action(args.value, place)
    refuse_unknown(args.value, (), place)
    return _named_action(function.value, number)


def _named_action(name: str, number: int) -> Action:
    if name == "console":
        return ConsoleAction()
    if name == "pipeline":
        return PipelineAction()
    if name == "republish":
        raise RefusedError(f"action {number}, republish, needs args with topic")
    kind, colon, own_name = name.partition(":")
    if colon and kind in ACTION_TYPES and NAME.fullmatch(own_name):
        return NamedAction(kind, own_name)
    hint = f", or type:name of an action; types are {', '.join(ACTION_TYPES)}" if colon else ""
    raise RefusedError(f'action {number}: there is no "{name}", but {", ".join(_FUNCTIONS)}{hint}')
