"""What only the rule language and the actions can say about the rules of a configuration."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from heliograph.config.rules import RuleConfig
from heliograph.config.settings import Config
from heliograph.rules.engine.actions import action_fault
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.events import EVENTS, PREFIX
from heliograph.rules.output import call_faults

_EVENT_TOPICS: Final = [topic for event in EVENTS for topic in event.topics]


def rule_faults(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, rule in config.rule_engine.rules.items():
        path = ("rule_engine", "rules", name)
        if rule.sql:  # whether its absence is a fault, the configuration itself knows
            for fault in _faults_of_text(rule):
                yield (*path, "sql"), fault
        for number, action in enumerate(rule.actions, 1):
            problem = action_fault(action)
            if problem is not None:
                yield (*path, "actions"), f"action {number}, args.topic: {problem}"


def _faults_of_text(rule: RuleConfig) -> Iterator[str]:
    try:
        compiled = CompiledRule(rule.sql)
    except RuleSyntaxError as error:
        yield f"[{error.code}] {error}"
        return
    yield from call_faults(compiled.tree)
    for topic in compiled.topics:
        if topic.startswith(PREFIX) and not any(event.matches(topic) for event in EVENTS):
            alike = get_close_matches(topic, _EVENT_TOPICS, 1)
            hint = f"did you mean {alike[0]}?" if alike else f"there are {', '.join(_EVENT_TOPICS)}"
            yield f"FROM names the event {topic}, which there is not; {hint}"
