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


def test_half_a_pair_of_surrogates_is_no_text_and_stops_nothing() -> None:
    kind = pa.struct([("s", pa.string()), ("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])
    values, errors = structs(rb'{"s": "\ud800", "n": 1}', rb'{"m": {"\ud800": 1}, "n": 2}', b'{"s": "x"}', kind=kind)
    assert values == [
        {"s": None, "m": None, "n": 1},
        {"s": None, "m": None, "n": 2},
        {"s": "x", "m": None, "n": None},
    ]
    assert errors == [r'field s is "\ud800", which is no STRING', "field m is no map", None]


_BAD = [
    b"",
    b" ",
    b"temp",
    b"[1]",
    b"1",
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
            st.sampled_from([b'{"temp": "warm"}', b'{"name": 1.50}', b'{"temp": true, "name": [{"a": "\xc3\xa9"}]}']),
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
        'field temp is "warm", which is no DOUBLE',
        "it is not UTF-8",
        "Missing a colon after a name of object member.",
    ]


def test_a_field_of_another_type_is_null_and_no_other_is() -> None:
    values, errors = structs(b'{"temp": 1, "name": "a"}', b'{"temp": "1 K", "name": "b"}', b'{"temp": [2], "name": 3}')
    assert values == [{"temp": 1.0, "name": "a"}, {"temp": None, "name": "b"}, {"temp": None, "name": "3"}]
    assert errors == [None, 'field temp is "1 K", which is no DOUBLE', "field temp is [2], which is no DOUBLE"]


@cases("text", ["1200", "1.50", "-0", "true", '{"a":[1,"x"]}', "[]", "1e400", "12345678901234567890123"])
def test_a_string_takes_every_value_as_its_json_text(text: str) -> None:
    values, errors = structs(b'{"temp": 1, "name": %s}' % text.encode(), b'{"name": "text"}')
    assert values == [{"temp": 1.0, "name": text}, {"temp": None, "name": "text"}]
    assert errors == [None, None]


_FORMS = pa.struct(
    [
        ("i", pa.int32()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(5, 2)),
        ("t", pa.timestamp("us", tz="UTC")),
        ("l", pa.list_(pa.field("element", pa.struct([("a", pa.int8())])))),
    ]
)


@cases(
    "field",
    [
        b'"i": 3000000000',
        b'"i": 1.5',
        b'"i": true',
        b'"i": "1"',
        b'"b": 1',
        b'"d": 123456789',
        b'"d": {}',
        b'"t": "never"',
        b'"t": 5',
        b'"l": {}',
    ],
)
def test_a_value_of_another_form_is_null_with_its_reason_and_its_neighbours_are_not_touched(field: bytes) -> None:
    name = field[1:2].decode()
    good = b'{"i": 1, "b": true, "d": 1.25, "t": "2026-01-01T00:00:00Z", "l": [{"a": 1}]}'
    begin = good.index(b'"%s"' % name.encode())
    end = good.index(b', "', begin) if name != "l" else len(good) - 1
    ((whole, part), errors) = structs(good, good[:begin] + field + good[end:], kind=_FORMS)
    assert errors[0] is None
    assert (errors[1] or "").startswith(f"field {name} is ")
    assert isinstance(whole, dict)
    assert None not in whole.values()
    assert part == whole | {name: None}


def test_of_a_list_only_the_item_that_does_not_fit_is_null() -> None:
    ((value,), (error,)) = structs(b'{"l": [{"a": 1}, 5, {"a": "x"}]}', kind=pa.struct([_FORMS.field("l")]))
    assert value == {"l": [{"a": 1}, None, {"a": None}]}
    assert error == 'field l[] is 5, which is no struct; field l[].a is "x", which is no BYTE'


_MAPS = pa.struct(
    [
        ("n", pa.int64()),
        ("rates", pa.map_(pa.string(), pa.float64())),
        ("tools", pa.list_(pa.struct([("of", pa.map_(pa.string(), pa.struct([("a", pa.list_(pa.int32()))])))]))),
    ]
)


def test_objects_are_maps() -> None:
    payloads = (
        b'{"n": 1, "rates": {"a": 1, "b\\"": 2.5, "c": "x", "d": null, "a": 3}, "x": {}}',
        b'{"rates": {}, "tools": [{"of": {"k": {"a": [1, "x"]}, "l": 5}}, {"of": null}, 7, null]}',
        b'{"n": 2}',
        b"null",
        b"{",
        b'{"n": NaN, "rates": [{"key": "a", "value": 1}]}',
        b'{"n": 3, "rates": [{"key": "a", "value": 1}]}',
    )
    values, errors = structs(*payloads, kind=_MAPS)
    nothing = {"n": None, "rates": None, "tools": None}
    assert values == [
        nothing | {"n": 1, "rates": [("a", 3.0), ('b"', 2.5), ("c", None), ("d", None)]},
        nothing | {"rates": [], "tools": [{"of": [("k", {"a": [1, None]}), ("l", None)]}, {"of": None}, None, None]},
        nothing | {"n": 2},
        None,
        None,
        None,
        nothing | {"n": 3},
    ]
    assert errors[0] == 'field rates.* is "x", which is no DOUBLE'
    assert errors[1] == (
        'field tools[].of.*.a[] is "x", which is no INT; field tools[].of.* is 5, which is no struct; '
        "field tools[] is 7, which is no struct"
    )
    assert errors[2:4] == [None, None]
    assert [error is not None for error in errors[4:]] == [True, True, True]
    assert errors[6] == 'field rates is [{"key":"a","value":1}], which is no map'
    alone = [structs(payload, kind=_MAPS) for payload in payloads]
    assert (values, errors) == ([one for ((one,), _) in alone], [one for (_, (one,)) in alone])


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
