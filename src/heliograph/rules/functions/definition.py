"""What a function of the rule language is: its name, what it takes and gives, and the Python function that means it.

A family collects the functions of one module:

    FAMILY = Family("Strings")

    @FAMILY.function("S text, I start[, I length]", "S")
    def substr(text, start, length=None):
        '''The part of a text from a position, counted from 0.'''

`V values...` at the end takes any number of further arguments.

Kinds: N number, I integer, F float, S string, B boolean, A array, M map, V any value. The evaluator checks the number
and the kinds of the arguments before the Python function sees them.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import Value, describe

Implementation: TypeAlias = Callable[..., Value]

_KIND_TYPES: Final[dict[str, tuple[type, ...] | None]] = {
    "N": (int, float),
    "I": (int,),
    "F": (float,),
    "S": (str, bytes),
    "B": (bool,),
    "A": (list,),
    "M": (dict,),
    "V": None,
}
_KIND_WORDS: Final = {
    "N": "a number",
    "I": "an integer",
    "F": "a float",
    "S": "a string",
    "B": "a boolean",
    "A": "an array",
    "M": "a map",
    "V": "any value",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: what it is called and which kind of value it takes."""

    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    Attributes:
        name: How rules call it.
        family: The family it is listed under.
        signature: Its parameters as the reference shows them.
        parameters: All parameters.
        required: How many of them must be given.
        is_variadic: Whether any number may follow them.
        result: Kind of its result; V where it depends on the arguments.
        summary: One sentence for the reference.
        implementation: The Python function.
    """

    name: str
    family: str
    signature: str
    parameters: tuple[Parameter, ...]
    required: int
    is_variadic: bool
    result: str
    summary: str
    implementation: Implementation

    def call(self, arguments: Sequence[Value]) -> Value:
        """Check the arguments and call.

        Raises:
            EvaluationFault: The arguments do not fit, or the function refuses them.
        """
        if len(arguments) < self.required or (len(arguments) > len(self.parameters) and not self.is_variadic):
            raise EvaluationFault(f"{self.name}: it takes {self._wanted_count()}, not {len(arguments)}")
        for position, (parameter, argument) in enumerate(zip(self.parameters, arguments, strict=False), start=1):
            types = _KIND_TYPES[parameter.kind]
            # Not isinstance: a boolean is no integer here.
            if types is not None and type(argument) not in types:
                wanted = _KIND_WORDS[parameter.kind]
                raise EvaluationFault(f"{self.name}: argument {position} must be {wanted}, not {describe(argument)}")
        try:
            return self.implementation(*arguments)
        except EvaluationFault as fault:
            raise EvaluationFault(f"{self.name}: {fault}") from None

    def _wanted_count(self) -> str:
        most = len(self.parameters)
        if self.is_variadic:
            return f"{self.required} or more arguments ({self.signature})"
        if most == 0:
            return "no arguments"
        count = str(most) if self.required == most else f"{self.required} to {most}"
        return f"{count} argument{'s' if most > 1 else ''} ({self.signature})"


_MORE: Final = ", V values..."
_PARAMETER: Final = re.compile(r"(?P<optional>\[)?(?:, )?(?P<kind>[NIFSBAMV]) (?P<name>\w+)\]*(?:, )?")


@dataclass(slots=True)
class Family:
    """The functions of one module, in the order of their definition."""

    title: str
    functions: list[Function] = field(default_factory=list)

    def function(self, signature: str, result: str, name: str | None = None) -> Callable[[Implementation], Any]:
        """Return a decorator that adds a Python function to the family.

        Args:
            signature: Its parameters, such as `S text[, I length]`.
            result: Kind of its result.
            name: What rules call it, where Python's name cannot be the same.
        """

        def add(implementation: Implementation) -> Implementation:
            fixed = signature.removesuffix(_MORE)
            matches = list(_PARAMETER.finditer(fixed))
            required = next((at for at, match in enumerate(matches) if match["optional"]), len(matches))
            parameters = tuple(Parameter(match["name"], match["kind"]) for match in matches)
            summary = (implementation.__doc__ or "").strip().partition("\n")[0]
            called = name or implementation.__name__
            is_variadic = fixed != signature
            self.functions.append(
                Function(
                    called, self.title, signature, parameters, required, is_variadic, result, summary, implementation
                )
            )
            return implementation

        return add
