"""The broker's engine over whole Arrow batches: what an Arrow UDF of a rule does in a Python worker of Spark.

Nothing here needs a Spark session. A worker compiles a rule once, at the first batch, and keeps it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final, TypeAlias

import pyarrow as pa

from heliograph._spark_worker import settle_process
from heliograph.rules.columns import STORED_NAMES, MessageColumns
from heliograph.rules.errors import EvaluationFault, RuleError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas.settings import SchemaSettings, ensure_installed
from heliograph.rules.spark.batch_cuts import batch_cut, decoder_of
from heliograph.rules.spark.output_types import EXACT, Convert, output_type
from heliograph.rules.values import UNDEFINED, Value

OutputColumns: TypeAlias = tuple[tuple[str, str], ...]
"""Name and type name of each output column, in order."""

Row: TypeAlias = tuple[Any, ...]
"""Whether the rule passed (None where it failed), why it failed, and the values of the output columns."""

Rows: TypeAlias = tuple[bool | None, str | None, list[dict[str, Any]] | None]
"""The same for a rule that may give any number of rows."""

STATUS_FIELDS: Final = ("passed", "error")

_DEFAULTS: Final = dict(zip(STORED_NAMES, MessageColumns("", b"").message, strict=True))


class RowEvaluator:
    """One rule with the types of its output columns, for one message after another.

    Args:
        text: The rule.
        outputs: Its output columns; None for an exact evaluation.
        rule_id: What its column `metadata` says, if it has an id.

    Attributes:
        cut: Does the same as `evaluate` for messages as tuples, if the rule is a simple one.
    """

    def __init__(self, text: str, outputs: OutputColumns | None, rule_id: str | None = None) -> None:
        self._rule = CompiledRule(text, None if rule_id is None else {"rule_id": rule_id})
        self._columns = None if outputs is None else [(name, output_type(kind).convert) for name, kind in outputs]
        self._nothing = (None,) * (1 if outputs is None else len(outputs))
        self._columns_again = MessageColumns("", b"")
        self.cut = None if outputs is None else batch_cut(self._rule.tree, outputs, self._evaluate_values)

    def evaluate(self, columns: MessageColumns) -> Row:
        """Evaluate the rule for a message whose topic it wants."""
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
    """Why a rule failed: its own words, or for an error that is none of rules also its kind."""
    return str(error) if isinstance(error, RuleError | EvaluationFault) else repr(error)


@lru_cache(maxsize=256)
def compiled_rule(text: str) -> CompiledRule:
    """A rule compiled in this process."""
    return CompiledRule(text)


@lru_cache(maxsize=256)
def row_evaluator(text: str, outputs: OutputColumns | None, rule_id: str | None = None) -> RowEvaluator:
    """The evaluator of a rule in this process."""
    return RowEvaluator(text, outputs, rule_id)


def messages(names: Sequence[str], columns: Sequence[pa.Array]) -> Iterable[MessageColumns]:
    """The messages of a batch, each of them only until the next is asked for.

    Args:
        names: Which columns of stored messages were given; `MessageColumns` gets its defaults for the others.
        columns: The columns, `received_at` as microseconds.
    """
    take = MessageColumns("", b"").take
    return (take(message) for message in _stored_values(dict(zip(names, columns, strict=True))))


def _stored_values(given: Mapping[str, pa.Array]) -> Iterable[tuple[Any, ...]]:
    """The values of each message, as `MessageColumns.message` holds them."""
    iterables = [
        _python_values(name, given[name]) if name in given else repeat(default) for name, default in _DEFAULTS.items()
    ]
    return zip(*iterables, strict=False)


def _python_values(name: str, column: pa.Array) -> list[Any]:
    values = column.to_pylist()
    if name == "properties":
        return [None if pairs is None else dict(pairs) for pairs in values]
    default = _DEFAULTS[name]
    # Stored messages have no other nulls; frames that users make may.
    return (
        [default if value is None else value for value in values]
        if column.null_count and default is not None
        else values
    )


def struct_of(rows: Sequence[Row], outputs: OutputColumns | None) -> pa.StructArray:
    """The Arrow struct array of evaluated rows."""
    kinds = [EXACT] if outputs is None else [output_type(kind) for _, kind in outputs]
    types = [pa.bool_(), pa.string(), *(kind.arrow for kind in kinds)]
    fields = [*STATUS_FIELDS, *(f"c{position}" for position in range(len(kinds)))]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields)


def struct_of_all(rows: Sequence[Rows], outputs: OutputColumns | None) -> pa.StructArray:
    """The Arrow struct array of evaluated messages with any number of rows each."""
    kinds = [EXACT] if outputs is None else [output_type(kind) for _, kind in outputs]
    row_type = pa.struct([(f"c{position}", kind.arrow) for position, kind in enumerate(kinds)])
    passed, errors, several = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(passed, pa.bool_()), pa.array(errors, pa.string()), pa.array(several, pa.list_(row_type))]
    return pa.StructArray.from_arrays(arrays, [*STATUS_FIELDS, "rows"])


def struct_of_all_ddl(outputs: OutputColumns | None) -> str:
    """Spark's name for the type of `struct_of_all`."""
    kinds = [EXACT.name] if outputs is None else [output_type(kind).name for _, kind in outputs]
    row = ", ".join(f"c{position}: {kind}" for position, kind in enumerate(kinds))
    return f"struct<passed: boolean, error: string, rows: array<struct<{row}>>>"


