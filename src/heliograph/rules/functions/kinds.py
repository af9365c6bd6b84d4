"""Functions that test the kind of a value."""

from collections.abc import Callable
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json
from heliograph.rules.values import UNDEFINED, Value, describe, is_number

FAMILY: Final = Family("Kinds of values")


def _test(name: str, summary: str, holds: Callable[[Value], bool]) -> None:
    holds.__doc__ = summary
    FAMILY.function("V value", "B", name)(holds)


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


@FAMILY.function("V value", "B")
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
