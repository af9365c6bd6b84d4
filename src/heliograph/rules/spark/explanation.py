"""A plan in words, as `heliograph rule explain` prints it."""

from collections.abc import Mapping, Sequence

from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.output import functions_called
from heliograph.rules.spark.native import is_native_function
from heliograph.rules.spark.plan import RulePlan, plan_rule
from heliograph.rules.spark.tree_text import tree_lines
from heliograph.rules.tree import Statement

_ENGINES = {
    "native": "Spark SQL, nothing of it in Python",
    "udf": "an Arrow UDF with the broker's engine",
}


def explain(rule: Statement | str, output_types: Mapping[str, str] | None = None) -> str:
    """Tell which messages a rule reads, what it outputs, and which engine evaluates what on Spark, and why; its tree.

    Raises:
        RuleSyntaxError: The text is not a rule.
        ValueError: A declared column is not in the output, or its type does not exist.
    """
    plan = plan_rule(rule, output_types)
    lines = [f"topics   {', '.join(plan.rule.topics)}", f"         {plan.topics_sql}"]
    lines.append(f"engine   {_ENGINES[plan.engine]}")
    if plan.generates:
        lines.append("rows     an array of them from the UDF for each message, of which explode makes rows")
    if not plan.native:
        lines.append(f"reads    {', '.join(plan.reads)}")
    lines += _functions(plan)
    lines += ["", *_table(_rows(plan)), "", *tree_lines(plan.rule)]
    return "\n".join(lines)


def _functions(plan: RulePlan) -> list[str]:
    """Which functions Spark evaluates itself, and which the UDF."""
    lines = []
    called = functions_called(plan.rule)
    unknown = [name for name in called if name not in FUNCTIONS]
    by_spark = [name for name in called if is_native_function(name)]
    by_udf = [name for name in called if name not in by_spark and name not in unknown]
    if by_spark:
        where = "Spark SQL" if plan.native else "in the UDF here, Spark SQL in a rule that needs none"
        lines.append(f"calls    {', '.join(by_spark)}: {where}")
    if by_udf:
        lines.append(f"calls    {', '.join(by_udf)}: only in the UDF")
    if unknown:
        lines.append(f"calls    {', '.join(unknown)}: no such function, so that every evaluation of the call fails")
    return lines


def _rows(plan: RulePlan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("output", "type", "engine", "why")]
    for column in plan.columns:
        kind = column.type if column.declared else f"{column.type} (inferred)"
        rows.append((column.name, kind, column.engine, column.sql or column.reason))
    if plan.where_reason is not None:
        rows.append(("WHERE", "", plan.engine, plan.where_sql or plan.where_reason))
    return rows


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
