"""What one message can make a rule do: no function makes much of little, and FOREACH ends in a broker."""

import gzip
import json
import math
import struct
from dataclasses import replace
from typing import Any

import pytest

from heliograph.rules.bounded_pattern import BoundedPattern
from heliograph.rules.errors import EvaluationFault, RuleEvaluationError
from heliograph.rules.evaluator import LIVE, Bounds, CompiledRule
from heliograph.rules.functions import FUNCTIONS
from heliograph.rules.kept_values import KeptValues
from support.cases import cases

HALF: int = 500_000


def applied(expression: str, payload: str) -> Any:
    return CompiledRule(f'SELECT {expression} AS x FROM "t"').apply({"payload": payload})[0]["x"]


def doubled(**values: object) -> str:
    return json.dumps(values)


@cases(
    ("expression", "payload", "told"),
    [
        ("replace(payload.a, 'a', payload.b)", doubled(a="a" * HALF, b="b" * HALF), "16,777,216 characters"),
        ("join_to_string(payload.a, payload.b)", doubled(a="a" * HALF, b=[0] * HALF), "16,777,216 characters"),
        ("regex_replace(payload.a, 'a+', payload.b)", doubled(a="a" * HALF, b="&" * 900), "more than 16 MiB"),
        ("regex_replace(payload.a, 'a+', payload.b)", doubled(a="a", b="&" * 9000), "more than 1,000 & and"),
        ("regex_match('a', payload)", "(a|b)" * HALF, "longer than the 4,096 allowed"),
        ("regex_match('a', payload)", "a{99999999}", "more than 10,000 steps"),
        ("regex_match('a', payload)", "(?:(?:a{99})b{2,}){100}", "more than 10,000 steps"),
        ("regex_match('a', payload)", "(?x)(?:a{1000}) {1000}", "more than 10,000 steps"),
        ("regex_match('a', payload)", "(?V1)(?:a{1000}[[x](]){1000}", "more than 10,000 steps"),
        ("sprintf(payload)", "~10000n" * 2000, "16,777,216 characters"),
        ("sprintf('~.36b', bitsl(1, 60000))", "", "more than 4,300 digits has no text"),
        ("sprintf('~p', bitsl(1, 60000))", "", "more than 4,300 digits has no text"),
        ("subbits(payload, 800000)", "a" * HALF, "800,000 bits is longer than the 131,072"),
        ("bitsl(bitsl(bitsl(1, 60000), 60000), 60000)", "", "more than 131,072 bits"),
        ("upper(bitsl(1, 60000))", "", "an integer with more than 4,300 digits"),
        ("mongo_date(bitsl(1, 60000))", "", "mongo_date: an integer has more than 4,300 digits"),
        ("map_put(payload, 1, map_new())", "a." * HALF, "more than 500 names"),
        ("kv_store_put('large', payload)", "a" * HALF, "at most 65,536 bytes"),
    ],
)
def test_little_does_not_become_much(expression: str, payload: str, told: str) -> None:
    with pytest.raises(RuleEvaluationError, match=told):
        applied(expression, payload)


@cases("twice", ["x{0}+x{0}", "concat(x{0}, x{0})"])
def test_fields_that_double_each_other_end(twice: str) -> None:
    fields = ", ".join(f"{twice.format(number)} AS x{number + 1}" for number in range(40))
    with pytest.raises(RuleEvaluationError, match="16,777,216 characters"):
        CompiledRule(f'SELECT payload AS x0, {fields} FROM "t"').apply({"payload": "a" * 1000})


@cases(
    ("pattern", "text"),
    [
        (r"^\d{4}-(?:\d{2}-){2}$", "2026-11-22-"),
        ("^[0-9a-f{(]{64}$", "(" * 64),
        (r"(?i)^(?:[a-z]{2}\)){0,99999}$", "AB)cd)"),
        ("^a{0,99999999}$", "aaa"),
        ("^.{5000}$", "a" * 5000),
    ],
)
def test_usual_repetitions_are_as_good_as_ever(pattern: str, text: str) -> None:
    assert FUNCTIONS["regex_match"].call([text, pattern]) is True


@cases(
    ("term", "told"),
    [
        (b"l" + struct.pack(">I", HALF) + b"j" * (HALF + 1), "more than 50,000 terms"),
        (b"o" + struct.pack(">IB", HALF, 0) + b"\xff" * HALF, "an integer of 500,000 bytes"),
    ],
)
def test_terms_that_expand_are_refused(term: bytes, told: str) -> None:
    with pytest.raises(EvaluationFault, match=told):
        FUNCTIONS["term_decode"].call([b"\x83" + term])


def test_what_is_expanded_has_an_end() -> None:
    with pytest.raises(EvaluationFault, match="more than 16 MiB would come out"):
        FUNCTIONS["gunzip"].call([gzip.compress(b"a" * (17 << 20))])


def test_a_pattern_that_is_slow_on_some_texts_gets_less_time_and_then_more_again() -> None:
    pattern = BoundedPattern(b"^(a|aa)+$")
    slow = b"a" * 60 + b"!"
    allowed = [pattern.allowed_s(slow)]
    for _ in range(5):
        with pytest.raises(EvaluationFault, match="takes too long"):
            pattern.search(slow)
        allowed.append(pattern.allowed_s(slow))
    assert allowed == sorted(allowed, reverse=True)
    assert 0 < allowed[-1] <= allowed[0] / 10
    for _ in range(200):
        assert pattern.search(b"aaa") is not None
    assert pattern.allowed_s(slow) == pytest.approx(allowed[0], rel=0.01)


def test_a_store_forgets_the_bytes_of_what_is_replaced_and_deleted() -> None:
    store = KeptValues()
    for _ in range(3000):  # 150 MB in all, were they not replaced
        store.put("key", "v" * 50_000)
    store.remove("key")
    for number in range(1117):
        store.put(number, "v" * 60_000)
    with pytest.raises(EvaluationFault, match="64 MiB already"):
        store.put(1117, "v" * 65_000)
    with pytest.raises(EvaluationFault, match="at most 65,536 bytes"):
        store.put("list", [["v" * 100] * 100] * 100)


def test_foreach_in_a_broker_goes_through_so_many_elements() -> None:
    rule = CompiledRule('FOREACH payload.a AS e DO e FROM "t"')
    many: dict[str, Any] = {"payload": doubled(a=[1] * (LIVE.elements_max + 1))}
    assert len(rule.apply(many)) == LIVE.elements_max + 1, "elsewhere nobody waits"
    rule.bounds = replace(LIVE, cpu_s_max=math.inf)  # a slow machine may need more time for as many as are allowed
    with pytest.raises(RuleEvaluationError, match="10,001 elements; at most 10,000"):
        rule.apply(many)
    assert len(rule.apply({"payload": doubled(a=[1] * LIVE.elements_max)})) == LIVE.elements_max


def test_foreach_in_a_broker_takes_so_much_time() -> None:
    rule = CompiledRule('FOREACH payload.a AS e DO e FROM "t"')
    rule.bounds = Bounds(10_000, -1.0)
    with pytest.raises(RuleEvaluationError, match="stopped behind 0 of 100 elements"):
        rule.apply({"payload": doubled(a=[1] * 100)})
