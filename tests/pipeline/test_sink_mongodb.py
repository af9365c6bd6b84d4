"""The sink `mongodb` and a server of its protocol: which documents there are afterwards."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from bson.codec_options import CodecOptions
from pymongo import MongoClient

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.probing import target_fault
from support.mongodb import REPLICA_SET, MongoServer, mongodb
from support.sinks import Refused, batch_of, sink_of, write_rows

pytestmark = [pytest.mark.service, pytest.mark.slow]

_QUICK = "retry { first_pause = 1ms, attempts = 2 }, timeout = 2s"
_ROW = 'payload_template = "${payload}"'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with mongodb(tmp_path_factory.mktemp("mongodb")) as running:
        yield running


def section(server: MongoServer, more: str, place: str = "") -> str:
    where = place or f'servers = "127.0.0.1:{server.port}"'
    return (
        f'{{ type = mongodb, {where}, database = {server.database}, username = "{server.user}", '
        f'password = "{server.password}", ssl {{ cacertfile = "{server.cafile}" }}, {more} }}'
    )


def documents(server: MongoServer, collection: str) -> list[dict[str, Any]]:
    client: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1",
        server.port,
        username=server.user,
        password=server.password,
        tls=True,
        tlsCAFile=str(server.cafile),
    )
    aware: CodecOptions[dict[str, Any]] = CodecOptions(tz_aware=True)
    with client:
        return list(client.get_database(server.database, codec_options=aware)[collection].find())


def test_rows_are_documents_once_however_often_they_are_sent(server: MongoServer) -> None:
    sink = sink_of(section(server, f'collection = "obs-${{payload.day}}", {_ROW}, batch_rows = 2'))
    rows = [{"day": n % 2, "t": f"ü{n}", "s": {"list": [n, None]}} for n in range(5)]
    repeated = [write_rows(sink, batch_of(number), *rows).figures["repeated"] for number in (0, 0, 1)]
    assert repeated == [0, 5, 0]
    held = sorted(documents(server, "obs-0"), key=lambda document: str(document["t"]))
    assert [document["t"] for document in held] == ["ü0", "ü0", "ü2", "ü2", "ü4", "ü4"]
    assert held[2]["s"] == {"list": [2, None]}
    assert len(documents(server, "obs-1")) == 4


def test_each_row_is_judged_alone(server: MongoServer) -> None:
    template = '"{\\"_id\\": ${payload.id}, \\"t\\": \\"${payload.t}\\"}"'
    sink = sink_of(section(server, f"collection = own, payload_template = {template}"))
    write_rows(sink, batch_of(0), {"id": 1, "t": "a"})
    refused = Refused()
    rows = [{"id": 1, "t": "a"}, {"id": 1, "t": "other"}, {"id": 2, "t": 'no "JSON"'}, {"id": 10**30, "t": ""}]
    figures = write_rows(sink, batch_of(0, refused), *rows, {"id": 3, "t": "c"}).figures
    assert (figures["rows"], figures["refused"], figures["repeated"]) == (2, 3, 1)
    reasons = {json.loads(row["payload"])["t"]: reason for row, reason in refused.rows}
    assert "11000" in reasons["other"]
    assert "no JSON" in reasons['no "JSON"']
    assert {document["_id"]: document["t"] for document in documents(server, "own")} == {1: "a", 3: "c"}


def test_values_of_extended_json_have_their_types(server: MongoServer) -> None:
    sink = sink_of(section(server, f"collection = typed, {_ROW}"))
    write_rows(sink, batch_of(0), {"at": {"$date": "2026-01-31T08:30:00Z"}, "f": 1.5, "n": 2**40, "b": True})
    (found,) = documents(server, "typed")
    assert (found["at"], found["f"], found["n"], found["b"]) == (
        datetime(2026, 1, 31, 8, 30, tzinfo=UTC),
        1.5,
        2**40,
        True,
    )


def test_a_replica_set_is_found_by_its_name(server: MongoServer) -> None:
    place = f'mongo_type = rs, servers = ["127.0.0.1:{server.port}"], replica_set_name = {REPLICA_SET}'
    sink = sink_of(section(server, f"collection = rs, {_ROW}, {_QUICK}", place))
    write_rows(sink, batch_of(0), {"n": 1})
    assert len(documents(server, "rs")) == 1
    other = sink_of(section(server, f"collection = rs, {_ROW}, {_QUICK}", place.replace(REPLICA_SET, "another")))
    assert target_fault(other, "") is not None


def test_a_server_that_is_away_or_refuses_us_costs_no_row(server: MongoServer) -> None:
    sink = sink_of(section(server, f"collection = patient, {_ROW}, {_QUICK}"))
    wrong = sink_of(section(server, f"collection = patient, {_ROW}, {_QUICK}").replace("p'ss", "s3cret"))
    with pytest.raises(SinkError, match=r"(?i)auth") as raised:
        write_rows(wrong, batch_of(0), {"n": 1})
    assert "s3cret" not in f"{raised.value}{wrong}"
    assert target_fault(wrong, "") is not None
    assert target_fault(sink, "") is None
    server.server.stop()
    with pytest.raises(SinkError, match="tried 2 times"):
        write_rows(sink, batch_of(0), {"n": 1})
    server.server.start()
    write_rows(sink, batch_of(0), {"n": 1})
    assert len(documents(server, "patient")) == 1
