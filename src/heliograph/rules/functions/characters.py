"""What a reader sees as one character: grapheme clusters, by Unicode's annex 29.

Nearly all text has one code point for each of them, which a search through a class of characters finds out some forty
times faster than the clusters themselves are found. Only text with combining marks, joiners, flags or Hangul letters
goes the long way, and that has an end: an event loop waits for it.
"""

from functools import cache
from itertools import islice
from re import Pattern
from re import compile as compile_class
from typing import Final

import regex

from heliograph.rules.errors import EvaluationFault

_CLUSTERED_MAX: Final = 2_000_000
"""Code points of the longest text whose clusters are looked for; that takes less than half a second."""

WHITE: Final = " \t\n\v\f\r\x85\u200e\u200f\u2028\u2029"
_LINE_END: Final = "\r\n"  # the one cluster of two characters that ordinary text is full of

_CLUSTER: Final = regex.compile(r"\X")
_ORDINARY: Final = regex.compile(r"\r\n|.", regex.DOTALL)
# A code point that has none of these properties is a cluster by itself, whatever stands beside it.
_JOINING: Final = regex.compile(
    r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=Prepend}\p{GCB=L}\p{GCB=V}\p{GCB=T}\p{GCB=RI}]"
)
_SURROGATES: Final = range(0xD800, 0xE000)


def clusters_of(text: str) -> list[str]:
    """The characters one by one."""
    if has_joined(text):
        _check_length(len(text))
        return list(_CLUSTER.findall(text))
    return list(_ORDINARY.findall(text)) if _LINE_END in text else list(text)


def character_count(text: str) -> int:
    return len(clusters_of(text)) if has_joined(text) else len(text) - text.count(_LINE_END)


def reversed_text(text: str) -> str:
    if has_joined(text):
        return "".join(reversed(clusters_of(text)))
    # What becomes of a line end when it is turned round is turned back.
    return _LINE_END.join(part[::-1] for part in reversed(text.split(_LINE_END)))


def part_of(text: str, start: int, end: int | None) -> str:
    if has_joined(text):
        _check_length(len(text) if end is None else min(end, len(text)))
        return "".join(match[0] for match in islice(_CLUSTER.finditer(text), start, end))
    if _LINE_END in text:
        return "".join(match[0] for match in islice(_ORDINARY.finditer(text), start, end))
    return text[start:end]


def without_white_before(text: str) -> str:
    """The text from its first character other than white space; a space that carries an accent is a character."""
    at = len(text) - len(text.lstrip(WHITE))
    if 0 < at < len(text) and _cluster_end(text, at - 1) > at:
        at -= 1
    return text[at:]


def without_white_behind(text: str) -> str:
    at = len(text.rstrip(WHITE))
    return text[: _cluster_end(text, at - 1)] if 0 < at < len(text) else text[:at]


def _cluster_end(text: str, at: int) -> int:
    match = _CLUSTER.match(text, at)
    return at + 1 if match is None else match.end()


def has_joined(text: str) -> bool:
    """Whether a cluster may have several code points, other than the two of a line end."""
    if text.isascii():
        return False
    found = _may_join().search(text)
    return found is not None and _JOINING.search(text, found.start()) is not None


@cache
def _may_join() -> Pattern[str]:
    """A class of all that may join, and of rarer characters that do not: Python's own classes are the fastest."""
    plane = "".join(chr(code) for code in range(0x10000) if code not in _SURROGATES)
    ranges = "".join(f"{run[0][0]}-{run[0][-1]}" for run in regex.finditer(f"{_JOINING.pattern}+", plane))
    return compile_class(f"[{ranges}\U00010000-\U0010ffff]")


def _check_length(count: int) -> None:
    if count > _CLUSTERED_MAX:
        raise EvaluationFault(
            f"the text has {count:,} code points, some of which join into one character; up to {_CLUSTERED_MAX:,} are "
            "looked at"
        )
