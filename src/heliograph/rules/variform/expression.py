"""An expression ready to be evaluated: its tree, walked once for each evaluation.

`iif`, `coalesce` and `is_empty` evaluate only what they need, and take a variable without a value for the empty string;
everywhere else it is an error. Errors are not hidden here: whoever evaluates decides what stands in for the result.
"""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.others import VARIABLE_PREFIX
from heliograph.rules.json_text import text_of
from heliograph.rules.tree import Place
from heliograph.rules.values import UNDEFINED, Value, describe
from heliograph.rules.variform.errors import UnboundFault, VariformEvaluationError
from heliograph.rules.variform.functions import FUNCTIONS, MODULES
from heliograph.rules.variform.syntax import Array, Call, Constant, Name, Node, parse

Bindings = Mapping[str, Value]
GetVariable = Callable[[str], str]


@lru_cache(maxsize=10_000)
def _environment_variable(name: str) -> str:
    return os.environ.get(VARIABLE_PREFIX + name, "") if "\0" not in name else ""


class Variform:
    """An expression. It holds nothing of any evaluation, so every thread may use it.

    Args:
        text: The expression.
        variable: Gives the environment variable of a name, without the prefix HELIOGRAPHVAR_; '' if it is not set.

    Raises:
        VariformSyntaxError: The text is no expression.
    """

    def __init__(self, text: str, variable: GetVariable = _environment_variable) -> None:
        self.text = text
        self._variable = variable
        self._tree = parse(text)

    def evaluate(self, bindings: Bindings) -> Value:
        """The value of the expression, whatever kind it is.

        Args:
            bindings: Variables by name; maps may hold maps.

        Raises:
            VariformEvaluationError: A variable has no value, or a function does not exist or refuses its arguments.
        """
        try:
            return self._value(self._tree, bindings)
        except _PlacedFault as placed:
            raise VariformEvaluationError(str(placed.fault), self.text, placed.place) from None

    def render(self, bindings: Bindings) -> str | bytes:
        """The value as text; what has no value is ''.

        Raises:
            VariformEvaluationError: As for `evaluate`; or the value is an array or a map.
        """
        value = self.evaluate(bindings)
        try:
            return text_of_result(value)
        except EvaluationFault as fault:
            raise VariformEvaluationError(str(fault), self.text, self._tree.place) from None

    def __repr__(self) -> str:
        return f"Variform({self.text!r})"

    def _value(self, node: Node, bindings: Bindings) -> Value:
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Array):
            return [self._value(item, bindings) for item in node.items]
        try:
            return _variable(node.text, bindings) if isinstance(node, Name) else self._call(node, bindings)
        except EvaluationFault as fault:
            raise _PlacedFault(fault, node.place) from None

    def _call(self, node: Call, bindings: Bindings) -> Value:
        lazy = _LAZY.get(node.name)
        if lazy is not None:
            return lazy(self, node, bindings)
        function = FUNCTIONS.get(node.name)
        if function is None and node.name != "getenv":
            raise EvaluationFault(_unknown(node.name))
        arguments = [self._value(argument, bindings) for argument in node.arguments]
        if function is None:
            return self._getenv(arguments)
        return function.call(arguments)

    def _getenv(self, arguments: list[Value]) -> Value:
        if len(arguments) != 1 or not isinstance(arguments[0], str):
            raise EvaluationFault("getenv: it takes 1 argument, the name of a variable")
        return self._variable(arguments[0])

    def _value_or_empty(self, node: Node, bindings: Bindings) -> Value:
        """The value, '' where a variable that it needs has none."""
        try:
            return self._value(node, bindings)
        except _PlacedFault as placed:
            if isinstance(placed.fault, UnboundFault):
                return ""
            raise

    def _iif(self, node: Call, bindings: Bindings) -> Value:
        if len(node.arguments) != 3:
            raise EvaluationFault(f"iif: it takes 3 arguments, not {len(node.arguments)}")
        condition, then, otherwise = node.arguments
        value = self._value_or_empty(condition, bindings)
        return self._value(otherwise if value is False or _is_empty(value) else then, bindings)

    def _coalesce(self, node: Call, bindings: Bindings) -> Value:
        arguments = node.arguments
        if not arguments:
            raise EvaluationFault("coalesce: it takes at least 1 argument")
        if len(arguments) > 1 or isinstance(arguments[0], Array):
            first = arguments[0]
            candidates = first.items if isinstance(first, Array) and len(arguments) == 1 else arguments
            values = (self._value_or_empty(candidate, bindings) for candidate in candidates)
            return next((value for value in values if not _is_empty(value)), "")
        found = self._value_or_empty(arguments[0], bindings)
        if _is_empty(found):
            return ""
        if not isinstance(found, list):
            raise EvaluationFault(f"coalesce: a single argument must be an array, not {describe(found)}")
        return next((value for value in found if not _is_empty(value)), "")

    def _is_empty(self, node: Call, bindings: Bindings) -> Value:
        if len(node.arguments) != 1:
            raise EvaluationFault(f"{node.name}: it takes 1 argument, not {len(node.arguments)}")
        read = self._value if node.name == "is_empty_val" else self._value_or_empty
        return _is_empty(read(node.arguments[0], bindings))


class _PlacedFault(Exception):  # noqa: N818 - it never leaves this module
    """A fault with the place where it happened, on its way out."""

    def __init__(self, fault: EvaluationFault, place: Place) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.place = place


_Lazy = Callable[[Variform, Call, Bindings], Value]
_LAZY: Final[dict[str, _Lazy]] = {
    "iif": Variform._iif,
    "coalesce": Variform._coalesce,
    "is_empty": Variform._is_empty,
    "is_empty_var": Variform._is_empty,
    "is_empty_val": Variform._is_empty,
}


def text_of_result(value: Value) -> str | bytes:
    """A result as text.

    Raises:
        EvaluationFault: It is an array or a map.
    """
    if value is None or value is UNDEFINED:
        return ""
    if isinstance(value, list | dict):
        raise EvaluationFault(f"the result must be text, a number or a boolean, not {describe(value)}")
    return text_of(value)


def _is_empty(value: Value) -> bool:
    return value is None or value is UNDEFINED or value == "" or value == []


def _variable(name: str, bindings: Bindings) -> Value:
    value: Value = UNDEFINED
    place: object = bindings
    for step in name.split("."):
        if not isinstance(place, Mapping) or step not in place:
            raise UnboundFault(f"the variable {name} has no value")
        place = value = place[step]
    return "" if value is None or value is UNDEFINED else value


def _unknown(name: str) -> str:
    module, dot, function = name.partition(".")
    if not dot:
        return f"there is no function {name}"
    if "." in function:
        return f"{name} is no function: a module and its function are joined by one dot"
    if module not in MODULES:
        return f"there is no module {module} to call; there are {', '.join(sorted(MODULES))}"
    return f"the module {module} has no function {function}"
