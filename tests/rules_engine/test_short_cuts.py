"""Short cuts do what the evaluator does, or leave it to it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.rules.columns import MessageColumns
from heliograph.rules.engine.running import short_cut
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from support.cases import cases

SHORT = (
    "SELECT payload.a AS a FROM 't'",
    "SELECT payload.a AS a, topic, 'x' AS y, payload.a AS z, 1.5 AS f FROM 't' WHERE payload.b > 10",
    "SELECT clientid FROM 't' WHERE 10 <= payload.b AND (payload.a = 'x' OR qos != 1)",
    "SELECT true AS yes FROM 't' WHERE payload.a <> 'y' AND payload.'b' < 1e3 AND topic = 't'",
    "SELECT username FROM 't'",
    "SELECT payload FROM 't' WHERE username = 'u'",
)
LONG = (
    "SELECT * FROM 't'",
    "SELECT payload.a.b AS c FROM 't'",
    "SELECT payload.a FROM 't'",
    "SELECT payload.a AS a, a AS b FROM 't'",
    "SELECT payload.a AS payload, payload.b AS b FROM 't'",
    "SELECT payload.a AS a FROM 't' WHERE a > 1",
    "SELECT payload.a AS a FROM 't' WHERE payload.a = payload.b",
    "SELECT payload.a AS a FROM 't' WHERE payload.a =~ 'x'",
    "SELECT payload.a AS a FROM 't' WHERE NOT payload.a = 1",
    "SELECT payload.a AS a FROM 't' WHERE payload.a = true",
    "SELECT payload.a + 1 AS a FROM 't'",
    "SELECT metadata FROM 't'",
    "FOREACH payload.a AS a FROM 't'",
)
RULES = [rule.replace("1e3", "1000.5") for rule in (*SHORT, *LONG)]
VALUES = st.sampled_from(
    ["1", "11", "10", "1.5", "10.0", '"x"', '"10"', '"y"', "true", "null", "[]", "{}", "[1]", "1" + "0" * 30, '"é"']
)
PAYLOADS = st.one_of(
    st.dictionaries(st.sampled_from(["a", "b", "c"]), VALUES).map(
        lambda keys: ("{" + ",".join(f'"{key}":{text}' for key, text in keys.items()) + "}").encode()
    ),
    st.sampled_from([b"", b"{", b"[]", b"1", b'"text"', b"\xff", b'{"a":\xff}', b'{"a":1,"a":2,"b":20}', b" {} "]),
)


@cases("sql", RULES[: len(SHORT)])
def test_rules_of_the_simple_shape_have_a_short_cut(sql: str) -> None:
    assert short_cut(CompiledRule(sql)) is not None


@cases("sql", RULES[len(SHORT) :])
def test_others_have_none(sql: str) -> None:
    assert short_cut(CompiledRule(sql)) is None


@given(st.sampled_from(RULES[: len(SHORT)]), PAYLOADS, st.sampled_from([0, 1]), st.sampled_from([None, "u"]))
def test_both_ways_give_the_same(sql: str, payload: bytes, qos: int, username: str | None) -> None:
    rule = CompiledRule(sql)
    cut = short_cut(rule)
    assert cut is not None

    def columns() -> MessageColumns:
        return MessageColumns("t", payload, qos, clientid="c", username=username)

    try:
        expected = rule.apply(columns())
    except RuleEvaluationError as error:
        with pytest.raises(RuleEvaluationError, match=f"line {error.place.line}, column {error.place.column}"):
            cut(columns())
    else:
        assert repr(cut(columns())) == repr(expected)


def test_constants_stay_constants() -> None:
    sql = "SELECT 'it\\s \" {x} \n' AS a FROM 't' WHERE payload.a = '\"\"\" + __import__(os)'"
    rule = CompiledRule(sql)
    cut = short_cut(rule)
    assert cut is not None
    columns = MessageColumns("t", b'{"a":"\\"\\"\\" + __import__(os)"}')
    assert cut(columns) == rule.apply(columns) == [{"a": 'it\\s " {x} \n'}]
