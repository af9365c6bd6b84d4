"""Sinks without Spark, given rows and targets that mean harm: a row costs no other, and nothing waits for ever."""

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.interface import MicroBatch, NewConnections, RowSink, Written
from support.cases import cases
from support.kafka import refusing_broker
from support.mosquitto import free_port, mosquitto
from support.postgresql import postgresql
from support.raw_server import listening, read_request
from support.sinks import Refused, sink_of
from support.webhook import webhook

pytestmark = [pytest.mark.service, pytest.mark.timeout(60)]

ONCE = "retry { attempts = 1 }"
KEEP_OPEN_S = 20.0


def write(
    section: str,
    *payloads: bytes,
    refused: Refused | None = None,
    kept: KeptConnection | None = None,
    is_text: bool = False,
) -> Written:
    """A batch of rows to the sink of a section."""
    sink = sink_of(section)
    assert isinstance(sink, RowSink)
    taken = refused or Refused()
    batch = MicroBatch(
        "q", "owner", 0, Path("/nonexistent"), "127.0.0.1:1", taken.take, connections=kept or NewConnections()
    )
    return sink.write(LocalRows(payloads, sink, is_text=is_text), batch)


def drip(connected: socket.socket, head: bytes, piece: bytes) -> None:
    """Answer, a little at a time, without an end."""
    read_request(connected)
    connected.sendall(head)
    end = time.monotonic() + KEEP_OPEN_S
    while time.monotonic() < end:
        connected.sendall(piece)
        time.sleep(0.05)  # how slow it is is what is tested


@cases(
    ("head", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 1000000\r\n\r\n", b"x"),
        (b"", b""),
    ],
)
def test_an_answer_has_its_time_as_a_whole(head: bytes, piece: bytes) -> None:
    with listening(lambda connected: drip(connected, head, piece)) as port:
        begin = time.monotonic()
        with pytest.raises(SinkError, match=r"timed out|answered 500 Oh: x"):
            write(f'{{ type = http, url = "http://127.0.0.1:{port}", timeout = 400ms, {ONCE} }}', b"{}")
        assert time.monotonic() - begin < KEEP_OPEN_S / 2


def test_an_answer_without_an_end_says_what_it_says_at_its_beginning() -> None:
    chunked = b"HTTP/1.1 %s\r\nTransfer-Encoding: chunked\r\n\r\n"
    piece = b"4000\r\n" + b"\x1b" * 0x4000 + b"\r\n"
    with listening(lambda connected: drip(connected, chunked % b"200 OK", piece)) as port:
        assert write(f'{{ type = http, url = "http://127.0.0.1:{port}", {ONCE} }}', b"{}").figures["rows"] == 1
    with (
        listening(lambda connected: drip(connected, chunked % b"403 No", b"5\r\nno\x1b[0\r\n")) as port,
        pytest.raises(SinkError, match=r"answered 403 No: no \[0no") as error,
    ):
        write(f'{{ type = http, url = "http://127.0.0.1:{port}", {ONCE} }}', b"{}")
    assert len(str(error.value)) < 500


def test_a_connection_serves_the_next_request_and_answers_are_not_compressed() -> None:
    ports, requests = [], []

    def serve(connected: socket.socket) -> None:
        ports.append(connected.getpeername()[1])
        while request := read_request(connected)[0]:
            requests.append(request.lower())
            connected.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    kept = KeptConnection()
    with listening(serve) as port:
        for _ in range(2):
            write(f'{{ type = http, url = "http://127.0.0.1:{port}", batch_rows = 1 }}', b"1", b"2", kept=kept)
    kept.close()
    assert (len(ports), len(requests)) == (1, 4)
    assert all(b"accept-encoding: identity\r\n" in request for request in requests)


def test_rows_say_neither_hosts_nor_headers_nor_more_than_one_request() -> None:
    refused = Refused()
    with webhook() as web:
        section = f'{{ type = http, url = "{web.url}/t/${{payload.path}}", headers {{ X-Of = "${{payload.of}}" }} }}'
        rows = [
            {"path": "ok", "of": "a\r\nX-Admin: 1"},
            {"path": "a HTTP/1.1\r\nHost: evil\r\n\r\nGET /", "of": "b"},
            {"path": "\0", "of": "c"},
            {"path": "@evil.example/", "of": "d"},
            {"path": "ok", "of": "é"},
            {"path": "ok", "of": "\ud800"},
            {"path": "ok", "of": "g"},
        ]
        write(section, *(json.dumps(row).encode() for row in rows), refused=refused)
        posted = [(request.path, request.headers["X-Of"], request.headers["Host"]) for request in web.requests]
    host = web.url.removeprefix("http://")
    assert [(path, of) for path, of, _ in posted] == [
        ("/t/@evil.example/", "d"),
        ("/t/ok", "é".encode().decode("latin-1")),  # as the server reads it
        ("/t/null", "null"),
        ("/t/ok", "g"),
    ]
    assert {one for _, _, one in posted} == {host}
    assert [json.loads(row["payload"])["of"] for row, _ in refused.rows] == ["a\r\nX-Admin: 1", "b", "c"]


