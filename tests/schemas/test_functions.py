"""The functions of the schema registry in rules."""

from collections.abc import Iterator

import pytest

from heliograph.rules import CompiledRule, RuleEvaluationError
from heliograph.rules.schemas import INSTALLED
from heliograph.rules.schemas.settings import (
    HttpService,
    SchemaSettings,
    SchemaSourceError,
    build,
    build_schema,
    ensure_installed,
)
from heliograph.rules.values import Value

SETTINGS = (
    SchemaSettings.of_text("a", "avro", '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}'),
    SchemaSettings.of_text("p", "protobuf", 'syntax = "proto3"; message M { int32 n = 1; } message O { }'),
    SchemaSettings.of_text("j", "json", '{"properties": {"n": {"type": "integer"}}}'),
)


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    before = list(INSTALLED.all().values())
    INSTALLED.replace(build(SETTINGS))
    yield
    INSTALLED.replace(before)


def value_of(expression: str, payload: Value = b"") -> Value:
    """What an expression gives for a payload."""
    (row,) = CompiledRule(f'SELECT {expression} AS x FROM "#"').apply({"topic": "t", "payload": payload})
    return row["x"]


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    INSTALLED.replace([*build(SETTINGS), build_schema(SchemaSettings("x", "external_http", service=service))])
    for name, waits in (("'a'", False), ("'x'", True), ("clientid", True)):
        assert CompiledRule(f'SELECT schema_decode({name}, payload) FROM "#"').may_block is waits


def test_what_a_worker_installs() -> None:
    INSTALLED.replace(())
    ensure_installed(SETTINGS)
    first = INSTALLED.get("p")
    ensure_installed(tuple(SETTINGS))
    assert INSTALLED.get("p") is first
    ensure_installed(SETTINGS[:1])
    assert list(INSTALLED.all()) == ["a"]
    ensure_installed(SETTINGS)
    assert INSTALLED.get("p") is first


def test_a_schema_that_cannot_be_made_is_named() -> None:
    with pytest.raises(SchemaSourceError, match="schema bad: not valid JSON"):
        build([SchemaSettings.of_text("bad", "json", "{")])
