"""`sprintf`, whose formats are those of Erlang's `io` module.

A control is `~Width.Precision.PadModifierLetter`; everything but the letter may be left out, and a negative width
moves the text to the left. Where a number is wider than its field, the field is filled with `*`, as there.
"""

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.characters import character_count, part_of
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.strings import check_growth
from heliograph.rules.values import UNDEFINED, Value, bytes_of, describe, fixed_text, integer_text, string_of

FAMILY: Final = Family("Formats")

_WIDTH_MAX: Final = 10_000
_CONTROL: Final = re.compile(r"~(-?[0-9]+|)(?:\.([0-9]+|)(?:\.(.))?)?([tl]*)(.)", re.DOTALL)
_BASES: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


@FAMILY.function("S format, V values...", "S")
def sprintf(template: str | bytes, *values: Value) -> Value:
    """The format with its controls filled: ~s text, ~p any value, ~b integer, ~f ~e ~g float, ~c character, ~n, ~~."""
    return formatted(template, list(values))


@FAMILY.function("S format, A values", "S")
def sprintf_s(template: str | bytes, values: list[Value]) -> Value:
    """As sprintf, with the values in an array."""
    return formatted(template, values)


def formatted(template: str | bytes, values: list[Value]) -> Value:
    if isinstance(template, bytes):
        raise EvaluationFault(f"{describe(template)} is not valid UTF-8 text")
    waiting = list(reversed(values))
    pieces: list[bytes] = []
    at = size = 0
    while (start := template.find("~", at)) >= 0:
        pieces.append(template[at:start].encode())
        control = _CONTROL.match(template, start)
        if control is None:
            raise EvaluationFault(f"the format ends within {template[start:][:20]!r}")
        pieces.append(_filled(control, waiting))
        size += len(pieces[-1])
        check_growth(size)
        at = control.end()
    if waiting:
        raise EvaluationFault(f"there are {len(waiting)} values more than controls in the format")
    pieces.append(template[at:].encode())
    return string_of(b"".join(pieces))


def _filled(control: "re.Match[str]", waiting: list[Value]) -> bytes:
    width_text, precision_text, pad, _, letter = control.groups()
    if letter == "~":
        return b"~"
    width = int(width_text) if width_text else 0
    precision = int(precision_text) if precision_text else None
    if abs(width) > _WIDTH_MAX or (precision or 0) > _WIDTH_MAX:
        raise EvaluationFault(f"{control[0]!r} is wider than {_WIDTH_MAX:,} characters")
    if letter == "n":
        return b"\n" * (abs(width) or 1)
    if letter not in _WRITERS and letter != "c":
        raise EvaluationFault(f"{control[0]!r} is no control; there are ~s ~p ~w ~b ~f ~e ~g ~c ~n ~~")
    if not waiting:
        raise EvaluationFault(f"there is no value for {control[0]!r}")
    value = waiting.pop()
    if letter == "c":
        # As many as the precision says, or without one, the width.
        repeated = _character(value) * ((abs(width) or 1) if precision is None else precision)
        return repeated if precision is None else _in_field(repeated, width, pad or " ", letter)
    text = _WRITERS[letter](value, precision)
    return _in_field(text, width, pad or " ", letter)


def _in_field(text: bytes, width: int, pad: str, letter: str) -> bytes:
    if not width:
        return text
    try:
        characters: str | None = text.decode()
    except UnicodeDecodeError:
        characters = None
    missing = abs(width) - (len(text) if characters is None else character_count(characters))
    if missing < 0:
        if letter in "sw":
            return text[: abs(width)] if characters is None else part_of(characters, 0, abs(width)).encode()
        return b"*" * abs(width)
    filling = pad.encode() * missing
    return text + filling if width < 0 else filling + text


def _character(value: Value) -> bytes:
    if type(value) is not int or not 0 <= value <= 0x10FFFF or 0xD800 <= value <= 0xDFFF:
        raise EvaluationFault(f"~c needs the code of a character, not {describe(value)}")
    return chr(value).encode()


