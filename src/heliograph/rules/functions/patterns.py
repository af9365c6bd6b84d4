"""Functions of regular expressions, and of texts that are taken apart by single characters.

Regular expressions are those of PCRE as far as the `regex` package has them, and see bytes: a search is not anchored,
and `.` is one byte. What takes longer than a message may cost is stopped.
"""

import re
from functools import lru_cache
from typing import Any, Final

import regex

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, bytes_of, describe, string_of

FAMILY: Final = Family("Patterns")

_SEARCH_S_MAX: Final = 0.2
_REPLACED_BYTES_MAX: Final = 16 << 20
_REPLACEMENT: Final = re.compile(rb"\\([1-9&\\])|(&)")
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


@lru_cache(maxsize=512)
def _compiled(pattern: bytes) -> Any:
    try:
        return regex.compile(pattern, regex.VERSION0)
    except (regex.error, OverflowError) as error:
        raise EvaluationFault(f"{describe(string_of(pattern))} is no regular expression: {error}") from None


def _slow(error: Exception) -> EvaluationFault:
    return EvaluationFault(f"the regular expression took longer than {_SEARCH_S_MAX} s on this text")


@FAMILY.function("S text, S pattern", "B")
def regex_match(text: str | bytes, pattern: str | bytes) -> Value:
    """Whether the regular expression is found anywhere in the text."""
    try:
        return _compiled(bytes_of(pattern)).search(bytes_of(text), timeout=_SEARCH_S_MAX) is not None
    except TimeoutError as error:
        raise _slow(error) from None


@FAMILY.function("S text, S pattern", "A")
def regex_extract(text: str | bytes, pattern: str | bytes) -> Value:
    """What the groups of the regular expression hold where it is found first; [] where it is not found."""
    try:
        match = _compiled(bytes_of(pattern)).search(bytes_of(text), timeout=_SEARCH_S_MAX)
    except TimeoutError as error:
        raise _slow(error) from None
    return [] if match is None else [string_of(group or b"") for group in match.groups()]


@FAMILY.function("S text, S pattern, S replacement", "S")
def regex_replace(text: str | bytes, pattern: str | bytes, replacement: str | bytes) -> Value:
    """The text with every match replaced; in the replacement, & is the match and \\1 to \\9 its groups."""
    whole, template = bytes_of(text), bytes_of(replacement)
    pieces: list[bytes] = []
    at = size = 0
    try:
        for match in _compiled(bytes_of(pattern)).finditer(whole, timeout=_SEARCH_S_MAX):
            filled = _filled(template, match)
            pieces += [whole[at : match.start()], filled]
            at = match.end()
            size += len(filled)
            if size > _REPLACED_BYTES_MAX:
                raise EvaluationFault(f"more than {_REPLACED_BYTES_MAX >> 20} MiB would come out")
    except TimeoutError as error:
        raise _slow(error) from None
    return string_of(b"".join(pieces) + whole[at:])


def _filled(template: bytes, match: Any) -> bytes:
    if b"&" not in template and b"\\" not in template:
        return template

    def value(found: "re.Match[bytes]") -> bytes:
        escaped = found[1]
        if escaped is None:
            return bytes(match[0])
        if escaped in b"&\\":
            return escaped
        number = int(escaped)
        return bytes(match[number] or b"") if number <= match.re.groups else b""

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
