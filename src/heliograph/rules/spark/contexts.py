"""Rules evaluated in Spark on columns that are no stored message's: events, and whatever a tester makes up.

Such columns have no fixed types, so rule and columns travel as text, and the broker's engine evaluates them in an Arrow
UDF of the workers.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import SparkSession

from heliograph.rules.columns import Columns
from heliograph.rules.errors import EvaluationFault, RuleError
from heliograph.rules.functions.others import environment
from heliograph.rules.json_text import decode_exactly, encode_exactly
from heliograph.rules.schemas.settings import SchemaSettings, ensure_installed
from heliograph.rules.spark.frames import Outcome, arrow_function
from heliograph.rules.spark.rows import compiled_rule
from heliograph.rules.values import Value

ContextCase: TypeAlias = tuple[str, Mapping[str, Value], Mapping[str, str]]
"""The text of a rule, its columns, and the variables that `getenv` sees."""

_ROWS_DDL = "struct<error: string, rows: array<string>>"


def evaluate_contexts_on_spark(
    spark: SparkSession, cases: Sequence[ContextCase], schemas: tuple[SchemaSettings, ...] = ()
) -> list[Outcome]:
    """Evaluate rules on columns in one Spark job and tell the results exactly, in the order of the cases.

    Args:
        spark: The session.
        cases: Rules with what they see.
        schemas: What the schema registry holds.

    Raises:
        RuleSyntaxError: The text of a case is not a rule.
    """
    rows = [
        (at, sql, encode_exactly(dict(columns)), encode_exactly(dict(variables)))
        for at, (sql, columns, variables) in enumerate(cases)
    ]
    frame = spark.createDataFrame(rows, "at int, sql string, columns string, variables string")
    evaluate = arrow_function(_evaluating(schemas), _ROWS_DDL)
    result = frame.select("at", evaluate("sql", "columns", "variables").alias("outcome"))
    outcomes = {row["at"]: row["outcome"] for row in result.collect()}
    return [_outcome(outcomes[at]["error"], outcomes[at]["rows"]) for at in range(len(cases))]


def _evaluating(schemas: tuple[SchemaSettings, ...]) -> Callable[..., pa.Array]:
    def evaluate(*arrays: pa.Array) -> pa.Array:
        ensure_installed(schemas)
        texts = zip(*(array.to_pylist() for array in arrays), strict=True)
        return pa.array(
            [_evaluated_case(*case) for case in texts],
            pa.struct([("error", pa.string()), ("rows", pa.list_(pa.string()))]),
        )

    return evaluate


def _evaluated_case(sql: str, columns: str, variables: str) -> dict[str, object]:
    context, known = decode_exactly(columns), decode_exactly(variables)
    assert isinstance(context, dict)
    assert isinstance(known, dict)
    try:
        with environment({name: str(text) for name, text in known.items()}):
            rows = compiled_rule(sql).apply(Columns(context))
        return {"error": None, "rows": [encode_exactly(row) for row in rows]}
    except RuleError as error:
        return {"error": str(error), "rows": None}
    except EvaluationFault as fault:
        return {"error": f"the output cannot be shown as JSON: {fault}", "rows": None}


def _outcome(error: str | None, rows: Sequence[str] | None) -> Outcome:
    if rows is None:
        return Outcome(None, error)
    decoded = [decode_exactly(row) for row in rows]
    return Outcome([row for row in decoded if isinstance(row, dict)])
