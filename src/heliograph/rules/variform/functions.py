"""The functions of expressions: those of rules that take strings, and some of their own.

Functions that evaluate their arguments only where they need them (`iif`, `coalesce`, `is_empty`) belong to the
evaluation and are in `expression`.
"""

import hashlib
import re
import secrets
import string
from collections.abc import Callable
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import FUNCTIONS as RULE_FUNCTIONS
from heliograph.rules.functions import Function
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import decode_json, text_of
from heliograph.rules.paths import read_key
from heliograph.rules.values import UNDEFINED, Number, Value, bytes_of, describe, integer_of_digits, order_of, string_of

FAMILY: Final = Family("Variform")

_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]+")
_ALPHABET: Final = (string.ascii_letters + string.digits).encode()
# Bytes to letters; those above the last multiple of 62 would make some letters more frequent.
_LETTERS: Final = bytes(_ALPHABET[byte % len(_ALPHABET)] for byte in range(256))
_UNEVEN: Final = bytes(range(256 - 256 % len(_ALPHABET), 256))
_RANDOM_TEXT_MAX: Final = 65_536
_SHARED: Final = (
    *("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "strlen", "substr", "split", "tokens", "pad", "replace"),
    *("regex_match", "regex_replace", "regex_extract", "ascii", "find", "join_to_string", "rm_prefix", "unescape"),
    *("hash", "base64_encode", "base64_decode", "sprintf_s"),
)


def _integer(value: Value) -> int:
    """An integer, or the one that a text says."""
    if type(value) is int:
        return value
    if isinstance(value, str) and _INTEGER_TEXT.fullmatch(value):
        return integer_of_digits(value)
    raise EvaluationFault(f"{describe(value)} is no positive integer")


@FAMILY.function("V one[, V other]", "S")
def concat(*values: Value) -> Value:
    """Two values, or the elements of one array, as text and joined."""
    pieces = values[0] if len(values) == 1 else list(values)
    if not isinstance(pieces, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(pieces)}")
    return string_of(b"".join(bytes_of(_text(piece)) for piece in pieces))


def _text(value: Value) -> str | bytes:
    """As `text_of`, but what has no value is empty."""
    return "" if value is None or value is UNDEFINED else text_of(value)


@FAMILY.function("V value", "S")
def any_to_str(value: Value) -> Value:
    """The text of any value: arrays and maps as JSON."""
    return _text(value)


@FAMILY.function("V value", "S")
def any_to_string(value: Value) -> Value:
    """The same as any_to_str."""
    return _text(value)


@FAMILY.function("V position, A array", "V")
def nth(position: Value, array: list[Value]) -> Value:
    """The element at a position, counted from 1; '' beyond the end."""
    place = _integer(position)
    if place < 1:
        raise EvaluationFault("positions begin at 1")
    return array[place - 1] if place <= len(array) else ""


@FAMILY.function("I length", "S")
def rand_str(length: int) -> Value:
    """Random letters and digits, so many."""
    if not 1 <= length <= _RANDOM_TEXT_MAX:
        raise EvaluationFault(f"the length must be from 1 to {_RANDOM_TEXT_MAX:,}, not {length}")
    letters = b""
    while len(letters) < length:
        letters += secrets.token_bytes(length).translate(_LETTERS, _UNEVEN)
    return letters[:length].decode()


@FAMILY.function("I max", "I")
def rand_int(most: int) -> Value:
    """A random integer from 1 to a greatest one."""
    if most < 1:
        raise EvaluationFault(f"the greatest must be 1 or more, not {most}")
    return secrets.randbelow(most) + 1


@FAMILY.function("S text, I min, I max", "I")
def hash_to_range(text: str | bytes, least: int, most: int) -> Value:
    """An integer from min to max that depends on nothing but the text, evenly spread."""
    if not text or least > most:
        raise EvaluationFault("it needs a text that is not empty, and a min that is not above max")
    number = int.from_bytes(hashlib.sha256(bytes_of(text)).digest(), "big")
    return number % (most - least + 1) + least


@FAMILY.function("V value, I min, I max", "I")
def map_to_range(value: Value, least: int, most: int) -> Value:
    """An integer, or the bytes of a text as one, brought into the range from min to max by its remainder."""
    if isinstance(value, str | bytes) and value:
        number = int.from_bytes(bytes_of(value), "big")
    elif type(value) is int:
        number = value
    else:
        raise EvaluationFault(f"{describe(value)} is neither an integer nor a text that is not empty")
    if least > most:
        raise EvaluationFault("min must not be above max")
    rest = abs(number) % (most - least + 1)
    return (-rest if number < 0 else rest) + least


@FAMILY.function("I number", "S")
def int2hexstr(number: int) -> Value:
    """An integer in upper-case hexadecimal digits: 15 gives F."""
    return f"{number:X}"


@FAMILY.function("S string", "S")
def bin2hexstr(text: str | bytes) -> Value:
    """The bytes of a string in upper-case hexadecimal digits."""
    return bytes_of(text).hex().upper()


@FAMILY.function("S text", "S")
def hexstr2bin(text: str | bytes) -> Value:
    """The string whose bytes the hexadecimal digits say."""
    return RULE_FUNCTIONS["hexstr2bin"].call([text])


def _compared(kind: str, turn: Callable[[Value], Value]) -> None:
    """Add the comparisons of one kind."""
    tests: dict[str, tuple[str, Callable[[int], bool]]] = {
        "eq": ("equal to", lambda order: order == 0),
        "neq": ("not equal to", lambda order: order != 0),
        "lt": ("below", lambda order: order < 0),
        "lte": ("below or equal to", lambda order: order <= 0),
        "gt": ("above", lambda order: order > 0),
        "gte": ("above or equal to", lambda order: order >= 0),
    }
    for suffix, (words, test) in tests.items():

        def implementation(one: Value, other: Value, test: Callable[[int], bool] = test) -> Value:
            return test(order_of(turn(one), turn(other)))

        what = "number" if kind == "num" else "text"
        implementation.__doc__ = f"Whether one {what} is {words} another."
        FAMILY.function("V one, V other", "B", f"{kind}_{suffix}")(implementation)


def _number(value: Value) -> Number:
    if type(value) is int or type(value) is float:
        return value
    raise EvaluationFault(f"{describe(value)} is no number")


_compared("num", _number)
_compared("str", _text)


@FAMILY.function("V value", "V", name="not")
def negation(value: Value) -> Value:
    """The other one of true and false; of their texts, the other text."""
    if isinstance(value, bool):
        return not value
    if value in ("true", "false"):
        return "false" if value == "true" else "true"
    raise EvaluationFault(f"{describe(value)} is neither true nor false")


@FAMILY.function("S token, S path", "V")
def jwt_value(token: str | bytes, path: str | bytes) -> Value:
    """The claim at a path of names in a JSON web token, which is not verified; '' if absent."""
    parts = bytes_of(token).split(b".")
    if len(parts) != 3:
        raise EvaluationFault("it is no JSON web token, which has three parts joined by dots")
    claims = RULE_FUNCTIONS["base64_decode"].call([string_of(parts[1]), "urlsafe", "no_padding"])
    return _in_json(claims, path)


@FAMILY.function("V json, S path", "V")
def json_value(text: Value, path: str | bytes) -> Value:
    """What lies at a path of names joined by dots in a JSON text; '' where there is nothing, or no JSON."""
    return _in_json(text, path)


def _in_json(text: Value, path: str | bytes) -> Value:
    if not path:
        raise EvaluationFault("the path is empty")
    if isinstance(path, bytes) or not isinstance(text, str | bytes):
        return ""
    try:
        value = decode_json(text)
    except EvaluationFault:
        return ""
    for name in path.split("."):
        value = read_key(value, name) if isinstance(value, dict) else UNDEFINED
    return "" if value is UNDEFINED else value


_MODULES: Final = Family("Modules")


@_MODULES.function("A array", "A", "lists.reverse")
def lists_reverse(array: list[Value]) -> Value:
    """The elements from the last to the first."""
    return array[::-1]


@_MODULES.function("A array", "V", "lists.last")
def lists_last(array: list[Value]) -> Value:
    """The last element."""
    return RULE_FUNCTIONS["last"].call([array])


@_MODULES.function("I position, A array", "V", "lists.nth")
def lists_nth(position: int, array: list[Value]) -> Value:
    """The element at a position, counted from 1."""
    return RULE_FUNCTIONS["nth"].call([position, array])


@_MODULES.function("V key, M map[, V default]", "V", "maps.get")
def maps_get(key: Value, pairs: dict[str, Value], default: Value = UNDEFINED) -> Value:
    """The value of a key, or else the default."""
    value = pairs.get(key, default) if isinstance(key, str) else default
    if value is UNDEFINED:
        raise EvaluationFault(f"there is no key {describe(key)}")
    return value


@_MODULES.function("M map", "A", "maps.keys")
def maps_keys(pairs: dict[str, Value]) -> Value:
    """The keys, sorted."""
    return RULE_FUNCTIONS["map_keys"].call([pairs])


@_MODULES.function("M map", "I", "maps.size")
def maps_size(pairs: dict[str, Value]) -> Value:
    """How many keys there are."""
    return len(pairs)


FUNCTIONS: Final[dict[str, Function]] = {
    **{name: RULE_FUNCTIONS[name] for name in _SHARED},
    **{function.name: function for family in (FAMILY, _MODULES) for function in family.functions},
}
MODULES: Final = frozenset(function.name.partition(".")[0] for function in _MODULES.functions)
