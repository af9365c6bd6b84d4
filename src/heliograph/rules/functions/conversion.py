"""Functions that test the kind of a value, or turn it into a value of another kind."""

import math
from collections.abc import Callable
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json, text_of
from heliograph.rules.values import (
    UNDEFINED,
    Value,
    compact_text,
    describe,
    fixed_text,
    is_number,
    number_of_text,
    string_of,
)

CONVERSION: Final = Family("Conversion")

_DECIMALS_MAX: Final = 253


@CONVERSION.function("V value", "B", name="bool")
def to_boolean(value: Value) -> Value:
    """true, 1, 1.0 and 'true' give true; false, 0, 0.0 and 'false' give false; everything else fails."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and value in (0, 1):
        return value == 1
    if value in ("true", "false"):
        return value == "true"
    raise EvaluationFault(f"{describe(value)} is neither true nor false")


@CONVERSION.function("V value", "I", name="int")
def to_integer(value: Value) -> Value:
    """An integer of a boolean (1 or 0), of a number or of the text of one; what is behind the point is rounded down."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str | bytes):
        value = number_of_text(value)
    if isinstance(value, int | float):
        return math.floor(value)
    raise EvaluationFault(f"{describe(value)} is neither a boolean, a number nor the text of one")


@CONVERSION.function("V value[, I decimals]", "F", name="float")
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


@CONVERSION.function("F number, I decimals", "S")
def float2str(number: float, decimals: int) -> Value:
    """The exact text of a float with at most so many decimals, without zeros at its end but for the first."""
    if not 0 <= decimals <= _DECIMALS_MAX:
        raise EvaluationFault(f"decimals must be from 0 to {_DECIMALS_MAX}, not {decimals}")
    return compact_text(number, decimals)


@CONVERSION.function("V value", "S", name="str")
def to_text(value: Value) -> Value:
    """The text of any value: maps and arrays as JSON, floats with at most 10 decimals."""
    return text_of(value)


@CONVERSION.function("V value", "S")
def str_utf8(value: Value) -> Value:
    """The same as str."""
    return text_of(value)


@CONVERSION.function("V value", "S")
def str_utf16_le(value: Value) -> Value:
    """The text of any value as UTF-16, the low byte of each unit first."""
    text = text_of(value)
    if isinstance(text, bytes):
        raise EvaluationFault(f"{describe(text)} is not valid UTF-8 text")
    return string_of(text.encode("utf-16-le"))


KINDS: Final = Family("Kinds of values")


def _test(name: str, summary: str, holds: Callable[[Value], bool]) -> None:
    holds.__doc__ = summary
    KINDS.function("V value", "B", name)(holds)


_test("is_null", "Whether the value is undefined; JSON null is not.", lambda value: value is UNDEFINED)
_test("is_not_null", "Whether the value is anything but undefined.", lambda value: value is not UNDEFINED)
_test("is_null_var", "Whether the value is undefined or null.", lambda value: value is UNDEFINED or value is None)
_test(
    "is_not_null_var",
    "Whether the value is neither undefined nor null.",
    lambda value: value is not UNDEFINED and value is not None,
)
_test("is_array", "Whether the value is an array.", lambda value: isinstance(value, list))
_test("is_bool", "Whether the value is true or false.", lambda value: isinstance(value, bool))
_test("is_float", "Whether the value is a float: 1.0 is, 1 is not.", lambda value: isinstance(value, float))
_test("is_int", "Whether the value is an integer.", lambda value: type(value) is int)
_test("is_map", "Whether the value is a map; the JSON text of one is not.", lambda value: isinstance(value, dict))
_test("is_num", "Whether the value is an integer or a float.", lambda value: is_number(value))
_test("is_str", "Whether the value is a string.", lambda value: isinstance(value, str | bytes))


@KINDS.function("V value", "B")
def is_empty(value: Value) -> Value:
    """Whether an array, a string or a map, or the map that a JSON text holds, is empty; anything else fails."""
    if isinstance(value, str | bytes) and value:
        value = _decoded(value)
    if isinstance(value, list | dict | str | bytes):
        return not value
    raise EvaluationFault(f"{describe(value)} is neither an array, a map nor the JSON text of a map")


def _decoded(text: str | bytes) -> Value:
    try:
        value = decode_json(text)
    except EvaluationFault:
        value = None
    if isinstance(value, dict):
        return value
    raise EvaluationFault(f"{describe(text)} is neither an array, a map nor the JSON text of a map")
