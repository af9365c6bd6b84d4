"""Carries out plans on DataFrames: `apply_rule` for pipelines, `evaluate_on_spark` for single cases.

`evaluate_outcomes` also gives why messages failed. For that the broker's engine runs in an Arrow UDF whatever the rule,
since Spark's own expressions tell no reasons.
"""

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everyone calls it
from pyspark.sql.pandas.functions import arrow_udf

from heliograph.rules.columns import STORED_NAMES, MessageColumns
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.json_text import decode_exactly
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark.plan import PlannedColumn, RulePlan, plan_rule
from heliograph.rules.spark.rows import (
    cases_function,
    generating_function,
    rule_function,
    struct_ddl,
    struct_of_all_ddl,
)
from heliograph.rules.tree import Statement
from heliograph.rules.values import UNDEFINED, Value, string_of
from heliograph.storage.message_columns import MESSAGE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = "rows"


def apply_rule(
    df: DataFrame,
    rule: Statement | CompiledRule | str,
    output_types: Mapping[str, str] | None = None,
    *,
    observe_as: str | None = None,
    rule_id: str | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> DataFrame:
    """Return the rule's output rows for the messages in `df`.

    Args:
        df: Messages in the public schema, batch or streaming; columns that the rule does not read may be missing.
        output_types: Spark type by output column, for the columns whose type a sink declares. The others have the type
            that the rule implies, or string with the text of the value where the payload decides (`plan_rule` tells).
        observe_as: When given, messages are counted under this name with `DataFrame.observe`: `matched` is those of the
            rule's topics; `passed` of them are output, `failed` failed the rule or did not fit their column types.
    """
    plan = plan_rule(rule, output_types, rule_id)
    matched = df.filter(F.expr(plan.topics_sql))
    evaluated = _natively(matched, plan) if plan.native else _with_udf(matched, plan, schemas)
    passed = F.col(_passed_name(plan))
    if observe_as is not None:
        evaluated = evaluated.observe(observe_as, *_counts(passed))
    wanted = evaluated.filter(passed).drop(_passed_name(plan))
    if not plan.generates:
        return wanted
    each = wanted.select(F.explode(_ROWS).alias("row"))
    return each.select(*_columns_of_row(plan))


def _passed_name(plan: RulePlan) -> str:
    """A column name that no output column has."""
    name, taken = "passed", {column.name.casefold() for column in plan.columns}
    while name in taken:
        name += "_"
    return name


def _counts(passed: Column) -> tuple[Column, ...]:
    return (
        F.count(F.lit(1)).alias("matched"),
        F.count_if(F.coalesce(passed, F.lit(False))).alias("passed"),
        F.count_if(passed.isNull()).alias("failed"),
    )


def _natively(matched: DataFrame, plan: RulePlan) -> DataFrame:
    columns = [F.expr(column.sql or "NULL").alias(column.name) for column in plan.columns]
    return matched.select(*columns, F.expr(plan.where_sql or "true").alias(_passed_name(plan)))


def _with_udf(matched: DataFrame, plan: RulePlan, schemas: tuple[SchemaSettings, ...]) -> DataFrame:
    if plan.generates:
        return _generating(matched, plan, schemas)
    function = rule_function(plan.rule.text, plan.outputs, plan.reads, plan.rule_id, schemas)
    evaluate = arrow_function(function, struct_ddl(plan.outputs))
    evaluated = matched.select(evaluate(*map(_udf_argument, plan.reads)).alias("row"))
    return evaluated.select(*_columns_of_row(plan), F.col("row.passed").alias(_passed_name(plan)))


def _generating(matched: DataFrame, plan: RulePlan, schemas: tuple[SchemaSettings, ...]) -> DataFrame:
    """The messages with the rows of each in one array: messages are counted before they become rows."""
    function = generating_function(plan.rule.text, plan.outputs, plan.reads, plan.rule_id, schemas)
    evaluate = arrow_function(function, struct_of_all_ddl(plan.outputs))
    evaluated = matched.select(evaluate(*map(_udf_argument, plan.reads)).alias("message"))
    return evaluated.select(F.col("message.rows").alias(_ROWS), F.col("message.passed").alias(_passed_name(plan)))


def _columns_of_row(plan: RulePlan) -> list[Column]:
    return [F.col(f"row.c{position}").alias(column.name) for position, column in enumerate(plan.columns)]


def _udf_argument(name: str) -> Column:
    return F.unix_micros(F.col(name)).alias(name) if name == "received_at" else F.col(name)


def arrow_function(function: Callable[..., pa.Array], ddl: str) -> Any:
    # PySpark finds the form of the UDF by its annotations, which its own type hints do not know.
    make: Any = arrow_udf
    # Declared nondeterministic so that Spark does not evaluate it a second time below the filter on its result.
    return make(function, returnType=ddl).asNondeterministic()


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What one evaluation came to: the output rows, or why it failed."""

    rows: list[dict[str, Value]] | None
    error: str | None = None


def evaluate_on_spark(
    spark: SparkSession,
    cases: Sequence[tuple[str, MessageColumns]],
    schemas: tuple[SchemaSettings, ...] = (),
) -> list[CaseOutcome]:
    """Evaluate rules on messages in one Spark job and tell the results exactly.

    The plans are those of `apply_rule`, except that rules which run in the UDF share one, and that the columns of a
    row travel as text that tells every value exactly instead of as typed columns.
    """
    texts = tuple(dict.fromkeys(text for text, _ in cases))
    numbers = {text: number for number, text in enumerate(texts)}
    rows = [(at, numbers[text], *_stored_values(message)) for at, (text, message) in enumerate(cases)]
    frame = spark.createDataFrame(rows, _cases_schema())
    plans = [plan_rule(text) for text in texts]
    parts = []
    for native, evaluated in ((True, _natively_evaluated), (False, partial(_evaluated_with_udf, schemas))):
        chosen = {number: plan for number, plan in enumerate(plans) if plan.native is native}
        if chosen:
            parts.append(evaluated(frame.filter(_wanted(chosen)), chosen))
    outcomes = [CaseOutcome([])] * len(cases)
    for row in reduce(DataFrame.unionAll, parts).collect():
        outcomes[row["at"]] = _outcome(row, plans[row["number"]])
    return outcomes


def _wanted(plans: Mapping[int, RulePlan]) -> Column:
    """Whether a message's topic is one of its rule's; many rules have the same topics, which Spark reads once."""
    numbers: dict[str, list[str]] = {}
    for number, plan in plans.items():
        numbers.setdefault(plan.topics_sql, []).append(str(number))
    return F.expr(" OR ".join(f"(`number` IN ({', '.join(own)}) AND ({topics}))" for topics, own in numbers.items()))


def _cases_schema() -> str:
    return ", ".join(["at int", "number int", *(column.ddl for column in MESSAGE)])


def _stored_values(message: MessageColumns) -> tuple[Any, ...]:
    *values, received_at = message.message
    return (*values, _EPOCH + timedelta(microseconds=received_at))


def _natively_evaluated(matched: DataFrame, plans: Mapping[int, RulePlan]) -> DataFrame:
    """The cases of native rules; a row travels as an array of texts, which tell the values as the kinds are known."""
    passed = (f"WHEN {number} THEN {plan.where_sql or 'true'}" for number, plan in plans.items())
    values = (f"WHEN {number} THEN array({', '.join(map(_as_text, plan.columns))})" for number, plan in plans.items())
    return matched.select(
        "at",
        "number",
        F.expr(f"CASE `number` {' '.join(passed)} END").alias("passed"),
        F.lit(None).cast("string").alias("error"),
        F.expr(f"CASE `number` {' '.join(values)} END").alias("values"),
    )


def _as_text(column: PlannedColumn) -> str:
    return f"base64({column.sql})" if column.type == "binary" else f"CAST({column.sql} AS STRING)"


def _evaluated_with_udf(
    schemas: tuple[SchemaSettings, ...], matched: DataFrame, plans: Mapping[int, RulePlan]
) -> DataFrame:
    """The cases of the other rules; a row travels as text that tells every value exactly."""
    function = cases_function({number: plan.rule.text for number, plan in plans.items()}, schemas)
    evaluate = arrow_function(function, struct_of_all_ddl(None))
    row = evaluate(F.col("number"), *map(_udf_argument, STORED_NAMES))
    evaluated = matched.select("at", "number", row.alias("row"))
    return evaluated.select("at", "number", "row.passed", "row.error", F.col("row.rows.c0").alias("values"))


def _outcome(row: Row, plan: RulePlan) -> CaseOutcome:
    if row["passed"] is None:
        return CaseOutcome(None, row["error"])
    if not row["passed"]:
        return CaseOutcome([])
    if not plan.native:
        return CaseOutcome([_decoded_row(text) for text in row["values"]])
    values = zip(plan.columns, row["values"], strict=True)
    return CaseOutcome([{column.name: _value_of_text(text, column.type) for column, text in values}])


def _decoded_row(text: str) -> dict[str, Value]:
    row = decode_exactly(text)
    assert isinstance(row, dict)
    return row


def _value_of_text(text: str | None, kind: str) -> Value:
    if text is None:
        return UNDEFINED
    if kind == "bigint":
        return int(text)
    if kind == "double":
        return float(text)
    if kind == "boolean":
        return text == "true"
    return _decoded_base64(text) if kind == "binary" else text


def _decoded_base64(text: str) -> str | bytes:
    return string_of(b64decode(text))


def evaluate_outcomes(
    df: DataFrame,
    rule: CompiledRule | str,
    output_types: Mapping[str, str] | None = None,
    schemas: tuple[SchemaSettings, ...] = (),
) -> DataFrame:
    """Return the messages of the rule's topics, each with what became of it.

    Returns:
        The columns of `df`; `error`, null where the rule did not fail; and `rows`, an array of structs with the output
        columns, empty or null where the message gave none.
    """
    plan = plan_rule(rule, output_types)
    function = generating_function(plan.rule.text, plan.outputs, plan.reads, schemas=schemas)
    evaluate = arrow_function(function, struct_of_all_ddl(plan.outputs))
    arguments = [F.unix_micros(F.col(name)) if name == "received_at" else F.col(name) for name in plan.reads]
    fields = ", ".join(f"`{name.replace('`', '``')}`: {kind}" for name, kind in plan.outputs)
    judged = df.filter(F.expr(plan.topics_sql)).withColumn("judged", evaluate(*arguments))
    rows = F.col("judged.rows").cast(f"array<struct<{fields}>>")
    return judged.select(*df.columns, F.col("judged.error").alias("error"), rows.alias("rows"))
