"""The values of the rule language: their kinds, their text, their order and their equality.

A value is a plain Python object. Undefined is a singleton of its own; null is None; a byte string is a `str` where it
is valid UTF-8 and `bytes` where it is not, so that one content has one form; bits that are no whole number of bytes are
`Bits`. JSON text is the business of `heliograph.rules.json_text`.
"""

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final, TypeAlias, final

from heliograph.rules.errors import EvaluationFault


@final
class Undefined:
    """The value of a variable, key or element that is not there. There is one instance, `UNDEFINED`."""

    _instance: "Undefined | None" = None

    def __new__(cls) -> "Undefined":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "undefined"

    def __reduce__(self) -> tuple[type["Undefined"], tuple[()]]:
        return Undefined, ()


UNDEFINED: Final = Undefined()


@final
class Bits:
    """A string of bits that is no whole number of bytes, as an unsigned integer whose highest bit is the first."""

    # No dataclass: the JSON encoder would take one for a map.
    __slots__ = ("length", "number")

    def __init__(self, number: int, length: int) -> None:
        self.number = number
        self.length = length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bits) and (self.number, self.length) == (other.number, other.length)

    def __hash__(self) -> int:
        return hash((self.number, self.length))

    def __repr__(self) -> str:
        return f"0b{self.digits()}"

    def digits(self) -> str:
        return f"{self.number:0{self.length}b}"

    def filled(self) -> bytes:
        """The bits with zeros behind them up to a whole byte."""
        behind = -self.length % 8
        return (self.number << behind).to_bytes((self.length + behind) // 8, "big")


Value: TypeAlias = Undefined | bool | int | float | str | bytes | Bits | list["Value"] | dict[str, "Value"] | None
Number: TypeAlias = int | float

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]+")
_DECIMAL_TEXT: Final = re.compile(r"[+-]?[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?")

# Turning digits into an integer and back takes time that grows with the square of their count; a sender must not be
# able to buy seconds of the broker with one payload. CPython refuses beyond the same length.
INTEGER_DIGITS_MAX: Final = 4_300
_UNWRITABLE: Final = 10**INTEGER_DIGITS_MAX


