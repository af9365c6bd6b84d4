"""`heliograph bench` against a real broker, and against brokers that misbehave."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from bench.commands import run
from support.cases import cases

pytestmark = pytest.mark.service


@contextmanager
def broker_that(answer: Callable[[socket.socket], None], connections: int = 1) -> Iterator[int]:
    """A server that does one thing to each of so many connections; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                answer(connection)

        threads = [threading.Thread(target=serve) for _ in range(connections)]
        for thread in threads:
            thread.start()
        yield server.getsockname()[1]
        for thread in threads:
            thread.join()


@cases("version", ["3.1.1", "5"])
@cases("qos", [0, 1, 2])
@cases("shape", ["pair", "fan-in", "fan-out"])
def test_what_is_sent_is_received(
    mosquitto_port: int, capsys: pytest.CaptureFixture[str], shape: str, qos: int, version: str
) -> None:
    clients = {
        "pair": ["-c", 3],
        "fan-in": ["--publishers", 3, "--subscribers", 2],
        "fan-out": ["--publishers", 2, "--subscribers", 3],
    }
    options = [*clients[shape], "-p", mosquitto_port, "-q", qos, "--mqtt", version, "-n", 100, "-w", 20, "--json"]
    assert run(shape, *options, "--quiet") == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    expected = {"pair": 300, "fan-in": 600, "fan-out": 600}[shape]
    assert (result["received"], result["expected"], result["lost"]) == (expected, expected, 0)
    assert result["sent"] == (200 if shape == "fan-out" else 300)
    assert result["acknowledged"] == (result["sent"] if qos else 0)
    assert result["mqtt"] == version
    assert 0 < result["latency_us"]["p50"] <= result["latency_us"]["p99.9"] <= result["latency_us"]["max"]
    assert output.err == ""


def test_the_result_is_a_table_for_people(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pair", "-p", mosquitto_port, "-n", 500, "-q", 1, "-s", 100, "--quiet") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "pair: 1 publisher, 1 subscriber, QoS 1 (window 64), 100 bytes, MQTT 5, as fast as the broker takes them"
    )
    assert [line.split()[:2] for line in lines[2:5]] == [["sent", "500"], ["acknowledged", "500"], ["received", "500"]]
    assert lines[5].split()[:2] == ["latency", "p50"]


