"""Functions of numbers."""

import math
import random
from collections.abc import Callable
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Number, Value, order_of

FAMILY: Final = Family("Mathematics")


@FAMILY.function("N number", "N", name="abs")
def absolute(number: Number) -> Value:
    """The number without its sign."""
    return abs(number)


@FAMILY.function("N number", "I")
def ceil(number: Number) -> Value:
    """The smallest integer that is not below the number."""
    return math.ceil(number)


@FAMILY.function("N number", "I")
def floor(number: Number) -> Value:
    """The largest integer that is not above the number."""
    return math.floor(number)


@FAMILY.function("N number", "I", name="round")
def round_half_away(number: Number) -> Value:
    """The nearest integer; halves go away from zero, so 2.5 gives 3 and -2.5 gives -3."""
    whole = math.trunc(number)
    # The difference is exact, where adding a half to the number may not be.
    return whole if abs(number - whole) < 0.5 else whole + (1 if number > 0 else -1)


def _float(function: Callable[..., float], *numbers: Number) -> float:
    try:
        result = function(*map(float, numbers))
    except OverflowError:
        raise EvaluationFault("the result is larger than a 64-bit float can be") from None
    except ValueError:
        raise EvaluationFault(f"it is not defined for {' and '.join(map(str, numbers))}") from None
    if math.isinf(result):
        raise EvaluationFault("the result is larger than a 64-bit float can be")
    return result


def _of_one_number(name: str, summary: str) -> None:
    function: Callable[[float], float] = getattr(math, name)

    def implementation(number: Number) -> Value:
        return _float(function, number)

    implementation.__doc__ = summary
    FAMILY.function("N number", "F", name)(implementation)


for _name, _summary in (
    ("sin", "The sine of an angle in radians."),
    ("cos", "The cosine of an angle in radians."),
    ("tan", "The tangent of an angle in radians."),
    ("asin", "The angle in radians with this sine; fails below -1 and above 1."),
    ("acos", "The angle in radians with this cosine; fails below -1 and above 1."),
    ("atan", "The angle in radians with this tangent."),
    ("sinh", "The hyperbolic sine."),
    ("cosh", "The hyperbolic cosine."),
    ("tanh", "The hyperbolic tangent."),
    ("asinh", "The number with this hyperbolic sine."),
    ("acosh", "The number with this hyperbolic cosine; fails below 1."),
    ("atanh", "The number with this hyperbolic tangent; fails at -1 and 1 and outside of them."),
    ("exp", "Euler's number raised to the number."),
    ("log", "The natural logarithm; fails for 0 and negative numbers."),
    ("log10", "The logarithm to the base 10; fails for 0 and negative numbers."),
    ("log2", "The logarithm to the base 2; fails for 0 and negative numbers."),
    ("sqrt", "The square root; fails for negative numbers."),
):
    _of_one_number(_name, _summary)


@FAMILY.function("N base, N exponent", "F")
def power(base: Number, exponent: Number) -> Value:
    """The base raised to the exponent."""
    return _float(math.pow, base, exponent)


@FAMILY.function("N number, N by", "F")
def fmod(number: Number, by: Number) -> Value:
    """The rest of the division as a float; it has the sign of the first argument."""
    return _float(math.fmod, number, by)


@FAMILY.function("", "F", name="random")
def random_number() -> Value:
    """A random number from 0 up to, not including, 1."""
    return random.random()


@FAMILY.function("I number, I by", "I")
def div(number: int, by: int) -> Value:
    """Integer division; what is behind the point is cut off, so -7 div 2 is -3."""
    if by == 0:
        raise EvaluationFault("division by zero")
    quotient = abs(number) // abs(by)
    return quotient if (number < 0) == (by < 0) else -quotient


@FAMILY.function("I number, I by", "I")
def mod(number: int, by: int) -> Value:
    """The rest of the integer division; it has the sign of the first argument, so -7 mod 2 is -1."""
    if by == 0:
        raise EvaluationFault("division by zero")
    rest = abs(number) % abs(by)
    return -rest if number < 0 else rest


@FAMILY.function("V one, V other", "B")
def eq(one: Value, other: Value) -> Value:
    """Whether two values are equal; 1 equals 1.0, and '1' does not."""
    return order_of(one, other) == 0
