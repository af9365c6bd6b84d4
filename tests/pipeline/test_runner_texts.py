"""The rows of the action runner have the texts that Spark makes of the same templates."""

import json

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.local_rows import LocalRows, check_templates
from heliograph.pipeline.sinks.interface import RowSink
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows
from support.sinks import sink_of

_ROWS = (
    '{"a": 1, "t": "text", "deep": {"list": [1, {"x": 2.5}], "k": "v"}, "none": null, "flag": true}',
    '{"a": 1.0, "t": "{\\"in\\": {\\"x\\": 7}, \\"list\\": [3]}", "deep": [1, 2], "z": {"b": 1, "a": [true, null]}}',
    '{"a": 1e3, "t": "ü \\u00e9 \\ud83d\\ude00", "deep": {}, "0": "name of digits"}',
    '{"a": 1.50, "t": "", "deep": "plain text"}',
    '{"a": -0.00001, "deep": {"k": 1e10}}',
    '{"a": 12345678901234567890123456789012345678}',
    '{"a": 123456789012345678901234567890123456789.5}',
    '{"a": 1e-5, "t": 0.001e0, "deep": {"k": 123456789e0}}',
    '{"a": 9223372036854775807, "t": 100, "deep": {"k": 1200}}',
    "no json",
    "[1, 2, 3]",
    '"a text"',
    "",
    '{"a": NaN}',
    r'{"a": "half \ud800 a pair", "t": "other"}',
    r'{"a": "other", "t": {"\udc00": 1}}',
    r'{"a": "other", "t": "{\"in\": \"\\ud800\"}"}',
    r'{"a": {"$base64": "AP8="}, "t": "{\"$base64\":\"AP8=\"}", "deep": {"k": {"$base64": "AP8=", "x": 1}}}',
    r'{"a": {"$base64": "no"}, "t": {"$base64": ""}, "deep": {"k": {"$base64": 7}}}',
    f'{{"deep": {"[" * 700}1{"]" * 700}}}',
    f"""{{"deep": {'{"k":' * 700}1{"}" * 700}}}""",
    f'{{"deep": {"[" * 10_000}1{"]" * 10_000}}}',
)
_TEMPLATES = (
    "${payload.a}",
    "${payload.t}",
    "${payload.t.in}",
    "${payload.t.in.x}",
    "${payload.t.list.0}",
    "${payload.deep}",
    "${payload.deep.list.1.x}",
    "${payload.deep.k}",
    "${payload.deep.0}",
    "${payload.z}",
    "${payload.0}",
    "${payload.1}",
    "${payload.none}",
    "${payload.flag}",
    "x ${payload.a} ${payload} y",
    "fixed",
)


def _sink() -> RowSink:
    commands = ", ".join(json.dumps(["SET", "k", template]) for template in _TEMPLATES)
    sink = sink_of(f"{{ type = redis, server = r, commands = [{commands}] }}")
    assert isinstance(sink, RowSink)
    return sink


def test_texts_are_those_of_spark(spark: SparkSession) -> None:
    sink = _sink()
    payloads = [row.encode() for row in _ROWS]
    frame = spark.createDataFrame([(payload,) for payload in payloads], "payload binary").coalesce(1)
    (theirs,) = ArrowRows.of(frame, sink).chunks(100)
    (ours,) = LocalRows(payloads, sink).chunks(100)
    assert ours.schema.names == theirs.schema.names
    for name in theirs.schema.names:
        assert ours.column(name).to_pylist() == theirs.column(name).to_pylist(), name
    assert any(b"\x00\xff" in ours.column(name).to_pylist() for name in ours.schema.names)


def test_a_column_that_rows_do_not_have_is_refused() -> None:
    sink = sink_of('{ type = http, url = "http://h/${topic}" }')
    assert isinstance(sink, RowSink)
    with pytest.raises(
        SinkError, match="url is 'http://h/\\$\\{topic\\}', but the rows have no column 'topic': payload"
    ):
        check_templates(sink)
