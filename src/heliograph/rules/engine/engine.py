"""The rule engine of one node: its rules, what they are for, and the hook points they need.

Rules come and go at run time with the configuration: where one cannot be used, all that was there stays.
All methods are called in the event loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.guid import IdSource
from heliograph.broker.hook_order import RULES
from heliograph.broker.internal_publish_queue import InternalPublishQueue
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.config.rules import NamedAction, PipelineAction, RuleConfig, RuleEngineConfig
from heliograph.mqtt.topic import SYS_PREFIX, topic_matches
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, labelled
from heliograph.parts.threads import Threads
from heliograph.rules.engine.actions import PIPELINE_PREFIX, StoredRows
from heliograph.rules.engine.columns import LiveColumns, SourceColumns
from heliograph.rules.engine.counters import NAMES, RuleCounters
from heliograph.rules.engine.errors import ActionError, PipelineStorageError, RuleActionError
from heliograph.rules.engine.event_sources import EventSources
from heliograph.rules.engine.strands import Strand
from heliograph.rules.engine.watching import RuleWatcher, Watching
from heliograph.rules.environment import Environment
from heliograph.rules.topic_index import TopicIndex

if TYPE_CHECKING:
    from heliograph.rules.engine.running import Rows, RunningRule

_log = logging.getLogger(__name__)

_RULES_LISTED_MAX: Final = 1000
_EVALUATION_WORK: Final = 48  # of a rule, in deliveries
_ROWS_PRINTED_PER_S: Final = 100
_LINES_PER_MINUTE: Final = 100  # about what went wrong, of all rules together


class RuleEngine:
    """All rules of a node; owned by `RulesPart`. An `Outlet` of its actions.

    Args:
        environment: What functions of rules may ask besides the message.
        defer: Calls what it is given in a later turn of the event loop.
        hand_back: The same, callable in any thread.
        store: Stores a message in the database `messages` without publishing it, and tells the ticket with which
            `on_rows_stored` is called; None where nothing is stored.

    Attributes:
        on_stored_topics: Called with the topics of rows that were stored, behind their commit.
    """

    def __init__(
        self,
        settings: RuleEngineConfig,
        broker: Broker,
        ids: IdSource,
        environment: Environment,
        node_name: str,
        find_client: Callable[[str], ClientInfo | None],
        defer: Callable[[Callable[[], None]], object],
        hand_back: Callable[[Callable[[], None]], object],
        clock: Callable[[], int],
        store: Callable[[Message], int] | None,
    ) -> None:
        self.node_name = node_name
        self.find_client = find_client
        self._settings = settings
        self._broker = broker
        self._environment = environment
        self._hand_back = hand_back
        self._clock = clock
        self._store = store
        self.on_stored_topics: list[Callable[[Set[str]], None]] = []
        self._rows = StoredRows()
        self._rules: dict[str, RunningRule] = {}
        self._orders: dict[str, int] = {}  # the place of each rule among those of a topic
        self._orders_count = 0
        self._index: TopicIndex[RunningRule] = TopicIndex()
        self._events = EventSources(broker, self, RULES)
        self._of_sources: dict[str, tuple[RunningRule, ...]] = {}  # by the topics of FROM
        self._threads = Threads(settings.blocking_threads, "rules")
        self.messages = InternalPublishQueue(
            broker, ids, defer, clock, settings.max_queued_messages, self._not_published
        )
        self._is_started = False
        self._is_hooked = False
        self._pipeline_refused = 0
        self._log = BoundedLog(_log, clock, _LINES_PER_MINUTE)
        self._print_budget = _ROWS_PRINTED_PER_S
        self._print_second = -1
        self._watching = Watching(hand_back)

    # --- rules

    def prepare(self, settings: RuleEngineConfig, anew: bool = False) -> Callable[[], None]:
        """Make the rules of another configuration ready: what is returned puts them in the place of those before.

        Rules that do not change go on; one that is replaced keeps its counts. Messages that wait for a thread are kept
        where the settings of their rule are the same; others are lost, which is counted and logged. Where one is
        refused, nothing changes.

        Args:
            anew: Make all of them, also those whose settings do not change: what they were made with changes.

        Raises:
            RuleSyntaxError: The text of one is no rule.
            RuleActionError: An action of one can be done for no row.
            PipelineStorageError: One hands its rows to the pipeline, and nothing is stored.
        """
        wanted = _configured(settings)
        gone = [rule_id for rule_id in self._rules if rule_id not in wanted]
        made = []
        for rule_id, one in wanted.items():
            old = self._rules.get(rule_id)
            if anew or old is None or old.settings != one:
                made.append(self._make(rule_id, one, None if old is None else old.counters))

        def apply() -> None:
            self._settings = settings
            self._threads.limit(settings.blocking_threads)
            self.messages.limit(settings.max_queued_messages)
            for rule_id in gone:
                del self._orders[rule_id]
                self._uninstall(self._rules.pop(rule_id))
            for rule in made:
                self._put(rule)
            for rule in self._rules.values():
                if rule.strand is not None:
                    rule.strand.use(rule.evaluate, partial(self._evaluated, rule), settings.max_blocked_messages)
            self._renew()

        return apply

    def store_in(self, store: Callable[[Message], int]) -> None:
        if self._store is None:
            self._store = store
            self._renew()

    # --- life

    def start(self) -> None:
        apply = self.prepare(self._settings)
        self._is_started = True
        apply()

    def stop(self) -> None:
        """Remove every callback; what threads have not finished is dropped."""
        self._is_started = False
        self._renew()
        for rule in self._rules.values():
            self._uninstall(rule)
        self._threads.stop()
        self.messages.flush()

    def samples(self) -> list[Sample]:
        return [sample for sample in self.sample_pieces() if sample is not None]

    def sample_pieces(self) -> Iterator[Sample | None]:
        sums = dict.fromkeys(NAMES, 0)
        for position, rule in enumerate(list(self._rules.values())):
            yield None
            counts = rule.counters.snapshot()
            for name, count in counts.items():
                sums[name] += count
            if position < _RULES_LISTED_MAX:
                yield from labelled("rule", counts, rule.rule_id)
        more = {
            "count": len(self._rules),
            "messages_waiting": len(self.messages),
            "pipeline_publish_refused": self._pipeline_refused,
        }
        yield from labelled("rules", {**sums, **more})

    # --- messages

    def wants(self, topic: str) -> bool:
        if self._settings.ignore_sys_message and topic.startswith(SYS_PREFIX):
            return False
        return bool(self._index.find(topic))

    def on_message_publish(self, message: Message) -> object:
        """Callback of `message.publish`: give the message to each rule that is for its topic.

        Only rules make rows for the pipeline: what clients publish there is dropped.
        """
        topic = message.topic
        rules = self._index.remembered.get(topic)
        if rules is None:
            rules = self._index.find(topic)
        if topic[0] == "$":
            if _is_reserved(topic):
                self._pipeline_refused += 1
                return hooks.STOP, None
            if rules and not self.wants(topic):
                return None
        if rules:
            columns = LiveColumns(message, self)
            for rule in rules:
                rule.take(columns)
            self._broker.work += _EVALUATION_WORK * len(rules)
        return None

    def rules_of_source(self, topics: tuple[str, ...]) -> list[RunningRule]:
        """The rules that read a source, under one of its topics of FROM; each once, in the order in which they came."""
        found = [
            rule
            for topic_filter, rules in self._of_sources.items()
            if any(topic_matches(topic, topic_filter) for topic in topics)
            for rule in rules
        ]
        return sorted(dict.fromkeys(found), key=lambda rule: self._orders[rule.rule_id])

    def rules_reading(self, topics: tuple[str, ...]) -> list[str]:
        """The ids of the rules that name a source, also of those that are disabled."""
        return sorted(
            rule_id
            for rule_id, rule in self._rules.items()
            if any(topic_matches(topic, one) for topic in topics for one in rule.source_filters)
        )

    def take_source_message(self, rules: Sequence[RunningRule], columns: SourceColumns) -> None:
        """Give a message that came in from elsewhere to rules, and publish what they make of it."""
        for rule in rules:
            rule.take(columns)
        self._broker.work += _EVALUATION_WORK * len(rules)
        # Its origin drops it once it is acknowledged: what rules publish must be in the same commit.
        self.messages.flush()

    # --- what actions make

    def store(self, message: Message, is_urgent: bool, counters: RuleCounters) -> int:
        """Store a rule's output row; the ticket. The acknowledgement of its message waits for this commit."""
        sink = self._broker.sink
        if self._store is None or sink is None:
            raise ActionError("nothing is stored on this node")
        if is_urgent and sink.is_full():
            raise ActionError("storage takes nothing more at present")
        try:
            ticket = self._store(message)
        except Exception as error:
            raise ActionError(f"the row is not stored: {error}") from error
        self._rows.add(ticket, message.clientid, message.topic, counters)
        return ticket

    def on_rows_stored(self, ticket: int, error: Exception | None) -> None:
        """Count the rows of a ticket, and of those before it; a refusal is logged."""
        for rule_id, count in self._rows.done(ticket, error is None):
            rule = self._rules.get(rule_id)
            if rule is not None:
                rule.log.warn("%d rows of rule %s for the pipeline are not stored: %s", count, rule_id, error)
        stored = self._rows.stored_topics
        if stored:
            for listener in self.on_stored_topics:
                listener(stored)
            stored.clear()

    def print_row(self, rule_id: str, row: str) -> None:
        second = self._clock() // 1_000_000
        if second != self._print_second:
            if self._print_budget < 0:
                _log.info("%d more rows of rules were not written", -self._print_budget)
            self._print_second, self._print_budget = second, _ROWS_PRINTED_PER_S
        self._print_budget -= 1
        if self._print_budget >= 0:
            _log.info("rule %s: %s", rule_id, row)

    # --- inside

    def _make(self, rule_id: str, settings: RuleConfig, counters: RuleCounters | None) -> RunningRule:
        # The rule language, which a node without rules does not load.
        from heliograph.rules.engine.actions import action_fault
        from heliograph.rules.engine.running import RunningRule

        for action in settings.actions:
            problem = action_fault(action)
            if problem is not None:
                raise RuleActionError(f"the rule {rule_id!r}", problem)
        log = BoundedLog(_log, self._clock, whole=self._log)
        rule = RunningRule(rule_id, settings, self, log, self._environment, counters)
        if self._store is None and any(isinstance(action, PipelineAction | NamedAction) for action in settings.actions):
            raise PipelineStorageError(rule_id)
        return rule

    def _put(self, rule: RunningRule) -> None:
        old = self._rules.get(rule.rule_id)
        if old is None:
            self._orders_count += 1
            self._orders[rule.rule_id] = self._orders_count
        else:
            if rule.may_block and old.settings == rule.settings:
                rule.strand, old.strand = old.strand, None
            self._uninstall(old)
        rule.since_us = int(self._broker.now_us) if old is None else old.since_us
        self._rules[rule.rule_id] = rule
        self._watching.begin(rule)
        self._install(rule)

    def _install(self, rule: RunningRule) -> None:
        if not rule.settings.enable:
            return
        if rule.may_block and rule.strand is None:
            waiting_max = self._settings.max_blocked_messages
            done = partial(self._evaluated, rule)
            rule.strand = Strand(self._threads, rule.evaluate, done, self._hand_back, waiting_max)
        self._index.add(rule, rule.topic_filters, self._orders[rule.rule_id])
        self._events.add(rule)
        for topic_filter in rule.source_filters:
            self._of_sources[topic_filter] = (*self._of_sources.get(topic_filter, ()), rule)

    def _uninstall(self, rule: RunningRule) -> None:
        self._index.remove(rule, rule.topic_filters)
        self._events.remove(rule)
        for topic_filter in rule.source_filters:
            left = tuple(one for one in self._of_sources.pop(topic_filter, ()) if one is not rule)
            if left:
                self._of_sources[topic_filter] = left
        if rule.strand is not None and (lost := rule.strand.close()):
            rule.counters.turned_away += lost
            rule.log.warn("rule %s is gone or another: %d messages that waited for it are lost", rule.rule_id, lost)

    def watch(self, rule_ids: frozenset[str] | None, watcher: RuleWatcher | None) -> None:
        """Report evaluations and actions of these rules only; they need not be there yet."""
        if rule_ids is None:
            self._watching.of_all = watcher
        else:
            self._watching.rule_ids, self._watching.watcher = rule_ids, watcher
        for rule in self._rules.values():
            self._watching.begin(rule)

    def act(self, rule: RunningRule, columns: LiveColumns, rows: Rows) -> None:
        self._broker.begin_turn(self._clock())
        rule.act(columns, rows)

    def _evaluated(self, rule: RunningRule, columns: LiveColumns, rows: Rows | Exception) -> None:
        if isinstance(rows, Exception):
            self._broker.begin_turn(self._clock())
            rule.fail(columns, rows)
        else:
            self.act(rule, columns, rows)

    def _renew(self) -> None:
        """Ask again about topics; a node without rules has a callback only if it could store a forged row."""
        is_needed = bool(self._rules) or self._store is not None
        point, is_hooked = self._broker.hooks.message_publish, self._is_started and is_needed
        if is_hooked is not self._is_hooked:
            self._is_hooked = is_hooked
            if is_hooked:
                point.add(self.on_message_publish, RULES, self._wants_or_refuses)
            else:
                point.remove(self.on_message_publish)
        elif is_hooked:
            point.renew()

    def _wants_or_refuses(self, topic: str) -> bool:
        return self.wants(topic) or _is_reserved(topic)

    def _not_published(self, message: Message, error: Exception) -> None:
        rule = self._rules.get(message.clientid)
        if rule is not None:
            rule.log.warn("a message of rule %s is not published: %s", rule.rule_id, error)

    def find(self, rule_id: str) -> RunningRule | None:
        return self._rules.get(rule_id)

    def __iter__(self) -> Iterator[RunningRule]:
        return iter(self._rules.values())

    def __repr__(self) -> str:
        return f"RuleEngine({len(self._rules)} rules, {len(self.messages)} messages waiting)"


def _configured(settings: RuleEngineConfig) -> Mapping[str, RuleConfig]:
    return {rule_id: rule for rule_id, rule in settings.rules.items() if rule.sql}


def _is_reserved(topic: str) -> bool:
    return topic.startswith(PIPELINE_PREFIX)