def _string(value: Value, precision: int | None) -> bytes:
    if not isinstance(value, str | bytes):
        raise EvaluationFault(f"~s needs a string, not {describe(value)}")
    if precision is None:
        return bytes_of(value)
    text = string_of(bytes_of(value))
    return text[:precision] if isinstance(text, bytes) else part_of(text, 0, precision).encode()


def _integer(value: Value, precision: int | None) -> bytes:
    if type(value) is not int:
        raise EvaluationFault(f"~b needs an integer, not {describe(value)}")
    base = 10 if precision is None else precision
    decimal = integer_text(value)  # its limit holds for all bases: the time grows with the square of the digits
    if base == 10:
        return decimal.encode()
    if not 2 <= base <= len(_BASES):
        raise EvaluationFault(f"the base must be from 2 to {len(_BASES)}, not {base}")
    digits: list[str] = []
    rest = abs(value)
    while rest or not digits:
        rest, digit = divmod(rest, base)
        digits.append(_BASES[digit])
    return ("-" * (value < 0) + "".join(reversed(digits))).encode()


def _upper_integer(value: Value, precision: int | None) -> bytes:
    return _integer(value, precision).upper()


def _number(value: Value) -> float:
    if type(value) is not float and type(value) is not int:
        raise EvaluationFault(f"it needs a number, not {describe(value)}")
    try:
        return float(value)
    except OverflowError:
        raise EvaluationFault("the integer is larger than a 64-bit float can be") from None


def _fixed(value: Value, precision: int | None) -> bytes:
    digits = 6 if precision is None else precision
    if digits < 1:
        raise EvaluationFault("~f needs a precision of at least 1")
    return fixed_text(_number(value), digits).encode()


def _rounded(number: float, digits: int) -> Decimal | float:
    """A number with so many digits; halves go away from zero."""
    return number if not number else Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(Decimal(number))


def _scientific(value: Value, precision: int | None) -> bytes:
    digits = 6 if precision is None else precision
    if digits < 2:
        raise EvaluationFault("~e needs a precision of at least 2")
    mantissa, _, exponent = f"{_rounded(_number(value), digits):.{digits - 1}e}".partition("e")
    return f"{mantissa}e{'-' if exponent[0] == '-' else '+'}{exponent[1:].lstrip('0') or '0'}".encode()


def _general(value: Value, precision: int | None) -> bytes:
    digits = 6 if precision is None else precision
    size = abs(_number(value))
    exponent = -2 if size < 0.1 else -1 if size < 1 else 4 if size >= 10_000 else math.floor(math.log10(size))
    if -1 <= exponent < 4 and digits - 1 > exponent:
        return _fixed(value, digits - 1 - exponent)
    return _scientific(value, max(2, digits))


def _term(value: Value, precision: int | None) -> bytes:
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if value is None or value is UNDEFINED:
        return b"null" if value is None else b"undefined"
    if isinstance(value, int):
        return integer_text(value).encode()
    if isinstance(value, float):
        return _shortest(value)
    if isinstance(value, str | bytes):
        return _binary(value)
    if isinstance(value, list):
        return b"[" + b",".join(_term(item, None) for item in value) + b"]"
    assert isinstance(value, dict)
    pairs = (_binary(key) + b" => " + _term(value[key], None) for key in sorted(value))
    return b"#{" + b",".join(pairs) + b"}"


def _shortest(value: float) -> bytes:
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return mantissa.encode()
    point = mantissa if "." in mantissa else mantissa + ".0"
    return f"{point}e{'-' if exponent[0] == '-' else ''}{exponent.lstrip('+-').lstrip('0')}".encode()


def _binary(value: str | bytes) -> bytes:
    data = bytes_of(value)
    if all(0x20 <= byte < 0x7F or byte in (0x09, 0x0A, 0x0D) for byte in data):
        text = data.decode().replace("\\", "\\\\").replace('"', '\\"')
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        return f'<<"{text}">>'.encode() if data else b"<<>>"
    return b"<<" + b",".join(str(byte).encode() for byte in data) + b">>"


_WRITERS: Final = {
    "s": _string,
    "p": _term,
    "w": _term,
    "b": _integer,
    "B": _upper_integer,
    "f": _fixed,
    "e": _scientific,
    "g": _general,
}
