"""Functions that test the kind of a value."""

from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json
from heliograph.rules.values import UNDEFINED, Value, describe, is_number

FAMILY: Final = Family("Kinds of values")


@FAMILY.function("V value", "B")
def is_null(value: Value) -> Value:
    """Whether the value is undefined; JSON null is not."""
    return value is UNDEFINED


@FAMILY.function("V value", "B")
def is_not_null(value: Value) -> Value:
    """Whether the value is anything but undefined."""
    return value is not UNDEFINED


@FAMILY.function("V value", "B")
def is_null_var(value: Value) -> Value:
    """Whether the value is undefined or null."""
    return value is UNDEFINED or value is None


@FAMILY.function("V value", "B")
def is_not_null_var(value: Value) -> Value:
    """Whether the value is neither undefined nor null."""
    return value is not UNDEFINED and value is not None


@FAMILY.function("V value", "B")
def is_array(value: Value) -> Value:
    """Whether the value is an array."""
    return isinstance(value, list)


@FAMILY.function("V value", "B")
def is_bool(value: Value) -> Value:
    """Whether the value is true or false."""
    return isinstance(value, bool)


@FAMILY.function("V value", "B")
def is_float(value: Value) -> Value:
    """Whether the value is a float: 1.0 is, 1 is not."""
    return isinstance(value, float)


@FAMILY.function("V value", "B")
def is_int(value: Value) -> Value:
    """Whether the value is an integer."""
    return type(value) is int


@FAMILY.function("V value", "B")
def is_map(value: Value) -> Value:
    """Whether the value is a map; the JSON text of one is not."""
    return isinstance(value, dict)


@FAMILY.function("V value", "B")
def is_num(value: Value) -> Value:
    """Whether the value is an integer or a float."""
    return is_number(value)


@FAMILY.function("V value", "B")
def is_str(value: Value) -> Value:
    """Whether the value is a string."""
    return isinstance(value, str | bytes)


@FAMILY.function("V value", "B")
def is_empty(value: Value) -> Value:
    """Whether an array, a string or a map, or the map that a JSON text holds, is empty; anything else fails."""
    if isinstance(value, str | bytes) and value:
        value = _decoded(value)
    if isinstance(value, list | dict | str | bytes):
        return not value
    raise EvaluationFault(f"{describe(value)} is neither an array, a map nor the JSON text of a map")


def _decoded(text: str | bytes) -> Value:
    """The map that a text holds."""
    try:
        value = decode_json(text)
    except EvaluationFault:
        value = None
    if isinstance(value, dict):
        return value
    raise EvaluationFault(f"{describe(text)} is neither an array, a map nor the JSON text of a map")
