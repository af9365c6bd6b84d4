"""What can be asked of the rules of a broker, and done with them: changes are changes of the configuration."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import msgspec

from heliograph.broker.pubsub import Broker
from heliograph.config.republish import RepublishAction
from heliograph.config.rules import Action, NamedAction, RuleConfig, action_name
from heliograph.config_changes.errors import ConfigRefusedError
from heliograph.config_changes.groups import group_in
from heliograph.config_changes.manager import ConfigManager
from heliograph.control.conf import answered
from heliograph.control.configured import RULES, ConfiguredGroups
from heliograph.control.proto_v1 import groups as groups_proto
from heliograph.control.proto_v1 import rules as proto
from heliograph.control.slices import in_slices
from heliograph.hocon.values import to_plain
from heliograph.rpc.codes import BAD_ARGUMENTS
from heliograph.rpc.methods import Call, Method, NoArgs, RpcError
from heliograph.rules.columns import Columns
from heliograph.rules.engine.actions import BROKERS_OWN, names_brokers_topic
from heliograph.rules.engine.columns import GivenColumns
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.environment import Environment
from heliograph.rules.values import Value
from heliograph.settings.reading import read_group

if TYPE_CHECKING:
    from heliograph.rules.engine.running import RunningRule
    from heliograph.rules.evaluator import CompiledRule

_CREATED: Final = "created_at"
_MODIFIED: Final = "last_modified_at"

Rows = list[dict[str, Value]]


def methods(
    rules: RuleEngine, broker: Broker, manager: ConfigManager | None, environment: Callable[[], Environment]
) -> list[Method]:
    """What can be asked: `rules.*`.

    Args:
        rules: The rules.
        broker: Whose time it is.
        manager: What changes the configuration; None where nothing does.
        environment: What functions of rules may ask besides the message.
    """
    answers = RulesAnswers(rules, broker)
    trials = RuleTrials(rules, environment)
    return [
        proto.RULES_LIST.by(answers.list),
        proto.RULES_SHOW.by(answers.show),
        proto.RULES_ALL.by(answers.all),
        proto.RULES_ONE.by(answers.one),
        proto.RULES_RESET.by(answers.reset),
        proto.RULES_EVENTS.by(lambda args, call: in_slices(_events())),
        proto.RULES_TRY.by(trials.run),
        proto.RULES_RUN.by(trials.run_with_actions),
        *([] if manager is None else ConfiguredRules(manager, rules, broker).methods(groups_proto.RULES)),
    ]


class ConfiguredRules(ConfiguredGroups):
    """Changes rules, with the times of their changes in their metadata; owned by the control socket."""

    def __init__(self, manager: ConfigManager, rules: RuleEngine, broker: Broker) -> None:
        super().__init__(manager, RULES)
        self._broker = broker
        self._rules = rules

    async def put(self, args: groups_proto.GroupSettings, call: Call) -> groups_proto.GroupChanged:
        """The same, dated."""
        old = self._rules.find(args.name)
        text = await answered(asyncio.to_thread(_dated, args.text, 0 if old is None else _times(old)[0]))
        if self._broker.protects_sys:
            await answered(asyncio.to_thread(_refuse_brokers_topics, text))
        return await super().put(msgspec.structs.replace(args, text=text), call)


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
        return in_slices(self._rows(), lambda row: len(row.topics) * 100 + len(row.last_error))

    def _rows(self) -> Iterator[proto.RuleRow | None]:
        for rule_id in [rule.rule_id for rule in self._rules]:
            rule = self._rules.find(rule_id)
            yield None if rule is None else self._row(rule)

    def show(self, args: proto.RuleId, call: Call) -> proto.RuleFacts:
        rule = self._found(args.id)
        settings = rule.settings
        actions = [action_name(action) for action in settings.actions]
        return proto.RuleFacts(self._row(rule), settings.description, settings.sql, actions, rule.may_block)

    def all(self, args: NoArgs, call: Call) -> Iterator[Sequence[proto.RuleShown]]:
        return in_slices(self._all(), lambda row: len(row.sql) + len(row.actions) + len(row.metadata))

    def _all(self) -> Iterator[proto.RuleShown | None]:
        for rule_id in [rule.rule_id for rule in self._rules]:
            rule = self._rules.find(rule_id)
            yield None if rule is None else _shown(rule)

    def one(self, args: proto.RuleId, call: Call) -> proto.RuleShown:
        return _shown(self._found(args.id))

    def reset(self, args: proto.RuleId, call: Call) -> proto.RuleShown:
        rule = self._found(args.id)
        rule.counters.reset()
        return _shown(rule)

    def _found(self, rule_id: str) -> "RunningRule":
        rule = self._rules.find(rule_id)
        if rule is None:
            raise RpcError("not_found", f"there is no rule {rule_id!r}; {self._alike(rule_id)}")
        return rule

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


class RuleTrials:
    """Tries rules, in threads: they may compute for long, and ask other processes.

    Args:
        rules: The rules.
        environment: What functions of rules may ask besides the message.
    """

    def __init__(self, rules: RuleEngine, environment: Callable[[], Environment]) -> None:
        self._rules = rules
        self._environment = environment

    async def run(self, args: proto.RuleTrial, call: Call) -> proto.RuleTried:
        """Answer `rules.try`: what a rule makes of columns; it does nothing, and forgets what its functions keep."""
        _, _, tried = await asyncio.to_thread(self._tried, args, is_trial=True)
        return tried

    async def run_with_actions(self, args: proto.RuleTrial, call: Call) -> proto.RuleTried:
        """Answer `rules.run`: the same of a rule that there is, with its actions."""
        rule = self._rules.find(args.id)
        if rule is None:
            raise RpcError("not_found", f"there is no rule {args.id!r}")
        columns, rows, tried = await asyncio.to_thread(self._tried, args, is_trial=False)
        if rows:
            self._rules.act(rule, GivenColumns(columns, self._rules), rows)
        return tried

    def _tried(self, args: proto.RuleTrial, *, is_trial: bool) -> tuple[Mapping[str, Value], Rows, proto.RuleTried]:
        from heliograph.rules.errors import EvaluationFault, RuleError  # the rule language
        from heliograph.rules.trial import TrialError, outcome, trial_of

        try:
            environment = self._environment()
            rule = self._compiled(args, environment.for_trial() if is_trial else environment)
            trial = trial_of(rule, args.context)
            rows = rule.apply(Columns(trial.columns)) if trial.is_wanted else []
            tried = proto.RuleTried(True, outcome(rule, rows)) if rows else proto.RuleTried(False, "")
        except RuleError as error:
            raise RpcError(error.code, str(error)) from None
        except (TrialError, EvaluationFault) as error:
            raise RpcError(BAD_ARGUMENTS, str(error)) from None
        return trial.columns, rows, tried

    def _compiled(self, args: proto.RuleTrial, environment: Environment) -> "CompiledRule":
        from heliograph.rules.evaluator import LIVE, CompiledRule

        there = None if args.sql else self._rules.find(args.id)
        if not args.sql and there is None:
            raise RpcError("not_found", f"there is no rule {args.id!r}")
        text = args.sql if there is None else there.compiled.tree
        rule = CompiledRule(text, {"rule_id": args.id or "rule_test"}, environment)
        rule.bounds = LIVE
        return rule


def _events() -> Iterator[proto.RuleEvent]:
    from heliograph.rules.event_reference import event_reference
    from heliograph.rules.json_text import encode_json

    for one in event_reference():
        tested = {name: [value, meaning] for name, (value, meaning) in one.test_columns.items()}
        yield proto.RuleEvent(
            one.event, one.title, one.description, one.columns, encode_json(dict(tested)), one.sql_example
        )


def _shown(rule: "RunningRule") -> proto.RuleShown:
    settings = rule.settings
    created, modified = _times(rule)
    return proto.RuleShown(
        rule.rule_id,
        settings.name,
        settings.description,
        settings.enable,
        settings.sql,
        list(rule.compiled.topics),
        json.dumps([shown_action(one) for one in settings.actions], ensure_ascii=False),
        created,
        modified,
        settings.metadata,
        rule.counters.snapshot(),
        rule.counters.rate.numbers(),
    )


def shown_action(action: Action) -> str | dict[str, object]:
    """An action as files and programs have it."""
    if isinstance(action, NamedAction):
        return action.id
    if not isinstance(action, RepublishAction):
        return {"function": type(action).__name__.removesuffix("Action").lower()}
    args = {name: getattr(action, name) for name in RepublishAction.__slots__}
    return {"function": "republish", "args": {**args, "mqtt_properties": dict(action.mqtt_properties)}}


def _times(rule: "RunningRule") -> tuple[int, int]:
    """When a rule was made and changed, as its metadata says; else since when it is there. Milliseconds."""
    noted = json.loads(rule.settings.metadata)
    since = rule.since_us // 1000
    created, modified = (noted.get(name) for name in (_CREATED, _MODIFIED))
    created = created if isinstance(created, int) else since
    return created, modified if isinstance(modified, int) else created


def _refuse_brokers_topics(text: str) -> None:
    """Raise `ConfigRefusedError` where a rule names a topic of the broker; what else is wrong, the change says."""
    settings, _ = read_group(RuleConfig, group_in(text, "rule"), ("actions",))
    for number, action in enumerate(() if settings is None else settings.actions, 1):
        if isinstance(action, RepublishAction) and names_brokers_topic(action):
            raise ConfigRefusedError([f"action {number}, args.topic: {action.topic[:200]!r} {BROKERS_OWN}"])


def _dated(text: str, created: int) -> str:
    """The settings of a rule with the time at which they are made.

    Args:
        created: When the rule was made, in milliseconds since the epoch; 0 for now.
    """
    group = group_in(text, "rule")
    plain = to_plain(group)
    assert isinstance(plain, dict)
    now = time.time_ns() // 1_000_000
    noted = plain.get("metadata")
    plain["metadata"] = {**(noted if isinstance(noted, dict) else {}), _CREATED: created or now, _MODIFIED: now}
    return json.dumps(plain, ensure_ascii=False)
