"""One rule applied to one message after another, with the types of its output columns; what a worker of Spark keeps.

A worker is a process that Spark starts and gives tasks of any query to, so what it keeps from batch to batch is the
process's: `worker()` is the one object of that kind, and the functions of Arrow UDFs ask for it where they begin.
"""

from functools import cache, lru_cache
from typing import Any, TypeAlias

from heliograph._spark_worker import settle_process
from heliograph.rules.columns import MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault, RuleError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas.registry import SchemaRegistry, build
from heliograph.rules.schemas.settings import SchemaSettings
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
    """One rule with the types of its output columns; `cut` does the same as `evaluate` for messages as tuples."""

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


_SCHEMAS_MAX = 16
_RULES_MAX = 256


class SparkWorker:
    """The rules of one process; lives as long as it. A rule is compiled once for the schemas that it may name.

    Environments of different schemas have the same jq processes and the same kept values.
    """

    def __init__(self) -> None:
        self._environment = Environment()
        self._environment_of = lru_cache(maxsize=_SCHEMAS_MAX)(self._make_environment)
        self._row_evaluator_of = lru_cache(maxsize=_RULES_MAX)(self._make_row_evaluator)

    def row_evaluator(
        self,
        text: str,
        outputs: OutputColumns | None,
        rule_id: str | None = None,
        schemas: tuple[SchemaSettings, ...] = (),
    ) -> RowEvaluator:
        return self._row_evaluator_of(text, outputs, rule_id, schemas)

    def environment(self, schemas: tuple[SchemaSettings, ...]) -> Environment:
        """The environment of rules that may name these schemas, which are made once."""
        return self._environment_of(schemas)

    def _make_environment(self, schemas: tuple[SchemaSettings, ...]) -> Environment:
        return self._environment.with_schemas(SchemaRegistry(build(schemas)))

    def _make_row_evaluator(
        self, text: str, outputs: OutputColumns | None, rule_id: str | None, schemas: tuple[SchemaSettings, ...]
    ) -> RowEvaluator:
        return RowEvaluator(text, outputs, rule_id, self.environment(schemas))


@cache
def worker() -> SparkWorker:
    """What this process keeps; the first call prepares the process for the tasks of Spark."""
    settle_process()
    return SparkWorker()
