"""The sink `clickhouse` and a real server: what a table holds afterwards, and what becomes of rows that do not fit."""

import json
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.probing import target_fault
from support.clickhouse import Clickhouse, clickhouse
from support.sinks import Refused, batch_of, sink_of, write_rows
from support.webhook import Answer, webhook

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clickhouse]:
    with clickhouse(tmp_path_factory.mktemp("clickhouse")) as running:
        yield running


def test_values_are_literals_of_their_type_and_never_a_part_of_the_statement(server: Clickhouse) -> None:
    server.query(
        "CREATE TABLE obs (id String, t Nullable(Float64), n UInt8, tags Array(String), j String) ENGINE = Memory"
    )
    sql = (
        "insert into obs (id, t, n, tags, j) values "
        "('<${payload.id}>', ${payload.s.temp}, toUInt8(${payload.n} + 1), ${payload.tags}, ${payload.s});"
    )
    sink = sink_of(server.section(f'sql = "{sql}", batch_rows = 2'))
    bad = "x', 1, 1, [], ''), ('\\"
    rows = [
        {"id": bad, "s": {"temp": 20.5}, "n": 1, "tags": ["a'", "ü\\"]},
        {"id": "b", "s": {"temp": None}, "n": 2, "tags": []},
        {"id": "c\n\t", "n": 3, "tags": ["x"], "s": '{"temp": 1}'},
    ]
    written = write_rows(sink, batch_of(0), *rows)
    found = [json.loads(line) for line in server.query("SELECT * FROM obs ORDER BY n FORMAT JSONEachRow").splitlines()]
    assert found == [
        {"id": f"<{bad}>", "t": 20.5, "n": 2, "tags": ["a'", "ü\\"], "j": '{"temp":20.5}'},
        {"id": "<b>", "t": None, "n": 3, "tags": [], "j": '{"temp":null}'},
        {"id": "<c\n\t>", "t": 1, "n": 4, "tags": ["x"], "j": '{"temp": 1}'},
    ]
    assert (written.figures["rows"], written.figures["requests"]) == (3, 2)


def test_rows_that_do_not_fit_are_found_and_the_others_written(server: Clickhouse) -> None:
    server.query("CREATE TABLE numbers (n UInt32) ENGINE = Memory")
    refused = Refused()
    sink = sink_of(server.section('sql = "INSERT INTO numbers VALUES (${payload.n})", batch_rows = 10'))
    rows = [{"n": "many" if n == 13 else n} for n in range(20)]
    assert write_rows(sink, batch_of(0, refused), *rows).figures["refused"] == 1
    ((row, reason),) = refused.rows
    assert json.loads(row["payload"]) == {"n": "many"}
    assert "Code: " in reason
    assert server.query("SELECT count(), sum(n) FROM numbers") == "19\t177\n"


def test_a_batch_is_named_so_that_a_table_takes_it_once() -> None:
    sql = 'sql = "INSERT INTO t VALUES (${payload.n})", batch_rows = 2, username = u, password = "s3cret"'
    with webhook() as web:
        web.answer = lambda request: Answer(200)
        sink = sink_of(f'{{ type = clickhouse, url = "{web.url}", database = d, {sql} }}')
        rows = [{"n": n} for n in range(3)]
        for number in (0, 0, 1):
            write_rows(sink, batch_of(number), *rows)
    queries = [parse_qs(urlsplit(request.path).query) for request in web.requests]
    tokens = [query["insert_deduplication_token"][0] for query in queries]
    assert tokens[0:2] == tokens[2:4]
    assert len(set(tokens)) == 4
    assert {(query["database"][0], query["async_insert"][0]) for query in queries} == {("d", "0")}
    assert web.requests[0].body == b"INSERT INTO t VALUES (0), (1)"
    assert (web.requests[0].headers["X-ClickHouse-User"], web.requests[0].headers["X-ClickHouse-Key"]) == (
        "u",
        "s3cret",
    )
    assert "s3cret" not in repr(sink)


def test_a_server_that_is_away_or_refuses_us_costs_no_row(server: Clickhouse) -> None:
    server.query("CREATE TABLE patient (n UInt32) ENGINE = MergeTree ORDER BY n")
    sql = 'sql = "INSERT INTO patient VALUES (${payload.n})", retry { first_pause = 1ms, attempts = 2 }'
    sink = sink_of(server.section(sql))
    with server.server.stopped(), pytest.raises(SinkError, match=r"tried 2 times"):
        write_rows(sink, batch_of(0), {"n": 1})
    write_rows(sink, batch_of(0), {"n": 1})
    assert server.query("SELECT n FROM patient") == "1\n"
    for more, reason in (
        ("INSERT INTO nowhere VALUES (${payload.n})", "nowhere"),
        ("INSERT INTO patient (m) VALUES (${payload.n})", "Code: 16"),
    ):
        with pytest.raises(SinkError, match=reason):
            write_rows(sink_of(server.section(f'sql = "{more}"')), batch_of(1), {"n": 2})


def test_a_probe_logs_in_and_looks_for_the_database(server: Clickhouse) -> None:
    sql = 'sql = "INSERT INTO t VALUES (${payload.n})", retry { attempts = 1 }'
    assert target_fault(sink_of(server.section(sql)), "") is None
    assert "nothing" in (target_fault(sink_of(server.section(f"{sql}, database = nothing")), "") or "")
    denied = target_fault(sink_of(server.section(sql).replace(server.password, "wrong")), "")
    assert denied is not None
    assert "answered 4" in denied
    assert "wrong" not in denied.partition("answered")[0]
