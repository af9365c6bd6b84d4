"""The nodes of the grammar become the tree of a rule.

The grammar accepts a little more than the language, so that here can be said in whole sentences what is wrong with,
say, a comparison where only a value may stand.
"""

import math
from typing import Any, Final, TypeAlias

from lark import Token, Transformer

from heliograph.mqtt.topic import topic_filter_fault
from heliograph.rules import tree

_TOPIC_BYTES_MAX: Final = 65_535
_INTEGER_DIGITS_MAX: Final = 4_300

_Fields: TypeAlias = tuple[tree.Field | tree.Star, ...]


class RuleRefusal(Exception):  # noqa: N818 - becomes a RuleSyntaxError as soon as the text is at hand
    """The builder met something that the grammar accepts and the language does not: what, and where."""

    def __init__(self, problem: str, place: tree.Place) -> None:
        super().__init__(problem)
        self.problem = problem
        self.place = place


def tree_builder() -> Transformer[Token, Any]:
    """What builds the nodes of a tree while a parser of the grammar goes over a text; it may raise `RuleRefusal`."""
    return _TreeBuilder()


class _Group:
    """A condition or a CASE in parentheses, which may not stand everywhere that the bare one may."""

    def __init__(self, inner: tree.Expression, place: tree.Place) -> None:
        self.inner = inner
        self.place = place


_Built: TypeAlias = tree.Expression | _Group
_CONDITION_NODES: Final = (tree.Comparison, tree.Logical, tree.Not, tree.InList)


class _TermBuilder(Transformer[Token, Any]):
    """Builds literals, paths and calls, while the parser goes over the text."""

    def string(self, children: list[Token]) -> tree.Literal:
        return tree.Literal(_unquoted(children[0]), _place(children[0]))

    def integer(self, children: list[Token]) -> tree.Literal:
        return tree.Literal(_integer(children[0]), _place(children[0]))

    def float_(self, children: list[Token]) -> tree.Literal:
        number = float(children[0])
        if math.isinf(number):
            raise RuleRefusal("this number is larger than a 64-bit float can be (about 1.8e308)", _place(children[0]))
        return tree.Literal(number, _place(children[0]))

    def boolean(self, children: list[Token]) -> tree.Literal:
        return tree.Literal(children[0] == "true", _place(children[0]))

    def range_(self, children: list[Token]) -> tree.RangeLiteral:
        first, last = _range_ends(children[0])
        return tree.RangeLiteral(first, last, _place(children[0]))

    def slice_(self, children: list[Any]) -> tree.Slice:
        path, ends = children
        return tree.Slice(path, *_range_ends(ends), path.place.to(_place(ends)))

    def list_(self, children: list[Any]) -> tree.ListLiteral:
        opening, *items, closing = children
        values = tuple(_value(item, "an element of a list") for item in items if item is not None)
        return tree.ListLiteral(values, _place(opening).to(_place(closing)))

    def call(self, children: list[Any]) -> tree.Call:
        function, *arguments, close = children
        place = function.place.to(_place(close))
        if not all(isinstance(step, tree.Key) for step in function.steps):
            raise RuleRefusal("the name of a function has no index", function.place)
        name = ".".join([function.root, *(step.name for step in function.steps)])
        return tree.Call(name, _arguments(arguments), place)

    def operator_call(self, children: list[Any]) -> tree.Call:
        word, *arguments, close = children
        return tree.Call(str(word), _arguments(arguments), _place(word).to(_place(close)))

    def reference(self, children: list[Any]) -> tree.Path:
        first, *steps = children
        place = _place(first)
        if steps:
            place = place.to(steps[-1][1])
        return tree.Path(_unquoted(first), tuple(step for step, _ in steps), place)

    def key(self, children: list[Token]) -> tuple[tree.Step, tree.Place]:
        return tree.Key(_unquoted(children[0])), _place(children[0])

    def index(self, children: list[Token]) -> tuple[tree.Step, tree.Place]:
        number = _integer(children[-2])
        negative = children[1] == "-"
        return tree.Index(-number if negative else number, negative and number == 0), _place(children[-1])

    def index_by(self, children: list[Any]) -> tuple[tree.Step, tree.Place]:
        return tree.IndexBy(children[1]), _place(children[2])


