"""What a reader sees as one character: the fast ways say the same as the slow one, and the slow one ends."""

import random

import pytest
import regex

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.functions import characters as c
from heliograph.rules.values import Value
from support.cases import cases

# Letters, white space, line ends, marks, joiners, flags, Hangul letters and syllables, emoji, a prefix, a virama.
_PIECES = (
    *("a", "b", " ", "\t", "\n", "\r", "\r\n", "é", "你", "\u200e", "\u2028", "\u0301", "\u200d", "\ufe0f", "😀", "👩"),
    *("🇩", "🇪", "\u1100", "\u1161", "\u11a8", "가", "각", "\u0600", "\u0903", "\u0915", "\u094d", "\U0001f3fd", "\x00"),
)
_WHITE_CLUSTERS = {*c.WHITE, "\r\n"}


def _samples() -> list[str]:
    chosen = random.Random(7)
    ordinary = [piece for piece in _PIECES if piece in "ab é你😀가각\t\n\u2028" or piece == "\r\n"]
    mixed = ["".join(chosen.choices(_PIECES, k=chosen.randrange(12))) for _ in range(3000)]
    return mixed + ["".join(chosen.choices(ordinary, k=chosen.randrange(12))) for _ in range(1000)]


def test_all_ways_agree_with_the_definition() -> None:
    for text in _samples():
        clusters: list[str] = regex.findall(r"\X", text)
        assert c.clusters_of(text) == clusters, ascii(text)
        assert c.character_count(text) == len(clusters), ascii(text)
        assert c.reversed_text(text) == "".join(clusters[::-1]), ascii(text)
        for start, end in ((0, None), (1, 3), (2, None), (0, 0), (50, 60)):
            assert c.part_of(text, start, end) == "".join(clusters[start:end]), ascii(text)


def test_white_space_goes_by_whole_characters() -> None:
    for text in _samples():
        visible = [at for at, cluster in enumerate(regex.findall(r"\X", text)) if cluster not in _WHITE_CLUSTERS]
        clusters: list[str] = regex.findall(r"\X", text)
        first, last = (visible[0], visible[-1]) if visible else (len(clusters), -1)
        assert c.without_white_before(text) == "".join(clusters[first:]), ascii(text)
        assert c.without_white_behind(text) == "".join(clusters[: last + 1]), ascii(text)


def test_no_character_that_joins_is_taken_for_one_that_does_not() -> None:
    for code in (*range(0x80, 0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE1000)):
        one = chr(code)
        if not c.has_joined(one):
            text = f"{one}{one}a\u00e9{one}"
            assert len(regex.findall(r"\X", text)) == 5, hex(code)


_MANY = 1_000_000


@cases(("text", "count"), [("é", 6), ("你", 6), ("😀", 3), ("ab\r\n", 1)])
def test_long_text_without_joined_characters_is_no_matter(text: str, count: int) -> None:
    whole = text * (_MANY * count)
    assert FUNCTIONS["strlen"].call([whole]) == len(whole) - whole.count("\r\n")
    reverse = FUNCTIONS["reverse"].call([whole])
    assert isinstance(reverse, str)
    assert len(reverse) == len(whole)
    assert FUNCTIONS["substr"].call([whole, 1, 1]) == (text + text)[1]


@cases(
    ("name", "arguments"), [("strlen", []), ("reverse", []), ("substr", [1]), ("pad", [3]), ("substr", [1, 3_000_000])]
)
def test_there_is_an_end_to_text_with_joined_characters(name: str, arguments: list[Value]) -> None:
    whole = "e\u0301" * _MANY + "e"
    with pytest.raises(EvaluationFault, match=r"2,000,001 code points, some of which join .* up to 2,000,000"):
        FUNCTIONS[name].call([whole, *arguments])
    assert FUNCTIONS["substr"].call([whole, 1, 1]) == "e\u0301"
    assert FUNCTIONS["trim"].call([f" {whole} "]) == whole
