"""Mistakes in the settings of validations and transformations, as the operator is told of them."""

from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.cases import cases
from support.schemas import SCHEMAS

_LINES = SCHEMAS.count("\n") + 1

VALIDATIONS = [
    ('{ name = v, topics = "t/#", checks = [{ type = json, schema = reading }] }', None),
    ('{ name = "a.b-c_1", topics = ["t/#", u], checks = [{ type = sql, sql = "SELECT *" }] }', None),
    ("{}", "validations.1: the validation has no name: give it one, by which its metrics and log entries are found"),
    ('{ name = "a b", topics = t }', 'validations.1.name: found "a b", expected a name of letters, digits, _, . and -'),
    ("{ name = v }", 'validations.1: the validation "v" has no topics: say which messages it is for'),
    ("{ name = v, topics = [] }", 'validations.1: the validation "v" has no topics'),
    ('{ name = v, topics = "t/#/u" }', 'validations.1.topics: found "t/#/u", expected a topic filter, as in "t/#"'),
    ("{ name = v, topics = [t, 5] }", "validations.1.topics: found a list of 2, expected a topic filter, as in"),
    ("{ name = v, topics = t }", 'validations.1: the validation "v" has no checks; { type = json, schema = NAME }'),
    ("{ name = v, topics = t, checks = [{}] }", "validations.1.checks.1: the check is empty; { type = json"),
    (
        "{ name = v, topics = t, checks = [{ schema = reading }] }",
        "validations.1.checks.1: a check needs a type; { type = json, schema = NAME }",
    ),
    (
        "{ name = v, topics = t, checks = [{ type = xml, schema = reading }] }",
        'validations.1.checks.1.type: found "xml", expected json, avro, protobuf or sql',
    ),
    (
        "{ name = v, topics = t, checks = [{ type = protobuf, schema = device }] }",
        "validations.1.checks.1: a check of type protobuf needs message_type",
    ),
    (
        "{ name = v, topics = t, checks = [{ type = json, schema = reading, sql = x }] }",
        "validations.1.checks.1: a check of type json has no sql",
    ),
    (
        "{ name = v, topics = t, checks = [{ type = json, schema = other }] }",
        'validations.1.checks.1.schema: found "other", but there is no such schema; there are: reading, listed',
    ),
    (
        "{ name = v, topics = t, checks = [{ type = avro, schema = reading }] }",
        'validations.1.checks.1.schema: found "reading", which is of type json, not avro',
    ),
    (
        "{ name = v, topics = t, checks = [{ type = json, schema = asked }] }",
        'validations.1.checks.1.schema: found "asked", which asks another service; a publish does not wait',
    ),
    ("{ name = v, topics = t, checks = [{ type = protobuf, schema = device, message_type = Sample }] }", None),
    ("{ name = v, topics = t, checks = [{ type = protobuf, schema = sparkplug_b, message_type = Payload }] }", None),
    (
        "{ name = v, topics = t, checks = [{ type = protobuf, schema = device, message_type = Simple }] }",
        "validations.1.checks.1.message_type: the schema 'device' has no message 'Simple'; there are: Sample",
    ),
    (
        "{ name = v, topics = t, checks = [{ type = json, schema = sparkplug_b }] }",
        'validations.1.checks.1.schema: found "sparkplug_b", which is of type protobuf, not json',
    ),
    (
        '{ name = v, topics = t, checks = [{ type = sql, sql = "SELECT * FROM t" }] }',
        "validations.1.checks.1.sql: line 1, column 10: unexpected FROM; expected WHERE",
    ),
    (
        "{ name = v, topics = t, checks = [{ type = sql, sql = \"SELECT * WHERE jq('.', payload) = 1\" }] }",
        "validations.1.checks.1.sql: the SQL calls a function that may take long",
    ),
    ("{ name = v, topics = t, failure_action = reject }", "expected drop, disconnect or ignore"),
    ("{ name = v, topics = t, strategy = all }", "expected all_pass or any_pass"),
    ("{ name = v, topics = t, log_failure_at = none }", "log_failure_at: unknown key; did you mean log_failure?"),
    ("{ name = v, topics = t, log_failure.level = loud }", "expected error, warning, notice, info, debug or none"),
]

TRANSFORMATIONS = [
    ("{ name = t, topics = a, operations = [{ key = payload.a.b, value = topic }] }", None),
    ("{ name = t, topics = a, payload_decoder { type = avro, schema = row } }", None),
    ("{ name = t }", 'transformations.1: the transformation "t" has no topics'),
    ("{ name = t, topics = a, operations = [{}] }", "transformations.1.operations.1: the operation is empty; it looks"),
    ("{ name = t, topics = a, operations = [{ key = topic }] }", "operations.1: an operation needs value too, as in"),
    (
        "{ name = t, topics = a, operations = [{ key = user_property, value = topic }] }",
        'operations.1.key: found "user_property", expected topic, qos, retain, payload, payload.PATH',
    ),
    ("{ name = t, topics = a, operations = [{ key = user_property.a.b, value = topic }] }", "operations.1.key: found"),
    ('{ name = t, topics = a, operations = [{ key = "payload.", value = topic }] }', "operations.1.key: found"),
    (
        '{ name = t, topics = a, operations = [{ key = topic, value = "concat([" }] }',
        "transformations.1.operations.1.value: line 1, column 9: the expression ends too early",
    ),
    (
        "{ name = t, topics = a, payload_decoder { type = avro } }",
        "transformations.1.payload_decoder: type = avro needs schema too",
    ),
    (
        "{ name = t, topics = a, payload_encoder { type = json, schema = reading } }",
        "transformations.1.payload_encoder: type = json has no schema",
    ),
    (
        "{ name = t, topics = a, payload_encoder { type = avro, schema = reading } }",
        'payload_encoder.schema: found "reading", which is of type json, not avro',
    ),
    (
        "{ name = t, topics = a, payload_decoder { type = protobuf, schema = device, message_type = Simple } }",
        "1.payload_decoder.message_type: the schema 'device' has no message 'Simple'; there are: Sample",
    ),
    (
        "{ name = t, topics = a, payload_decoder { type = external_http, schema = asked } }",
        'payload_decoder.type: found "external_http", expected none, json, avro or protobuf',
    ),
]

CASES = [("schema_validation.validations", *case) for case in VALIDATIONS]
CASES += [("message_transformation.transformations", *case) for case in TRANSFORMATIONS]


@cases(("setting", "entry", "problem"), CASES, ids=[entry for _, entry, _ in CASES])
def test_mistakes(
    setting: str, entry: str, problem: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = 'schema_registry.schemas.asked { type = external_http, parameters.url = "http://127.0.0.1:9/" }'
    file = tmp_path / "node.conf"
    file.write_text(f"{SCHEMAS}\n{asked}\n{setting} = [\n{entry}\n]\n")
    code = main(["conf", "check", str(file)])
    told = capsys.readouterr()
    if problem is None:
        assert (code, told.err) == (0, "")
        return
    assert code == 1
    assert told.err.startswith(f"heliograph: [config_invalid] {file}:{_LINES + 3}: ")
    assert problem in told.err


def test_a_name_is_there_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = '{ name = v, topics = t, checks = [{ type = sql, sql = "SELECT *" }] }'
    file = tmp_path / "node.conf"
    file.write_text(f"schema_validation.validations = [\n{entry}\n{entry}\n]")
    assert main(["conf", "check", str(file)]) == 1
    path = "schema_validation.validations.2.name"
    assert f'{file}:3: {path}: found "v", which is the name of validation 1 too' in capsys.readouterr().err
