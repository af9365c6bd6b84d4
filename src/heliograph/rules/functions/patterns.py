"""Functions of regular expressions, and of texts that are taken apart by single characters.

Regular expressions are those of PCRE as far as the `regex` package has them, and see bytes: a search is not anchored,
and `.` is one byte. What takes longer than a message may cost is stopped; a pattern that was stopped gets less time for
a while, so that texts which make it slow cannot take all of the time of the others.
"""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import regex

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, bytes_of, describe, string_of

FAMILY: Final = Family("Patterns")

# A search goes through 10 MB in a second at least; one that backtracks has no end.
_SEARCH_S: Final = 0.02
_SEARCH_S_PER_BYTE: Final = 1e-7
_SEARCH_S_MAX: Final = 0.2
_SHARE_MIN: Final = 0.1
_SHARE_REGAINED: Final = 0.005
# A pattern may come from a message, and compiling 4 KiB takes up to 40 ms and 2 MB.
_PATTERN_BYTES_MAX: Final = 4096
_SHORT_PATTERN_BYTES_MAX: Final = 512
# A repetition that must be there so many times is compiled so many times: 1 µs and 280 bytes for each.
_PATTERN_STEPS_MAX: Final = 10_000
_HARD_TO_READ: Final = re.compile(rb"\(\?(?:#|[a-zA-Z0-9]*(?:x|V1))")  # comments, blanks, sets within sets
_PATTERN_PART: Final = re.compile(
    rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))|\{(?P<count>[0-9]+)(?:,[0-9]*)?\}|.", re.DOTALL
)
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


class BoundedPattern:
    """A compiled regular expression, and what part of the usual time its next search may take."""

    __slots__ = ("_compiled", "_share")

    def __init__(self, pattern: bytes) -> None:
        if len(pattern) > _PATTERN_BYTES_MAX:
            raise EvaluationFault(
                f"a regular expression of {len(pattern):,} bytes is longer than the {_PATTERN_BYTES_MAX:,} allowed"
            )
        if _steps(pattern) > _PATTERN_STEPS_MAX:
            raise EvaluationFault(
                f"{describe(string_of(pattern))} is a regular expression that repeats too much: written out it has "
                f"more than {_PATTERN_STEPS_MAX:,} steps"
            )
        try:
            self._compiled = regex.compile(pattern, regex.VERSION0, cache_pattern=False)
        except (regex.error, OverflowError) as error:
            raise EvaluationFault(f"{describe(string_of(pattern))} is no regular expression: {error}") from None
        self._share = 1.0

    def search(self, text: bytes) -> Any:
        """The first match, or None.

        Raises:
            EvaluationFault: It took too long.
        """
        try:
            found = self._compiled.search(text, timeout=self.allowed_s(text))
        except TimeoutError:
            raise self._slow() from None
        if self._share < 1.0:
            self._share += _SHARE_REGAINED
        return found

    def matches(self, text: bytes) -> Iterator[Any]:
        """All matches, one after the other.

        Raises:
            EvaluationFault: All of them, and what was done with them, took too long.
        """
        try:
            yield from self._compiled.finditer(text, timeout=self.allowed_s(text))
        except TimeoutError:
            raise self._slow() from None
        if self._share < 1.0:
            self._share += _SHARE_REGAINED

    def allowed_s(self, text: bytes) -> float:
        """How long the next search in a text may take."""
        return self._share * min(_SEARCH_S + _SEARCH_S_PER_BYTE * len(text), _SEARCH_S_MAX)

    def _slow(self) -> EvaluationFault:
        self._share = max(self._share / 2, _SHARE_MIN)
        return EvaluationFault("the regular expression takes too long on this text")


def _pattern(pattern: bytes) -> BoundedPattern:
    return _short_pattern(pattern) if _steps(pattern) <= _SHORT_PATTERN_BYTES_MAX else _long_pattern(pattern)


def _steps(pattern: bytes) -> int:
    """How long a regular expression is when its repetitions are written out, or more."""
    return _steps_of_repetitions(pattern) if b"{" in pattern else len(pattern)


@lru_cache(maxsize=256)
def _steps_of_repetitions(pattern: bytes) -> int:
    if len(pattern) > _PATTERN_BYTES_MAX:
        return len(pattern)
    if _HARD_TO_READ.search(pattern):  # what a count repeats is not clear, so it counts for everything
        return len(pattern) * math.prod(_count(match) for match in _PATTERN_PART.finditer(pattern))
    enclosing: list[int] = []  # steps of the groups around
    steps = last = 0  # of this group, and of what a count would repeat
    for match in _PATTERN_PART.finditer(pattern):
        if match["open"]:
            enclosing.append(steps)
            steps = 0
        elif match["close"]:
            last = steps + 1
            steps = last + (enclosing.pop() if enclosing else 0)
        else:
            count = _count(match)
            last, steps = (last * count, steps + last * (count - 1)) if count > 1 else (1, steps + 1)
    return steps + sum(enclosing)


def _count(match: "re.Match[bytes]") -> int:
    digits = match["count"]
    return 1 if digits is None else min(max(int(digits.lstrip(b"0")[:9] or b"0"), 1), _PATTERN_STEPS_MAX + 1)


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
