"""The functions of the schema registry in rules."""

import pytest

from heliograph.rules.columns import MessageColumns
from heliograph.rules.environment import Environment
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas import SchemaRegistry
from heliograph.rules.schemas.registry import build, build_schema
from heliograph.rules.schemas.settings import HttpService, SchemaSettings, SchemaSourceError
from heliograph.rules.spark.row_evaluator import SparkWorker
from heliograph.rules.values import Value
from support.cases import cases

SETTINGS = (
    SchemaSettings.of_text("a", "avro", '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}'),
    SchemaSettings.of_text("p", "protobuf", 'syntax = "proto3"; message M { int32 n = 1; } message O { }'),
    SchemaSettings.of_text("j", "json", '{"properties": {"n": {"type": "integer"}}}'),
)
ENVIRONMENT = Environment(SchemaRegistry(build(SETTINGS)))


def value_of(expression: str, payload: Value = b"") -> Value:
    """What an expression gives for a payload."""
    (row,) = CompiledRule(f'SELECT {expression} AS x FROM "#"', environment=ENVIRONMENT).apply(
        {"topic": "t", "payload": payload}
    )
    return row["x"]


@cases(
    ("expression", "expected"),
    [
        ("schema_encode('a', json_decode('{\"n\":1}'))", "\2"),
        ("schema_encode('p', json_decode('{\"n\":1}'), 'M')", "\x08\x01"),
        ("schema_encode('j', json_decode('{\"n\":1}'))", '{"n":1}'),
        ("schema_decode('a', schema_encode('a', json_decode('{\"n\":-7}')))", {"n": -7}),
        ("schema_decode('p', schema_encode('p', json_decode('{\"n\":-7}'), 'M'), 'M')", {"n": -7}),
        ("schema_decode('j', '{\"n\":1}')", {"n": 1}),
        ("schema_check('a', json_decode('{\"n\":1}'))", True),
        ("schema_check('a', json_decode('{\"n\":\"x\"}'))", False),
        ("schema_check('a', 'no avro')", False),
        ("schema_check('j', '{\"n\":1}')", True),
        ("schema_check('j', '{\"n\":1.5}')", False),
        ("schema_check('j', 'no json')", False),
        ("schema_check('p', json_decode('{\"n\":1}'), 'M')", True),
        ("schema_check('p', json_decode('{\"m\":1}'), 'M')", False),
    ],
)
def test_values(expression: str, expected: Value) -> None:
    assert value_of(expression) == expected


@cases(
    ("expression", "problem"),
    [
        ("schema_decode('none', 'x')", "schema_decode: there is no schema 'none'; there are: a, p, j"),
        ("schema_check('none', 'x')", "schema_check: there is no schema 'none'"),
        ("schema_encode('none', 1)", "schema_encode: there is no schema 'none'"),
        ("schema_check('p', 'x')", "schema_check: name one of its messages: M, O"),
        ("schema_decode('a', 'xyz')", "schema_decode: there are 2 bytes behind"),
        ("schema_encode('a', 1)", "schema_encode: the value does not fit the Avro schema"),
        ("schema_decode('j', '{\"n\":true}')", "schema_decode: at n: true is not of type"),
        ("schema_decode(1, 'x')", "argument 1 must be a string"),
    ],
)
def test_failures(expression: str, problem: str) -> None:
    with pytest.raises(RuleEvaluationError, match=problem):
        value_of(expression)


def test_only_schemas_behind_a_service_may_keep_a_rule_waiting() -> None:
    service = HttpService("http://127.0.0.1:1/")
    external = build_schema(SchemaSettings("x", "external_http", service=service))
    environment = Environment(SchemaRegistry([*build(SETTINGS), external]))
    for name, waits in (("'a'", False), ("'x'", True), ("clientid", True)):
        rule = CompiledRule(f'SELECT schema_decode({name}, payload) FROM "#"', environment=environment)
        assert rule.may_block is waits
    environment.close()


def test_a_worker_of_spark_makes_schemas_once_for_all_rules_that_name_them() -> None:
    worker = SparkWorker()
    first = worker.environment(SETTINGS)
    assert worker.environment(tuple(SETTINGS)) is first
    assert list(worker.environment(SETTINGS[:1]).schemas.all()) == ["a"]
    assert list(worker.environment(SETTINGS).schemas.all()) == ["a", "p", "j"]
    decode = "SELECT schema_decode('p', payload, 'M') AS x FROM \"#\""
    evaluate = worker.row_evaluator(decode, None, None, SETTINGS).evaluate
    assert evaluate(MessageColumns("t", b"\x08\x01")) == (True, None, '{"x":{"n":1}}')
    passed, problem, _ = worker.row_evaluator(decode, None).evaluate(MessageColumns("t", b""))
    assert passed is None
    assert "there is no schema 'p'" in (problem or "")


def test_a_schema_that_cannot_be_made_is_named() -> None:
    with pytest.raises(SchemaSourceError, match="schema bad: not valid JSON"):
        build([SchemaSettings.of_text("bad", "json", "{")])
