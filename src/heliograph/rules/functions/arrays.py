"""Functions of arrays."""

from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, equal_exactly

FAMILY: Final = Family("Arrays")


@FAMILY.function("I position, A array", "V")
def nth(position: int, array: list[Value]) -> Value:
    """The element at a position, counted from 1; fails outside of the array."""
    if not 0 < position <= len(array):
        raise EvaluationFault(f"an array of {len(array)} has no element {position}")
    return array[position - 1]


@FAMILY.function("A array", "V")
def first(array: list[Value]) -> Value:
    """The first element; fails for an empty array."""
    if not array:
        raise EvaluationFault("the array is empty")
    return array[0]


@FAMILY.function("A array", "V")
def last(array: list[Value]) -> Value:
    """The last element; fails for an empty array."""
    if not array:
        raise EvaluationFault("the array is empty")
    return array[-1]


@FAMILY.function("A array", "I")
def length(array: list[Value]) -> Value:
    """How many elements the array has."""
    return len(array)


@FAMILY.function("I start_or_length, V length_or_array[, A array]", "A")
def sublist(start_or_length: int, length_or_array: Value, array: list[Value] | None = None) -> Value:
    """The first elements, so many (length, array), or so many from a position counted from 1 (start, length, array)."""
    start: int = 1 if array is None else start_or_length
    length: Value = start_or_length if array is None else length_or_array
    elements: Value = length_or_array if array is None else array
    if type(length) is not int or not isinstance(elements, list):
        raise EvaluationFault("it needs a length and an array, or a position, a length and an array")
    if length < 0 or start < 1:
        raise EvaluationFault("the position must be 1 or more and the length 0 or more")
    return elements[start - 1 : start - 1 + length]


@FAMILY.function("V value, A array", "B")
def contains(value: Value, array: list[Value]) -> Value:
    """Whether the array has an element that is equal to the value and of the same kind: 1.0 is not in [1]."""
    return any(equal_exactly(value, element) for element in array)
