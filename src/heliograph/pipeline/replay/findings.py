"""What a replay has found: complete counts, and examples that are bounded in number and bytes.

Both engines keep them: the broker's in the process of the replay, Spark in each task, whose findings are merged.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.json_text import decode_json, encode_exactly, encode_json
from heliograph.rules.values import Value, equal_exactly

Row = dict[str, Value]
Example = dict[str, Any]
Place = Callable[[], Example]
"""Tells which message it is: stream, position, topic, client and when it was stored."""

_ROW_CHARACTERS_MAX: Final = 8192
_REASON_CHARACTERS_MAX: Final = 1000
_BYTES_MAX: Final = 256 << 10  # of all examples of one kind
_COUNTS: Final = ("messages", "no_result", "rows", "failures")
_DIFFERENCES: Final = ("equal", "added", "gone", "changed")


class RuleOutcome(NamedTuple):
    """What one rule made of one message."""

    rows: Sequence[Row]
    error: str | None = None


class Examples:
    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._bytes = 0
        self.kept: list[Example] = []

    @property
    def has_room(self) -> bool:
        return len(self.kept) < self._count_max and self._bytes < _BYTES_MAX

    def add(self, example: Example) -> None:
        self._bytes += len(json.dumps(example))
        self.kept.append(example)


class ReplayFindings:
    """What was found so far."""

    def __init__(self, examples_max: int) -> None:
        self.rule = dict.fromkeys(_COUNTS, 0)
        self.compared = dict.fromkeys(_COUNTS, 0)
        self.differences = dict.fromkeys(_DIFFERENCES, 0)
        self.examples = {name: Examples(examples_max) for name in ("rows", "failures", "added", "gone", "changed")}

    def add(self, place: Place, outcome: RuleOutcome | None, other: RuleOutcome | None, is_compared: bool) -> None:
        """One more message."""
        if outcome is not None:
            _count(self.rule, outcome)
            self._keep(place, outcome)
        if not is_compared:
            return
        if other is not None:
            _count(self.compared, other)
        self._differ(place, () if other is None else other.rows, () if outcome is None else outcome.rows)

    def _keep(self, place: Place, outcome: RuleOutcome) -> None:
        if outcome.error is not None:
            if self.examples["failures"].has_room:
                self.examples["failures"].add({**place(), "error": outcome.error[:_REASON_CHARACTERS_MAX]})
            return
        rows = self.examples["rows"]
        for number, row in enumerate(outcome.rows):
            if not rows.has_room:
                return
            rows.add({**place(), "row_number": number, "row": shown_row(row)})

    def _differ(self, place: Place, before: Sequence[Row], after: Sequence[Row]) -> None:
        differences, both = self.differences, min(len(before), len(after))
        for number in range(both):
            if _is_same(before[number], after[number]):
                differences["equal"] += 1
                continue
            differences["changed"] += 1
            if self.examples["changed"].has_room:
                shown = {"before": shown_row(before[number]), "row": shown_row(after[number])}
                self.examples["changed"].add({**place(), "row_number": number, **shown})
        for name, rows in (("added", after), ("gone", before)):
            differences[name] += len(rows) - both
            for number in range(both, len(rows)):
                if not self.examples[name].has_room:
                    break
                self.examples[name].add({**place(), "row_number": number, "row": shown_row(rows[number])})

    def to_json(self) -> dict[str, Any]:
        """All of it, for `merge` in another process."""
        kept = {name: examples.kept for name, examples in self.examples.items()}
        return {"rule": self.rule, "compared": self.compared, "differences": self.differences, "examples": kept}

    def merge(self, found: dict[str, Any]) -> None:
        for name in ("rule", "compared", "differences"):
            counts = getattr(self, name)
            for key, count in found[name].items():
                counts[key] += count
        for name, examples in found["examples"].items():
            for example in examples:
                if self.examples[name].has_room:
                    self.examples[name].add(example)

    def sorted_examples(self, name: str) -> list[Example]:
        return sorted(self.examples[name].kept, key=_order)


def _order(example: Example) -> tuple[int, str, int]:
    return example["stored_at"], example["id"], example.get("row_number", 0)


def _count(counts: dict[str, int], outcome: RuleOutcome) -> None:
    counts["messages"] += 1
    if outcome.error is not None:
        counts["failures"] += 1
    elif outcome.rows:
        counts["rows"] += len(outcome.rows)
    else:
        counts["no_result"] += 1


def _is_same(one: Row, other: Row) -> bool:
    try:
        return one is other or equal_exactly(one, other)
    except RecursionError:
        return False


def shown_row(row: Row) -> object:
    """A row as JSON has it; a long one is cut, and is a text then."""
    try:
        text = encode_json(row)
    except EvaluationFault:
        try:
            text = encode_exactly(row)  # bytes that are no text have no JSON
        except EvaluationFault as fault:
            return f"(it cannot be shown: {fault})"
    if len(text) > _ROW_CHARACTERS_MAX:
        return f"{text[:_ROW_CHARACTERS_MAX]}… ({len(text):,} characters)"
    return json.loads(text)


def rows_of_texts(texts: Sequence[str]) -> Iterator[Row]:
    for text in texts:
        row = decode_json(text)
        assert isinstance(row, dict)
        yield row
