"""Short cuts: rules of the simplest shape as one generated function, twice as fast as the closures of the evaluator.

The shape is SELECT of columns, keys of the payload and literals under plain names, with or without a WHERE of
comparisons between such a column or key and a literal, joined by AND and OR. Nothing of that has an effect or an order,
so that a short cut may give up at any moment and leave the message to the evaluator: whatever is not a number where a
number is compared, whatever is no JSON object, and every error. The meaning of the language stays in one place.
"""

from collections.abc import Callable, Iterator
from typing import Final

from heliograph.rules.columns import Columns
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.tree import Comparison, Expression, Field, Key, Literal, Logical, Path, Select
from heliograph.rules.values import UNDEFINED, Value

Rows = list[dict[str, Value]]

_RELATIONS: Final = {"=": "==", "!=": "!=", "<>": "!=", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CONDITIONS_MAX: Final = 32


class _TooSpecialError(Exception):
    """The rule has another shape."""


def short_cut(rule: CompiledRule) -> Callable[[Columns], Rows] | None:
    """A function that does what `rule.apply` does, or None for a rule of another shape."""
    tree = rule.tree
    if not isinstance(tree, Select):
        return None
    try:
        source = _Source(tree).text()
    except _TooSpecialError:
        return None
    names: dict[str, object] = {
        "otherwise": rule.apply,
        "UNDEFINED": UNDEFINED,
        "EvaluationFault": EvaluationFault,
        "nothing": [],
    }
    exec(compile(source, "<rule>", "exec"), names)
    made = names["rows"]
    assert callable(made)
    return made


class _Source:
    """The source of one short cut; what a rule's author wrote is in it as names and constants of Python only."""

    def __init__(self, tree: Select) -> None:
        self._reads: dict[str, str] = {}  # expressions that read, by the variable that holds what they give
        self._checks: list[str] = []
        targets = []
        self._stored: set[str] = set()
        for field in tree.fields:
            if not isinstance(field, Field):
                raise _TooSpecialError
            target = field.alias
            if target is None and isinstance(field.expression, Path) and not field.expression.steps:
                target = field.expression
            if target is None or target.steps:
                raise _TooSpecialError
            targets.append((target.root, self._operand(field.expression)))
            self._stored.add(target.root)
        self._row = ", ".join(f"{name!r}: {value}" for name, value in dict(targets).items())
        self._where = None if tree.where is None else self._condition(tree.where)

    def text(self) -> str:
        """The whole function."""
        return "\n".join(["def rows(columns):", *(f"    {line}" for line in self._lines())])

    def _lines(self) -> Iterator[str]:
        if any(read.startswith("document") for read in self._reads.values()):
            yield "try:"
            yield "    document = columns.document()"
            yield "except EvaluationFault:"
            yield "    return otherwise(columns)"
            yield "if type(document) is not dict:"
            yield "    return otherwise(columns)"
        for variable, read in self._reads.items():
            yield f"{variable} = {read}"
        yield from self._checks
        if self._where is not None:
            yield f"if not ({self._where}):"
            yield "    return []"
        yield f"return [{{{self._row}}}]"

    def _operand(self, node: Expression) -> str:
        if isinstance(node, Literal):
            return repr(node.value)
        if not isinstance(node, Path) or node.root in self._stored or node.root == "metadata":
            raise _TooSpecialError
        if not node.steps:
            return self._read(f"columns.get({node.root!r})")
        step = node.steps[0]
        if node.root != "payload" or len(node.steps) > 1 or not isinstance(step, Key):
            raise _TooSpecialError
        return self._read(f"document.get({step.name!r}, UNDEFINED)")

    def _read(self, expression: str) -> str:
        for variable, known in self._reads.items():
            if known == expression:
                return variable
        variable = f"v{len(self._reads)}"
        self._reads[variable] = expression
        return variable

    def _condition(self, node: Expression) -> str:
        if isinstance(node, Logical):
            return f"({self._condition(node.left)} {node.operator} {self._condition(node.right)})"
        if not isinstance(node, Comparison) or node.operator not in _RELATIONS:
            raise _TooSpecialError
        left, right, relation = node.left, node.right, _RELATIONS[node.operator]
        if isinstance(left, Literal):
            left, right, relation = right, left, _TURNED.get(relation, relation)
        if not isinstance(right, Literal) or isinstance(left, Literal) or len(self._checks) >= 4 * _CONDITIONS_MAX:
            raise _TooSpecialError
        constant = right.value
        if isinstance(constant, bool) or not isinstance(constant, int | float | str):
            raise _TooSpecialError
        variable, result = self._operand(left), f"c{len(self._checks)}"
        kinds = "str" if isinstance(constant, str) else "int", "str" if isinstance(constant, str) else "float"
        self._checks += [
            f"if type({variable}) is {kinds[0]} or type({variable}) is {kinds[1]}:",
            f"    {result} = {variable} {relation} {constant!r}",
            f"elif {variable} is UNDEFINED: {result} = False",  # beside undefined, every comparison is false
            "else: return otherwise(columns)",
        ]
        return result
