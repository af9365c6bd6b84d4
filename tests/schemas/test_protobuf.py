"""Protobuf: text compiled in this process, messages to maps and back."""

import pytest

from heliograph.rules.schemas import SchemaError
from heliograph.rules.schemas.protobuf import ProtobufSchema
from heliograph.rules.schemas.settings import SchemaSourceError
from heliograph.rules.values import Value
from support.cases import cases

SOURCE = """\
syntax = "proto3";
package weather.v1;
enum Level { LOW = 0; HIGH = 1; }
message Station {
  string id = 1;
  double temperature = 2;
  int64 count = 3;
  bool on = 4;
  repeated Station near = 5;
  map<string, int32> marks = 6;
  bytes raw = 7;
  Level level = 8;
  optional int32 floor = 9;
  oneof power { int32 volts = 10; string source = 11; }
  map<int32, Station> by_number = 12;
  repeated float gusts = 13;
  uint64 big = 14;
  message Place { int32 x = 1; }
  Place place = 15;
  map<bool, Level> levels = 16;
  uint32 small = 17;
}
message Other { }
"""
SCHEMA = ProtobufSchema("p", {"schema": SOURCE}, "schema")

NOTHING: dict[str, Value] = {
    "id": "",
    "temperature": 0.0,
    "count": 0,
    "on": False,
    "raw": "",
    "level": "LOW",
    "big": 0,
    "small": 0,
}
EVERYTHING: dict[str, Value] = {
    "id": "Zürich",
    "temperature": -1.5,
    "count": -(2**60),
    "on": True,
    "near": [{**NOTHING, "id": "a", "place": {"x": 0}}],
    "marks": {"one": 1},
    "raw": b"\xff",
    "level": "HIGH",
    "floor": 0,
    "volts": 0,
    "by_number": {"-5": {**NOTHING, "id": "b"}},
    "gusts": [1.5, "nan", "-infinity"],
    "big": 2**64 - 1,
    "place": {"x": 7},
    "levels": {"true": "HIGH"},
    "small": 2**32 - 1,
}


def test_a_message_comes_back_as_it_was() -> None:
    assert SCHEMA.decode(SCHEMA.encode(EVERYTHING, "Station"), "Station") == EVERYTHING


def test_what_was_not_sent() -> None:
    assert SCHEMA.decode(b"", "Station") == NOTHING
    assert SCHEMA.decode(SCHEMA.encode({"level": 9}, "Station"), "Station") == {**NOTHING, "level": 9}


@cases("name", ["Station", "weather.v1.Station"])
def test_names_of_messages(name: str) -> None:
    assert SCHEMA.decode(b"", name) == NOTHING
    assert SCHEMA.decode(b"", "Station.Place") == {"x": 0}
    assert {name, "Station.Place", "Other"} <= SCHEMA.message_types


def test_a_message_that_is_not_named_or_not_there() -> None:
    with pytest.raises(SchemaError, match="name one of its messages: Station, Other"):
        SCHEMA.decode(b"")
    with pytest.raises(SchemaError, match="it has no message 'X'; there are: Station, Other"):
        SCHEMA.check(b"", "X")
    only = ProtobufSchema("p", {"schema": 'syntax = "proto3"; message A { int32 a = 1; }'}, "schema")
    assert only.decode(b"\x08\x05") == {"a": 5}


@cases(
    ("value", "problem"),
    [
        ({"id": 1}, "at id: it must be a string of valid UTF-8, not the integer 1"),
        ({"nope": 1}, "Station has no field 'nope'; there are: id, temperature"),
        ({"volts": 1, "source": "x"}, "source and volts exclude each other"),
        ({"big": -1}, "at big: the integer -1 does not fit the field"),
        ({"small": 2**32}, "at small: the integer 4294967296 does not fit the field"),
        ({"level": "MIDDLE"}, "at level: the string 'MIDDLE' is no Level; there are: LOW, HIGH"),
        ({"near": [{}, {"id": 1}]}, r"at near\[2\].id: it must be a string"),
        ({"near": {}}, "at near: it must be an array, not the map {}"),
        ({"marks": {"a": "x"}}, "at marks.a: it must be an integer, not the string 'x'"),
        ({"by_number": {"x": {}}}, "at by_number: the key 'x' must be an integer"),
        ({"levels": {"x": "LOW"}}, "at levels: the key 'x' must be true or false"),
        ({"count": 1.0}, "at count: it must be an integer, not the float 1.0"),
        ({"on": 1}, "at on: it must be a boolean, not the integer 1"),
        ({"temperature": 10**400}, "at temperature: .* does not fit the field"),
        ({"place": {"x": None}}, "at place.x: it must be an integer, not null"),
        ([], r"a Station must be a map, not the array \[\]"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(value: Value, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        SCHEMA.encode(value, "Station")
    assert SCHEMA.check(value, "Station") is not None


def test_bytes_that_are_no_message() -> None:
    assert SCHEMA.check(b"\xff\xff", "Station") == "these are not bytes of the Protobuf message Station"


def test_a_required_field_of_proto2() -> None:
    schema = ProtobufSchema("p", {"schema": 'syntax = "proto2"; message A { required int32 a = 1; }'}, "schema")
    assert schema.check({}) == "the Protobuf message A lacks a"
    assert schema.check(b"") == "the Protobuf message A lacks a"
    assert schema.check({"a": 1}) is None


def test_files_that_import_one_another() -> None:
    files = {
        "main.proto": 'syntax = "proto3"; import "parts/part.proto"; import "google/protobuf/timestamp.proto";'
        "message Main { parts.Part part = 1; google.protobuf.Timestamp at = 2; }",
        "parts/part.proto": 'syntax = "proto3"; package parts; message Part { int32 n = 1; }',
    }
    schema = ProtobufSchema("p", files, "main.proto")
    value: Value = {"part": {"n": 3}, "at": {"seconds": 5, "nanos": 0}}
    assert schema.decode(schema.encode(value, "Main"), "Main") == value


@cases(
    ("files", "problem"),
    [
        ({"schema": 'syntax = "proto3";\nmessage A { strin id = 1; }'}, 'line 2, column 13: "strin" is not defined'),
        ({"schema": 'syntax = "proto3"; import "no.proto"; message A { }'}, "no.proto: File not found"),
        ({"schema": 'syntax = "proto3"; enum E { A = 0; }'}, "it defines no message"),
        ({"schema": 'syntax = "proto3"; message A { }', "../x.proto": ""}, "leads out of its directory"),
    ],
)
def test_a_source_that_does_not_compile(files: dict[str, str], problem: str) -> None:
    with pytest.raises(SchemaSourceError, match=problem):
        ProtobufSchema("bad", files, "schema")