def test_topics_are_made_of_client_numbers_and_ids(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--publishers", 2, "-t", "plant/%i/from-%c/x", "--clientid-prefix", "t", "-n", 10, "--json", "--quiet"]
    assert run("fan-in", "-p", mosquitto_port, *options) == 0
    assert json.loads(capsys.readouterr().out)["received"] == 20


def test_a_flood_waits_for_its_subscribers(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pair", "-p", mosquitto_port, "-c", 2, "--outstanding", 7, "-n", 500, "--json", "--quiet") == 0
    assert json.loads(capsys.readouterr().out)["received"] == 1000


def test_a_flood_that_the_broker_drops_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    answers = {0x10: b"\x20\x03\x00\x00\x00", 0x82: b"\x90\x04\x00\x01\x00\x00"}

    def answer(connection: socket.socket) -> None:
        while data := connection.recv(100_000):
            connection.sendall(answers.get(data[0], b""))

    options = ["--outstanding", 5, "-n", 8, "--drain", 0.2, "--json", "--quiet"]
    with broker_that(answer, connections=2) as port:
        assert run("pair", "-p", port, *options) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["sent"], result["lost"]) == (8, 8)


def test_filters_that_never_match_cost_nothing_but_themselves(
    mosquitto_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pair", "-p", mosquitto_port, "--never-matching", 120, "-n", 10, "--json", "--quiet") == 0
    assert json.loads(capsys.readouterr().out)["received"] == 10


@pytest.mark.slow
def test_a_rate_is_kept_and_progress_shown(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-c", 2, "-r", 200, "--duration", 1.5, "-q", 1, "--json"]
    assert run("pair", "-p", mosquitto_port, *options) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["sent"] <= 2 * (1.5 * 200 + 1)
    assert "received" in output.err.splitlines()[0]


def test_messages_of_another_process_are_received(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pub", "-p", mosquitto_port, "-t", "kept/%i", "-c", 20, "-n", 1, "-q", 1, "--retain", "--quiet") == 0
    capsys.readouterr()
    assert run("sub", "-p", mosquitto_port, "-t", "kept/#", "-n", 20, "-q", 1, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["received"] == 20
    assert result["latency_us"]["p50"] > 0


def test_a_publisher_at_qos_0_waits_until_the_broker_has_everything(
    mosquitto_port: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("pub", "-p", mosquitto_port, "-n", 5000, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["sent"], result["expected"]) == (5000, None)


def test_connections_are_opened_and_timed(mosquitto_port: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("connect", "-p", mosquitto_port, "-c", 300, "--duration", 0.1, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["connected"], result["failures"]) == (300, {})
    assert result["connect_latency_us"]["max"] > 0


def test_a_refused_connection_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert run("pub", "-p", port, "-n", 1, "--quiet") == 1
    assert f"1 × cannot connect to 127.0.0.1:{port}: Connection refused" in capsys.readouterr().out


def test_a_broker_that_refuses_the_client_is_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    with broker_that(lambda connection: connection.sendall(b"\x20\x02\x00\x04")) as port:
        assert run("pub", "-p", port, "--mqtt", "3.1.1", "-n", 1, "--json", "--quiet") == 1
    said = "1 × the broker refused the connection: bad user name or password (code 4)"
    assert said in capsys.readouterr().err


def test_a_lost_connection_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"\x20\x03\x00\x00\x00")
        connection.recv(1000)
        connection.sendall(b"\xe0\x01\x8b")

    with broker_that(answer) as port:
        assert run("pub", "-p", port, "-n", 100, "-q", 1, "--quiet") == 1
    assert "1 × the broker disconnected the client: server shutting down (0x8b)" in capsys.readouterr().out


def test_bytes_that_are_not_mqtt_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with broker_that(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n" + bytes(90))) as port:
        assert run("pub", "-p", port, "-n", 1, "--quiet") == 1
    assert "1 × packet type 4 during the handshake" in capsys.readouterr().out


@pytest.mark.slow
def test_a_broker_that_stops_reading_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    done = threading.Event()

    def answer(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(b"\x20\x03\x00\x00\x00")
        done.wait(30)

    with broker_that(answer) as port:
        code = run("pub", "-p", port, "--duration", 0.1, "-s", 60000, "--drain", 0.1, "--json", "--quiet")
        done.set()
    assert code == 1
    assert "the broker did not answer a PINGREQ within 0.1 s" in capsys.readouterr().err


def test_a_silent_server_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run("pub", "-p", port, "-n", 1, "--connect-timeout", 0.2, "--quiet") == 1
    assert f"1 × no answer from 127.0.0.1:{port} within 0.2 s" in capsys.readouterr().out


@cases(
    ("options", "said"),
    [
        (["-s", 7], "--size 7: a payload begins with its 8-byte timestamp"),
        (["-t", "a/+"], "--topic a/+: the topic name 'a/+' holds a wildcard"),
        (["-c", 10_000_000], "10000000 clients need 10000064 open files"),
    ],
)
def test_a_run_that_makes_no_sense_is_explained(
    capsys: pytest.CaptureFixture[str], options: list[object], said: str
) -> None:
    assert run("pub", *options) == 2
    assert said in capsys.readouterr().err


@cases(
    ("options", "said"),
    [
        (["--duration", "x"], "--duration: x: a number above 0 is expected"),
        (["-c", "1.5"], "-c/--clients: 1.5: a whole number from 1 is expected"),
        (["--keepalive", "-1"], "--keepalive: -1: 0 to 65535 seconds are possible"),
    ],
)
def test_a_value_that_is_no_number_is_explained(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run("pub", *options)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
