"""Seeing what a rule makes of each message, while one looks for a fault; a rule that nothing watches pays nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from heliograph.rules.engine.columns import LiveColumns
    from heliograph.rules.values import Value

    Row = Mapping[str, Value]
    Rows = list[dict[str, Value]]


class RuleWatcher(Protocol):
    """Follows rules; called in the event loop, and raises nothing."""

    def on_rule(self, rule_id: str, columns: LiveColumns, rows: Rows | Exception) -> None:
        """A rule was evaluated: its rows, or why it failed."""

    def on_rule_action(self, rule_id: str, columns: LiveColumns, action: str, error: Exception | None) -> None:
        """An action of a rule was carried out for one row; its message may still be dropped before it is published."""


class Watchable(Protocol):
    rule_id: str

    @property
    def may_block(self) -> bool: ...

    def watch(self, watcher: RuleWatcher | None) -> None: ...


class HandedBack:
    """Tells another watcher, in the event loop, what happens in a thread."""

    def __init__(self, watcher: RuleWatcher, hand_back: Callable[[Callable[[], None]], object]) -> None:
        self._watcher = watcher
        self._hand_back = hand_back

    def on_rule(self, rule_id: str, columns: LiveColumns, rows: Rows | Exception) -> None:
        self._hand_back(partial(self._watcher.on_rule, rule_id, columns, rows))

    def on_rule_action(self, rule_id: str, columns: LiveColumns, action: str, error: Exception | None) -> None:
        self._watcher.on_rule_action(rule_id, columns, action, error)


class BothWatchers:
    def __init__(self, first: RuleWatcher, second: RuleWatcher) -> None:
        self._both = (first, second)

    def on_rule(self, rule_id: str, columns: LiveColumns, rows: Rows | Exception) -> None:
        for watcher in self._both:
            watcher.on_rule(rule_id, columns, rows)

    def on_rule_action(self, rule_id: str, columns: LiveColumns, action: str, error: Exception | None) -> None:
        for watcher in self._both:
            watcher.on_rule_action(rule_id, columns, action, error)


class Watching:
    """Which rules of an engine are watched, by which watcher; owned by the engine."""

    def __init__(self, hand_back: Callable[[Callable[[], None]], object]) -> None:
        self.rule_ids: frozenset[str] = frozenset()
        self.watcher: RuleWatcher | None = None
        self.of_all: RuleWatcher | None = None
        self._hand_back = hand_back

    def begin(self, rule: Watchable) -> None:
        watcher = self.watcher if rule.rule_id in self.rule_ids else None
        if self.of_all is not None:
            watcher = self.of_all if watcher is None else BothWatchers(watcher, self.of_all)
        if watcher is not None and rule.may_block:
            watcher = HandedBack(watcher, self._hand_back)
        rule.watch(watcher)


def watched(apply: Callable[[LiveColumns], Rows], rule_id: str, watcher: RuleWatcher) -> Callable[[LiveColumns], Rows]:
    def run(columns: LiveColumns) -> Rows:
        try:
            rows = apply(columns)
        except Exception as error:
            watcher.on_rule(rule_id, columns, error)
            raise
        watcher.on_rule(rule_id, columns, rows)
        return rows

    return run


def watched_action(
    run: Callable[[Row, LiveColumns], int], rule_id: str, action: str, watcher: RuleWatcher
) -> Callable[[Row, LiveColumns], int]:
    def carry_out(row: Row, columns: LiveColumns) -> int:
        try:
            made = run(row, columns)
        except Exception as error:
            watcher.on_rule_action(rule_id, columns, action, error)
            raise
        watcher.on_rule_action(rule_id, columns, action, None)
        return made

    return carry_out