class _TreeBuilder(_TermBuilder):
    """Builds operators, conditions and clauses of terms, from the innermost outwards."""

    def select(self, children: list[Any]) -> tree.Select:
        _, fields, _, sources, _, where = children
        return tree.Select(fields, sources, _optional(where), "")

    def check(self, children: list[Any]) -> tree.Select:
        _, fields, _, where = children
        return tree.Select(fields, (), _optional(where), "")

    def foreach(self, children: list[Any]) -> tree.Foreach:
        _, fields, _, do, _, incase, _, sources, _, where = children
        if isinstance(fields[-1], tree.Star):
            raise RuleRefusal("the last item of FOREACH must be an array, and * is not one", fields[-1].place)
        return tree.Foreach(fields, do, _optional(incase), sources, _optional(where), "")

    def fields(self, children: list[Any]) -> _Fields:
        return tuple(children)

    def sources(self, children: list[Any]) -> tuple[tree.FromTopic, ...]:
        return tuple(children)

    def star(self, children: list[Token]) -> tree.Star:
        return tree.Star(_place(children[0]))

    def plain_field(self, children: list[Any]) -> tree.Field:
        return tree.Field(_selectable(children[0]), None, children[0].place)

    def named_field(self, children: list[Any]) -> tree.Field:
        expression, _, alias = children
        return tree.Field(_selectable(expression), alias, expression.place.to(alias.place))

    def renamed_field(self, children: list[Any]) -> tree.Field:
        expression, alias = children
        if isinstance(expression, tree.Comparison):
            raise RuleRefusal("AS is needed between a comparison and its name", alias.place)
        return tree.Field(_selectable(expression), alias, expression.place.to(alias.place))

    def source(self, children: list[Token]) -> tree.FromTopic:
        topic_filter, place = _unquoted(children[0]), _place(children[0])
        fault = topic_filter_fault(topic_filter, levels_max=_TOPIC_BYTES_MAX)
        if fault is None and len(topic_filter.encode()) > _TOPIC_BYTES_MAX:
            fault = f"a topic filter has at most {_TOPIC_BYTES_MAX} bytes"
        if fault is not None:
            raise RuleRefusal(f"FROM needs valid topic filters: {fault}", place)
        return tree.FromTopic(topic_filter, place)

    def logical(self, children: list[Any]) -> tree.Logical:
        left, operator, right = children
        place = left.place.to(right.place)
        return tree.Logical("and" if operator.type == "AND" else "or", _condition(left), _condition(right), place)

    def negation(self, children: list[Any]) -> tree.Not:
        return tree.Not(_condition(children[1]), _place(children[0]).to(children[1].place))

    def comparison(self, children: list[Any]) -> tree.Comparison:
        left, operator, right = children
        return tree.Comparison(
            str(operator),  # type: ignore[arg-type]  # the terminal matches nothing else
            _value(left, "a side of a comparison"),
            _value(right, "a side of a comparison"),
            left.place.to(right.place),
        )

    def membership(self, children: list[Any]) -> tree.InList:
        subject, *_, close = children
        negated = children[1].type == "NOT"
        candidates = tuple(_value_or_comparison(child, "an item of IN") for child in children[3 if negated else 2 : -1])
        return tree.InList(_value(subject, "the left side of IN"), candidates, negated, subject.place.to(_place(close)))

    def arithmetic(self, children: list[Any]) -> tree.Arithmetic:
        left, operator, right = children
        return tree.Arithmetic(
            str(operator),  # type: ignore[arg-type]  # the grammar lets nothing else through
            _value(left, f"a side of {operator}"),
            _value(right, f"a side of {operator}"),
            left.place.to(right.place),
        )

    def signed(self, children: list[Any]) -> tree.Unary:
        sign, operand = children
        value = _value(operand, "what a sign stands before")
        return tree.Unary("-" if sign == "-" else "+", value, _place(sign).to(operand.place))

    def group(self, children: list[Any]) -> _Built:
        opening, inner, closing = children
        if isinstance(inner, _Group):
            return inner
        if isinstance(inner, (*_CONDITION_NODES, tree.Case)):
            return _Group(inner, _place(opening).to(_place(closing)))
        return inner  # type: ignore[no-any-return]  # a node built by one of the other methods

    def searched_case(self, children: list[Any]) -> tree.Case:
        word, *branches, _, default, end = _with_else(children)
        checked = tuple(tree.Branch(_condition(when), _result(then)) for when, then in branches)
        return tree.Case(None, checked, None if default is None else _result(default), _place(word).to(_place(end)))

    def simple_case(self, children: list[Any]) -> tree.Case:
        word, subject, *branches, _, default, end = _with_else(children)
        checked = tuple(tree.Branch(_result(when), _result(then)) for when, then in branches)
        return tree.Case(
            _result(subject), checked, None if default is None else _result(default), _place(word).to(_place(end))
        )

    def branch(self, children: list[Any]) -> tuple[_Built, _Built]:
        return children[1], children[3]


