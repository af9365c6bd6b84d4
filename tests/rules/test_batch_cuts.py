"""Short cuts for batches do what evaluator and conversion do one after the other, or leave it to them."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.rules.columns import STORED_NAMES, MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.spark.contexts import evaluating
from heliograph.rules.spark.plan import plan_rule
from heliograph.rules.spark.row_evaluator import OutputColumns, RowEvaluator
from heliograph.rules.spark.rows import generating_function, rule_function, struct_of
from heliograph.rules.values import Value
from support.cases import cases

SIMPLE = (
    "SELECT payload.a AS a FROM 't'",
    "SELECT payload.a AS a, topic, 'x' AS y, payload.a AS z, 1.5 AS f, true AS yes FROM 't' WHERE payload.b > 10",
    "SELECT payload.a AS a, clientid FROM 't' WHERE 10 <= payload.b AND (payload.c = 'x' OR qos != 1)",
    "SELECT payload.a AS a, username, timestamp, unknown FROM 't' WHERE payload.c <> 'y' AND topic = 't'",
    "SELECT payload.b AS a, payload, publish_received_at AS at FROM 't' WHERE username = 'u'",
    "SELECT payload.a AS a, payload.b AS a FROM 't'",
)
OTHERS = (
    "SELECT payload.a AS a, flags FROM 't'",
    "SELECT payload.a + 1 AS a FROM 't'",
    "SELECT payload.a AS a, metadata FROM 't'",
    "SELECT payload.a.b AS a FROM 't'",
)
TYPES = ("bigint", "double", "string", "boolean", "int", "binary", "timestamp", "decimal(9, 2)", None)
NUMBERS = [
    "1",
    "11",
    "10",
    "1.5",
    "-0.0",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "1e400",
]
VALUES = st.sampled_from([*NUMBERS, "1" + "0" * 30, '"x"', '"10"', '"1.5"', '"é"', "true", "null", "[]", "{}", "[1]"])
PAYLOADS = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES).map(
        lambda keys: ("{" + ",".join(f'"{key}":{text}' for key, text in keys.items()) + "}").encode()
    ),
    st.sampled_from([b"", b"{", b"[]", b"1", b'"text"', b"\xff", b'{"a":\xff}', b'{"a":1,"a":2,"b":20}', b" {} "]),
)
MESSAGES = st.tuples(PAYLOADS, st.sampled_from([0, 1]), st.sampled_from([None, "u"]))


def _planned(sql: str, kind: str | None) -> tuple[RowEvaluator, OutputColumns, tuple[str, ...]]:
    plan = plan_rule(sql, {"a": kind} if kind is not None else None)
    return RowEvaluator(plan.rule.text, plan.outputs, None, Environment()), plan.outputs, plan.reads


@cases("sql", SIMPLE)
def test_simple_rules_have_one(sql: str) -> None:
    assert _planned(sql, None)[0].cut is not None


@cases("sql", OTHERS)
def test_others_have_none(sql: str) -> None:
    assert _planned(sql, None)[0].cut is None


@given(st.sampled_from(SIMPLE), st.sampled_from(TYPES), st.lists(MESSAGES, max_size=5), st.integers(0, 2))
def test_both_ways_give_the_same(
    sql: str, kind: str | None, given: list[tuple[bytes, int, str | None]], left_out: int
) -> None:
    evaluator, outputs, reads = _planned(sql, kind)
    messages = [
        MessageColumns("t", payload, qos, clientid="c", username=username, received_at=1_700_000_000_123_456)
        for payload, qos, username in given
    ]
    columns = dict(zip(STORED_NAMES, zip(*(one.message for one in messages), strict=True), strict=False))
    types = {"payload": pa.binary(), "received_at": pa.int64(), "qos": pa.int8()}
    # a slice of a batch, as Spark may give it, has the bytes of the others in its buffer
    arrays = [pa.array(columns.get(name, ()), types.get(name, pa.string())).slice(left_out) for name in reads]
    if not reads:
        return
    expected = struct_of([evaluator.evaluate(one) for one in messages[left_out:]], outputs)
    assert rule_function(sql, outputs, reads)(*arrays).to_pylist() == expected.to_pylist()


def test_one_long_integer_in_a_batch_is_exact_and_harms_no_other() -> None:
    _, outputs, reads = _planned(SIMPLE[0], "string")
    payloads = [b'{"a": 1}', b'{"a": 123456789012345678901}', b"no JSON", b'{"a": 2.5}']
    found = rule_function(SIMPLE[0], outputs, reads)(pa.array(payloads, pa.binary())).to_pylist()
    assert [row["c0"] for row in found] == ["1", "123456789012345678901", None, "2.5"]
    assert [row["passed"] for row in found] == [True, True, None, True]
    assert "not valid JSON" in found[2]["error"]


@cases("sql", ['SELECT abs(payload.a) AS a FROM "#"', 'FOREACH payload.a AS e DO e AS a FROM "#"'])
def test_whatever_a_rule_raises_fails_that_message_only(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apply = CompiledRule.apply

    def faulty(rule: CompiledRule, columns: MessageColumns) -> list[dict[str, Value]]:
        if columns.message[1] == b"{}":
            raise OverflowError("a number is too large")
        return apply(rule, columns)

    monkeypatch.setattr(CompiledRule, "apply", faulty)
    function = generating_function if sql.startswith("FOREACH") else rule_function
    payloads = pa.array([b"{}", b'{"a": 1}' if function is rule_function else b'{"a": [1]}'], pa.binary())
    failed, passed = function(sql, (("a", "bigint"),), ("payload",))(payloads).to_pylist()
    assert (failed["passed"], failed["error"]) == (None, "OverflowError('a number is too large')")
    assert passed["passed"]


def test_cases_share_what_may_be_output_and_fail_alone() -> None:
    rules = ['SELECT payload AS p FROM "#"'] * 3 + ["SELECT nonsense"]
    columns = [f'{{"payload": "{"x" * length}"}}' for length in (50, 60, 10, 1)]
    arrays = [pa.array(rules), pa.array(columns), pa.array(["{}"] * 4)]
    found = evaluating((), 100)(*arrays).to_pylist()
    assert [outcome["rows"] is not None for outcome in found] == [True, False, True, False]
    assert "is longer than the" in found[1]["error"]
