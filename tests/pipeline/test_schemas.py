"""Schemas in pipelines: the section of a file, rules with schemas in Spark's workers, payloads as typed columns."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from heliograph.cli.main import main
from heliograph.hocon.document import parse_file
from heliograph.pipeline.datasource.schemas import arrow_type, decode_column, read_schemas
from heliograph.pipeline.errors import RuleFileError
from heliograph.pipeline.files.section import FileSection
from heliograph.rules.columns import MessageColumns
from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.registry import build_schema
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.spark import apply_rule, evaluate_on_spark
from heliograph.rules.values import Value
from support.confluent import confluent_registry

AVRO = """\
{"type": "record", "name": "Reading", "namespace": "weather", "fields": [
  {"name": "id", "type": "string"},
  {"name": "temperature", "type": ["null", "double"]},
  {"name": "day", "type": {"type": "int", "logicalType": "date"}},
  {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
  {"name": "count", "type": ["int", "long"]},
  {"name": "odd", "type": ["null", "long", "string"]},
  {"name": "parts", "type": {"type": "array", "items": {"type": "record", "name": "Part", "fields": [
    {"name": "n", "type": "int"}, {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}}]}}},
  {"name": "code", "type": "Code"},
  {"name": "marks", "type": {"type": "map", "values": "boolean"}}
]}"""
PROTO = """\
syntax = "proto3";
enum Level { LOW = 0; HIGH = 1; }
message Reading {
  string id = 1;
  double temperature = 2;
  optional int32 floor = 3;
  oneof power { int64 volts = 4; string source = 5; }
  repeated float gusts = 6;
  map<string, Level> levels = 7;
  message Place { uint64 x = 1; }
  Place place = 8;
  repeated Place places = 9;
  Reading before = 10;
  bytes raw = 11;
  uint32 small = 12;
}
"""
SETTINGS = (
    SchemaSettings.of_text("a", "avro", AVRO),
    SchemaSettings.of_text("p", "protobuf", PROTO),
    SchemaSettings.of_text("j", "json", '{"properties": {"n": {"type": "integer"}}}'),
)


def section_of(directory: Path, text: str) -> FileSection:
    """A pipeline file."""
    file = directory / "pipeline.hocon"
    file.write_text(text)
    return FileSection(parse_file(file))


def test_the_section_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "r.avsc").write_text(AVRO)
    section = section_of(
        tmp_path,
        f'schemas {{ a {{ type = avro, source {{ type = file, path = "r.avsc" }} }}\n'
        f'p {{ type = protobuf, source = """{PROTO}""" }} }}',
    )
    assert read_schemas(section) == SETTINGS[:2]
    assert read_schemas(section_of(tmp_path, "rules {}")) == ()


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ('\n a { type = avro, source = "{" }', "pipeline.hocon:2: schemas.a: not valid JSON"),
        ("\n a { type = avro }", "pipeline.hocon:2: schemas.a: a schema of type avro needs source"),
        ('\n a { typ = avro, source = "{}" }', "pipeline.hocon:2: schemas.a.typ: unknown key; did you mean type"),
    ],
)
def test_mistakes_show_file_and_line(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(RuleFileError) as caught:
        read_schemas(section_of(tmp_path, f"schemas {{{text}\n}}"))
    assert mistake in str(caught.value)


def test_the_registry_of_a_node_configuration(tmp_path: Path) -> None:
    plain_schema = 'schemas { j { type = json, source = "{}" } }'
    text = f"schema_registry {{ {plain_schema} sparkplug_b {{ metric_messages = true }} external"
    registry = 'hub { type = confluent, url = "http://hub:8081", auth { username = me, password = secret } }'
    (plain, hub) = read_schemas(section_of(tmp_path, f"{text} {{ {registry} }} }}\nnode.name = n"))
    assert (plain.name, plain.type, hub.name, hub.type) == ("j", "json", "hub", "confluent")
    assert hub.service is not None
    assert (hub.service.url, hub.service.basic_auth) == ("http://hub:8081", ("me", "secret"))
    assert "secret" not in repr(hub)
    both = f'schemas {{ hub {{ type = json, source = "{{}}" }} }}\n{text} {{ {registry} }} }}'
    for wrong, mistake in (
        (f"{text} {{ hub {{ type = confluent }} }} }}", ":1: schema_registry.external.hub: a registry needs url"),
        (f"{text} {{ hub {{ url = nowhere }} }} }}", ":1: schema_registry.external.hub.url"),
        (both, ":2: schema_registry.external.hub: the name hub is given to two schemas"),
        ('schemas { sparkplug_b { type = json, source = "{}" } }', "sparkplug_b is built in"),
    ):
        with pytest.raises(RuleFileError) as caught:
            read_schemas(section_of(tmp_path, wrong))
        assert mistake in str(caught.value)


@pytest.mark.slow
def test_messages_tagged_by_a_registry_are_decoded_by_rules_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    schema = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
    tagged = b"\0" + (7).to_bytes(4, "big") + b"\x54"
    rule = "SELECT avro_decode('hub', payload) AS all, schema_decode('hub', payload) AS r, r.n AS n FROM \"a/#\""
    with confluent_registry({7: schema}) as url:
        text = f'schema_registry.external.hub {{ type = confluent, url = "{url}" }}'
        settings = read_schemas(section_of(tmp_path, text))
        payloads = (tagged, tagged.replace(b"\x07", b"\x08"), b"plain")
        cases = [(rule, MessageColumns("a/b", payload, 1, False, "c", None, {}, bytes(16), 0)) for payload in payloads]
        found, unknown, untagged = evaluate_on_spark(spark, cases, settings)
    assert found.rows == [{"all": {"n": 42}, "r": {"n": 42}, "n": 42}]
    assert "Schema not found" in (unknown.error or "")
    assert "the data is not tagged" in (untagged.error or "")


def test_rules_are_tried_with_the_schemas_of_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    # What else a node's configuration says is passed over.
    file.write_text('schema_registry.schemas.one { type = avro, source = "\\"int\\"" }\nnode.name = "n@127.0.0.1"\n')
    rule = "SELECT schema_decode('one', payload) AS n FROM \"a\""
    arguments = ["--schemas", str(file)]
    assert main(["rule", "test", "--sql", rule, "--payload", "T", *arguments]) == 0
    assert capsys.readouterr().out == '[{"n":42}]\n'
    assert main(["rule", "explain", rule, *arguments]) == 0
    assert capsys.readouterr().out.endswith("schema   one, avro\n")
    file.write_text("rules {}")
    assert main(["rule", "test", "--sql", rule, *arguments]) == 1
    assert "has neither a section schemas nor schema_registry" in capsys.readouterr().err


def test_avro_columns() -> None:
    schema = build_schema(SETTINGS[0])
    value: dict[str, Value] = {
        "id": "x",
        "temperature": None,
        "day": 1,
        "at": 1500,
        "price": "-12.30",
        "count": 2**40,
        "odd": "many",
        "parts": [{"n": 1, "code": "ab"}],
        "code": "cd",
        "marks": {"m": True},
    }
    data = schema.encode(value)
    assert from_arrow_type(arrow_type(schema)).simpleString() == (
        "struct<id:string,temperature:double,day:date,at:timestamp,price:decimal(6,2),count:bigint,odd:string,"
        "parts:array<struct<n:int,code:binary>>,code:binary,marks:map<string,boolean>>"
    )
    row, *nothing = decode_column(schema, pa.array([data, None, b"\xff", data + b"x"], pa.binary())).to_pylist()
    assert nothing == [None, None, None]
    assert row == {
        "id": "x",
        "temperature": None,
        "day": date(1970, 1, 2),
        "price": Decimal("-12.30"),
        "count": 2**40,
        "at": datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC),
        "odd": '"many"',
        "parts": [{"n": 1, "code": b"ab"}],
        "code": b"cd",
        "marks": [("m", True)],
    }


def test_protobuf_columns() -> None:
    schema = build_schema(SETTINGS[1])
    value: dict[str, Value] = {
        "id": "x",
        "temperature": 1.5,
        "volts": 0,
        "gusts": [1.5, 2.5],
        "levels": {"a": "HIGH"},
        "raw": b"\xff",
        "place": {"x": 2**64 - 1},
        "places": [{"x": 1}, {}],
        "before": {"id": "y"},
        "small": 2**32 - 1,
    }
    assert from_arrow_type(arrow_type(schema)).simpleString() == (
        "struct<id:string,temperature:double,floor:int,volts:bigint,source:string,gusts:array<float>,"
        "levels:map<string,string>,place:struct<x:decimal(20,0)>,places:array<struct<x:decimal(20,0)>>,before:string,"
        "raw:binary,small:bigint>"
    )
    rows = decode_column(schema, pa.array([None, schema.encode(value), b"\xff", b""], pa.binary())).to_pylist()
    assert rows[0] is rows[2] is None
    assert rows[1] == {
        "id": "x",
        "temperature": 1.5,
        "floor": None,
        "volts": 0,
        "source": None,
        "gusts": [1.5, 2.5],
        "levels": [("a", "HIGH")],
        "place": {"x": Decimal(2**64 - 1)},
        "raw": b"\xff",
        "small": 2**32 - 1,
        "places": [{"x": Decimal(1)}, {"x": Decimal(0)}],
        "before": '{"id":"y","temperature":0.0,"raw":"","small":0}',
    }
    assert rows[3]["place"] is None
    assert rows[3]["places"] == []


def test_other_schemas_have_no_columns() -> None:
    with pytest.raises(SchemaError, match="a schema of type json has no columns"):
        arrow_type(build_schema(SETTINGS[2]))


@pytest.mark.service
def test_rules_with_schemas_give_the_same_in_spark(spark: SparkSession) -> None:
    proto, avro = build_schema(SETTINGS[1]), '{"type":"record","name":"r","fields":[{"name":"n","type":"int"}]}'
    settings = (SchemaSettings.of_text("a", "avro", avro), *SETTINGS[1:])
    cases = [
        ("SELECT map_get('id', schema_decode('p', payload)) AS x FROM \"#\"", proto.encode({"id": "x"})),
        ("SELECT schema_decode('a', payload) AS x FROM \"#\"", b"\4"),
        ("SELECT schema_check('j', payload) AS x FROM \"#\"", b'{"n": "x"}'),
        ("SELECT schema_encode('a', json_decode(payload)) AS x FROM \"#\"", b'{"n": -1}'),
        (
            "FOREACH map_get('gusts', schema_decode('p', payload)) AS g DO g AS x FROM \"#\"",
            proto.encode({"gusts": [1.5, 2.5]}),
        ),
        ('SELECT spb_decode(payload) AS x FROM "#"', b"\x08\x05"),
    ]
    messages = [(sql, MessageColumns("t", payload)) for sql, payload in cases]
    outcomes = evaluate_on_spark(spark, messages, settings)
    assert [outcome.rows for outcome in outcomes] == [
        *([{"x": "x"}], [{"x": {"n": 2}}], [{"x": False}], [{"x": "\1"}], [{"x": 1.5}, {"x": 2.5}]),
        [{"x": {"timestamp": 5}}],
    ], [outcome.error for outcome in outcomes]
    frame = spark.createDataFrame([("t", b"\4"), ("t", b"bad")], "topic string, payload binary")
    sql = "SELECT map_get('n', schema_decode('a', payload)) AS n FROM \"#\""
    rows = apply_rule(frame, sql, {"n": "int"}, schemas=settings[:1]).collect()
    assert [row["n"] for row in rows] == [2]