def string_of(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def bytes_of(string: str | bytes) -> bytes:
    return string.encode() if isinstance(string, str) else string


def is_number(value: Value) -> bool:
    """Whether the value is an integer or a float; a boolean is not."""
    return type(value) is int or type(value) is float


def _kind_of(value: Value) -> str:
    """The kind of a value, in the words of the documentation."""
    if isinstance(value, str | bytes):
        return "string"
    if value is None or isinstance(value, Undefined):
        return "null" if value is None else "undefined"
    names = {bool: "boolean", int: "integer", float: "float", list: "array", dict: "map", Bits: "bitstring"}
    return names[type(value)]


def describe(value: Value) -> str:
    """A value with its kind, for messages; long ones are shortened."""
    if value is None or isinstance(value, Undefined):
        return _kind_of(value)
    try:
        text = repr(value[:60] if isinstance(value, str | bytes) else value)
    except ValueError:  # of Python, for an integer in it
        return f"an {_kind_of(value)} with more than {INTEGER_DIGITS_MAX:,} digits"
    return f"the {_kind_of(value)} {text if len(text) <= 60 else text[:57] + '...'}"


def integer_of_digits(digits: str) -> int:
    """Turn the text of an integer into the integer."""
    if len(digits) > INTEGER_DIGITS_MAX:
        raise EvaluationFault(f"an integer of {len(digits):,} digits is longer than the {INTEGER_DIGITS_MAX:,} allowed")
    return int(digits)


def number_of_text(text: str | bytes) -> Number:
    """The number of an integer text, or of a decimal text with digits on both sides of the point."""
    if isinstance(text, str):
        if _INTEGER_TEXT.fullmatch(text):
            return integer_of_digits(text)
        if _DECIMAL_TEXT.fullmatch(text):
            number = float(text)
            if not math.isinf(number):
                return number
    raise EvaluationFault(f"{describe(text)} is not the text of a number")


# More digits than any float has before and behind its point.
_EXACT: Final = Context(prec=1400, rounding=ROUND_HALF_UP)


def fixed_text(number: float, decimals: int) -> str:
    """The text of a float with so many decimals, rounded from its exact value; halves go away from zero."""
    # Only what ends just one binary digit behind these decimals can be a half; Python would round it to the even side.
    if _scaled(number, decimals + 1) % 2.0 == 1.0:
        return format(Decimal(number).quantize(Decimal(1).scaleb(-decimals), context=_EXACT), "f")
    return f"{number + 0.0:.{decimals}f}"  # -0.0 becomes 0.0


def _scaled(number: float, binary_digits: int) -> float:
    """A float times a power of two, which may be larger than a float can be; none has over 1,074 digits to move."""
    if binary_digits <= 1000:
        return number * 2.0**binary_digits
    return number * 2.0**1000 * 2.0 ** min(binary_digits - 1000, 100)


def compact_text(number: float, decimals: int) -> str:
    """The text of a float with at most so many decimals and, unless none are allowed, at least one."""
    text = fixed_text(number, decimals)
    if not decimals:
        return text
    text = text.rstrip("0")
    return text + "0" if text.endswith(".") else text


def float_text(number: float) -> str:
    """The text of a float: at most 10 decimals, at least one, never an exponent."""
    if number * 2048.0 % 2.0 == 1.0:
        return compact_text(number, 10)
    # The same without two more calls, for nearly all numbers.
    text = f"{number + 0.0:.10f}".rstrip("0")
    return text + "0" if text.endswith(".") else text


def integer_text(number: int) -> str:
    """The digits of an integer."""
    try:
        return str(number)
    except ValueError:
        raise EvaluationFault(f"an integer of more than {INTEGER_DIGITS_MAX:,} digits has no text") from None


def is_writable(number: int) -> bool:
    """Whether an integer has so few digits that they can be written."""
    return -_UNWRITABLE < number < _UNWRITABLE


def order_of(left: Value, right: Value) -> int:
    """Compare two values structurally: negative, zero or positive as `left` is below, equal to or above `right`.

    Numbers compare by value, strings by bytes, arrays and maps deeply. Across kinds the order is number, boolean and
    null, map, array, string. Nothing is converted.
    """
    if isinstance(left, str) and isinstance(right, str):
        # Code points order as their UTF-8 bytes do.
        return (left > right) - (left < right)
    left_rank, right_rank = _rank(left), _rank(right)
    if left_rank != right_rank:
        return left_rank - right_rank
    if isinstance(left, list) and isinstance(right, list):
        return _order_of_arrays(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        return _order_of_maps(left, right)
    if isinstance(left, str | bytes | Bits) and isinstance(right, str | bytes | Bits):
        one, other = _bits_in_order(left), _bits_in_order(right)
        return (one > other) - (one < other)
    if left_rank == 0:
        return (left > right) - (left < right)  # type: ignore[operator]  # both are numbers
    return (kind_word(left) > kind_word(right)) - (kind_word(left) < kind_word(right))


def _bits_in_order(value: str | bytes | Bits) -> tuple[bytes, int]:
    """A string as it compares: bit by bit, and what ends first is less."""
    data = value.filled() if isinstance(value, Bits) else bytes_of(value)
    return data, value.length if isinstance(value, Bits) else 8 * len(data)


def _rank(value: Value) -> int:
    if isinstance(value, str | bytes | Bits):
        return 4
    if isinstance(value, list):
        return 3
    if isinstance(value, dict):
        return 2
    return 0 if is_number(value) else 1


def kind_word(value: Value) -> str:
    """The word that stands for a boolean, null or undefined in text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else "undefined"


def _order_of_arrays(left: list[Value], right: list[Value]) -> int:
    for one, other in zip(left, right, strict=False):
        order = order_of(one, other)
        if order:
            return order
    return len(left) - len(right)


def _order_of_maps(left: dict[str, Value], right: dict[str, Value]) -> int:
    if len(left) != len(right):
        return len(left) - len(right)
    left_keys, right_keys = sorted(left), sorted(right)
    if left_keys != right_keys:
        return 1 if left_keys > right_keys else -1
    return _order_of_arrays([left[key] for key in left_keys], [right[key] for key in right_keys])


def equal_exactly(left: Value, right: Value) -> bool:
    """Whether two values are equal and of the same kind, deeply: 1 is neither 1.0 nor '1'."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal_exactly, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal_exactly(item, right[key]) for key, item in left.items())
    return left == right


def compare(operator: str, left: Value, right: Value) -> bool:
    """Evaluate one of the comparisons `=`, `!=`, `<>`, `<`, `>`, `<=`, `>=`."""
    if left is UNDEFINED or right is UNDEFINED:
        return left is right and operator in ("=", "<=", ">=")
    if isinstance(left, str | bytes) is not isinstance(right, str | bytes):
        left, right = _made_comparable(left, right)
    order = order_of(left, right)
    if operator == "=":
        return order == 0
    if operator in ("!=", "<>"):
        return order != 0
    if operator == "<":
        return order < 0
    if operator == ">":
        return order > 0
    return order <= 0 if operator == "<=" else order >= 0


def _made_comparable(left: Value, right: Value) -> tuple[Value, Value]:
    """Convert for the comparison of a string with something else: text to number, boolean and null to text."""
    if isinstance(left, str | bytes):
        other, text = _made_comparable(right, left)
        return text, other
    assert isinstance(right, str | bytes)
    if is_number(left):
        return left, number_of_text(right)
    if left is None or isinstance(left, bool):
        return kind_word(left), right
    return left, right
