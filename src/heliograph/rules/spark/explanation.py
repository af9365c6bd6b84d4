"""A plan in words, as `heliograph rule explain` prints it."""

from collections.abc import Mapping, Sequence

from heliograph.rules.spark.plan import RulePlan, plan_rule
from heliograph.rules.tree import Statement

_ENGINES = {
    "native": "Spark SQL, nothing of it in Python",
    "udf": "an Arrow UDF with the broker's engine",
}


def explain(rule: Statement | str, output_types: Mapping[str, str] | None = None) -> str:
    """Tell which messages a rule reads, what it outputs, and which engine evaluates what on Spark, and why.

    Raises:
        RuleSyntaxError: The text is not a rule.
        ValueError: A declared column is not in the output, or its type does not exist.
    """
    plan = plan_rule(rule, output_types)
    lines = [f"topics   {', '.join(plan.rule.topics)}", f"         {plan.topics_sql}"]
    lines.append(f"engine   {_ENGINES[plan.engine]}")
    if not plan.native:
        lines.append(f"reads    {', '.join(plan.reads)}")
    lines += ["", *_table(_rows(plan))]
    return "\n".join(lines)


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
