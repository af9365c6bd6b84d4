"""JSON Schema."""

import pytest

from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.json_schema import JsonSchema
from heliograph.rules.schemas.settings import SchemaSourceError
from heliograph.rules.values import Value
from support.cases import cases

SCHEMA = JsonSchema(
    "j",
    '{"type": "object", "required": ["a"], "properties": {"a": {"type": "integer", "maximum": 5},'
    ' "s": {"pattern": "^(a+)+$"}, "list": {"items": {"type": "string"}}}}',
)


@cases(
    ("data", "problem"),
    [
        (b'{"a": 1}', None),
        ('{"a": 1}', None),
        ({"a": 1}, None),
        (b'{"a": 7}', "at a: 7 is greater than the maximum of 5"),
        ({"a": 2**70}, f"at a: {2**70} is greater than the maximum of 5"),
        (b'{"b": 7}', '"a" is a required property'),
        (b'{"a": 1, "list": ["x", 5]}', 'at list.1: 5 is not of type "string"'),
        (b"[", "not valid JSON: unexpected end of data: line 1 column 2 (char 1)"),
        (5, '5 is not of type "object"'),
    ],
)
def test_checks(data: Value, problem: str | None) -> None:
    assert SCHEMA.check(data) == problem


def test_decoding_and_encoding_check_too() -> None:
    assert SCHEMA.decode(b'{"a": -1180591620717411303424}') == {"a": -(2**70)}
    assert SCHEMA.encode({"a": 1}) == b'{"a":1}'
    with pytest.raises(SchemaError, match="at a: 7 is greater"):
        SCHEMA.decode(b'{"a": 7}')
    with pytest.raises(SchemaError, match="at a: 7 is greater"):
        SCHEMA.encode({"a": 7})
    with pytest.raises(SchemaError, match="not valid UTF-8"):
        SCHEMA.encode({"a": b"\xff"})


def test_what_is_said_of_a_large_value_is_short() -> None:
    assert len(str(SCHEMA.check(b'{"a": 1, "s": "%s"}' % (b"a" * 100_000 + b"b")))) < 400


@cases("draft", ["draft-04", "draft-06", "draft-07"])
def test_older_drafts(draft: str) -> None:
    schema = JsonSchema("j", f'{{"$schema": "http://json-schema.org/{draft}/schema#", "type": "string"}}')
    assert schema.check(b'"x"') is None
    assert schema.check(b"5") is not None


@cases(
    ("source", "problem"),
    [
        ("{", "not valid JSON: .*line 1 column 2"),
        ("5", "a JSON Schema must be an object"),
        ('{"type": "strin"}', 'not a JSON Schema: at type: "strin" is not valid'),
        ('{"properties": {"a": {"pattern": "("}}}', 'at properties.a.pattern: "\\(" is not a "regex"'),
        ('{"$ref": "#/nope"}', "Pointer '/nope' does not exist"),
        ('{"$ref": "http://192.0.2.1/schema"}', "what lies outside of a schema is not fetched"),
        ('{"$ref": "file:///etc/hostname"}', "what lies outside of a schema is not fetched"),
    ],
)
def test_a_source_that_is_no_schema(source: str, problem: str) -> None:
    with pytest.raises(SchemaSourceError, match=problem):
        JsonSchema("bad", source)


def test_why_a_large_value_does_not_fit_is_not_asked_of_every_alternative() -> None:
    choice = JsonSchema("j", '{"anyOf": [{"type": "string"}, {"items": {"type": "string"}}]}')
    assert str(choice.check(b"[1]")).startswith("[1] is not valid under any of the schemas")
    many = b"[" + b"1," * 500_000 + b"1]"  # seconds, and most of a gigabyte
    assert choice.check(many) == "it does not fit the schema (why is explained up to 2,048 bytes, not for 1,000,003)"
    with pytest.raises(SchemaError, match="why is explained up to 2,048 bytes"):
        choice.decode(many)
