"""A plan in words and a rule as a tree of lines, as `heliograph rule explain` prints them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from heliograph.rules import tree
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.output import functions_called
from heliograph.rules.paths import written_path
from heliograph.rules.spark.native import is_native_function
from heliograph.rules.spark.plan import RulePlan, plan_rule

_ENGINES = {
    "native": "Spark SQL, nothing of it in Python",
    "udf": "an Arrow UDF with the broker's engine",
}
_STEP: Final = "  "


def explain(rule: tree.Statement | str, output_types: Mapping[str, str] | None = None) -> str:
    """The messages that a rule reads, its output, which engine evaluates what on Spark, and why; its tree."""
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


def tree_lines(rule: tree.Statement) -> Iterator[str]:
    if isinstance(rule, tree.Foreach):
        yield "FOREACH"
        yield from _fields(rule.fields)
        if rule.do is not None:
            yield "DO"
            yield from _fields(rule.do)
        yield from _clause("INCASE", rule.incase)
    else:
        yield "SELECT"
        yield from _fields(rule.fields)
    yield "FROM"
    yield from (_STEP + source.topic_filter for source in rule.sources)
    yield from _clause("WHERE", rule.where)


def _clause(word: str, condition: tree.Expression | None) -> Iterator[str]:
    if condition is not None:
        yield word
        yield from _indented(_lines(condition))


def _fields(fields: Sequence[tree.Field | tree.Star]) -> Iterator[str]:
    for field in fields:
        if isinstance(field, tree.Star):
            yield _STEP + "*"
        elif field.alias is None:
            yield from _indented(_lines(field.expression))
        else:
            yield f"{_STEP}AS {written_path(field.alias)}"
            yield from _indented(_lines(field.expression), 2)


def _indented(lines: Iterator[str], depth: int = 1) -> Iterator[str]:
    return (_STEP * depth + line for line in lines)


def _lines(node: tree.Expression) -> Iterator[str]:
    if isinstance(node, tree.Case):
        yield from _lines_of_case(node)
        return
    label, parts = _label_and_parts(node)
    yield label
    for part in parts:
        yield from _indented(_lines(part))


def _lines_of_case(node: tree.Case) -> Iterator[str]:
    yield "CASE"
    if node.subject is not None:
        yield from _indented(_lines(node.subject))
    for branch in node.branches:
        yield _STEP + "WHEN"
        yield from _indented(_lines(branch.when), 2)
        yield _STEP + "THEN"
        yield from _indented(_lines(branch.then), 2)
    if node.default is not None:
        yield _STEP + "ELSE"
        yield from _indented(_lines(node.default), 2)


def _label_and_parts(node: tree.Expression) -> tuple[str, tuple[tree.Expression, ...]]:
    if isinstance(node, tree.Literal):
        return _literal(node.value), ()
    if isinstance(node, tree.Path):
        return written_path(node), ()
    if isinstance(node, tree.Slice):
        return f"{written_path(node.path)}[{node.first}..{node.last}]", ()
    if isinstance(node, tree.RangeLiteral):
        return f"[{node.first}..{node.last}]", ()
    if isinstance(node, tree.ListLiteral):
        return "[ ]", node.items
    if isinstance(node, tree.Call):
        return f"{node.name}()", node.arguments
    if isinstance(node, tree.Unary):
        return f"{node.operator} (sign)", (node.operand,)
    if isinstance(node, tree.Not):
        return "NOT", (node.operand,)
    if isinstance(node, tree.InList):
        return "NOT IN" if node.negated else "IN", (node.subject, *node.candidates)
    if isinstance(node, tree.Arithmetic | tree.Comparison | tree.Logical):
        return node.operator.upper() if isinstance(node, tree.Logical) else node.operator, (node.left, node.right)
    raise AssertionError(node)  # CASE has lines of its own


def _literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + value.replace("\n", "\\n") + "'" if isinstance(value, str) else repr(value)
