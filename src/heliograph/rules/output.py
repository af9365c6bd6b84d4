"""What the output of a rule looks like before any message is there: its columns, their kinds, and what they read.

A row of the broker's engine is a map with whatever values come; a table wants to know. Kinds are known where the
language fixes them (a comparison is boolean wherever it runs) and unknown where the payload decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from heliograph.rules import tree
from heliograph.rules.columns import MESSAGE_COLUMN_NAMES
from heliograph.rules.evaluator import implied_target
from heliograph.rules.functions import FUNCTIONS


class ValueKind(StrEnum):
    STRING = "string"
    BYTES = "bytes"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    UNKNOWN = "unknown"


_COLUMN_KINDS: Final[Mapping[str, ValueKind]] = {
    "id": ValueKind.STRING,
    "clientid": ValueKind.STRING,
    "username": ValueKind.STRING,
    "payload": ValueKind.BYTES,
    "topic": ValueKind.STRING,
    "qos": ValueKind.INTEGER,
    "flags": ValueKind.UNKNOWN,
    "pub_props": ValueKind.UNKNOWN,
    "timestamp": ValueKind.INTEGER,
    "publish_received_at": ValueKind.INTEGER,
    "event": ValueKind.STRING,
}

_COLUMN_FUNCTIONS: Final = {
    name: function.column for name, function in FUNCTIONS.items() if function.column is not None
}

_RESULT_KINDS: Final = {
    "S": ValueKind.STRING,
    "I": ValueKind.INTEGER,
    "F": ValueKind.NUMBER,
    "N": ValueKind.NUMBER,
    "B": ValueKind.BOOLEAN,
}


def output_kinds(rule: tree.Statement, has_metadata: bool = False) -> dict[str, ValueKind]:
    """The columns of the rule's output in order, each with the kind of its values."""
    if isinstance(rule, tree.Select):
        return _kinds_of_fields(rule.fields, _COLUMN_KINDS, has_metadata)
    # What DO sees: the results of the fields, and the element, whose type is unknown.
    below = {**_COLUMN_KINDS, **({"metadata": ValueKind.UNKNOWN} if has_metadata else {})}
    below |= {**_kinds_of_fields(rule.fields[:-1], _COLUMN_KINDS, has_metadata), rule.element.root: ValueKind.UNKNOWN}
    return below if rule.do is None else _kinds_of_fields(rule.do, below, has_metadata)


def _kinds_of_fields(
    fields: Sequence[tree.Field | tree.Star], columns: Mapping[str, ValueKind], has_metadata: bool
) -> dict[str, ValueKind]:
    kinds: dict[str, ValueKind] = {}
    for position, field in enumerate(fields):
        if isinstance(field, tree.Star):
            kinds.update(columns)
            if has_metadata:
                kinds.setdefault("metadata", ValueKind.UNKNOWN)
            continue
        target = field.alias or implied_target(field.expression, position)
        known = {**columns, **kinds} if columns is not _COLUMN_KINDS else kinds
        kinds[target.root] = ValueKind.UNKNOWN if target.steps else _kind_of_expression(field.expression, known)
    return kinds


def _kind_of_expression(node: tree.Expression, stored: Mapping[str, ValueKind]) -> ValueKind:
    if isinstance(node, tree.Literal):
        return _kind_of_literal(node)
    if isinstance(node, tree.Path):
        if node.steps:
            return ValueKind.BOOLEAN if node.root == "flags" and "flags" not in stored else ValueKind.UNKNOWN
        return stored.get(node.root) or _COLUMN_KINDS.get(node.root, ValueKind.UNKNOWN)
    if isinstance(node, tree.Arithmetic):
        return _kind_of_arithmetic(node, stored)
    if isinstance(node, tree.Unary):
        return ValueKind.INTEGER if _kind_of_expression(node.operand, stored) is ValueKind.INTEGER else ValueKind.NUMBER
    if isinstance(node, tree.Comparison | tree.InList | tree.Logical | tree.Not):
        return ValueKind.BOOLEAN
    if isinstance(node, tree.Call):
        return _kind_of_call(node, stored)
    if isinstance(node, tree.Case):
        results = [branch.then for branch in node.branches] + ([] if node.default is None else [node.default])
        kinds = {_kind_of_expression(result, stored) for result in results}
        if kinds == {ValueKind.INTEGER, ValueKind.NUMBER}:
            return ValueKind.NUMBER
        return kinds.pop() if len(kinds) == 1 else ValueKind.UNKNOWN
    return ValueKind.UNKNOWN


