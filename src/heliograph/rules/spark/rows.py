"""The broker's engine over whole Arrow batches: what an Arrow UDF of a rule does in a Python worker of Spark.

Nothing here needs a Spark session. A worker compiles a rule once, at the first batch, and keeps it
(`heliograph.rules.spark.row_evaluator`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, Final

import pyarrow as pa

from heliograph.rules.columns import STORED_NAMES, MessageColumns
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.batch_cuts import decoder_of
from heliograph.rules.spark.output_types import EXACT, OutputType, output_type
from heliograph.rules.spark.row_evaluator import OutputColumns, Row, Rows, worker

_STATUS_FIELDS: Final = ("passed", "error")

_DEFAULTS: Final = dict(zip(STORED_NAMES, MessageColumns("", b"").message, strict=True))


def messages(names: Sequence[str], columns: Sequence[pa.Array]) -> Iterable[MessageColumns]:
    """The messages of a batch (`received_at` in microseconds); each is valid until the next is read."""
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
    kinds = _kinds(outputs)
    types = [pa.bool_(), pa.string(), *(kind.arrow for kind in kinds)]
    fields = [*_STATUS_FIELDS, *(f"c{position}" for position in range(len(kinds)))]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(types)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields)


def struct_of_all(rows: Sequence[Rows], outputs: OutputColumns | None) -> pa.StructArray:
    kinds = _kinds(outputs)
    row_type = pa.struct([(f"c{position}", kind.arrow) for position, kind in enumerate(kinds)])
    passed, errors, several = zip(*rows, strict=True) if rows else ((), (), ())
    arrays = [pa.array(passed, pa.bool_()), pa.array(errors, pa.string()), pa.array(several, pa.list_(row_type))]
    return pa.StructArray.from_arrays(arrays, [*_STATUS_FIELDS, "rows"])


def struct_of_all_ddl(outputs: OutputColumns | None) -> str:
    row = ", ".join(f"c{position}: {kind.name}" for position, kind in enumerate(_kinds(outputs)))
    return f"struct<passed: boolean, error: string, rows: array<struct<{row}>>>"


def struct_ddl(outputs: OutputColumns | None) -> str:
    columns = (f"c{position}: {kind.name}" for position, kind in enumerate(_kinds(outputs)))
    return f"struct<{', '.join(['passed: boolean', 'error: string', *columns])}>"


def _kinds(outputs: OutputColumns | None) -> list[OutputType]:
    return [EXACT] if outputs is None else [output_type(kind) for _, kind in outputs]


def rule_function(
    text: str,
    outputs: OutputColumns,
    names: tuple[str, ...],
    rule_id: str | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> Callable[..., pa.Array]:
    """Return the function of an Arrow UDF that evaluates one rule, given the columns `names` in this order."""

    def evaluate(*columns: pa.Array) -> pa.Array:
        evaluator = worker().row_evaluator(text, outputs, rule_id, schemas)
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
        rows_of = worker().row_evaluator(text, outputs, rule_id, schemas).evaluate_all
        return struct_of_all([rows_of(message) for message in messages(names, columns)], outputs)

    return evaluate


def cases_function(texts: Mapping[int, str], schemas: tuple[SchemaSettings, ...] = ()) -> Callable[..., pa.Array]:
    """Return the function of an Arrow UDF that evaluates, exactly, for each message the rule that a number names."""

    def evaluate(*columns: pa.Array) -> pa.Array:
        evaluator, (numbers, *stored) = worker().row_evaluator, columns
        rows: list[Rows] = []
        for number, message in zip(numbers.to_pylist(), messages(STORED_NAMES, stored), strict=True):
            rows.append(evaluator(texts[number], None, None, schemas).evaluate_all(message))
        return struct_of_all(rows, None)

    return evaluate
