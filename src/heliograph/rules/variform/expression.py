"""An expression ready to be evaluated: its tree, walked once for each evaluation.

`iif`, `coalesce` and `is_empty` evaluate only what they need, and take a variable without a value for the empty string;
everywhere else it is an error. Errors are not hidden here: whoever evaluates decides what stands in for the result.
"""

from collections.abc import Callable, Mapping
from typing import Final

from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import Function
from heliograph.rules.json_text import text_of
from heliograph.rules.tree import Place
from heliograph.rules.values import UNDEFINED, Value, describe
from heliograph.rules.variform.errors import UnboundFault, VariformEvaluationError
from heliograph.rules.variform.functions import FUNCTIONS, MODULES
from heliograph.rules.variform.syntax import Array, Call, Constant, Name, Node, parse

Bindings = Mapping[str, Value]


class Variform:
    """An expression. It holds nothing of any evaluation, so every thread may use it.

    Args:
        text: The expression.
        environment: Where its variables of the environment come from; None for one of its own.

    Raises:
        VariformSyntaxError: The text is no expression.
    """

    def __init__(self, text: str, environment: Environment | None = None) -> None:
        self.text = text
        self._environment = Environment() if environment is None else environment
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

    def check_calls(self) -> None:
        """Find out before any evaluation whether all functions exist and take as many arguments as they are given.

        Raises:
            VariformEvaluationError: One does not, as its evaluation would say.
        """
        pending: list[Node] = [self._tree]
        while pending:
            node = pending.pop()
            if isinstance(node, Call):
                try:
                    _checked(node)
                except EvaluationFault as fault:
                    raise VariformEvaluationError(str(fault), self.text, node.place) from None
                pending += reversed(node.arguments)
            elif isinstance(node, Array):
                pending += reversed(node.items)

    def variables(self) -> set[str]:
        """The names of all variables that an evaluation may read, each up to its first dot."""
        found: set[str] = set()
        pending: list[Node] = [self._tree]
        while pending:
            node = pending.pop()
            if isinstance(node, Name):
                found.update(node.steps[:1])
            elif isinstance(node, Call | Array):
                pending += node.arguments if isinstance(node, Call) else node.items
        return found

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
            return _variable(node, bindings) if isinstance(node, Name) else self._call(node, bindings)
        except EvaluationFault as fault:
            raise _PlacedFault(fault, node.place) from None

    def _call(self, node: Call, bindings: Bindings) -> Value:
        # Before the arguments: a wrong call is an error also where a variable without a value is none.
        function = _checked(node)
        if function is None:
            return _LAZY[node.name](self, node, bindings)
        return function.call([self._value(argument, bindings) for argument in node.arguments])

    def _getenv(self, node: Call, bindings: Bindings) -> Value:
        name = self._value(node.arguments[0], bindings)
        if not isinstance(name, str):
            raise EvaluationFault("getenv: the name of a variable must be a text")
        return self._environment.variable(name)

    def _value_or_empty(self, node: Node, bindings: Bindings) -> Value:
        """The value, '' where a variable that it needs has none."""
        try:
            return self._value(node, bindings)
        except _PlacedFault as placed:
            if isinstance(placed.fault, UnboundFault):
                return ""
            raise

    def _iif(self, node: Call, bindings: Bindings) -> Value:
        condition, then, otherwise = node.arguments
        value = self._value_or_empty(condition, bindings)
        return self._value(otherwise if value is False or _is_empty(value) else then, bindings)

    def _coalesce(self, node: Call, bindings: Bindings) -> Value:
        arguments = node.arguments
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
    "getenv": Variform._getenv,
}
# How many arguments these take where it is not one.
_LAZY_COUNTS: Final = {"iif": 3, "coalesce": None}


def _checked(call: Call) -> Function | None:
    """The function of a call; None for one that evaluates its arguments itself.

    Raises:
        EvaluationFault: There is none, or it takes another number of arguments.
    """
    count = len(call.arguments)
    if call.name in _LAZY:
        wanted = _LAZY_COUNTS.get(call.name, 1)
        if count == 0 or (wanted is not None and count != wanted):
            words = "at least 1 argument" if wanted is None else f"{wanted} argument{'s' if wanted > 1 else ''}"
            raise EvaluationFault(f"{call.name}: it takes {words}, not {count}")
        return None
    function = FUNCTIONS.get(call.name)
    if function is None:
        raise EvaluationFault(_unknown(call.name))
    function.check_count(count)
    return function


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


def _variable(name: Name, bindings: Bindings) -> Value:
    value: Value = UNDEFINED
    place: object = bindings
    for step in name.steps:
        if not isinstance(place, Mapping) or step not in place:
            raise UnboundFault(f"the variable {name.text} has no value")
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
