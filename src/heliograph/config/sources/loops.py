"""Topic maps that feed themselves: what a source publishes here, a rule sends back to where the source reads it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from heliograph.config.rules import rules_by_action
from heliograph.mqtt.template import split_template
from heliograph.mqtt.topic import bare_filter

if TYPE_CHECKING:
    from heliograph.config.settings import Config

Fault = tuple[tuple[str, ...], str]
# The texts of FROM, without the parser of the rule language, which most configurations need not load.
_FROM: Final = re.compile(r"\bFROM\s+((?:\"[^\"]*\"|'[^']*')(?:\s*,\s*(?:\"[^\"]*\"|'[^']*'))*)", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\"([^\"]*)\"|'([^']*)'")


def loop_faults(config: Config) -> Iterator[Fault]:
    """The topic of each source whose messages come back to it by an action of the same connector, and by which."""
    if not config.sources.mqtt or not config.actions.mqtt:
        return
    from heliograph.config.actions.brokers import MqttAction  # loaded already where there is one

    rules_of = rules_by_action(config.rule_engine)
    for name, source in config.sources.mqtt.items():
        if source.local is None or not source.enable:
            continue
        there = bare_filter(source.parameters.topic)
        here = _filter_of(source.local.topic, there)
        for action_name, action in config.actions.mqtt.items():
            assert isinstance(action, MqttAction)
            if action.connector != source.connector or not action.enable:
                continue
            back = _filter_of(action.parameters.topic, here)
            for rule_id in rules_of.get(f"mqtt:{action_name}", ()):
                rule = config.rule_engine.rules[rule_id]
                if rule.enable and _overlap(back, there) and any(_overlap(here, one) for one in _topics(rule.sql)):
                    text = (
                        f'found "{source.local.topic}", which rule {rule_id} reads and its action mqtt:{action_name} '
                        f'sends back to where this source reads "{source.parameters.topic}": it would go round; use '
                        "other topics in one of the two directions"
                    )
                    yield ("sources", "mqtt", name, "local", "topic"), text


def _topics(sql: str) -> Iterator[str]:
    for listed in _FROM.finditer(sql):
        for one in _QUOTED.finditer(listed[1]):
            yield one[1] or one[2] or ""


def _filter_of(template: str, topics: str) -> str:
    """A filter that matches all that a template can make of messages whose topics match a filter."""
    parts = split_template(template, lambda name: True)
    fixed, placeholder = parts[0]
    if placeholder is None:
        return fixed
    if placeholder == "topic" and parts[1:] == [("", None)] and (not fixed or fixed.endswith("/")):
        return fixed + topics
    levels = fixed.split("/")[:-1]
    return "/".join((*levels, "#"))


def _overlap(one: str, other: str) -> bool:
    """Whether a topic may match both filters."""
    levels, others = one.split("/"), other.split("/")
    for level, against in zip(levels, others, strict=False):
        if "#" in (level, against):
            return True
        if level != against and "+" not in (level, against):
            return False
    if len(levels) == len(others):
        return True
    longer = max(levels, others, key=len)
    return longer[min(len(levels), len(others))] == "#"
