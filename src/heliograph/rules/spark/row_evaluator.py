"""One rule applied to one message after another, with the types of its output columns."""

from typing import Any, TypeAlias

from heliograph.rules.columns import MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.spark.batch_cuts import batch_cut
from heliograph.rules.spark.output_types import EXACT, Convert, output_type
from heliograph.rules.values import UNDEFINED, Value

OutputColumns: TypeAlias = tuple[tuple[str, str], ...]
"""Name and type name of each output column, in order."""

Row: TypeAlias = tuple[Any, ...]
"""Whether the rule passed (None where it failed), why it failed, and the values of the output columns."""

Rows: TypeAlias = tuple[bool | None, str | None, list[dict[str, Any]] | None]
"""The same for a rule that may give any number of rows."""


class RowEvaluator:
    """One rule with the types of its output columns, for one message after another.

        rule_id: What its column `metadata` says, if it has an id.

    Attributes:
        cut: Does the same as `evaluate` for messages as tuples, if the rule is a simple one.
    """

    def __init__(self, text: str, outputs: OutputColumns | None, rule_id: str | None, environment: Environment) -> None:
        self._rule = CompiledRule(text, None if rule_id is None else {"rule_id": rule_id}, environment)
        self._columns = None if outputs is None else [(name, output_type(kind).convert) for name, kind in outputs]
        self._nothing = (None,) * (1 if outputs is None else len(outputs))
        self._columns_again = MessageColumns("", b"")
        self.cut = None if outputs is None else batch_cut(self._rule.tree, outputs, self._evaluate_values)

    def evaluate(self, columns: MessageColumns) -> Row:
        try:
            rows = self._rule.apply(columns)
        except Exception as error:  # noqa: BLE001 - whatever a rule does, the other messages go on
            return (None, reason_of(error), *self._nothing)
        if not rows:
            return (False, None, *self._nothing)
        return self._row(rows[0])

    def _evaluate_values(self, message: tuple[Any, ...]) -> Row:
        return self.evaluate(self._columns_again.take(message))

    def evaluate_all(self, columns: MessageColumns) -> Rows:
        """Evaluate a rule that may give any number of rows; one that cannot be typed fails the message."""
        try:
            rows = self._rule.apply(columns)
        except Exception as error:  # noqa: BLE001 - as in `evaluate`
            return None, reason_of(error), None
        typed: list[dict[str, Any]] = []
        for row in rows:
            passed, problem, *values = self._row(row)
            if passed is None:
                return None, problem, None
            typed.append({f"c{position}": value for position, value in enumerate(values)})
        return bool(typed), None, typed

    def _row(self, row: dict[str, Value]) -> Row:
        if self._columns is not None:
            return self._typed(row, self._columns)
        try:
            return True, None, EXACT.convert(row)
        except Exception as error:  # noqa: BLE001 - as in `evaluate`
            return None, f"the output cannot be shown as JSON: {reason_of(error)}", *self._nothing

    def _typed(self, row: dict[str, Value], columns: list[tuple[str, Convert]]) -> Row:
        name = ""
        values: list[Any] = [True, None]
        try:
            for name, convert in columns:
                value = row.get(name, UNDEFINED)
                values.append(None if value is None or value is UNDEFINED else convert(value))
        except Exception as error:  # noqa: BLE001 - as in `evaluate`
            return (None, f"column {name}: {reason_of(error)}", *self._nothing)
        return tuple(values)


def reason_of(error: Exception) -> str:
    """Why a rule failed: its own words, or for another error also its kind."""
    return str(error) if isinstance(error, RuleError | EvaluationFault) else repr(error)
