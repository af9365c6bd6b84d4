"""JSON payloads as columns: each payload for itself, whatever its neighbours are."""

import json

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import VariantType
from pyspark.sql.variant_utils import VariantUtils

from heliograph.pipeline.datasource.json_columns import decode_structs, decode_variants
from support.cases import cases

_KIND = pa.struct([("temp", pa.float64()), ("name", pa.string())])


def structs(*payloads: bytes, kind: pa.StructType = _KIND) -> tuple[list[object], list[str | None]]:
    values, errors = decode_structs(pa.array(payloads, pa.binary()), kind)
    assert (values.type, len(values), len(errors)) == (kind, len(payloads), len(payloads))
    return values.to_pylist(), errors.to_pylist()


def test_fields_are_taken_and_others_left() -> None:
    values, errors = structs(b'{"temp": 1, "x": [{"temp": 2}]}', b'{\n"name": "\xc3\xa9\\n"}', b"{}", b"null")
    assert values == [
        {"temp": 1.0, "name": None},
        {"temp": None, "name": "\u00e9\n"},
        {"temp": None, "name": None},
        None,
    ]
    assert errors == [None] * 4


_BAD = [
    b"",
    b" ",
    b"temp",
    b"[1]",
    b"1",
    b'{"temp": "warm"}',
    b'{"temp": 1',
    b'{"temp": 1}}',
    b'{"temp": 1}{"temp": 2}',
    b'{"temp": 1}\n{"temp": 2}',
    b'{"temp": 1},"n":0}\n{"v":{"temp": 2}',
    b'{"temp": 1}, "n": 1',
    b'{"name": "',
    b'{"name": "\xff"}',
    b'{"temp": 1, "temp": 2}',
]


@cases("bad", _BAD)
def test_a_bad_payload_is_null_with_a_reason_and_its_neighbours_are_not_touched(bad: bytes) -> None:
    values, errors = structs(b'{"temp": 1}', bad, b'{"temp": 2}')
    assert values == [{"temp": 1.0, "name": None}, None, {"temp": 2.0, "name": None}]
    assert errors[0] is None
    assert errors[1]
    assert errors[2] is None


@given(
    st.lists(
        st.one_of(
            st.sampled_from(_BAD),
            st.integers(0, 9).map(lambda number: b'{"temp": %d}' % number),
            st.text('{}[]",:n v01\n', max_size=12).map(str.encode),
        ),
        max_size=12,
    )
)
def test_a_payload_means_the_same_alone_and_among_others(payloads: list[bytes]) -> None:
    values, errors = structs(*payloads)
    alone = [structs(payload) for payload in payloads]
    assert values == [value for ((value,), _) in alone]
    assert errors == [error for (_, (error,)) in alone]


def test_reasons_are_sentences() -> None:
    _, errors = structs(b'{"temp": "warm"}', b'{"name": "\xff"}', b'{"temp"')
    assert errors == [
        "field temp changed from number to string",
        "it is not UTF-8",
        "Missing a colon after a name of object member.",
    ]


def test_nested_types_times_and_slices() -> None:
    kind = pa.struct(
        [("t", pa.timestamp("us", tz="UTC")), ("l", pa.list_(pa.field("element", pa.struct([("a", pa.int32())]))))]
    )
    payloads = pa.array([b"{", b'{"t": "2026-01-01T01:00:00+01:00", "l": [{"a": 1}, null]}'], pa.binary())
    values, _ = decode_structs(payloads.slice(1), kind)
    (value,) = values.to_pylist()
    assert value["t"].isoformat() == "2026-01-01T00:00:00+00:00"
    assert value["l"] == [{"a": 1}, None]


def test_variants_hold_whatever_is_in_the_json() -> None:
    kind = to_arrow_type(VariantType(), timezone="UTC")
    given = [{"a": [1, 2.5, None, True], "b": {"c": "x"}}, 3, "text"]
    payloads = [json.dumps(value).encode() for value in given] + [b"{", b"\xff", b"[" * 10_000]
    values, errors = decode_variants(pa.array(payloads, pa.binary()), kind)
    assert values.type == kind
    found = [
        None if one is None else VariantUtils.to_python(one["value"], one["metadata"]) for one in values.to_pylist()
    ]
    assert found == [*given, None, None, None]
    assert errors.is_valid().to_pylist() == [False, False, False, True, True, True]
