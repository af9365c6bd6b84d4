"""The broker's engine gives what the bank says, shows the place of failures, and keeps to what it is given."""

import pytest

from heliograph.rules.columns import Columns, MessageColumns
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.values import Value, equal_exactly
from rules.bank import BANK, each_case
from rules.cases import Case


def evaluate(case: Case) -> list[dict[str, Value]]:
    rule = CompiledRule(case.sql)
    return rule.apply(case.columns()) if rule.matches(case.topic) else []


@each_case
def test_case_gives_the_rows_or_the_error_of_the_bank(case: Case) -> None:
    if case.rows is None:
        with pytest.raises(RuleEvaluationError) as raised:
            evaluate(case)
        assert case.error is not None
        assert case.error in str(raised.value)
    else:
        rows = evaluate(case)
        assert equal_exactly(list(rows), list(case.rows)), rows


def test_output_keeps_the_order_of_the_fields() -> None:
    rows = CompiledRule('SELECT qos, topic, payload.f AS a FROM "#"').apply(BANK[0].columns())
    assert [list(row) for row in rows] == [["qos", "topic", "a"]]


def test_star_leaves_an_alias_alone_where_the_message_has_no_such_column() -> None:
    (row,) = CompiledRule('SELECT 1 AS username, 2 AS qos, *, username AS u, qos AS q FROM "#"').apply(
        MessageColumns("t", b"", qos=0)
    )
    assert (row["username"], row["qos"], row["u"], row["q"]) == (1, 0, 1, 0)


def test_error_shows_the_place_in_a_rule_of_several_lines() -> None:
    rule = CompiledRule('SELECT\n  topic,\n\t(payload.temp - 32) / 1.8 AS c\nFROM "#"')
    with pytest.raises(RuleEvaluationError) as raised:
        rule.apply(MessageColumns("t", b'{"temp": null}'))
    assert str(raised.value) == (
        "line 3, column 3: '-' needs two numbers, not null\n"
        "    \t(payload.temp - 32) / 1.8 AS c\n"
        "    \t ^^^^^^^^^^^^^^^^^"
    )


def test_error_names_the_path_that_needed_the_payload() -> None:
    with pytest.raises(RuleEvaluationError, match=r"it is needed for payload\.a\[1\]\.'b c'"):
        CompiledRule("SELECT payload.a[1].'b c' AS x FROM \"#\"").apply(MessageColumns("t", b"{"))


def test_two_rules_share_one_decoded_payload_without_changing_it() -> None:
    columns = MessageColumns("t", b'{"l": [1, 2], "o": {"a": 1}}')
    edit = CompiledRule(
        'SELECT payload, payload.l AS l, 9 AS l[1], payload.o AS o, 9 AS o.a, 9 AS payload.l[1] FROM "#"'
    )
    assert edit.apply(columns)[0]["l"] == [9, 2]
    document = columns.document()
    assert document == {"l": [1, 2], "o": {"a": 1}}
    assert columns.document() is document
    assert CompiledRule('SELECT payload.l AS l FROM "#"').apply(columns) == [{"l": [1, 2]}]


def test_payload_is_decoded_only_by_rules_that_look_into_it() -> None:
    columns = MessageColumns("t", b"no JSON")
    assert CompiledRule("SELECT payload FROM \"#\" WHERE topic = 't'").apply(columns) == [{"payload": "no JSON"}]


def test_columns_may_be_plain_values() -> None:
    rule = CompiledRule('SELECT reason, payload.a AS a, nothing FROM "#"')
    assert (
        repr(rule.apply({"reason": "normal", "payload": '{"a": 1}'}))
        == "[{'reason': 'normal', 'a': 1, 'nothing': undefined}]"
    )
    assert rule.apply(Columns({"payload": {"a": 2}}))[0]["a"] == 2


def test_all_columns_of_plain_values() -> None:
    assert CompiledRule('SELECT * FROM "#"').apply({"a": 1, "b": b"x"}) == [{"a": 1, "b": "x"}]


def test_unnamed_fields_get_names_that_no_variable_has() -> None:
    (row,) = CompiledRule('SELECT topic, 1 + 1, upper(topic) FROM "#"').apply(MessageColumns("t", b""))
    assert row == {"topic": "t", "_2": 2, "_3": "T"}


def test_deep_payload_fails_the_rule_and_nothing_else() -> None:
    deep = b'{"a":' * 1_020 + b"1" + b"}" * 1_020
    with pytest.raises(RuleEvaluationError, match="nested too deeply"):
        CompiledRule('SELECT payload.a = payload.a AS x FROM "#"').apply(MessageColumns("t", deep))


def test_rule_has_a_telling_repr() -> None:
    assert repr(CompiledRule("SELECT  a\nFROM t")) == "CompiledRule('SELECT a FROM t')"


def test_metadata_is_the_rules_own_while_the_message_is_shared() -> None:
    columns = MessageColumns("t", b'{"l": [1]}')
    sql = 'SELECT metadata.rule_id AS r, * FROM "#" WHERE metadata.rule_id = r'
    for name in ("one", "two"):
        (row,) = CompiledRule(sql, metadata={"rule_id": name}).apply(columns)
        assert (row["r"], row["metadata"]) == (name, {"rule_id": name})
    assert "metadata" not in CompiledRule('SELECT * FROM "#"').apply(columns)[0]
    (row,) = CompiledRule('FOREACH payload.l AS x FROM "#"', metadata={"rule_id": "one"}).apply(columns)
    assert row["metadata"] == {"rule_id": "one"}
    (row,) = CompiledRule('FOREACH payload.l AS metadata DO metadata FROM "#"', {"rule_id": "one"}).apply(columns)
    assert row == {"metadata": 1}
    (row,) = CompiledRule('SELECT 1 AS metadata, metadata + 1 AS x FROM "#"', {"rule_id": "one"}).apply(columns)
    assert row == {"metadata": 1, "x": 2}