def _kind_of_call(node: tree.Call, stored: Mapping[str, ValueKind]) -> ValueKind:
    function = FUNCTIONS.get(node.name)
    if function is None:
        return ValueKind.UNKNOWN
    if function.column is not None and not node.arguments:
        return _COLUMN_KINDS.get(function.column, ValueKind.UNKNOWN)
    kinds = {_kind_of_expression(argument, stored) for argument in node.arguments}
    if node.name == "coalesce" and len(kinds) == 1 and len(node.arguments) == 2:
        return kinds.pop()
    if node.name == "abs" and kinds == {ValueKind.INTEGER}:
        return ValueKind.INTEGER
    if node.name == "flag":
        names = [argument.value for argument in node.arguments if isinstance(argument, tree.Literal)]
        return ValueKind.BOOLEAN if names in (["retain"], ["dup"]) else ValueKind.UNKNOWN
    return _RESULT_KINDS.get(function.result, ValueKind.UNKNOWN)


def _kind_of_literal(node: tree.Literal) -> ValueKind:
    if isinstance(node.value, bool):
        return ValueKind.BOOLEAN
    if isinstance(node.value, str):
        return ValueKind.STRING
    return ValueKind.INTEGER if isinstance(node.value, int) else ValueKind.NUMBER


def _kind_of_arithmetic(node: tree.Arithmetic, stored: Mapping[str, ValueKind]) -> ValueKind:
    if node.operator in ("div", "mod"):
        return ValueKind.INTEGER
    sides = {_kind_of_expression(node.left, stored), _kind_of_expression(node.right, stored)}
    if node.operator == "+" and sides & {ValueKind.STRING, ValueKind.BYTES}:
        return ValueKind.STRING
    return ValueKind.INTEGER if sides == {ValueKind.INTEGER} and node.operator != "/" else ValueKind.NUMBER


def columns_read(rule: tree.Statement) -> frozenset[str]:
    """The columns of a stored message that an evaluation of the rule may read."""
    names = variables_read(rule)
    return frozenset(MESSAGE_COLUMN_NAMES if names is None else names & set(MESSAGE_COLUMN_NAMES))


def functions_called(rule: tree.Statement) -> tuple[str, ...]:
    """The functions that the rule calls, each once, in the order of their first call."""
    fields: tuple[tree.Field | tree.Star, ...] = rule.fields
    conditions = [rule.where]
    if isinstance(rule, tree.Foreach):
        fields, conditions = (*fields, *(rule.do or ())), [rule.incase, rule.where]
    expressions = [field.expression for field in fields if isinstance(field, tree.Field)]
    expressions += [condition for condition in conditions if condition is not None]
    nodes = (node for expression in expressions for node in nodes_of(expression))
    return tuple(dict.fromkeys(node.name for node in nodes if isinstance(node, tree.Call)))


def variables_read(rule: tree.Statement) -> frozenset[str] | None:
    """The variables that an evaluation of the rule may read, columns and others; None where `*` reads all there are."""
    fields, conditions = rule.fields, [rule.where]
    if isinstance(rule, tree.Foreach):
        if rule.do is None:
            return None
        fields, conditions = (*fields, *rule.do), [rule.where, rule.incase]
    names: set[str] = set()
    for field in fields:
        if isinstance(field, tree.Star):
            return None
        names.update(_variables(field.expression))
        if field.alias is not None:
            names.update(_variables_of_steps(field.alias))
    for condition in conditions:
        if condition is not None:
            names.update(_variables(condition))
    return frozenset(names)


def _variables(node: tree.Expression) -> Iterator[str]:
    if isinstance(node, tree.Path):
        yield node.root
        yield from _variables_of_steps(node)
    elif isinstance(node, tree.Slice):
        yield from _variables(node.path)
    elif isinstance(node, tree.Call) and node.name in _COLUMN_FUNCTIONS:
        yield _COLUMN_FUNCTIONS[node.name]
        for part in node.arguments:
            yield from _variables(part)
    else:
        for part in parts_of(node):
            yield from _variables(part)


def _variables_of_steps(path: tree.Path) -> Iterator[str]:
    for step in path.steps:
        if isinstance(step, tree.IndexBy):
            yield from _variables(step.path)


def nodes_of(node: tree.Expression) -> Iterator[tree.Expression]:
    yield node
    for part in parts_of(node):
        yield from nodes_of(part)


def parts_of(node: tree.Expression) -> tuple[tree.Expression, ...]:
    if isinstance(node, tree.Arithmetic | tree.Comparison | tree.Logical):
        return node.left, node.right
    if isinstance(node, tree.Unary | tree.Not):
        return (node.operand,)
    if isinstance(node, tree.InList):
        return node.subject, *node.candidates
    if isinstance(node, tree.Call):
        return node.arguments
    if isinstance(node, tree.ListLiteral):
        return node.items
    if isinstance(node, tree.Case):
        branches = tuple(part for branch in node.branches for part in (branch.when, branch.then))
        return tuple(part for part in (node.subject, *branches, node.default) if part is not None)
    return ()


def call_faults(rule: tree.Statement) -> Iterator[str]:
    for name in functions_called(rule):
        if name not in FUNCTIONS:
            near = get_close_matches(name, FUNCTIONS, 1)
            yield f"it calls {name}, but there is no such function" + (f"; did you mean {near[0]}?" if near else "")
