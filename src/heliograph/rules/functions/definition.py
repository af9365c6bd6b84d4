"""What a function of the rule language is: its name, what it takes and gives, and the Python function that means it.

A family collects functions of one theme:

    FAMILY = Family("Strings")

    @FAMILY.function("S text, I start[, I length]", "S")
    def substr(text, start, length=None):
        '''The part of a text from a position, counted from 0.'''

`V values...` at the end takes any number of further arguments.

Kinds: N number, I integer, F float, S string, X string or bits, B boolean, A array, M map, V any value. The evaluator
checks the number and the kinds of the arguments before the Python function sees them.

A function of a column (`column="topic"`) is given the columns of the message before its arguments. One that asks its
environment (schemas, variables, kept values) is given that first of all: a rule that is compiled calls what `bound`
gives. One that may block waits for something outside of this process, so that an event loop should not call it.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, TypeAlias

from heliograph.rules.columns import Columns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import INTEGER_DIGITS_MAX, Bits, Value, describe, is_writable

Implementation: TypeAlias = Callable[..., Value]
BlocksOn: TypeAlias = Callable[[Environment, Value], bool]

_KIND_TYPES: Final[dict[str, tuple[type, ...] | None]] = {
    "N": (int, float),
    "I": (int,),
    "F": (float,),
    "S": (str, bytes),
    "X": (str, bytes, Bits),
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
    "X": "a string or bits",
    "B": "a boolean",
    "A": "an array",
    "M": "a map",
    "V": "any value",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the language.

    Attributes:
        result: Kind of its result; V where it depends on the arguments.
        column: The column of the message that it reads, if it is a function of one.
        asks_environment: Whether it needs an environment; it can be called when it is bound to one.
        blocks_on: Where that depends on the first argument: tells it of the environment and of that argument,
            undefined if it is no literal.
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
    column: str | None = None
    asks_environment: bool = False
    may_block: bool = False
    blocks_on: BlocksOn | None = None

    def bound(self, environment: Environment) -> "Function":
        """The function as one environment answers it."""
        if not self.asks_environment:
            return self
        return replace(self, implementation=partial(self.implementation, environment), asks_environment=False)

    def call(self, arguments: Sequence[Value], columns: Columns | None = None) -> Value:
        self.check_count(len(arguments))
        for position, (parameter, argument) in enumerate(zip(self.parameters, arguments, strict=False), start=1):
            types = _KIND_TYPES[parameter.kind]
            # Not isinstance: a boolean is no integer here.
            if types is not None and type(argument) not in types:
                wanted = _KIND_WORDS[parameter.kind]
                raise EvaluationFault(f"{self.name}: argument {position} must be {wanted}, not {describe(argument)}")
        try:
            if self.column is None:
                return self.implementation(*arguments)
            if columns is None:
                raise EvaluationFault(f"there is no message here whose column {self.column} it could read")
            return self.implementation(columns, *arguments)
        except EvaluationFault as fault:
            raise EvaluationFault(f"{self.name}: {fault}") from None
        except ValueError:
            # What is wrong with it cannot be said where its digits are too many to be written.
            if any(type(argument) is int and not is_writable(argument) for argument in arguments):
                raise EvaluationFault(f"{self.name}: an integer has more than {INTEGER_DIGITS_MAX:,} digits") from None
            raise

    def check_count(self, count: int) -> None:
        if count < self.required or (count > len(self.parameters) and not self.is_variadic):
            raise EvaluationFault(f"{self.name}: it takes {self._wanted_count()}, not {count}")

    def _wanted_count(self) -> str:
        most = len(self.parameters)
        if self.is_variadic:
            return f"{self.required} or more arguments ({self.signature})"
        if most == 0:
            return "no arguments"
        count = str(most) if self.required == most else f"{self.required} to {most}"
        return f"{count} argument{'s' if most > 1 else ''} ({self.signature})"


_MORE: Final = ", V values..."
_PARAMETER: Final = re.compile(r"(?P<optional>\[)?(?:, )?(?P<kind>[NIFSXBAMV]) (?P<name>\w+)\]*(?:, )?")


@dataclass(slots=True)
class Family:
    """Functions of one theme, in the order of their definition."""

    title: str
    functions: list[Function] = field(default_factory=list)

    def function(
        self,
        signature: str,
        result: str,
        name: str | None = None,
        *,
        column: str | None = None,
        asks_environment: bool = False,
        may_block: bool = False,
        blocks_on: BlocksOn | None = None,
    ) -> Callable[[Implementation], Any]:
        def add(implementation: Implementation) -> Implementation:
            fixed = signature.removesuffix(_MORE)
            matches = list(_PARAMETER.finditer(fixed))
            self.functions.append(
                Function(
                    name=name or implementation.__name__,
                    family=self.title,
                    signature=signature,
                    parameters=tuple(Parameter(match["name"], match["kind"]) for match in matches),
                    required=next((at for at, match in enumerate(matches) if match["optional"]), len(matches)),
                    is_variadic=fixed != signature,
                    result=result,
                    summary=(implementation.__doc__ or "").strip().partition("\n")[0],
                    implementation=implementation,
                    column=column,
                    asks_environment=asks_environment,
                    may_block=may_block,
                    blocks_on=blocks_on,
                )
            )
            return implementation

        return add
