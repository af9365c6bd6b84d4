"""Properties of values: their order, their text, and JSON both ways."""

import json
import math
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.rules.columns import MessageColumns
from heliograph.rules.errors import EvaluationFault
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.json_text import decode_exactly, decode_json, encode_exactly, encode_json, text_of
from heliograph.rules.values import (
    UNDEFINED,
    Value,
    bytes_of,
    compare,
    equal_exactly,
    fixed_text,
    float_text,
    order_of,
    string_of,
)
from support.cases import cases

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
finite_floats = st.floats(allow_nan=False, allow_infinity=False)
strings = st.one_of(texts, st.binary(max_size=4).map(string_of))
json_values: st.SearchStrategy[Value] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.integers(-3, 3), finite_floats, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=6,
)
values: st.SearchStrategy[Value] = st.one_of(json_values, strings, st.just(UNDEFINED))


@given(values, values, values)
def test_order_is_total(one: Value, two: Value, three: Value) -> None:
    assert order_of(one, two) == -order_of(two, one) or order_of(one, two) * order_of(two, one) < 0
    assert order_of(one, one) == 0
    if order_of(one, two) <= 0 and order_of(two, three) <= 0:
        assert order_of(one, three) <= 0


@given(values, values)
def test_exactly_equal_values_compare_equal(one: Value, other: Value) -> None:
    assert equal_exactly(one, one)
    if equal_exactly(one, other):
        assert order_of(one, other) == 0


@given(strings, strings)
def test_strings_order_as_their_bytes(one: str | bytes, other: str | bytes) -> None:
    one_bytes, other_bytes = bytes_of(one), bytes_of(other)
    assert order_of(one, other) == (one_bytes > other_bytes) - (one_bytes < other_bytes)


@given(values, st.sampled_from(["=", "!=", "<>", "<", ">", "<=", ">="]))
def test_comparison_with_one_undefined_side_is_false(value: Value, operator: str) -> None:
    if value is not UNDEFINED:
        assert compare(operator, value, UNDEFINED) is False
        assert compare(operator, UNDEFINED, value) is False


@given(json_values)
def test_json_keeps_integers_and_floats_apart(value: Value) -> None:
    assert equal_exactly(decode_json(json.dumps(value)), value)
    assert equal_exactly(decode_json(encode_json(value)), value)


@given(st.one_of(values, st.lists(values, max_size=3), st.dictionaries(texts, values, max_size=3)))
def test_exact_json_text_tells_every_value(value: Value) -> None:
    assert equal_exactly(decode_exactly(encode_exactly(value)), value)


@given(finite_floats)
def test_text_of_a_float_is_plain_and_within_ten_decimals(number: float) -> None:
    text = float_text(number)
    assert "e" not in text
    assert 1 <= len(text.partition(".")[2]) <= 10
    assert math.isclose(float(text), number, rel_tol=1e-15, abs_tol=0.5e-10 * (1 + 1e-6))


@given(values)
def test_every_value_has_a_text(value: Value) -> None:
    assert isinstance(text_of(value), str | bytes)


@cases("text", ["", "NaN", "Infinity", "1e400", '"\\ud800"', "01", "1 2", "[1,]", b'"\xff"', "'a'"])
@cases("tail", ["", " " + "9" * 30])
def test_what_is_no_json_is_refused_by_both_readers(text: str | bytes, tail: str) -> None:
    # The tail of digits makes the second reader take the text; alone it would be a document.
    whole = text + tail if isinstance(text, str) else text + tail.encode()
    if whole != " " + "9" * 30:
        with pytest.raises(EvaluationFault, match="not valid JSON"):
            decode_json(whole)


@cases(
    "inner", ["NaN", "Infinity", "-Infinity", "1e400", '"\\ud800"', '"\\udfff\\ud800"', '"\\ud800a"', "01", "+1", "'a'"]
)
def test_long_digits_do_not_let_bad_json_in(inner: str) -> None:
    for text in (f"[{inner}]", f"[{'9' * 30}, {inner}]"):
        with pytest.raises(EvaluationFault, match="not valid JSON"):
            decode_json(text)


def test_json_with_long_digits_is_read_exactly() -> None:
    text = f'{{"a": {"9" * 400}, "b": 1.0, "c": "\\ud83d\\ude00", "d": -0.0}}'
    value = decode_json(text)
    assert equal_exactly(value, {"a": 10**400 - 1, "b": 1.0, "c": "😀", "d": -0.0})
    assert encode_json(value) == f'{{"a":{"9" * 400},"b":1.0,"c":"😀","d":-0.0}}'


def test_strings_that_are_not_utf8_have_no_json_text() -> None:
    with pytest.raises(EvaluationFault, match="not valid UTF-8"):
        encode_json({"a": b"\xff"})


@cases("decimals", [1022, 1023, 1024, 1073, 1074, 10_000])
def test_a_float_has_as_many_decimals_as_it_is_asked_for(decimals: int) -> None:
    rule = CompiledRule(f"SELECT sprintf('~.{decimals}f', 1.5) AS text FROM \"#\"")
    assert rule.apply(MessageColumns("t", b"")) == [{"text": "1.5" + "0" * (decimals - 1)}]
    half = math.ldexp(1.0, -min(decimals + 1, 1074))
    exact = Context(prec=11_000, rounding=ROUND_HALF_UP)
    for number in (half, -half, half * 3, 1.7e308):
        expected = Decimal(number).quantize(Decimal(1).scaleb(-decimals), context=exact)
        assert fixed_text(number, decimals) == format(expected, "f")
