"""Functions of strings. Positions and lengths count what a reader sees as one character (a grapheme cluster)."""

from typing import Final

import regex

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import text_of
from heliograph.rules.values import Value, bytes_of, describe, string_of

FAMILY: Final = Family("Strings")

_CLUSTER: Final = regex.compile(r"\X")
_WHITE: Final = frozenset(" \t\n\v\f\r\x85\u200e\u200f\u2028\u2029") | {"\r\n"}


def _text(string: str | bytes) -> str:
    """A string as text.

    Raises:
        EvaluationFault: It is not valid UTF-8.
    """
    if isinstance(string, bytes):
        raise EvaluationFault(f"{describe(string)} is not valid UTF-8 text")
    return string


def _clusters(text: str) -> list[str]:
    if text.isascii() and "\r\n" not in text:
        return list(text)
    clusters: list[str] = _CLUSTER.findall(text)
    return clusters


@FAMILY.function("S text", "S")
def lower(text: str | bytes) -> Value:
    """The text in lower case."""
    return _text(text).lower()


@FAMILY.function("S text", "S")
def upper(text: str | bytes) -> Value:
    """The text in upper case: 'straße' gives 'STRASSE'."""
    return _text(text).upper()


@FAMILY.function("S text", "S")
def trim(text: str | bytes) -> Value:
    """The text without white space at its ends."""
    return "".join(_from_first_visible(_until_last_visible(_clusters(_text(text)))))


@FAMILY.function("S text", "S")
def ltrim(text: str | bytes) -> Value:
    """The text without white space at its beginning."""
    return "".join(_from_first_visible(_clusters(_text(text))))


@FAMILY.function("S text", "S")
def rtrim(text: str | bytes) -> Value:
    """The text without white space at its end."""
    return "".join(_until_last_visible(_clusters(_text(text))))


def _from_first_visible(clusters: list[str]) -> list[str]:
    first = next((at for at, cluster in enumerate(clusters) if cluster not in _WHITE), len(clusters))
    return clusters[first:]


def _until_last_visible(clusters: list[str]) -> list[str]:
    return _from_first_visible(clusters[::-1])[::-1]


@FAMILY.function("S text", "I")
def strlen(text: str | bytes) -> Value:
    """How many characters the text has: '你好' has 2."""
    return len(_clusters(_text(text)))


@FAMILY.function("S text, I start[, I length]", "S")
def substr(text: str | bytes, start: int, length: int | None = None) -> Value:
    """The part of the text from a position, counted from 0; beyond the end it is ''."""
    if start < 0 or (length is not None and length < 0):
        raise EvaluationFault("start and length must not be negative")
    end = None if length is None else start + length
    return "".join(_clusters(_text(text))[start:end])


@FAMILY.function("V one[, V other]", "S")
def concat(*values: Value) -> Value:
    """Two values, or the elements of one array, as text and joined."""
    pieces = values[0] if len(values) == 1 else list(values)
    if not isinstance(pieces, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(pieces)}")
    return string_of(b"".join(bytes_of(text_of(piece)) for piece in pieces))


@FAMILY.function("S text, S pattern[, S where]", "S")
def find(text: str | bytes, pattern: str | bytes, where: str | bytes = "leading") -> Value:
    """The text from the first ('leading') or last ('trailing') occurrence of the pattern; '' where there is none."""
    whole, part = _text(text), _text(pattern)
    if where not in ("leading", "trailing"):
        raise EvaluationFault(f"where must be 'leading' or 'trailing', not {describe(where)}")
    at = whole.find(part) if where == "leading" or not part else whole.rfind(part)
    return whole[at:] if at >= 0 else ""


@FAMILY.function("S text, S pattern, S replacement[, S where]", "S")
def replace(text: str | bytes, pattern: str | bytes, replacement: str | bytes, where: str | bytes = "all") -> Value:
    """The text with all, the first ('leading') or the last ('trailing') occurrence of the pattern replaced."""
    whole, part, new = _text(text), _text(pattern), _text(replacement)
    if where not in ("all", "leading", "trailing"):
        raise EvaluationFault(f"where must be 'all', 'leading' or 'trailing', not {describe(where)}")
    if not part:
        return whole
    if where == "trailing":
        return new.join(whole.rsplit(part, 1))
    return whole.replace(part, new, -1 if where == "all" else 1)


_SPLITS: Final = {
    "notrim": ("all", False),
    "leading": ("first", True),
    "trailing": ("last", True),
    "leading_notrim": ("first", False),
    "trailing_notrim": ("last", False),
}


@FAMILY.function("S text, S separator[, S option]", "A")
def split(text: str | bytes, separator: str | bytes, option: str | bytes | None = None) -> Value:
    """The pieces between separators without the empty ones.

    The option 'notrim' keeps them, 'leading' and 'trailing' split once, at the first or last separator, and
    'leading_notrim' and 'trailing_notrim' do both.
    """
    whole, part = _text(text), _text(separator)
    if option is not None and option not in _SPLITS:
        raise EvaluationFault(f"option must be one of {', '.join(_SPLITS)}, not {describe(option)}")
    at, drop_empty = ("all", True) if option is None else _SPLITS[_text(option)]
    if not part:
        pieces = [whole]
    elif at == "last":
        pieces = whole.rsplit(part, 1)
    else:
        pieces = whole.split(part, -1 if at == "all" else 1)
    return [piece for piece in pieces if piece or not drop_empty]


@FAMILY.function("S string", "I")
def bytesize(string: str | bytes) -> Value:
    """How many bytes the string has."""
    return len(bytes_of(string))
