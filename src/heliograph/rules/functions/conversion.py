"""Functions that turn a value of one kind into another kind."""

import math
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import text_of
from heliograph.rules.values import Value, compact_text, describe, fixed_text, number_of_text, string_of

FAMILY: Final = Family("Conversion")

_DECIMALS_MAX: Final = 253


@FAMILY.function("V value", "B", name="bool")
def to_boolean(value: Value) -> Value:
    """true, 1, 1.0 and 'true' give true; false, 0, 0.0 and 'false' give false; everything else fails."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    if value in ("true", "false"):
        return value == "true"
    raise EvaluationFault(f"{describe(value)} is neither true nor false")


@FAMILY.function("V value", "I", name="int")
def to_integer(value: Value) -> Value:
    """An integer of a boolean (1 or 0), of a number or of the text of one; what is behind the point is rounded down."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | bytes):
        value = number_of_text(value)
    if isinstance(value, int | float):
        return math.floor(value)
    raise EvaluationFault(f"{describe(value)} is neither a boolean, a number nor the text of one")


@FAMILY.function("V value[, I decimals]", "F", name="float")
def to_float(value: Value, decimals: int | None = None) -> Value:
    """A float of a number or of the text of one, rounded to some decimals if they are given."""
    if isinstance(value, str | bytes):
        value = number_of_text(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise EvaluationFault(f"{describe(value)} is neither a number nor the text of one")
    try:
        number = float(value)
    except OverflowError:
        raise EvaluationFault("the integer is larger than a 64-bit float can be") from None
    if decimals is None:
        return number
    if not 0 < decimals <= _DECIMALS_MAX:
        raise EvaluationFault(f"decimals must be from 1 to {_DECIMALS_MAX}, not {decimals}")
    return float(fixed_text(number, decimals))


@FAMILY.function("F number, I decimals", "S")
def float2str(number: float, decimals: int) -> Value:
    """The exact text of a float with at most so many decimals, without zeros at its end but for the first."""
    if not 0 <= decimals <= _DECIMALS_MAX:
        raise EvaluationFault(f"decimals must be from 0 to {_DECIMALS_MAX}, not {decimals}")
    return compact_text(number, decimals)


@FAMILY.function("V value", "S", name="str")
def to_text(value: Value) -> Value:
    """The text of any value: maps and arrays as JSON, floats with at most 10 decimals."""
    return text_of(value)


@FAMILY.function("V value", "S")
def str_utf8(value: Value) -> Value:
    """The same as str."""
    return text_of(value)


@FAMILY.function("V value", "S")
def str_utf16_le(value: Value) -> Value:
    """The text of any value as UTF-16, the low byte of each unit first."""
    text = text_of(value)
    if isinstance(text, bytes):
        raise EvaluationFault(f"{describe(text)} is not valid UTF-8 text")
    return string_of(text.encode("utf-16-le"))
