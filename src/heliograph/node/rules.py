"""The rule engine as a part of a node."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message
from heliograph.channel.context import ChannelContext
from heliograph.config.actions.fallbacks import FallbackRepublish
from heliograph.config.actions.roots import all_actions, running_actions
from heliograph.config.rules import Action, NamedAction, RuleEngineConfig
from heliograph.config.settings import Config
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Metric, Sample, counter, gauge
from heliograph.observe.rate import LOOK_S
from heliograph.parts import Change, Part
from heliograph.rules.engine.engine import RuleEngine
from heliograph.rules.engine.errors import RuleActionError
from heliograph.rules.environment import Environment
from heliograph.rules.parts import EnvironmentPart

_RULES: Final = (
    ("matched", "Messages and events that a rule was for."),
    ("passed", "Of these, those that it made a row of."),
    ("failed", "Of these, those that it failed for, for any reason."),
    ("failed.exception", "Failures of its text."),
    ("failed.no_result", "Messages that its WHERE did not let through."),
    ("failed.out_of_service", "Messages that found no room to wait for it."),
    ("actions.total", "Actions that were begun."),
    ("actions.success", "Of these, those that succeeded."),
    ("actions.pending", "Of these, rows that were stored for the pipeline, which says what becomes of them."),
    ("actions.failed", "Of these, those that failed, for any reason."),
    ("actions.failed.out_of_service", "Actions whose target took nothing."),
    ("actions.failed.unknown", "Actions that failed for another reason."),
    ("recursive_republish_detected", "Messages of a rule that would have come back to it."),
)
RULES: Final[tuple[Metric, ...]] = (
    *(counter(f"rules.{name}", f"{meaning[:-1]}, of all rules.") for name, meaning in _RULES),
    *(counter(f"rule.{name}", meaning, "", ("rule",), f"rules.{{rule}}.{name}") for name, meaning in _RULES),
    gauge("rules.count", "Rules that the node has."),
    gauge("rules.messages_waiting", "Messages of rules that wait to be published."),
    counter("rules.pipeline_publish_refused", "Messages to topics that only rows for the pipeline may have."),
)


class RulesPart(Part):
    """Rules that run in the broker, with `databases` that store rows for the pipeline; owned by the node."""

    name = "rules"
    metrics = RULES
    needs = ("kernel", "environment", "schema_validation", "message_transformation", "databases", "commits")
    roots = ("rule_engine", "actions", "connectors")

    engine: RuleEngine

    def __init__(self, config: Config, kernel: KernelPart, environment: EnvironmentPart, databases: Databases) -> None:
        self._config = config
        self._kernel = kernel
        self._environment = environment
        self._databases = databases
        self._look_at_us = 0
        self.on_row: Callable[[int, Message], None] | None = None

    async def start(self) -> None:
        """`RuleError` if a rule cannot be used."""
        check_fallbacks(self._config)
        databases, from_thread = self._databases, asyncio.get_running_loop().call_soon_threadsafe
        store_row = self._append_row if databases.is_open else None
        self.engine = make_rule_engine(
            self._config, self._kernel.context, self._environment.environment, store_row, from_thread
        )
        databases.on_stored.append(self.engine.on_rows_stored)
        self.engine.start()

    async def stop(self) -> None:
        """What was made is published."""
        self.engine.stop()

    async def check(self, new: Config) -> Change:
        """`RuleError` if a rule cannot be used."""
        check_fallbacks(new)
        if self._databases.is_open:
            self.engine.store_in(self._append_row)
        return Change(self.engine.prepare(rules_of(new), anew=self._environment.environment.schemas.is_changing))

    def tick(self, uptime_us: int) -> None:
        """Look at how fast rules match, some times a minute."""
        if uptime_us >= self._look_at_us:
            self._look_at_us = uptime_us + int(LOOK_S * 1_000_000)
            for rule in self.engine:
                rule.counters.rate.look(rule.counters.matched)

    def _append_row(self, message: Message) -> int:
        ticket = self._databases.sink.append_row(message)
        if self.on_row is not None:
            self.on_row(ticket, message)
        return ticket

    def samples(self) -> list[Sample]:
        return self.engine.samples()

    def sample_pieces(self) -> Iterator[Sample | None]:
        """Piece by piece, since there may be thousands of rules."""
        return self.engine.sample_pieces()


def check_fallbacks(config: Config) -> None:
    """Look whether messages can be published that fallback actions make.

    Raises:
        RuleActionError: There is one that can be made of no row.
    """
    for kind, name, action in all_actions(config.actions):
        for fallback in action.fallback_actions:
            if isinstance(fallback, FallbackRepublish):
                from heliograph.rules.engine.actions import action_fault  # as rules, only where it is needed

                if problem := action_fault(fallback.message):
                    raise RuleActionError(f"actions.{kind}.{name}.fallback_actions", problem)


def rules_of(config: Config) -> RuleEngineConfig:
    """The rules of a configuration, in which each action that they name says whether it runs."""
    engine = config.rule_engine
    if not any(isinstance(action, NamedAction) for rule in engine.rules.values() for action in rule.actions):
        return engine
    running = running_actions(config.connectors, config.actions)

    def resolved(action: Action) -> Action:
        return replace(action, is_on=action.id in running) if isinstance(action, NamedAction) else action

    rules = {
        rule_id: replace(rule, actions=tuple(map(resolved, rule.actions))) for rule_id, rule in engine.rules.items()
    }
    return replace(engine, rules=rules)


def make_rule_engine(
    config: Config,
    context: ChannelContext,
    environment: Environment,
    store_row: Callable[[Message], int] | None,
    from_thread: Callable[[Callable[[], None]], object],
) -> RuleEngine:
    """The rule engine of a node, not started.

    Args:
        store_row: Stores a row for the pipeline; None where nothing is stored.
        from_thread: Calls what it is given in a turn of the event loop, callable in any thread.
    """
    return RuleEngine(
        rules_of(config),
        context.broker,
        IdSource(context.node, context.next_number()),
        environment,
        config.node.name,
        context.channels.find_client,
        context.defer,
        from_thread,
        context.clock,
        store_row,
    )