def _optional(node: "_Built | None") -> tree.Expression | None:
    return None if node is None else _condition(node)


def _with_else(children: list[Any]) -> list[Any]:
    """Children of a CASE with a place for ELSE, also without one."""
    if isinstance(children[-3], Token) and children[-3].type == "ELSE":
        return children
    body = [child for child in children[:-1] if child is not None]
    return [*body, None, None, children[-1]]


def _place(token: Token) -> tree.Place:
    # The lexer always sets the four; lark declares them optional for tokens made by hand.
    return tree.Place(token.start_pos, token.end_pos, token.line, token.column)  # type: ignore[arg-type]  # a token of a parsed text has a place


def _unquoted(token: Token) -> str:
    if token.type == "STRING":
        return token.strip("'")
    return token.strip('"') if token.type == "QUOTED" else str(token)


def _integer(token: Token) -> int:
    if len(token) > _INTEGER_DIGITS_MAX:
        raise RuleRefusal(f"an integer has at most {_INTEGER_DIGITS_MAX:,} digits", _place(token))
    return int(token)


def _range_ends(token: Token) -> tuple[int, int]:
    if len(token) > _INTEGER_DIGITS_MAX:
        raise RuleRefusal(f"an integer has at most {_INTEGER_DIGITS_MAX:,} digits", _place(token))
    first, last = token[1:-1].split("..")
    return int(first), int(last)


def _kind(node: _Built) -> str:
    inner = node.inner if isinstance(node, _Group) else node
    if isinstance(inner, tree.Comparison):
        return "a comparison"
    if isinstance(inner, tree.InList):
        return "a condition with IN"
    return "CASE" if isinstance(inner, tree.Case) else "a condition with AND, OR or NOT"


def _value(node: _Built, role: str) -> tree.Expression:
    """A node where neither a condition nor a CASE may stand."""
    if isinstance(node, (_Group, tree.Case, *_CONDITION_NODES)):
        hint = (
            "; give it a name with AS first and use the name" if isinstance(node, tree.Comparison | tree.Case) else ""
        )
        raise RuleRefusal(f"{_kind(node)} cannot be {role}{hint}", node.place)
    return node


def _value_or_comparison(node: _Built, role: str) -> tree.Expression:
    return node if isinstance(node, tree.Comparison) else _value(node, role)


def _result(node: _Built) -> tree.Expression:
    return _value_or_comparison(node, "part of a CASE")


def _arguments(nodes: list[Any]) -> tuple[tree.Expression, ...]:
    return tuple(
        node if isinstance(node, tree.Case) else _value_or_comparison(node, "an argument of a function")
        for node in nodes
        if node is not None
    )


def _condition(node: _Built) -> tree.Expression:
    """A node where a condition is wanted; what else may stand there is a matter of evaluation."""
    inner = node.inner if isinstance(node, _Group) else node
    if isinstance(inner, tree.Case):
        raise RuleRefusal("CASE cannot be a condition; give it a name with AS and compare the name", node.place)
    return inner


def _selectable(node: _Built) -> tree.Expression:
    if isinstance(node, _Group):
        if isinstance(node.inner, tree.Case):
            return node.inner
        raise RuleRefusal(f"{_kind(node)} in parentheses cannot be selected, only used as a condition", node.place)
    if isinstance(node, tree.Logical | tree.Not | tree.InList):
        raise RuleRefusal(f"{_kind(node)} cannot be selected; use CASE WHEN ... THEN true ELSE false END", node.place)
    return node
