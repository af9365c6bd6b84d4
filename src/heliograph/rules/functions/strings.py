"""Functions of strings. Positions and lengths count what a reader sees as one character (a grapheme cluster)."""

from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.characters import (
    character_count,
    part_of,
    reversed_text,
    without_white_before,
    without_white_behind,
)
from heliograph.rules.functions.definition import Family
from heliograph.rules.json_text import text_of
from heliograph.rules.values import Bits, Value, bytes_of, describe, is_number, string_of

FAMILY: Final = Family("Strings")

_PADDED_MAX: Final = 1_000_000
# Two texts of a megabyte could become one of a terabyte.
GROWN_MAX: Final = 16 << 20


def utf8(string: str | bytes) -> str:
    if isinstance(string, bytes):
        raise EvaluationFault(f"{describe(string)} is not valid UTF-8 text")
    return string


def check_growth(size: int) -> None:
    if size > GROWN_MAX:
        raise EvaluationFault(f"a text of more than {GROWN_MAX:,} characters would come out")


@FAMILY.function("S text", "S")
def lower(text: str | bytes) -> Value:
    """The text in lower case."""
    # Python would make the other small sigma of one at the end of a word.
    return utf8(text).replace("Σ", "σ").lower()


@FAMILY.function("S text", "S")
def upper(text: str | bytes) -> Value:
    """The text in upper case: 'straße' gives 'STRASSE'."""
    return utf8(text).upper()


@FAMILY.function("S text", "S")
def trim(text: str | bytes) -> Value:
    """The text without white space at its ends."""
    return without_white_before(without_white_behind(utf8(text)))


@FAMILY.function("S text", "S")
def ltrim(text: str | bytes) -> Value:
    """The text without white space at its beginning."""
    return without_white_before(utf8(text))


@FAMILY.function("S text", "S")
def rtrim(text: str | bytes) -> Value:
    """The text without white space at its end."""
    return without_white_behind(utf8(text))


@FAMILY.function("S text", "I")
def strlen(text: str | bytes) -> Value:
    """How many characters the text has: '你好' has 2."""
    return character_count(utf8(text))


@FAMILY.function("S text, I start[, I length]", "S")
def substr(text: str | bytes, start: int, length: int | None = None) -> Value:
    """The part of the text from a position, counted from 0; beyond the end it is ''."""
    if start < 0 or (length is not None and length < 0):
        raise EvaluationFault("start and length must not be negative")
    return part_of(utf8(text), start, None if length is None else start + length)


@FAMILY.function("V one[, V other]", "S")
def concat(*values: Value) -> Value:
    """Two values, or the elements of one array, as text and joined."""
    pieces = values[0] if len(values) == 1 else list(values)
    if not isinstance(pieces, list):
        raise EvaluationFault(f"a single argument must be an array, not {describe(pieces)}")
    texts = [text_of(piece) for piece in pieces]
    check_growth(sum(map(len, texts)))
    return string_of(b"".join(map(bytes_of, texts)))


@FAMILY.function("S text, S pattern[, S where]", "S")
def find(text: str | bytes, pattern: str | bytes, where: str | bytes = "leading") -> Value:
    """The text from the first ('leading') or last ('trailing') occurrence of the pattern; '' if absent."""
    whole, part = utf8(text), utf8(pattern)
    if where not in ("leading", "trailing"):
        raise EvaluationFault(f"where must be 'leading' or 'trailing', not {describe(where)}")
    at = whole.find(part) if where == "leading" or not part else whole.rfind(part)
    return whole[at:] if at >= 0 else ""


@FAMILY.function("S text, S pattern, S replacement[, S where]", "S")
def replace(text: str | bytes, pattern: str | bytes, replacement: str | bytes, where: str | bytes = "all") -> Value:
    """The text with all, the first ('leading') or the last ('trailing') occurrence of the pattern replaced."""
    whole, part, new = utf8(text), utf8(pattern), utf8(replacement)
    if where not in ("all", "leading", "trailing"):
        raise EvaluationFault(f"where must be 'all', 'leading' or 'trailing', not {describe(where)}")
    if not part:
        return whole
    if where == "trailing":
        return new.join(whole.rsplit(part, 1))
    if where == "all" and len(new) > len(part):
        check_growth(len(whole) + whole.count(part) * (len(new) - len(part)))
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
    whole, part = utf8(text), utf8(separator)
    if option is not None and option not in _SPLITS:
        raise EvaluationFault(f"option must be one of {', '.join(_SPLITS)}, not {describe(option)}")
    at, drop_empty = ("all", True) if option is None else _SPLITS[utf8(option)]
    if not part:
        pieces = [whole]
    elif at == "last":
        pieces = whole.rsplit(part, 1)
    else:
        pieces = whole.split(part, -1 if at == "all" else 1)
    return [piece for piece in pieces if piece or not drop_empty]


@FAMILY.function("X string", "I")
def bytesize(string: str | bytes | Bits) -> Value:
    """How many bytes the string has."""
    return len(string.filled() if isinstance(string, Bits) else bytes_of(string))


@FAMILY.function("S text", "S")
def reverse(text: str | bytes) -> Value:
    """The text from its end to its beginning."""
    return reversed_text(utf8(text))


@FAMILY.function("S text", "I")
def ascii(text: str | bytes) -> Value:
    """The first byte as a number: 'a' gives 97."""
    data = bytes_of(text)
    if not data:
        raise EvaluationFault("the text is empty")
    return data[0]


@FAMILY.function("S text, S prefix", "S")
def rm_prefix(text: str | bytes, prefix: str | bytes) -> Value:
    """The text without a prefix, or as it is where it does not begin with it."""
    return string_of(bytes_of(text).removeprefix(bytes_of(prefix)))


@FAMILY.function("S text, I length[, S where[, S fill]]", "S")
def pad(text: str | bytes, length: int, where: str | bytes = "trailing", fill: str | bytes = " ") -> Value:
    """The text filled up to a length behind it ('trailing'), before it ('leading') or at both ends ('both')."""
    whole, unit = utf8(text), utf8(fill)
    if where not in ("trailing", "leading", "both"):
        raise EvaluationFault(f"where must be 'trailing', 'leading' or 'both', not {describe(where)}")
    missing = max(0, length - character_count(whole))
    if missing * max(1, len(unit)) > _PADDED_MAX:
        raise EvaluationFault(f"a text of more than {_PADDED_MAX:,} characters would come out")
    before = 0 if where == "trailing" else missing if where == "leading" else missing // 2
    return unit * before + whole + unit * (missing - before)


@FAMILY.function("V separator[, A array]", "S")
def join_to_string(separator: Value, array: list[Value] | None = None) -> Value:
    """The elements of an array as text, joined by a separator or, where only the array is given, by ', '."""
    elements, between = (separator, ", ") if array is None else (array, separator)
    if not isinstance(elements, list) or not isinstance(between, str | bytes):
        raise EvaluationFault("it needs an array, or a separator that is a string and an array")
    separator_bytes, pieces = bytes_of(between), [bytes_of(text_of(element)) for element in elements]
    check_growth(len(separator_bytes) * len(pieces))
    return string_of(separator_bytes.join(pieces))


@FAMILY.function("A array", "S")
def join_to_sql_values_string(array: list[Value]) -> Value:
    """The elements of an array as SQL literals, joined by ', ': 1, 'it\\'s', '[1,2]'."""
    return string_of(b", ".join(map(_sql_literal, array)))


def _sql_literal(value: Value) -> bytes:
    text = bytes_of(text_of(value))
    if is_number(value):
        return text
    return b"'" + text.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"
