"""Expressions of the language as Spark SQL, where Spark means exactly the same.

That is so where every kind is known before a message is there: message columns, literals, and what is made of them
without a possibility to fail. An expression that looks into the payload is not: whether `payload.a` is a number, a text
or nothing at all turns out per message, and Spark's JSON readers differ from the language in what they accept (text
behind the document, lone surrogates), in what they keep (the fraction of `1.0`, integers beyond 38 digits) and in how
`+` and `<` treat what they find. A plan in SQL that guards against all of that took more processor time than the Arrow
UDF that runs the broker's engine, which itself takes two to three times that of an unguarded `get_json_object`.

This module makes text and needs no Spark.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from heliograph.mqtt.topic import has_wildcard, topic_filter_fault
from heliograph.rules import tree
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.output import ValueKind
from heliograph.rules.paths import written_path
from heliograph.rules.spark.sql import (
    NATIVE_FUNCTIONS,
    Native,
    NotNativeError,
    call_natively,
    string_literal,
    text_in_sql,
)

_SQL_MAX: Final = 16_384  # characters of one expression
_INTEGER_MAX: Final = 2**63 - 1
_EXACT_IN_DOUBLE: Final = 2**53
_FLOAT_MAX: Final = 1e300
_LEVELS_MAX: Final = 65_536
# More than a timestamp in microseconds of 64 bits can be in milliseconds.
_MILLISECONDS_MAX: Final = 2**63 // 1000 + 1

_COLUMNS: Final[Mapping[str, Native]] = {
    "id": Native("hex(`guid`)", ValueKind.STRING),
    "clientid": Native("`clientid`", ValueKind.STRING),
    "username": Native("`username`", ValueKind.STRING, optional=True),
    "payload": Native("`payload`", ValueKind.BYTES),
    "topic": Native("`topic`", ValueKind.STRING),
    "qos": Native("CAST(`qos` AS BIGINT)", ValueKind.INTEGER, size=127),
    "timestamp": Native("unix_millis(`received_at`)", ValueKind.INTEGER, size=_MILLISECONDS_MAX),
    "publish_received_at": Native("unix_millis(`received_at`)", ValueKind.INTEGER, size=_MILLISECONDS_MAX),
    "event": Native("'message.publish'", ValueKind.STRING),
}
_FLAGS: Final[Mapping[str, Native]] = {
    "retain": Native("`retain`", ValueKind.BOOLEAN),
    "dup": Native("false", ValueKind.BOOLEAN),
}


def is_native_function(name: str) -> bool:
    """Whether Spark can evaluate a function itself, given arguments of kinds that suit it."""
    function = FUNCTIONS.get(name)
    if function is not None and function.column is not None:
        return function.column in _COLUMNS or name == "flag"
    return name in NATIVE_FUNCTIONS or name in ("div", "mod")


def topic_condition(topics: tuple[str, ...]) -> str:
    """Spark SQL that is true where the topic of a message matches any of the filters."""
    return " OR ".join(f"({_topic_test('`topic`', topic_filter)})" for topic_filter in topics)


def _topic_test(topic: str, topic_filter: str) -> str:
    if not has_wildcard(topic_filter):
        return f"{topic} = {string_literal(topic_filter)}"
    # Names that begin with $ are not for filters that begin with a wildcard.
    hidden = f"NOT startswith({topic}, {string_literal('$')})"
    if topic_filter == "#":
        return hidden
    if topic_filter.endswith("/#") and not has_wildcard(topic_filter[:-2]):
        parent = topic_filter[:-2]
        return f"{topic} = {string_literal(parent)} OR startswith({topic}, {string_literal(parent + '/')})"
    test = f"{topic} RLIKE {string_literal(_pattern(topic_filter))}"
    return f"{hidden} AND {test}" if topic_filter.startswith("+") else test


def _pattern(topic_filter: str) -> str:
    levels = topic_filter.split("/")
    parts = ["[^/]*" if level == "+" else _escaped(level) for level in levels if level != "#"]
    pattern = "/".join(parts)
    if levels[-1] == "#":
        pattern += "(?:/.*)?"
    # `$` alone would also match before a line break at the end.
    return rf"(?s)^{pattern}$(?!.)"


def _escaped(level: str) -> str:
    # In brackets where possible: a pattern without backslashes can be read where it is explained.
    bracketed = re.sub(r"[.$*+?{}()|]", r"[\g<0>]", level)
    return re.sub(r"[\\^]", r"\\\g<0>", bracketed) if "[" not in level and "]" not in level else re.escape(level)


class NativeCompiler:
    def __init__(self) -> None:
        self._stored: dict[str, Native] = {}

    def stored(self, name: str, native: Native) -> None:
        """Note that a field has stored a variable, for the fields after it and for WHERE."""
        # Where an optional alias is undefined, its name means the column again.
        column = _COLUMNS.get(name)
        if native.optional and column is not None and native != column:
            raise NotNativeError(f"{name} may be undefined and then means the column {name}")
        self._stored[name] = native

    def compile(self, node: tree.Expression) -> Native:
        return _short(self._compiled(node))

    def _compiled(self, node: tree.Expression) -> Native:
        if isinstance(node, tree.Literal):
            return _literal(node.value)
        if isinstance(node, tree.Path):
            return self._path(node)
        if isinstance(node, tree.Unary):
            operand = self._number(node.operand)
            return replace(operand, sql=f"(-{operand.sql})") if node.operator == "-" else operand
        if isinstance(node, tree.Arithmetic):
            return self._arithmetic(node)
        if isinstance(node, tree.Comparison):
            return self._comparison(node)
        if isinstance(node, tree.InList | tree.Logical | tree.Not):
            return self.condition(node)
        if isinstance(node, tree.Case):
            return self._case(node)
        if isinstance(node, tree.Call):
            return self._call(node)
        raise NotNativeError("arrays are evaluated by the broker's engine")

    def condition(self, node: tree.Expression) -> Native:
        """Return a condition in Spark SQL; it is never NULL."""
        return _short(self._condition(node))

    def _condition(self, node: tree.Expression) -> Native:
        if isinstance(node, tree.Comparison):
            return self._comparison(node)
        if isinstance(node, tree.Logical):
            left, right = self.condition(node.left), self.condition(node.right)
            return Native(f"({left.sql} {node.operator.upper()} {right.sql})", ValueKind.BOOLEAN)
        if isinstance(node, tree.Not):
            return self._negation(node)
        if isinstance(node, tree.InList):
            found = self._is_one_of(self.compile(node.subject), node.candidates)
            return Native(f"(NOT {found})" if node.negated else found, ValueKind.BOOLEAN)
        if isinstance(node, tree.Literal) and isinstance(node.value, bool):
            return _literal(node.value)
        if isinstance(node, tree.Call):
            native = self._call(node)
            if native.kind is ValueKind.BOOLEAN and not native.optional:
                return native
        raise NotNativeError("it is no condition, which fails the rule")

    def _path(self, node: tree.Path) -> Native:
        root, steps = node.root, node.steps
        if not steps:
            native = self._stored.get(root) or _COLUMNS.get(root)
            if native is not None:
                return native
        elif root == "flags" and root not in self._stored and len(steps) == 1 and isinstance(steps[0], tree.Key):
            flag = _FLAGS.get(steps[0].name)
            if flag is not None:
                return flag
        if root == "payload" and steps:
            raise NotNativeError(f"{written_path(node)} has the kind that each payload gives it")
        raise NotNativeError(f"{written_path(node)} is put together by the broker's engine")

    def _call(self, node: tree.Call) -> Native:
        name, arguments = node.name, node.arguments
        function = FUNCTIONS.get(name)
        if function is not None and function.column is not None:
            return _column_call(function.column, node)
        if name in ("div", "mod"):
            if len(arguments) != 2:
                raise NotNativeError("the number of arguments is left to the broker's engine")
            return self._arithmetic(tree.Arithmetic("div" if name == "div" else "mod", *arguments, node.place))
        return call_natively(name, [self.compile(argument) for argument in arguments])

    def _number(self, node: tree.Expression) -> Native:
        return _as_number(self.compile(node))

    def _arithmetic(self, node: tree.Arithmetic) -> Native:
        if node.operator == "+":
            left, right = self.compile(node.left), self.compile(node.right)
            if any(side.kind is ValueKind.STRING and not side.optional for side in (left, right)):
                return Native(f"concat({text_in_sql(left)}, {text_in_sql(right)})", ValueKind.STRING)
            left, right = _as_number(left), _as_number(right)
        else:
            left, right = self._number(node.left), self._number(node.right)
        if node.operator in ("div", "mod"):
            return _whole_division(node, left, right)
        if node.operator == "/":
            return _division(node, left, right)
        size = left.size * right.size if node.operator == "*" else left.size + right.size
        sql = f"({left.sql} {node.operator} {right.sql})"
        if left.kind is right.kind is ValueKind.INTEGER:
            if size > _INTEGER_MAX:
                raise NotNativeError(f"the result of {node.operator} may need more than 64 bits")
            return Native(sql, ValueKind.INTEGER, size=size)
        return _float(sql, size)

    def _comparison(self, node: tree.Comparison) -> Native:
        left, right = self.compile(node.left), self.compile(node.right)
        if node.operator in ("=~", "~="):
            test = self._topic_comparison(node, left)
        else:
            _check_comparable(left, right)
            sign = "!=" if node.operator == "<>" else node.operator
            test = f"({left.sql} {sign} {right.sql})"
        if left.optional and right.optional:
            raise NotNativeError("both sides of the comparison may be undefined")
        # A comparison with one undefined side is false, whatever it asks.
        return Native(f"coalesce({test}, false)" if left.optional or right.optional else test, ValueKind.BOOLEAN)

    def _topic_comparison(self, node: tree.Comparison, left: Native) -> str:
        topic_filter = node.right.value if isinstance(node.right, tree.Literal) else None
        if node.operator != "=~" or left.kind is not ValueKind.STRING or not isinstance(topic_filter, str):
            raise NotNativeError("a topic is matched natively with =~ and a filter that is written in the rule")
        if topic_filter_fault(topic_filter, _LEVELS_MAX) is not None:
            raise NotNativeError("an invalid topic filter fails the rule")
        return f"({_topic_test(left.sql, topic_filter)})"

    def _negation(self, node: tree.Not) -> Native:
        operand = self.compile(node.operand)
        if operand.kind is not ValueKind.BOOLEAN:
            return Native("false", ValueKind.BOOLEAN)
        test = f"(NOT {operand.sql})"
        return Native(f"coalesce({test}, false)" if operand.optional else test, ValueKind.BOOLEAN)

    def _is_one_of(self, subject: Native, candidates: tuple[tree.Expression, ...]) -> str:
        tests = []
        for candidate in map(self.compile, candidates):
            if subject.optional and candidate.optional:
                raise NotNativeError("both sides of the comparison may be undefined")
            if candidate.kind is subject.kind:
                tests.append(f"coalesce({subject.sql} = {candidate.sql}, false)")
            elif ValueKind.BYTES in (candidate.kind, subject.kind):
                raise NotNativeError("the payload as a whole is compared by the broker's engine")
        return f"({' OR '.join(tests)})" if tests else "false"

    def _case(self, node: tree.Case) -> Native:
        if node.subject is None:
            tests = [self.condition(branch.when).sql for branch in node.branches]
        else:
            subject = self.compile(node.subject)
            tests = [self._is_one_of(subject, (branch.when,)) for branch in node.branches]
        results = [self.compile(branch.then) for branch in node.branches]
        default = None if node.default is None else self.compile(node.default)
        return _case_of(tests, results, default)


def _column_call(column: str, node: tree.Call) -> Native:
    """A function that reads a column: of the message itself, whatever a field has stored under its name."""
    arguments = node.arguments
    native = _COLUMNS.get(column) if not arguments else None
    if node.name == "flag" and len(arguments) == 1 and isinstance(arguments[0], tree.Literal):
        native = _FLAGS.get(str(arguments[0].value)) if isinstance(arguments[0].value, str) else None
    if native is None:
        raise NotNativeError(f"what {node.name} reads is put together by the broker's engine")
    return native


def _short(native: Native) -> Native:
    """Refuse what grows without bound: fields that name a field before them twice have twice its text each."""
    if len(native.sql) > _SQL_MAX:
        raise NotNativeError("its Spark SQL would be too long")
    return native


def _as_number(native: Native) -> Native:
    if native.kind not in (ValueKind.INTEGER, ValueKind.NUMBER) or native.optional:
        raise NotNativeError("arithmetic on what is no number fails the rule")
    return native


def _literal(value: str | int | float | bool) -> Native:
    if isinstance(value, bool):
        return Native("true" if value else "false", ValueKind.BOOLEAN)
    if isinstance(value, str):
        return Native(string_literal(value), ValueKind.STRING)
    if isinstance(value, float):
        return _float(f"{value!r}D", value)
    if value > _INTEGER_MAX:
        raise NotNativeError(f"the integer {value} needs more than 64 bits")
    return Native(f"{value}L", ValueKind.INTEGER, size=value)


def _float(sql: str, size: float) -> Native:
    if size > _FLOAT_MAX:
        raise NotNativeError("the result may be larger than a 64-bit float can be")
    return Native(sql, ValueKind.NUMBER, size=size)


def _divisor(node: tree.Arithmetic) -> int | float:
    value = node.right.value if isinstance(node.right, tree.Literal) else 0
    if isinstance(value, str) or value == 0:
        raise NotNativeError("division fails the rule where the divisor is 0")
    return value


def _whole_division(node: tree.Arithmetic, left: Native, right: Native) -> Native:
    _divisor(node)
    if not left.kind is right.kind is ValueKind.INTEGER:
        raise NotNativeError(f"{node.operator} of what is no integer fails the rule")
    return Native(
        f"({left.sql} {'div' if node.operator == 'div' else '%'} {right.sql})", ValueKind.INTEGER, size=left.size
    )


def _division(node: tree.Arithmetic, left: Native, right: Native) -> Native:
    size = left.size / abs(_divisor(node))
    return _float(f"(CAST({left.sql} AS DOUBLE) / CAST({right.sql} AS DOUBLE))", size)


def _check_comparable(left: Native, right: Native) -> None:
    kinds = {left.kind, right.kind}
    if kinds == {ValueKind.INTEGER, ValueKind.NUMBER}:
        whole = left if left.kind is ValueKind.INTEGER else right
        if whole.size > _EXACT_IN_DOUBLE:
            raise NotNativeError("large integers are compared with floats by the broker's engine")
    elif len(kinds) > 1 or ValueKind.BYTES in kinds:
        raise NotNativeError(f"{left.kind} and {right.kind} are compared by the broker's engine")


def _case_of(tests: list[str], results: list[Native], default: Native | None) -> Native:
    values = results if default is None else [*results, default]
    kinds = {value.kind for value in values}
    if len(kinds) > 1:
        raise NotNativeError("the branches of CASE have different kinds")
    sql = " ".join(f"WHEN {test} THEN {result.sql}" for test, result in zip(tests, results, strict=True))
    sql = f"CASE {sql} END" if default is None else f"CASE {sql} ELSE {default.sql} END"
    optional = default is None or any(value.optional for value in values)
    return Native(sql, kinds.pop(), optional, max(value.size for value in values))


_NATIVE_CASTS: Final[Mapping[ValueKind, Callable[[str, float], bool]]] = {
    ValueKind.STRING: lambda name, size: name == "string",
    ValueKind.BYTES: lambda name, size: name == "binary",
    ValueKind.BOOLEAN: lambda name, size: name in ("boolean", "string"),
    ValueKind.NUMBER: lambda name, size: name == "double",
    ValueKind.INTEGER: lambda name, size: (
        name in ("bigint", "double", "string") or size < {"tinyint": 2**7, "smallint": 2**15, "int": 2**31}.get(name, 0)
    ),
}


def as_type(native: Native, name: str) -> str:
    if not _NATIVE_CASTS[native.kind](name, native.size):
        raise NotNativeError(f"making {name} of {native.kind} can fail")
    return f"CAST({native.sql} AS {name.upper()})"
