"""Rules evaluated in Spark on columns that are no stored message's: events, and whatever a tester makes up.

Such columns have no fixed types, so rule, columns and output travel as text, and the broker's engine evaluates them in
an Arrow UDF of the workers. Whatever is wrong with a case, or too much in it, is an answer to that case alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.json_text import decode_exactly, encode_exactly
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.frames import arrow_function
from heliograph.rules.spark.row_evaluator import reason_of, worker
from heliograph.rules.values import Value, bytes_of, string_of

_OUTCOME_DDL: Final = "struct<error: string, rows: array<string>>"
_OUTCOME: Final = pa.struct([("error", pa.string()), ("rows", pa.list_(pa.string()))])
# All outputs are in the memory of Spark's driver at once, where one too many would cost all of them. So each partition
# has its part of the characters of all, and one case may have so many of these.
_OUTPUTS_MAX: Final = 128 << 20
_OUTPUT_MAX: Final = 64 << 20
_CASES: Final = pa.schema(
    [("at", pa.int32()), ("rule", pa.string()), ("columns", pa.string()), ("variables", pa.string())]
)


@dataclass(frozen=True, slots=True)
class ContextCase:
    """A rule on columns of its own, which are JSON text marked as by `encode_exactly`."""

    rule: str
    columns: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TextOutcome:
    """The output rows as texts of `encode_exactly`, or why there are none."""

    rows: list[str] | None
    error: str | None = None


_Outcomes: TypeAlias = list[dict[str, object]]


def evaluate_contexts_on_spark(
    spark: SparkSession, cases: Sequence[ContextCase], schemas: tuple[SchemaSettings, ...] = ()
) -> list[TextOutcome]:
    """Evaluate rules on columns in one Spark job and tell the results exactly, in the order of the cases."""
    columns = [
        range(len(cases)),
        [case.rule for case in cases],
        [case.columns for case in cases],
        [_written_variables(case.variables) for case in cases],
    ]
    frame = spark.createDataFrame(pa.table(list(map(_array, columns, _CASES.types)), schema=_CASES))
    outputs_max = _OUTPUTS_MAX // max(1, frame.rdd.getNumPartitions())
    evaluate = arrow_function(evaluating(schemas, outputs_max), _OUTCOME_DDL)
    result = frame.select("at", evaluate("rule", "columns", "variables").alias("outcome"))
    outcomes = {row["at"]: row["outcome"] for row in result.collect()}
    return [TextOutcome(outcomes[at]["rows"], outcomes[at]["error"]) for at in range(len(cases))]


def _array(values: Sequence[object], kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind)


def _written_variables(variables: Mapping[str, str]) -> str:
    # Bytes of the environment that are not UTF-8 stand in its texts as surrogates, which no JSON text can hold.
    written: dict[str, Value] = {
        name: string_of(text.encode("utf-8", "surrogateescape")) for name, text in variables.items()
    }
    return encode_exactly(written)


def _read_variables(text: str) -> dict[str, str]:
    known = decode_exactly(text)
    assert isinstance(known, dict)
    return {
        name: bytes_of(value).decode("utf-8", "surrogateescape")
        for name, value in known.items()
        if isinstance(value, str | bytes)
    }


def evaluating(schemas: tuple[SchemaSettings, ...], outputs_max: int) -> Callable[..., pa.Array]:
    """What Spark calls with the columns of the cases, and what comes back: an outcome for each."""
    left = outputs_max  # each task has a function of its own, for all batches of its partition

    def evaluate(*arrays: pa.Array) -> pa.Array:
        nonlocal left
        environment = worker().environment(schemas)
        outcomes: _Outcomes = []
        for position in range(len(arrays[0])):
            # One by one: the columns of all cases at once could fill the memory.
            rule, columns, variables = (array[position].as_py() for array in arrays)
            outcome = _evaluated_case(environment, rule, columns, variables, min(left, _OUTPUT_MAX))
            left -= sum(map(len, outcome.rows or ()))
            outcomes.append({"error": outcome.error, "rows": outcome.rows})
        return pa.array(outcomes, _OUTCOME)

    return evaluate


def _evaluated_case(environment: Environment, rule: str, columns: str, variables: str, output_max: int) -> TextOutcome:
    try:
        given = decode_exactly(columns)
        assert isinstance(given, dict)
        own = environment.with_variables(_read_variables(variables))
        rows = CompiledRule(rule, environment=own).apply(Columns(given))
    except Exception as error:  # noqa: BLE001 - whatever a rule does, the other cases go on
        return TextOutcome(None, reason_of(error))
    try:
        texts = [encode_exactly(row) for row in rows]
    except Exception as error:  # noqa: BLE001 - as above
        return TextOutcome(None, f"the output cannot be shown as JSON: {reason_of(error)}")
    if sum(map(len, texts)) > output_max:
        return TextOutcome(None, f"the output is longer than the {output_max:,} characters that Spark may be given")
    return TextOutcome(texts)
