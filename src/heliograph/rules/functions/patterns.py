"""Functions of regular expressions, and of texts that are taken apart by single characters.

What regular expressions are, and what they may cost, is said in `rules.bounded_pattern`.
"""

import re
from functools import lru_cache
from typing import Any, Final

from heliograph.rules.bounded_pattern import BoundedPattern, steps_of
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, bytes_of, describe, string_of

FAMILY: Final = Family("Patterns")

_SHORT_PATTERN_BYTES_MAX: Final = 512
_REPLACED_BYTES_MAX: Final = 16 << 20
_GROUPS_FILLED_MAX: Final = 1000
_REPLACEMENT: Final = re.compile(rb"\\(?:g\{([0-9]{1,3})\}|g?([1-9][0-9]{0,2})|(.))|&", re.DOTALL)
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "'": "'",
    '"': '"',
    "?": "?",
    "a": "\a",
    "\\": "\\",
}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9A-Fa-f]+)|(.))", re.DOTALL)


def _pattern(pattern: bytes) -> BoundedPattern:
    return _short_pattern(pattern) if steps_of(pattern) <= _SHORT_PATTERN_BYTES_MAX else _long_pattern(pattern)


_short_pattern = lru_cache(maxsize=256)(BoundedPattern)
_long_pattern = lru_cache(maxsize=16)(BoundedPattern)


@FAMILY.function("S text, S pattern", "B")
def regex_match(text: str | bytes, pattern: str | bytes) -> Value:
    """Whether the regular expression is found anywhere in the text."""
    return _pattern(bytes_of(pattern)).search(bytes_of(text)) is not None


@FAMILY.function("S text, S pattern", "A")
def regex_extract(text: str | bytes, pattern: str | bytes) -> Value:
    """What the groups of the regular expression hold where it is found first; [] where it is not found."""
    match = _pattern(bytes_of(pattern)).search(bytes_of(text))
    if match is None:
        return []
    groups = list(match.groups())
    # Groups that took no part are empty where others follow, and left out where none does.
    while groups and groups[-1] is None:
        groups.pop()
    return [string_of(group or b"") for group in groups]


@FAMILY.function("S text, S pattern, S replacement", "S")
def regex_replace(text: str | bytes, pattern: str | bytes, replacement: str | bytes) -> Value:
    """The text with every match replaced; in the replacement, & is the match and \\1 to \\9 its groups.

    A backslash before any other character stands for that character, as in \\& and \\\\; \\g{10} is the tenth group.
    """
    whole, template = bytes_of(text), bytes_of(replacement)
    if template.count(b"&") + template.count(b"\\") > _GROUPS_FILLED_MAX:
        raise EvaluationFault(f"the replacement has more than {_GROUPS_FILLED_MAX:,} & and \\")
    pieces: list[bytes] = []
    at, room = 0, _REPLACED_BYTES_MAX
    for match in _pattern(bytes_of(pattern)).matches(whole):
        filled = _filled(template, match, room)
        pieces += [whole[at : match.start()], filled]
        at = match.end()
        room -= len(filled)
        if room < 0:
            raise _grown()
    return string_of(b"".join(pieces) + whole[at:])


def _grown() -> EvaluationFault:
    return EvaluationFault(f"more than {_REPLACED_BYTES_MAX >> 20} MiB would come out")


def _filled(template: bytes, match: Any, room: int) -> bytes:
    if b"&" not in template and b"\\" not in template:
        return template

    def value(found: "re.Match[bytes]") -> bytes:
        nonlocal room
        braced, digits, escaped = found.groups()
        if escaped is not None:
            return escaped
        number = int(braced or digits or b"0")
        piece = bytes(match[number] or b"") if number <= match.re.groups else b""
        room -= len(piece)
        if room < 0:
            raise _grown()
        return piece

    return _REPLACEMENT.sub(value, template)


@FAMILY.function("S text, S separators[, S option]", "A")
def tokens(text: str | bytes, separators: str | bytes, option: str | bytes | None = None) -> Value:
    """The pieces between any of some characters, without empty ones; 'nocrlf' also splits at line ends."""
    marks = set(bytes_of(separators))
    if option is not None:
        if option != "nocrlf":
            raise EvaluationFault(f"option must be 'nocrlf', not {describe(option)}")
        marks |= {0x0A, 0x0D}
    if not marks:
        return [string_of(bytes_of(text))] if text else []
    mark = min(marks)
    table = bytes(mark if byte in marks else byte for byte in range(256))
    return [string_of(piece) for piece in bytes_of(text).translate(table).split(bytes([mark])) if piece]


@FAMILY.function("S text", "S")
def unescape(text: str | bytes) -> Value:
    """What a text with escapes means: \\n \\t \\r \\b \\f \\v \\' \\" \\? \\a \\\\ and \\x with hexadecimal digits."""
    if isinstance(text, bytes):
        raise EvaluationFault(f"{describe(text)} is not valid UTF-8 text")
    return _ESCAPE.sub(_unescaped, text)


def _unescaped(match: "re.Match[str]") -> str:
    digits, character = match.groups()
    if digits is not None:
        code = int(digits, 16) if len(digits) <= 16 else -1
        if not 0 <= code <= 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise EvaluationFault(f"\\x{digits[:20]} is no Unicode character")
        return chr(code)
    meaning = _ESCAPES.get(character)
    if meaning is None:
        raise EvaluationFault(f"\\{character} is no escape")
    return meaning
