"""Tries a rule on columns that are given, with sample values for those that are not.

No action runs here; `RuleTrials` of `control.rules` decides about those.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heliograph.mqtt.topic import topic_name_fault
from heliograph.rules.columns import Columns
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.events import NOT_PUBLISHED, PREFIX, Event, find_event
from heliograph.rules.json_text import decode_json, encode_json
from heliograph.rules.samples import sample_columns, sample_topic
from heliograph.rules.tree import Foreach
from heliograph.rules.values import Value

_PUBLISHED = ("message_publish", "message.publish", f"{PREFIX}message_publish", f"{PREFIX}message/publish")
_LEVELS_MAX = 65_536

Rows = list[dict[str, Value]]


class TrialError(Exception):
    """What a rule is to be tried on makes no sense; says what is valid."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What a rule is tried on."""

    columns: Mapping[str, Value]
    is_wanted: bool


def trial_of(rule: CompiledRule, context: str) -> Trial:
    """What a rule is tried on: a JSON object of columns, with the event in `event_type`, else the first of FROM."""
    given = decode_json(context)
    if not isinstance(given, dict):
        raise TrialError("the context is an object: a value for each column")
    values = {name: value for name, value in given.items() if name != "event_type"}
    event = _event(given.get("event_type"), rule)
    if event is not None:
        is_wanted = any(map(event.matches, rule.topics))
        return Trial({**sample_columns(event), **values}, is_wanted)
    topic = values.get("topic", sample_topic(rule.topics[0]))
    fault = topic_name_fault(topic, _LEVELS_MAX) if isinstance(topic, str) else "it must be a text"
    if fault is not None:
        raise TrialError(f"{topic!r} is no topic name: {fault}")
    assert isinstance(topic, str)
    return Trial({**sample_columns(None), **values, "topic": topic}, rule.matches(topic))


def outcome(rule: CompiledRule, rows: Rows) -> str:
    """What rows look like as JSON: of SELECT the one that there is, of FOREACH all of them."""
    written: Any = rows if isinstance(rule.tree, Foreach) else rows[0]
    return encode_json(written)


def tried(rule: CompiledRule, context: str) -> str | None:
    """What a rule makes of a context, as JSON; None where it does not match."""
    trial = trial_of(rule, context)
    rows = rule.apply(Columns(trial.columns)) if trial.is_wanted else []
    return outcome(rule, rows) if rows else None


def _event(name: Value, rule: CompiledRule) -> Event | None:
    if name in _PUBLISHED:
        return None
    if name is None:
        first = rule.topics[0]
        return find_event(first) if first.startswith(NOT_PUBLISHED) else None
    names = (name, f"{PREFIX}{name}", name.replace("_", ".", 1)) if isinstance(name, str) else ()
    found = next((event for event in map(find_event, names) if event is not None), None)
    if found is None:
        raise TrialError(f"there is no event {name!r}; valid are message_publish, client_connected and the others")
    return found
