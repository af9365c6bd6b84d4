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


@FAMILY.function("V value, A array", "B")
def contains(value: Value, array: list[Value]) -> Value:
    """Whether the array has an element that is equal to the value and of the same kind: 1.0 is not in [1]."""
    return any(equal_exactly(value, element) for element in array)
