"""Rows for the pipeline on their way to storage: each counts when the commit that holds it is done."""

from collections import deque
from collections.abc import Iterator
from typing import Final

from heliograph.rules.engine.counters import RuleCounters

PIPELINE_PREFIX: Final = "$pipeline/"
"""The prefix of the topics under which rows are stored for the pipeline; only rules can publish to them."""


class _Rows:
    """Rows of one rule in one commit, one behind the other."""

    __slots__ = ("count", "counters", "rule_id", "ticket")

    def __init__(self, ticket: int, rule_id: str, counters: RuleCounters) -> None:
        self.ticket = ticket
        self.rule_id = rule_id
        self.counters = counters
        self.count = 1


class StoredRows:
    """The rows of a node that are not stored yet; owned by the engine. Storage bounds how many there are."""

    def __init__(self) -> None:
        self._waiting: deque[_Rows] = deque()  # in the order of their tickets

    def add(self, ticket: int, rule_id: str, counters: RuleCounters) -> None:
        """One more row was handed to storage, which gave it a ticket not below those before."""
        waiting = self._waiting
        if waiting and waiting[-1].ticket == ticket and waiting[-1].counters is counters:
            waiting[-1].count += 1
        else:
            waiting.append(_Rows(ticket, rule_id, counters))

    def done(self, ticket: int, is_stored: bool) -> Iterator[tuple[str, int]]:
        """Count the rows of a ticket, and of those before it: rule and number of those that are not stored."""
        while self._waiting and self._waiting[0].ticket <= ticket:
            rows = self._waiting.popleft()
            if is_stored:
                rows.counters.actions_success += rows.count
            else:
                rows.counters.actions_failed += rows.count
                yield rows.rule_id, rows.count

    def __repr__(self) -> str:
        return f"StoredRows({sum(rows.count for rows in self._waiting)} waiting)"
