"""What can be asked of the rules that run in the broker."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from heliograph.broker.pubsub import Broker
from heliograph.control.proto_v1 import rules as proto
from heliograph.control.slices import in_slices
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.rules.engine.engine import RuleEngine

if TYPE_CHECKING:
    from heliograph.rules.engine.running import RunningRule


def methods(rules: RuleEngine, broker: Broker) -> list[Method]:
    """What can be asked: `rules.list`, `rules.show`.

    Args:
        rules: The rules.
        broker: Whose time it is.
    """
    answers = RulesAnswers(rules, broker)
    return [
        Method("rules.list", NoArgs, answers.list),
        Method("rules.show", proto.RuleId, answers.show),
    ]


class RulesAnswers:
    """Answers what is asked of rules; owned by the control socket.

    Args:
        rules: The rules.
        broker: Whose time it is.
    """

    def __init__(self, rules: RuleEngine, broker: Broker) -> None:
        self._rules = rules
        self._broker = broker

    def list(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.RuleRow]]:
        """Answer `rules.list`: all rules with their counts."""
        return in_slices(self._rows(), lambda row: len(row.topics) * 100 + len(row.last_error))

    def _rows(self) -> Iterator[proto.RuleRow | None]:
        for rule_id in [rule.rule_id for rule in self._rules]:
            rule = self._rules.find(rule_id)
            yield None if rule is None else self._row(rule)

    def show(self, args: proto.RuleId, call: Call) -> proto.RuleFacts:
        """Answer `rules.show`: one rule with its text."""
        rule = self._rules.find(args.id)
        if rule is None:
            raise RpcError("not_found", f"there is no rule {args.id!r}; {self._alike(args.id)}")
        settings = rule.settings
        actions = [type(action).__name__.removesuffix("Action").lower() for action in settings.actions]
        return proto.RuleFacts(self._row(rule), settings.description, settings.sql, actions, rule.may_block)

    def _alike(self, rule_id: str) -> str:
        names = [rule.rule_id for rule in self._rules]
        alike = get_close_matches(rule_id, names, 1)
        if alike:
            return f"did you mean {alike[0]!r}?"
        return f"there are {', '.join(names[:20])}" if names else "no rule is configured"

    def _row(self, rule: "RunningRule") -> proto.RuleRow:
        ago_us = int(self._broker.uptime_us) - rule.log.last_line_at
        at = int(self._broker.now_us) - ago_us if rule.log.last_line else 0
        topics = list(rule.compiled.topics)
        return proto.RuleRow(
            rule.rule_id, rule.settings.enable, topics, rule.counters.snapshot(), rule.log.last_line, at
        )
