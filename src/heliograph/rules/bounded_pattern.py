"""Regular expressions that come from outside, or search what does: what they may cost is bounded.

They are those of PCRE as far as the `regex` package has them, and see bytes: a search is not anchored, and `.` is one
byte. A pattern that was stopped gets less time for a while, so that texts which make it slow cannot take all of the
time of the others.
"""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import regex

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.values import describe, string_of

# A search goes through 10 MB in a second at least; one that backtracks has no end.
_SEARCH_S: Final = 0.02
_SEARCH_S_PER_BYTE: Final = 1e-7
_SEARCH_S_MAX: Final = 0.2
_SHARE_MIN: Final = 0.1
_SHARE_REGAINED: Final = 0.005
# A pattern may come from a message, and compiling 4 KiB takes up to 40 ms and 2 MB.
_PATTERN_BYTES_MAX: Final = 4096
# A repetition that must be there so many times is compiled so many times: 1 µs and 280 bytes for each.
_PATTERN_STEPS_MAX: Final = 10_000
_HARD_TO_READ: Final = re.compile(rb"\(\?(?:#|[a-zA-Z0-9]*(?:x|V1))")  # comments, blanks, sets within sets
_PCRE: Final = re.compile(rb"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\x\{(?P<code>[0-9A-Fa-f]+)\}|\\.", re.DOTALL)
_PATTERN_PART: Final = re.compile(
    rb"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\()|(?P<close>\))|\{(?P<count>[0-9]+)(?:,[0-9]*)?\}|.", re.DOTALL
)


class BoundedPattern:
    """A compiled regular expression, and what part of the usual time its next search may take."""

    __slots__ = ("_compiled", "_share")

    def __init__(self, pattern: bytes) -> None:
        if len(pattern) > _PATTERN_BYTES_MAX:
            raise EvaluationFault(
                f"a regular expression of {len(pattern):,} bytes is longer than the {_PATTERN_BYTES_MAX:,} allowed"
            )
        if steps_of(pattern) > _PATTERN_STEPS_MAX:
            raise EvaluationFault(
                f"{describe(string_of(pattern))} is a regular expression that repeats too much: written out it has "
                f"more than {_PATTERN_STEPS_MAX:,} steps"
            )
        try:
            self._compiled = regex.compile(pattern, regex.VERSION0, cache_pattern=False)
        except (regex.error, OverflowError, RecursionError) as error:
            raise EvaluationFault(f"{describe(string_of(pattern))} is no regular expression: {error}") from None
        self._share = 1.0

    def search(self, text: bytes) -> Any:
        try:
            found = self._compiled.search(text, timeout=self.allowed_s(text))
        except TimeoutError:
            raise self._slow() from None
        if self._share < 1.0:
            self._share += _SHARE_REGAINED
        return found

    def matches(self, text: bytes) -> Iterator[Any]:
        """All matches, one after the other; all of them, and their use, have one limit of time."""
        try:
            yield from self._compiled.finditer(text, timeout=self.allowed_s(text))
        except TimeoutError:
            raise self._slow() from None
        if self._share < 1.0:
            self._share += _SHARE_REGAINED

    def allowed_s(self, text: bytes) -> float:
        return self._share * min(_SEARCH_S + _SEARCH_S_PER_BYTE * len(text), _SEARCH_S_MAX)

    def _slow(self) -> EvaluationFault:
        self._share = max(self._share / 2, _SHARE_MIN)
        return EvaluationFault("the regular expression takes too long on this text")


@lru_cache(maxsize=64)  # the rules of a database or a service name the same ones for each client
def pattern_of_text(expression: str) -> BoundedPattern:
    r"""A pattern as operators write it for PCRE, with `\Q...\E` and `\x{41}`.

    Raises:
        ValueError: It is no regular expression, or repeats too much; the text says which.
    """
    try:
        return BoundedPattern(_without_pcre_forms(expression.encode("utf-8", "surrogateescape")))
    except EvaluationFault as fault:
        raise ValueError(str(fault)) from None


def _without_pcre_forms(pattern: bytes) -> bytes:
    """A pattern without what the library writes in other ways than PCRE."""

    def replaced(found: "re.Match[bytes]") -> bytes:
        if found["quoted"] is not None:
            return re.escape(found["quoted"])
        if found["code"] is not None and int(found["code"][-8:], 16) <= 0xFF:
            return b"\\x%02x" % int(found["code"][-8:], 16)
        return found[0]

    return _PCRE.sub(replaced, pattern)


def steps_of(pattern: bytes) -> int:
    """The length of a regular expression with its repetitions written out, or more."""
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
