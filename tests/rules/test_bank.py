"""The bank has what it must have: for every function and every operator ordinary, edge and failing input."""

from collections import Counter
from collections.abc import Iterator

from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.output import functions_called, parts_of
from heliograph.rules.parser import parse_rule
from heliograph.rules.tree import (
    Arithmetic,
    Case,
    Comparison,
    Expression,
    Field,
    Foreach,
    InList,
    Logical,
    Not,
    Path,
    Slice,
    Statement,
    Unary,
)
from rules.bank import BANK

# They need a registry with schemas in it, and have tests of their own.
_WITH_A_REGISTRY = frozenset({"Schemas"})
_SUCCEEDING_MIN = 2
_FAILING_MIN = 1

OPERATORS = (
    *("+", "-", "*", "/", "div", "mod", "sign", "=", "!=", "<>", "<", ">", "<=", ">=", "=~"),
    *("and", "or", "not", "in", "not in", "case", "case of", "[..]", "path"),
)


def operators_of(rule: Statement) -> set[str]:
    """What the rule uses beside functions."""
    fields = [*rule.fields, *(rule.do or ())] if isinstance(rule, Foreach) else [*rule.fields]
    conditions = [rule.where, rule.incase] if isinstance(rule, Foreach) else [rule.where]
    nodes = [field.expression for field in fields if isinstance(field, Field)]
    nodes += [condition for condition in conditions if condition is not None]
    return {name for node in nodes for name in _names(node)}


def _names(node: Expression) -> Iterator[str]:
    if isinstance(node, Arithmetic | Comparison | Logical):
        yield node.operator
    elif isinstance(node, Unary):
        yield "sign"
    elif isinstance(node, Not):
        yield "not"
    elif isinstance(node, InList):
        yield "not in" if node.negated else "in"
    elif isinstance(node, Case):
        yield "case" if node.subject is None else "case of"
    elif isinstance(node, Slice):
        yield "[..]"
    elif isinstance(node, Path) and node.steps:
        yield "path"
    for part in parts_of(node):
        yield from _names(part)


def _too_few(names: list[str], succeeding: Counter[str], failing: Counter[str]) -> list[str]:
    return [
        f"{name}: {succeeding[name]} that succeed, {failing[name]} that fail"
        for name in names
        if succeeding[name] < _SUCCEEDING_MIN or failing[name] < _FAILING_MIN
    ]


def test_every_function_has_ordinary_edge_and_failing_cases() -> None:
    succeeding: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    for case in BANK:
        (failing if case.rows is None else succeeding).update(functions_called(parse_rule(case.sql)))
    names = [function.name for function in FUNCTIONS.values() if function.family not in _WITH_A_REGISTRY]
    assert _too_few(names, succeeding, failing) == []


def test_every_operator_has_ordinary_edge_and_failing_cases() -> None:
    succeeding: Counter[str] = Counter()
    failing: Counter[str] = Counter()
    for case in BANK:
        (failing if case.rows is None else succeeding).update(operators_of(parse_rule(case.sql)))
    assert _too_few(list(OPERATORS), succeeding, failing) == []