def struct_ddl(outputs: OutputColumns | None) -> str:
    """Spark's name for the type of `struct_of`."""
    kinds = [EXACT.name] if outputs is None else [output_type(kind).name for _, kind in outputs]
    fields = ["passed: boolean", "error: string", *(f"c{position}: {kind}" for position, kind in enumerate(kinds))]
    return f"struct<{', '.join(fields)}>"


def rule_function(
    text: str,
    outputs: OutputColumns,
    names: tuple[str, ...],
    rule_id: str | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> Callable[..., pa.Array]:
    """Return the function of an Arrow UDF that evaluates one rule.

    Args:
        text: The rule.
        outputs: Its output columns.
        names: Which columns of stored messages the function is given, in this order.
        rule_id: What its column `metadata` says, if it has an id.
        schemas: What the registry of the worker must hold.
    """

    def evaluate(*columns: pa.Array) -> pa.Array:
        settle_process()
        ensure_installed(schemas)
        evaluator = row_evaluator(text, outputs, rule_id)
        given = dict(zip(names, columns, strict=True))
        if evaluator.cut is not None:
            row, decode = evaluator.cut, decoder_of(given.get("payload"))
            return struct_of([row(message, decode) for message in _stored_values(given)], outputs)
        row_of = evaluator.evaluate
        return struct_of([row_of(message) for message in messages(names, columns)], outputs)

    return evaluate


def generating_function(
    text: str,
    outputs: OutputColumns,
    names: tuple[str, ...],
    rule_id: str | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> Callable[..., pa.Array]:
    """As `rule_function`, for a rule that may give any number of rows."""

    def evaluate(*columns: pa.Array) -> pa.Array:
        settle_process()
        ensure_installed(schemas)
        rows_of = row_evaluator(text, outputs, rule_id).evaluate_all
        return struct_of_all([rows_of(message) for message in messages(names, columns)], outputs)

    return evaluate


def cases_function(texts: Mapping[int, str], schemas: tuple[SchemaSettings, ...] = ()) -> Callable[..., pa.Array]:
    """Return the function of an Arrow UDF that evaluates, exactly, for each message the rule that a number names.

    Its first column is that number, the others are all columns of stored messages.
    """

    def evaluate(*columns: pa.Array) -> pa.Array:
        settle_process()
        ensure_installed(schemas)
        numbers, *stored = columns
        rows: list[Rows] = []
        for number, message in zip(numbers.to_pylist(), messages(STORED_NAMES, stored), strict=True):
            rows.append(row_evaluator(texts[number], None).evaluate_all(message))
        return struct_of_all(rows, None)

    return evaluate
