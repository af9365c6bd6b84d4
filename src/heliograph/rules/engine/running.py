"""One rule of a running broker: evaluated for a message or event, its rows given to its actions, everything counted.

Nothing that goes wrong here reaches the message: errors are counted, logged at a bounded rate, and the rule has had its
turn.

Rules of the simplest shape are one generated function, twice as fast as the closures of the evaluator (see
`heliograph.rules.simple_select`).
"""

from collections.abc import Callable
from typing import Final

from heliograph.config.rules import RuleConfig
from heliograph.observe.bounded_log import BoundedLog
from heliograph.rules.columns import Columns
from heliograph.rules.engine.actions import Outlet, compile_action
from heliograph.rules.engine.columns import LiveColumns
from heliograph.rules.engine.counters import RuleCounters
from heliograph.rules.engine.errors import ActionError
from heliograph.rules.engine.strands import Strand
from heliograph.rules.engine.watching import RuleWatcher, watched, watched_action
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError
from heliograph.rules.evaluator import LIVE, CompiledRule
from heliograph.rules.events import NOT_PUBLISHED, SOURCE_PREFIXES
from heliograph.rules.output import output_kinds
from heliograph.rules.simple_select import SimpleSelect, TooSpecialError
from heliograph.rules.tree import Foreach, Select, Star, Statement
from heliograph.rules.values import UNDEFINED, Value

# Rows of FOREACH can each hold the whole message: one of a megabyte would become gigabytes.
_MADE_BYTES_MAX: Final = 64 << 20
Rows = list[dict[str, Value]]


