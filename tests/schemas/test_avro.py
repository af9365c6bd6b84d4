"""Avro: binary values to values of the language and back."""

import json

import pytest

from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.avro import AvroSchema
from heliograph.rules.schemas.settings import SchemaSourceError
from heliograph.rules.values import Value
from support.cases import cases

STATION = AvroSchema(
    "station",
    json.dumps(
        {
            "type": "record",
            "name": "Station",
            "namespace": "weather",
            "fields": [
                {"name": "id", "type": "string"},
                {"name": "temperature", "type": "double"},
                {"name": "raw", "type": "bytes"},
                {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
                {"name": "count", "type": ["null", "long", "string"], "default": None},
                {"name": "code", "type": {"type": "fixed", "name": "Code", "size": 2}},
                {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
                {"name": "level", "type": {"type": "enum", "name": "Level", "symbols": ["LOW", "HIGH"]}},
                {"name": "gusts", "type": {"type": "map", "values": ["null", "float"]}},
                {"name": "codes", "type": {"type": "array", "items": "Code"}},
            ],
        }
    ),
)
GOOD: dict[str, Value] = {
    "id": "Zürich",
    "temperature": -1.5,
    "raw": b"\xff",
    "price": "-12.30",
    "count": 2**60,
    "code": "ab",
    "at": 1_700_000_000_123,
    "level": "HIGH",
    "gusts": {"n": None, "s": "nan"},
    "codes": ["xy", b"\xff\xfe"],
}


def test_a_value_comes_back_as_it_was() -> None:
    assert STATION.decode(STATION.encode(GOOD)) == GOOD


def test_what_a_union_holds_stands_for_itself() -> None:
    for count in (None, 5, "many"):
        assert STATION.decode(STATION.encode({**GOOD, "count": count})) == {**GOOD, "count": count}
    without = {name: value for name, value in GOOD.items() if name != "count"}
    assert STATION.decode(STATION.encode(without)) == {**GOOD, "count": None}


@cases(
    ("changed", "problem"),
    [
        ({"temperature": "warm"}, "at weather.Station.temperature: the string 'warm' is no double"),
        ({"temperature": True}, "at weather.Station.temperature: the boolean True is no double"),
        ({"count": 2**63}, "at weather.Station.count: the integer 9223372036854775808 fits no branch of its union"),
        ({"price": "1.234"}, "the string '1.234' is no number with at most 2 decimals"),
        ({"price": "12345.67"}, "the string '12345.67' has more than 6 digits"),
        ({"code": "abc"}, "at weather.Station.code: the string b'abc' is no fixed"),
        ({"level": "MIDDLE"}, "at weather.Station.level: the string 'MIDDLE' is no enum"),
        ({"id": None}, "at weather.Station.id: null is no string"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(changed: dict[str, Value], problem: str) -> None:
    assert STATION.check({**GOOD, **changed}) == f"the value does not fit the Avro schema: {problem}"


def test_bytes_that_are_none_of_the_schema() -> None:
    data = STATION.encode(GOOD)
    assert STATION.check(data) is None
    assert STATION.check(data[:-1]) == "these are not bytes of the Avro schema: they end too early"
    assert STATION.check(data + b"\0") == "there are 1 bytes behind the value of the Avro schema"
    assert STATION.check(b"") is not None
    with pytest.raises(SchemaError):
        STATION.decode(b"\xff" * 40)


def test_a_type_that_holds_itself_is_read_to_a_bounded_depth() -> None:
    chain = AvroSchema("chain", '{"type":"record","name":"n","fields":[{"name":"next","type":["null","n"]}]}')
    assert chain.decode(b"\2\2\0") == {"next": {"next": {"next": None}}}
    assert chain.check(b"\2" * 1_000_000) == "the value is nested too deeply"
    deep: Value = None
    for _ in range(5000):
        deep = {"next": deep}
    assert chain.check(deep) == "the value is nested too deeply"


@cases(
    ("source", "problem"),
    [
        ("{", "not valid JSON: .*line 1 column 2"),
        ('{"type": "recrd"}', "not an Avro schema"),
        ('{"type": "array"}', "it has no 'items'"),
        ("5", "not an Avro schema"),
        ('{"type": "array", "items": "null"}', "the items of an array must take bytes"),
    ],
)
def test_a_source_that_is_no_schema(source: str, problem: str) -> None:
    with pytest.raises(SchemaSourceError, match=problem):
        AvroSchema("bad", source)


def test_a_source_that_is_nested_too_deeply() -> None:
    with pytest.raises(SchemaSourceError, match="too deeply"):
        AvroSchema("bad", '{"type": "array", "items": ' * 400 + '"int"' + "}" * 400)
