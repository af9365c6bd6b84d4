"""Where a pipeline file lets its sinks and schemas connect to."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import pytest

from heliograph.actions.pipeline_file import file_text
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.runner.settings import read_settings
from heliograph.pipeline.sinks import Sink
from heliograph.pipeline.sinks.lakes import LakeSink
from heliograph.pipeline.sinks.probing import target_fault
from heliograph.settings.outbound import OutboundConfig
from support.cases import cases
from support.sinks import sink_of
from support.visited import visited

NO_LOOPBACK = OutboundConfig(allow_loopback=False)
DENIED = "is denied by outbound.allow_loopback = false"
ONCE = "retry { attempts = 1 }, timeout = 2s"
SQL = "username = u, database = x, table = t"
SINKS = {
    "http": f'url = "http://localhost:PORT/", {ONCE}',
    "postgresql": f'server = "localhost:PORT", {SQL}, {ONCE}',
    "mysql": f'server = "localhost:PORT", {SQL}, {ONCE}',
    "redis": f'server = "localhost:PORT", command = [SET, "${{id}}", x], {ONCE}',
    "clickhouse": f'url = "http://localhost:PORT", sql = "INSERT INTO t VALUES (${{id}})", {ONCE}',
    "influxdb": f'server = "localhost:PORT", org = o, bucket = b, token = t, write_syntax = "m v=1", {ONCE}',
    "elasticsearch": f'server = "localhost:PORT", index = i, {ONCE}',
    "mongodb": f'servers = "localhost:PORT", database = d, {ONCE}',
    "mqtt": f'server = "localhost:PORT", topic = t, {ONCE}',
}


def bounded(text: str, outbound: OutboundConfig) -> Sink:
    sink: Any = sink_of(text)
    return cast(Sink, replace(sink, outbound=outbound))


@cases("kind", SINKS)
def test_a_denied_server_is_not_connected_to(kind: str) -> None:
    with visited() as server:
        text = f"{{ type = {kind}, {SINKS[kind].replace('PORT', str(server.port))} }}"
        assert "outbound" not in (target_fault(bounded(text, OutboundConfig()), "127.0.0.1:1") or "")
        assert server.count() > 0
    with visited() as server:
        text = f"{{ type = {kind}, {SINKS[kind].replace('PORT', str(server.port))} }}"
        assert DENIED in (target_fault(bounded(text, NO_LOOPBACK), "127.0.0.1:1") or "")
        assert server.count() == 0


@cases(
    "text",
    [
        '{ type = redis, redis_type = sentinel, servers = "localhost:1", sentinel = main, command = [SET, a, b] }',
        '{ type = kafka, servers = "127.0.0.9:1,localhost:1", topic = t }',
        '{ type = kafka, servers = "b.invalid:1", topic = t, properties { "metadata.broker.list" = "localhost:1" } }',
        '{ type = json, path = "s3://b/x", storage_options { endpoint_override = "localhost:1" } }',
        '{ type = spark, format = jdbc, options { url = "jdbc:postgresql://u:p@localhost:1/w?ssl=true" } }',
    ],
)
def test_servers_that_libraries_connect_to_are_looked_at_before(text: str) -> None:
    denied = replace(NO_LOOPBACK, allow_loopback=True, denied_networks=("127.0.0.1/32", "::1/128"))
    assert "is denied by outbound.denied_networks" in (target_fault(bounded(text, denied), "127.0.0.1:1") or "")


@cases(
    "text",
    [
        '{ type = delta, path = "s3://b/x", storage_options { AWS_ENDPOINT_URL = "http://localhost:1" } }',
        '{ type = iceberg, table = a.b, catalog { type = rest, uri = "http://localhost:1", warehouse = "s3://b/x" } }',
    ],
)
def test_so_are_those_of_lakes(tmp_path: Path, text: str) -> None:
    with pytest.raises(SinkError) as raised:
        cast(LakeSink, bounded(text, NO_LOOPBACK)).held_columns(tmp_path)
    assert DENIED in str(raised.value)


def test_the_broker_beside_the_pipeline_is_no_server_of_others() -> None:
    with visited() as server:
        sink = bounded(f"{{ type = mqtt, topic = t, {ONCE} }}", NO_LOOPBACK)
        assert "outbound" not in (target_fault(sink, f"127.0.0.1:{server.port}") or "")
        assert server.count() > 0


def test_the_last_file_says_it_and_sinks_and_schemas_get_it(tmp_path: Path) -> None:
    own, made = tmp_path / "own.hocon", tmp_path / "actions.hocon"
    own.write_text("""
        outbound.denied_ports = ["22"]
        schemas.far { type = external_http, parameters.url = "http://localhost:1/" }
        sinks.web { type = http, url = "http://localhost:1/" }
        rules.a { sql = "SELECT topic FROM \\"t/#\\"", sink = web }
        rules.b { sql = "SELECT topic FROM \\"t/#\\"", sink { type = json, path = b } }
    """)
    pipeline = load_pipeline(own)
    assert [cast(Any, pipeline.sink(name)).outbound.denied_ports for name in "ab"] == [("22",)] * 2
    assert [cast(Any, pipeline.sink(name)).declared_at for name in "ab"] == ["sinks.web", "rules.b.sink"]
    before = pipeline.parts("a")
    made.write_text(file_text({}, NO_LOOPBACK))
    pipeline = load_pipeline(own, made)
    assert cast(Any, pipeline.sink("a")).outbound == NO_LOOPBACK
    assert [one.service.outbound for one in pipeline.schemas if one.service is not None] == [NO_LOOPBACK]
    assert pipeline.parts("a") != before  # so that its query starts again


def test_the_action_runner_is_given_it(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    sink = {"type": "http", "url": "http://localhost:1/"}
    action = {"topic": "t/+", "sink": sink, "has_text_rows": False, "batch_rows": 1, "batch_bytes": 1}
    places = {"checkpoint": "c", "output": "o", "endpoint": "e", "mqtt": "m", "start": "earliest"}
    document = {**places, "token": None, "tls_ca": None, "outbound": asdict(NO_LOOPBACK), "actions": {"a": action}}
    file.write_text(json.dumps(document))
    (made,) = read_settings(file).actions
    assert cast(Any, made.sink).outbound == NO_LOOPBACK
