"""The texts of values in a row that is JSON, exactly as Spark's `try_variant_get(..., 'string')` has them."""

import json
from base64 import b64decode
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import orjson

# Spark keeps a number without an exponent as a decimal of so many digits at most, and others as a double.
_DIGITS_MAX: Final = 38
# From here on Java writes a double with an exponent.
_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7


class NotJson:
    """What a text that is no JSON is parsed to."""


NOT_JSON: Final = NotJson()


def parsed(text: str) -> Any:
    """The value of a JSON text; `NOT_JSON` for another text."""
    try:
        found = _DECODER.decode(text)
        if "\\u" in text:
            text_of(found).encode()  # half a pair of surrogates is no text, which Spark takes for no JSON
    except (ValueError, RecursionError):
        return NOT_JSON
    return found


def quickly_parsed(text: str) -> Any:
    """The same ten times as fast, but with numbers of other types; `NOT_JSON` where `parsed` may have a value."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return NOT_JSON


def string_at(value: Any, path: Sequence[str]) -> str | NotJson | None:
    """What `text_at` finds in a value that was quickly parsed; `NOT_JSON` where it has to be parsed as usual."""
    if not isinstance(value, dict) or _is_index(path[0]):
        return NOT_JSON
    found = value.get(path[0])
    if found is None:
        return None
    if len(path) > 1:
        found = _at(found, path[1:])
    return found if isinstance(found, str) else NOT_JSON


def text_at(value: Any, path: Sequence[str]) -> str | None:
    """The text of a value within another, None where there is none; a step into text looks into its JSON."""
    found = _at(value, path)
    if found is not None:
        return text_of(found)
    if len(path) == 1:
        return None
    first = _at(value, path[:1])
    return text_at_in_text(first, path[1:]) if isinstance(first, str) else None


def bytes_at(value: Any, path: Sequence[str]) -> bytes | None:
    """The bytes of a value that is `{"$base64": "..."}`; None for another one."""
    found = _at(value, path)
    if not isinstance(found, dict) or len(found) != 1 or not isinstance(coded := found.get("$base64"), str):
        return None
    try:
        return b64decode(coded, validate=True)
    except ValueError:
        return None


def text_at_in_text(text: str, path: Sequence[str]) -> str | None:
    found = _at(parsed(text), path)
    return None if found is None else text_of(found)


def text_of(value: Any) -> str:
    """The text of a value that is not null: JSON for objects, whose keys are in order, and for arrays."""
    if isinstance(value, str):
        return value
    # Without recursion: JSON of a device may have about as many levels as Python's stack.
    pieces: list[str] = []
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += reversed([_OPEN_ARRAY, *_separated([[item] for item in one]), _CLOSE_ARRAY])
        elif isinstance(one, dict):
            items = sorted(one.items(), key=lambda item: item[0].encode("utf-8", "surrogatepass"))
            members = [[_Piece(f"{json.dumps(key, ensure_ascii=False)}:"), item] for key, item in items]
            waiting += reversed([_OPEN_OBJECT, *_separated(members), _CLOSE_OBJECT])
        else:
            pieces.append(_piece(one))
    return "".join(pieces)


def _at(value: Any, path: Sequence[str]) -> Any:
    for step in path:
        if isinstance(value, dict) and not _is_index(step):
            value = value.get(step)
        elif isinstance(value, list) and _is_index(step) and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return None if value is NOT_JSON else value


def _is_index(step: str) -> bool:
    return step.isascii() and step.isdigit()


class _Piece(str):
    """A part of a text that stands in it as it is."""

    __slots__ = ()


_OPEN_ARRAY: Final = _Piece("[")
_CLOSE_ARRAY: Final = _Piece("]")
_OPEN_OBJECT: Final = _Piece("{")
_CLOSE_OBJECT: Final = _Piece("}")
_COMMA: Final = _Piece(",")


def _separated(parts: list[list[Any]]) -> list[Any]:
    separated: list[Any] = []
    for part in parts:
        if separated:
            separated.append(_COMMA)
        separated += part
    return separated


def _piece(value: Any) -> str:
    """The text of a value that is neither an object nor an array."""
    if isinstance(value, _Piece):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return _decimal_text(value)
    return _double_text(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)


def _number(text: str) -> Decimal | float:
    if "e" in text or "E" in text:
        return float(text)
    found = Decimal(text)
    return found if len(found.as_tuple().digits) <= _DIGITS_MAX else float(text)


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


def _decimal_text(value: Decimal) -> str:
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _double_text(value: float) -> str:
    """A double as Java writes it."""
    size = abs(value)
    if value == 0 or _PLAIN_FROM <= size < _PLAIN_BELOW:
        return format(Decimal(repr(value)), "f") if "e" in repr(value) else repr(value)
    if size == float("inf"):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    assert isinstance(exponent, int)
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(text) - 1}"


# Kept: `json.loads` makes one for each text where numbers are parsed otherwise.
_DECODER: Final = json.JSONDecoder(parse_float=_number, parse_int=_number, parse_constant=_refused)
