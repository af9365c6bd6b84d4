"""Bytes that anybody may send: a schema answers with a value or with its own error, and nothing else."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.rules.schemas import Schema, SchemaError
from heliograph.rules.schemas.registry import build_schema
from heliograph.rules.schemas.settings import SchemaSettings
from heliograph.rules.schemas.sparkplug import EdgeTopic, sparkplug_schema
from heliograph.rules.schemas.sparkplug_births import Births
from heliograph.rules.values import Value
from support.cases import cases
from support.forms import examples

AVRO = """{"type": "record", "name": "r", "fields": [
  {"name": "a", "type": {"type": "array", "items": ["null", "string", "bytes"]}},
  {"name": "m", "type": {"type": "map", "values": "double"}},
  {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
  {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}},
  {"name": "f", "type": {"type": "fixed", "name": "F", "size": 3}},
  {"name": "l", "type": "long"}]}"""
PROTO = """syntax = "proto3";
message M { string s = 1; M m = 2; repeated sint64 n = 3; map<int32, bytes> t = 4; double d = 5; }"""
SCHEMAS = {
    "avro": build_schema(SchemaSettings.of_text("a", "avro", AVRO)),
    "recursive": build_schema(
        SchemaSettings.of_text("n", "avro", '{"type":"record","name":"n","fields":[{"name":"x","type":["null","n"]}]}')
    ),
    "protobuf": build_schema(SchemaSettings.of_text("p", "protobuf", PROTO)),
    "json": build_schema(SchemaSettings.of_text("j", "json", '{"properties": {"a": {"type": "integer"}}}')),
    "sparkplug_b": sparkplug_schema(),
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("amedflsntx"), inner, max_size=3),
    max_leaves=8,
)


@cases("schema", SCHEMAS.values(), ids=SCHEMAS)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.binary(max_size=80))
def test_any_bytes(schema: Schema, data: bytes) -> None:
    try:
        value = schema.decode(data)
    except SchemaError:
        assert schema.check(data) is not None
    else:
        assert schema.check(data) is None
        assert schema.decode(schema.encode(value)) == value


@cases("schema", SCHEMAS.values(), ids=SCHEMAS)
@settings(max_examples=examples(60), deadline=None)
@given(value=VALUES)
def test_any_value(schema: Schema, value: Value) -> None:
    problem = ""
    try:
        schema.encode(value)
    except SchemaError as error:
        problem = str(error)
    assert len(problem) < 1000


@settings(max_examples=examples(60), deadline=None)
@given(data=st.lists(st.tuples(st.sampled_from(["NBIRTH", "NDEATH", "NDATA"]), st.binary(max_size=60)), max_size=5))
def test_any_births(data: list[tuple[str, bytes]]) -> None:
    births = Births(aliases_max=2)
    for kind, payload in data:
        topic = EdgeTopic("g", kind, "e", None)
        births.on_message(topic, payload)
        try:
            births.metrics(topic, payload)
        except SchemaError:
            continue
    assert births.statistics()["sparkplug.aliases"] <= 2
