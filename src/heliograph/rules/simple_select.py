"""Rules of the simplest shape, as lines of Python: what both engines generate their short cuts from.

The shape is SELECT of columns, keys of the payload and literals under plain names, with or without a WHERE of
comparisons between such a column or key and a literal, joined by AND and OR. Nothing of that has an effect or an order,
so that a short cut may give up at any moment and leave the message to the evaluator: whatever is not a number where a
number is compared, whatever is no JSON object, and every error. The meaning of the language stays in one place.
"""

from collections.abc import Callable, Iterator
from typing import Final

from heliograph.rules.tree import Comparison, Expression, Field, Key, Literal, Logical, Path, Select

_RELATIONS: Final = {"=": "==", "!=": "!=", "<>": "!=", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CONDITIONS_MAX: Final = 32


class TooSpecialError(Exception):
    pass


class SimpleSelect:
    """The source of one short cut; what a rule's author wrote is in it as names and constants of Python only.

    Args:
        column: Gives the expression that reads a column.
        decode: The expression that decodes the payload. It and everything else stand in a function of one argument.
        argument: What that argument is called; `otherwise`, called with it, leaves the message to the evaluator.

    Attributes:
        row: The expression of each output column.
    """

    def __init__(self, tree: Select, column: Callable[[str], str], decode: str, argument: str) -> None:
        self._column = column
        self._decode = decode
        self._leave = f"return otherwise({argument})"
        self._reads: dict[str, str] = {}  # expressions that read, by the variable that holds what they give
        self._checks: list[str] = []
        targets = []
        self._stored: set[str] = set()
        for field in tree.fields:
            if not isinstance(field, Field):
                raise TooSpecialError
            target = field.alias
            if target is None and isinstance(field.expression, Path) and not field.expression.steps:
                target = field.expression
            if target is None or target.steps:
                raise TooSpecialError
            targets.append((target.root, self._operand(field.expression)))
            self._stored.add(target.root)
        self.row = dict(targets)
        self._where = None if tree.where is None else self._condition(tree.where)

    def lines(self, nothing: str) -> Iterator[str]:
        """The lines before a row is output; they return the expression `nothing` where WHERE is not true."""
        if any(read.startswith("document") for read in self._reads.values()):
            yield "try:"
            yield f"    document = {self._decode}"
            yield "except (EvaluationFault, ValueError):"
            yield f"    {self._leave}"
            yield "if type(document) is not dict:"
            yield f"    {self._leave}"
        for variable, read in self._reads.items():
            yield f"{variable} = {read}"
        yield from self._checks
        if self._where is not None:
            yield f"if not ({self._where}):"
            yield f"    return {nothing}"

    def _operand(self, node: Expression) -> str:
        if isinstance(node, Literal):
            return repr(node.value)
        if not isinstance(node, Path) or node.root in self._stored or node.root == "metadata":
            raise TooSpecialError
        if not node.steps:
            return self._read(self._column(node.root))
        step = node.steps[0]
        if node.root != "payload" or len(node.steps) > 1 or not isinstance(step, Key):
            raise TooSpecialError
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
            raise TooSpecialError
        left, right, relation = node.left, node.right, _RELATIONS[node.operator]
        if isinstance(left, Literal):
            left, right, relation = right, left, _TURNED.get(relation, relation)
        if not isinstance(right, Literal) or isinstance(left, Literal) or len(self._checks) >= 4 * _CONDITIONS_MAX:
            raise TooSpecialError
        constant = right.value
        if isinstance(constant, bool) or not isinstance(constant, int | float | str):
            raise TooSpecialError
        variable, result = self._operand(left), f"c{len(self._checks)}"
        kinds = "str" if isinstance(constant, str) else "int", "str" if isinstance(constant, str) else "float"
        self._checks += [
            f"if type({variable}) is {kinds[0]} or type({variable}) is {kinds[1]}:",
            f"    {result} = {variable} {relation} {constant!r}",
            f"elif {variable} is UNDEFINED: {result} = False",  # beside undefined, every comparison is false
            f"else: {self._leave}",
        ]
        return result