class RunningRule:
    """A rule with its actions and counts; owned by the engine, lives until it is removed or replaced.

    Args:
        counters: The counts of the rule that it replaces; None for new ones.

    Attributes:
        since_us: Since when there is a rule of its name, in microseconds since the epoch.
    """

    def __init__(
        self,
        rule_id: str,
        settings: RuleConfig,
        outlet: Outlet,
        log: BoundedLog,
        environment: Environment,
        counters: RuleCounters | None = None,
    ) -> None:
        self.rule_id = rule_id
        self.since_us = 0
        self.settings = settings
        self.counters = counters or RuleCounters()
        self.compiled = CompiledRule(settings.sql, {"rule_id": rule_id}, environment)
        self.compiled.bounds = LIVE
        self.strand: Strand[LiveColumns, Rows | Exception] | None = (
            None  # of a rule that may block: where its evaluations wait for a thread
        )
        self._evaluation: Callable[[LiveColumns], Rows] = short_cut(self.compiled) or self.compiled.apply
        self._apply: Callable[[LiveColumns], Rows] = self._evaluation
        absent = _absent(self.compiled.tree)
        self._runs = [compile_action(action, rule_id, self.counters, outlet, absent) for action in settings.actions]
        self._actions = self._runs
        self.log = log

    def watch(self, watcher: RuleWatcher | None) -> None:
        self._apply, self._actions = self._evaluation, self._runs
        if watcher is not None:
            rule_id = self.rule_id
            names = [type(action).__name__.removesuffix("Action").lower() for action in self.settings.actions]
            self._apply = watched(self._evaluation, rule_id, watcher)
            pairs = zip(self._runs, names, strict=True)
            self._actions = [watched_action(run, rule_id, name, watcher) for run, name in pairs]

    @property
    def may_block(self) -> bool:
        return self.compiled.may_block

    @property
    def topic_filters(self) -> tuple[str, ...]:
        return tuple(topic for topic in self.compiled.topics if not topic.startswith(NOT_PUBLISHED))

    @property
    def source_filters(self) -> tuple[str, ...]:
        """Those that are for messages of sources."""
        return tuple(topic for topic in self.compiled.topics if topic.startswith(SOURCE_PREFIXES))

    def take(self, columns: LiveColumns) -> None:
        """Evaluate the rule for one message or event, now or, if it may block, in a thread."""
        counters = self.counters
        counters.matched += 1
        strand = self.strand
        if strand is not None:
            if not strand.put(columns.for_thread(), columns.size):
                counters.turned_away += 1
                self.log.warn("rule %s is too slow: %s is not evaluated", self.rule_id, columns.origin)
            return
        try:
            rows = self._apply(columns)
        except Exception as error:  # noqa: BLE001 - whatever a rule does, the others and the message go on
            self.fail(columns, error)
            return
        if rows:
            self.act(columns, rows)
        else:
            counters.no_result += 1

    def evaluate(self, columns: LiveColumns) -> Rows | Exception:
        try:
            return self._apply(columns)
        except Exception as error:  # noqa: BLE001 - the event loop logs it
            return error

    def act(self, columns: LiveColumns, rows: Rows) -> None:
        """Give rows to all actions, whether or not others fail."""
        counters = self.counters
        if not rows:
            counters.no_result += 1
            return
        counters.passed += 1
        made_bytes = 0
        for position, row in enumerate(rows):
            if made_bytes > _MADE_BYTES_MAX:
                self._give_up(columns, len(rows), position)
                return
            for run in self._actions:
                try:
                    made_bytes += run(row, columns)
                except ActionError as error:
                    counters.actions_failed += 1
                    self.log.warn("rule %s, action for %s failed: %s", self.rule_id, columns.origin, error)
                except Exception as error:  # noqa: BLE001 - a fault of ours is no reason to stop the others
                    counters.actions_failed += 1
                    self.log.warn("rule %s, action for %s failed: %r", self.rule_id, columns.origin, error)

    def _give_up(self, columns: LiveColumns, rows_count: int, done: int) -> None:
        self.counters.actions_failed += (rows_count - done) * len(self._actions)
        self.log.warn(
            "rule %s made more than %d MiB of one message, %s: %d of %d rows were given to no action",
            *(self.rule_id, _MADE_BYTES_MAX >> 20, columns.origin, rows_count - done, rows_count),
        )

    def fail(self, columns: LiveColumns, error: Exception) -> None:
        self.counters.exceptions += 1
        if isinstance(error, RuleEvaluationError):  # which takes its time to say where it happened
            self.log.warn("rule %s failed on %s: [%s] %s", self.rule_id, columns.origin, error.code, error)
        else:
            self.log.warn("rule %s failed on %s: %r", self.rule_id, columns.origin, error)

    def __repr__(self) -> str:
        return f"RunningRule({self.rule_id!r}, {self.compiled!r})"


def _absent(tree: Statement) -> Callable[[str], bool]:
    """Whether no row of a rule has a column, as far as its text says."""
    fields = (tree.fields if tree.do is None else tree.do) if isinstance(tree, Foreach) else tree.fields
    if any(isinstance(field, Star) for field in fields) or (isinstance(tree, Foreach) and tree.do is None):
        return lambda name: False
    names = output_kinds(tree)
    return lambda name: name not in names


def short_cut(rule: CompiledRule) -> Callable[[Columns], Rows] | None:
    """A function that does what `rule.apply` does, or None for a rule of another shape."""
    tree = rule.tree
    if not isinstance(tree, Select):
        return None
    try:
        shape = SimpleSelect(tree, lambda name: f"columns.get({name!r})", "columns.document()", "columns")
    except TooSpecialError:
        return None
    row = ", ".join(f"{name!r}: {value}" for name, value in shape.row.items())
    source = "\n    ".join(["def rows(columns):", *shape.lines("[]"), f"return [{{{row}}}]"])
    names: dict[str, object] = {
        "otherwise": rule.apply,
        "UNDEFINED": UNDEFINED,
        "EvaluationFault": EvaluationFault,
    }
    exec(compile(source, "<rule>", "exec"), names)
    made = names["rows"]
    assert callable(made)
    return made