def test_half_a_pair_of_surrogates_and_json_of_many_levels_cost_no_other_row() -> None:
    deep = b'{"deep": %s1%s}'
    payloads = [
        rb'{"deep": "\ud800"}',
        deep % (b"[" * 700, b"]" * 700),
        deep % (b"[" * 100_000, b"]" * 100_000),
        b"\xff",
    ]
    with webhook() as web:
        section = f'{{ type = http, url = "{web.url}", batch_rows = 1, body = "${{payload.deep}}" }}'
        write(section, *payloads)
    assert [request.body for request in web.requests] == [b"null", b"[" * 700 + b"1" + b"]" * 700, b"null", b"null"]


def test_a_topic_that_no_request_can_have_costs_no_other_row() -> None:
    refused = Refused()
    rows = [{"topic": "a\0b"}, {"topic": "ok", "partition": 1 << 40}, {"topic": "ok", "partition": 0}]
    with refusing_broker() as broker:
        templates = 'topic = "${payload.topic}", partition = "${payload.partition}"'
        section = f'{{ type = kafka, servers = "{broker.servers}", {templates} }}'
        written = write(section, *(json.dumps(row).encode() for row in rows), refused=refused)
    assert written.figures["rows"] == 1
    assert [reason for _, reason in refused.rows] == [
        "it cannot be sent: embedded null character",
        "it cannot be sent: signed integer is greater than maximum",
    ]


def test_a_topic_that_the_brokers_forbid_is_a_fault_of_the_row_that_names_it() -> None:
    forbidden = KafkaError.TOPIC_AUTHORIZATION_FAILED
    with refusing_broker(forbidden, 0) as broker:
        refused = Refused()
        section = f'{{ type = kafka, servers = "{broker.servers}", topic = "of-${{payload}}" }}'
        write(section, b"a", refused=refused)
        assert len(refused.rows) == 1
    with refusing_broker(forbidden) as broker, pytest.raises(SinkError, match="authorization failed"):
        write(f'{{ type = kafka, servers = "{broker.servers}", topic = fixed }}', b"a")


def test_a_topic_that_an_mqtt_broker_forbids_is_a_fault_of_the_row_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "acl").write_text("topic write ok/#\n")
    settings = f"allow_anonymous true\npersistence false\nlog_dest stderr\nacl_file {tmp_path}/acl\n"
    port = free_port()
    refused = Refused()
    with mosquitto(tmp_path, f"listener {port} 127.0.0.1\n", settings):
        written = write(
            f'{{ type = mqtt, server = "127.0.0.1:{port}", topic = "${{payload}}" }}', b"ok/1", b"no/1", refused=refused
        )
        with pytest.raises(SinkError, match="not authorized"):
            write(f'{{ type = mqtt, server = "127.0.0.1:{port}", topic = "no/fixed" }}', b"a")
    assert written.figures["rows"] == 1
    ((row, reason),) = refused.rows
    assert (row["payload"], "not authorized" in reason) == (b"no/1", True)


def test_a_broker_that_closes_each_connection_holds_no_batch() -> None:
    connack = bytes.fromhex("2003000000")

    def serve(connected: socket.socket) -> None:
        connected.recv(65_536)
        connected.sendall(connack)
        connected.recv(65_536)  # what was published

    with listening(serve) as port:
        section = f'{{ type = mqtt, server = "127.0.0.1:{port}", topic = t, timeout = 2500ms }}'
        with pytest.raises(SinkError, match=r"acknowledged nothing for 2 s, and the connection was lost \d+ times"):
            write(section, b"a")


def test_a_database_that_is_silent_is_left() -> None:
    kept = KeptConnection()
    with postgresql() as database:
        database.query("CREATE TABLE silent (n text)")
        write(
            database.section('sql = "INSERT INTO silent VALUES (${payload})", timeout = 500ms'),
            b"1",
            kept=kept,
            is_text=True,
        )
        ((process,),) = database.query("SELECT pid FROM pg_stat_activity WHERE application_name = 'heliograph q'")
        os.kill(process, signal.SIGSTOP)
        section = database.section(f'sql = "INSERT INTO silent VALUES (${{payload}})", timeout = 500ms, {ONCE}')
        try:
            with pytest.raises(SinkError, match="the server was silent for 2 s"):
                write(section, b"2", kept=kept, is_text=True)
        finally:
            os.kill(process, signal.SIGCONT)
        write(section, b"3", kept=kept, is_text=True)  # the same number of a batch, which the database has
        assert database.query("SELECT n FROM silent") == [("1",)]
        kept.close()  # the server waits for it
