"""What the operators of the language mean, on values: arithmetic, the fast cases of comparison, the match of topics.

Functions here know no rule; what they refuse is an `EvaluationFault` that gets its place in
`heliograph.rules.expressions`.
"""

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from heliograph.mqtt.topic import topic_filter_fault, topic_matches
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.functions.strings import check_growth
from heliograph.rules.json_text import text_of
from heliograph.rules.values import (
    INTEGER_DIGITS_MAX,
    UNDEFINED,
    Number,
    Value,
    bytes_of,
    describe,
    is_number,
    string_of,
)

_TOO_LARGE: Final = "a number becomes larger than a 64-bit float can be"
_LEVELS_MAX: Final = 65_536
# Squaring an alias again and again would otherwise buy any amount of time and memory with a few fields.
_INTEGER_MAX: Final = 10**INTEGER_DIGITS_MAX


def matches(topic: Value, topic_filter: Value) -> bool:
    if topic is UNDEFINED or topic_filter is UNDEFINED:
        return False
    if not isinstance(topic, str) or not isinstance(topic_filter, str):
        wrong = topic_filter if isinstance(topic, str) else topic
        raise EvaluationFault(f"=~ compares a topic with a topic filter, both strings, not {describe(wrong)}")
    fault = topic_filter_fault(topic_filter, _LEVELS_MAX)
    if fault is not None:
        raise EvaluationFault(fault)
    return topic_matches(topic, topic_filter)


def refuse_comparison(sign: str) -> bool:
    """Fail for a comparison that the grammar knows and the language does not."""
    raise EvaluationFault(f"there is no comparison {sign}; a topic is matched with =~")


# Pairs of these kinds compare as Python compares them; `compare` knows all the others.
SIMPLE_KINDS: Final[dict[type, str]] = {int: "number", float: "number", str: "text"}
RELATIONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def _add(left: Value, right: Value) -> Value:
    if isinstance(left, str | bytes) or isinstance(right, str | bytes):
        return _join(left, right)
    one, other = _two_numbers("+", left, right)
    try:
        return _checked(one + other)
    except OverflowError:
        raise EvaluationFault(_TOO_LARGE) from None


def _join(left: Value, right: Value) -> Value:
    one, other = text_of(left), text_of(right)
    check_growth(len(one) + len(other))
    if isinstance(one, str) and isinstance(other, str):
        return one + other
    return string_of(bytes_of(one) + bytes_of(other))


def _subtract(left: Value, right: Value) -> Value:
    one, other = _two_numbers("-", left, right)
    try:
        return _checked(one - other)
    except OverflowError:
        raise EvaluationFault(_TOO_LARGE) from None


def _multiply(left: Value, right: Value) -> Value:
    one, other = _two_numbers("*", left, right)
    try:
        return _checked(one * other)
    except OverflowError:
        raise EvaluationFault(_TOO_LARGE) from None


def _divide(left: Value, right: Value) -> Value:
    one, other = _two_numbers("/", left, right)
    try:
        # Both become floats first, as the language says, where Python would divide large integers more exactly.
        return _checked(float(one) / float(other))
    except ZeroDivisionError:
        raise EvaluationFault("division by zero") from None
    except OverflowError:
        raise EvaluationFault(_TOO_LARGE) from None


def _two_numbers(sign: str, left: Value, right: Value) -> tuple[Number, Number]:
    if not is_number(left) or not is_number(right):
        wrong = left if not is_number(left) else right
        needs = "two numbers, or a string to join" if sign == "+" else "two numbers"
        raise EvaluationFault(f"'{sign}' needs {needs}, not {describe(wrong)}")
    return left, right  # type: ignore[return-value]  # both are numbers


def _checked(number: Number) -> Number:
    if isinstance(number, float):
        if math.isfinite(number):
            return number
        raise EvaluationFault(_TOO_LARGE)
    if -_INTEGER_MAX < number < _INTEGER_MAX:
        return number
    raise EvaluationFault(f"the result has more than {INTEGER_DIGITS_MAX:,} digits")


def _whole(word: str) -> Callable[[Value, Value], Value]:
    function = FUNCTIONS[word]
    return lambda left, right: function.call((left, right))


CALCULATIONS: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "+": _add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "div": _whole("div"),
    "mod": _whole("mod"),
}
