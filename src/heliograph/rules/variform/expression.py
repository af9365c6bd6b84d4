"""An expression ready to be evaluated: its tree, compiled once into closures over the variables.

`iif`, `coalesce` and `is_empty` evaluate only what they need, and take a variable without a value for the empty string;
everywhere else it is an error. Errors are not hidden here: the caller decides what to use instead of the result.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import Function
from heliograph.rules.json_text import text_of
from heliograph.rules.output import nodes_of
from heliograph.rules.tree import Call, Expression, Key, ListLiteral, Literal, Path, Place
from heliograph.rules.values import UNDEFINED, Value, describe
from heliograph.rules.variform.functions import FUNCTIONS, MODULES
from heliograph.rules.variform.syntax import UnboundFault, VariformEvaluationError, parse

Bindings: TypeAlias = Mapping[str, Value]
_Evaluate: TypeAlias = Callable[[Bindings], Value]


class Variform:
    """An expression. It holds nothing of any evaluation, so every thread may use it."""

    def __init__(self, text: str, environment: Environment | None = None) -> None:
        self.text = text
        self._tree = parse(text)
        self._evaluate = _Compiler(text, environment or Environment()).value(self._tree)

    def evaluate(self, bindings: Bindings) -> Value:
        """The value of the expression, whatever kind it is; maps of the bindings may hold maps."""
        try:
            return self._evaluate(bindings)
        except _PlacedFault as placed:
            raise VariformEvaluationError(str(placed.fault), self.text, placed.place) from None

    def check_calls(self) -> None:
        """Find out before any evaluation whether all functions exist and take as many arguments as they are given."""
        for node in nodes_of(self._tree):
            if isinstance(node, Call):
                try:
                    _checked(node)
                except EvaluationFault as fault:
                    raise VariformEvaluationError(str(fault), self.text, node.place) from None

    def variables(self) -> set[str]:
        """The names of all variables that an evaluation may read, each up to its first dot."""
        return {node.root for node in nodes_of(self._tree) if isinstance(node, Path)}

    def render(self, bindings: Bindings) -> str | bytes:
        """The value as text; what has no value is ''."""
        value = self.evaluate(bindings)
        try:
            return text_of_result(value)
        except EvaluationFault as fault:
            raise VariformEvaluationError(str(fault), self.text, self._tree.place) from None

    def __repr__(self) -> str:
        return f"Variform({self.text!r})"


class _PlacedFault(Exception):  # noqa: N818 - it never leaves this module
    """A fault with the place where it happened, on its way out."""

    def __init__(self, fault: EvaluationFault, place: Place) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.place = place


class _Compiler:
    """Compiles the nodes of one expression; what is wrong with a call is found when it is evaluated."""

    def __init__(self, text: str, environment: Environment) -> None:
        self._text = text
        self._environment = environment

    def value(self, node: Expression) -> _Evaluate:
        if isinstance(node, Literal):
            constant = node.value
            return lambda bindings: constant
        if isinstance(node, ListLiteral):
            items = [self.value(item) for item in node.items]
            return lambda bindings: [item(bindings) for item in items]
        assert isinstance(node, Path | Call)  # the parser makes no others
        evaluate, place = self._path(node) if isinstance(node, Path) else self._call(node), node.place

        def placed(bindings: Bindings) -> Value:
            try:
                return evaluate(bindings)
            except EvaluationFault as fault:
                raise _PlacedFault(fault, place) from None

        return placed

    def _path(self, node: Path) -> _Evaluate:
        names = (node.root, *(step.name for step in node.steps if isinstance(step, Key)))
        unbound = f"the variable {self._text[node.place.start : node.place.end]} has no value"

        def read(bindings: Bindings) -> Value:
            value: Value = UNDEFINED
            within: object = bindings
            for name in names:
                if not isinstance(within, Mapping) or name not in within:
                    raise UnboundFault(unbound)
                within = value = within[name]
            return "" if value is None or value is UNDEFINED else value

        return read

    def _call(self, node: Call) -> _Evaluate:
        try:
            function = _checked(node)
        except EvaluationFault as fault:
            problem = str(fault)

            # Before the arguments: a wrong call is an error also where a variable has no value.
            def fail(bindings: Bindings) -> Value:
                raise EvaluationFault(problem)

            return fail
        if function is None:
            return _LAZY[node.name](self, node)
        call = function.bound(self._environment).call
        arguments = [self.value(argument) for argument in node.arguments]
        return lambda bindings: call([argument(bindings) for argument in arguments])

    # Calls that evaluate their arguments themselves

    def _getenv(self, node: Call) -> _Evaluate:
        argument, variable = self.value(node.arguments[0]), self._environment.variable

        def evaluate(bindings: Bindings) -> Value:
            name = argument(bindings)
            if not isinstance(name, str):
                raise EvaluationFault("getenv: the name of a variable must be a text")
            return variable(name)

        return evaluate

    def _value_or_empty(self, node: Expression) -> _Evaluate:
        """The value, '' where a variable that it needs has none."""
        value = self.value(node)

        def evaluate(bindings: Bindings) -> Value:
            try:
                return value(bindings)
            except _PlacedFault as placed:
                if isinstance(placed.fault, UnboundFault):
                    return ""
                raise

        return evaluate

    def _iif(self, node: Call) -> _Evaluate:
        condition = self._value_or_empty(node.arguments[0])
        then, otherwise = map(self.value, node.arguments[1:])

        def evaluate(bindings: Bindings) -> Value:
            value = condition(bindings)
            return (otherwise if value is False or _is_empty(value) else then)(bindings)

        return evaluate

    def _coalesce(self, node: Call) -> _Evaluate:
        first, several = node.arguments[0], node.arguments
        if len(several) == 1 and isinstance(first, ListLiteral):
            several = first.items
        elif len(several) == 1:
            return self._coalesce_array(first)
        candidates = [self._value_or_empty(candidate) for candidate in several]
        return lambda bindings: _first_of(candidate(bindings) for candidate in candidates)

    def _coalesce_array(self, node: Expression) -> _Evaluate:
        array = self._value_or_empty(node)

        def evaluate(bindings: Bindings) -> Value:
            found = array(bindings)
            if _is_empty(found):
                return ""
            if not isinstance(found, list):
                raise EvaluationFault(f"coalesce: a single argument must be an array, not {describe(found)}")
            return _first_of(found)

        return evaluate

    def _is_empty(self, node: Call) -> _Evaluate:
        read = self.value if node.name == "is_empty_val" else self._value_or_empty
        value = read(node.arguments[0])
        return lambda bindings: _is_empty(value(bindings))


_LAZY: Final[dict[str, Callable[[_Compiler, Call], _Evaluate]]] = {
    "iif": _Compiler._iif,
    "coalesce": _Compiler._coalesce,
    "is_empty": _Compiler._is_empty,
    "is_empty_var": _Compiler._is_empty,
    "is_empty_val": _Compiler._is_empty,
    "getenv": _Compiler._getenv,
}
# How many arguments these take where it is not one.
_LAZY_COUNTS: Final = {"iif": 3, "coalesce": None}


def _checked(call: Call) -> Function | None:
    """The function of a call; None for one that evaluates its arguments itself."""
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
    if value is None or value is UNDEFINED:
        return ""
    if isinstance(value, list | dict):
        raise EvaluationFault(f"the result must be text, a number or a boolean, not {describe(value)}")
    return text_of(value)


def _first_of(values: Iterable[Value]) -> Value:
    """The first value that is not empty; '' where all are."""
    return next((value for value in values if not _is_empty(value)), "")


def _is_empty(value: Value) -> bool:
    return value is None or value is UNDEFINED or value == "" or value == []


def _unknown(name: str) -> str:
    module, dot, function = name.partition(".")
    if not dot:
        return f"there is no function {name}"
    if "." in function:
        return f"{name} is no function: a module and its function are joined by one dot"
    if module not in MODULES:
        return f"there is no module {module} to call; there are {', '.join(sorted(MODULES))}"
    return f"the module {module} has no function {function}"
