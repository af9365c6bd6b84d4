"""The tree of a rule as indented lines, for explanations."""

from collections.abc import Iterator, Sequence
from typing import Final

from heliograph.rules.paths import written_path
from heliograph.rules.tree import (
    Arithmetic,
    Call,
    Case,
    Comparison,
    Expression,
    Field,
    Foreach,
    InList,
    ListLiteral,
    Literal,
    Logical,
    Not,
    Path,
    RangeLiteral,
    Slice,
    Star,
    Statement,
    Unary,
)

_STEP: Final = "  "


def tree_lines(rule: Statement) -> Iterator[str]:
    """The lines of a statement: operators and functions above what they are applied to."""
    if isinstance(rule, Foreach):
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


def _clause(word: str, condition: Expression | None) -> Iterator[str]:
    if condition is not None:
        yield word
        yield from _indented(_lines(condition))


def _fields(fields: Sequence[Field | Star]) -> Iterator[str]:
    for field in fields:
        if isinstance(field, Star):
            yield _STEP + "*"
        elif field.alias is None:
            yield from _indented(_lines(field.expression))
        else:
            yield f"{_STEP}AS {written_path(field.alias)}"
            yield from _indented(_lines(field.expression), 2)


def _indented(lines: Iterator[str], depth: int = 1) -> Iterator[str]:
    return (_STEP * depth + line for line in lines)


def _lines(node: Expression) -> Iterator[str]:
    if isinstance(node, Case):
        yield from _lines_of_case(node)
        return
    label, parts = _label_and_parts(node)
    yield label
    for part in parts:
        yield from _indented(_lines(part))


def _lines_of_case(node: Case) -> Iterator[str]:
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


def _label_and_parts(node: Expression) -> tuple[str, tuple[Expression, ...]]:
    if isinstance(node, Literal):
        return _literal(node.value), ()
    if isinstance(node, Path):
        return written_path(node), ()
    if isinstance(node, Slice):
        return f"{written_path(node.path)}[{node.first}..{node.last}]", ()
    if isinstance(node, RangeLiteral):
        return f"[{node.first}..{node.last}]", ()
    if isinstance(node, ListLiteral):
        return "[ ]", node.items
    if isinstance(node, Call):
        return f"{node.name}()", node.arguments
    if isinstance(node, Unary):
        return f"{node.operator} (sign)", (node.operand,)
    if isinstance(node, Not):
        return "NOT", (node.operand,)
    if isinstance(node, InList):
        return "NOT IN" if node.negated else "IN", (node.subject, *node.candidates)
    if isinstance(node, Arithmetic | Comparison | Logical):
        return node.operator.upper() if isinstance(node, Logical) else node.operator, (node.left, node.right)
    raise AssertionError(node)  # CASE has lines of its own


def _literal(value: str | int | float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "'" + value.replace("\n", "\\n") + "'" if isinstance(value, str) else repr(value)
