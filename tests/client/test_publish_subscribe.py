"""`heliograph publish` and `heliograph subscribe`, with our node, with mosquitto, and with mosquitto's own clients."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest

from client.conftest import Ports
from support.cases import cases
from support.mosquitto import free_port
from support.python_copies import python

pytestmark = [pytest.mark.service, pytest.mark.timeout(300)]

_WAIT_S = 100  # beyond which it does not come; for a machine that is slow
_MODULE = ("-m", "heliograph.cli.main")
needs_mosquitto_clients = pytest.mark.skipif(
    shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
    reason="mosquitto_pub and mosquitto_sub are not installed",
)


def run(*words: str, given: bytes = b"") -> subprocess.CompletedProcess[str]:
    """A command that ends by itself."""
    done = subprocess.run([python(), *_MODULE, *words], input=given, capture_output=True, timeout=_WAIT_S, check=False)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def publish(broker: Ports, *options: str, transport: str = "tcp", given: bytes = b"") -> None:
    done = run("publish", *broker.options(transport), *options, given=given)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@contextmanager
def subscribed(broker: Ports, *options: str, transport: str = "tcp") -> Iterator[subprocess.Popen[str]]:
    """A `heliograph subscribe` whose subscription is acknowledged."""
    command = [python(), *_MODULE, "subscribe", *broker.options(transport), "-d", "-W", str(_WAIT_S), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any(line == "received SUBACK\n" for line in process.stderr), "never subscribed"
            yield process
        finally:
            process.terminate()


def printed(process: subprocess.Popen[str]) -> list[str]:
    """The lines of a command that ends by itself, with exit code 0."""
    output, _ = process.communicate(timeout=_WAIT_S)
    assert process.returncode == 0
    return output.splitlines()


@pytest.mark.parametrize(
    ("broker", "transport"),
    [
        *(("node", transport) for transport in ("tcp", "tls", "ws", "wss")),
        ("other_broker", "tcp"),
        ("other_broker", "wss"),
    ],
    indirect=["broker"],
)
def test_messages_of_every_qos_arrive_over_every_transport(broker: Ports, name: str, transport: str) -> None:
    with subscribed(broker, "-t", f"{name}/#", "-q", "2", "-C", "3", "-F", "%t|%q|%p", transport=transport) as process:
        for qos in "012":
            publish(broker, "-t", f"{name}/{qos}", "-q", qos, "-m", f"text {qos}", transport=transport)
        assert printed(process) == [f"{name}/{qos}|{qos}|text {qos}" for qos in "012"]


@pytest.mark.parametrize("version", ["311", "5"])
def test_lines_are_messages_in_order_however_many(broker: Ports, name: str, version: str) -> None:
    lines = [f"line {number}" for number in range(300)]
    with subscribed(broker, "-t", name, "-q", "2", "-C", "300", "-V", version) as process:
        publish(broker, "-t", name, "-q", "2", "-l", "-V", version, given="\n".join(lines).encode())
        assert printed(process) == lines


@needs_mosquitto_clients
@pytest.mark.parametrize("version", ["311", "5"])
def test_mosquitto_sub_gets_what_publish_sends(broker: Ports, name: str, version: str) -> None:
    command = ["mosquitto_sub", "-p", str(broker.tcp), "-t", name, "-q", "1", "-C", "2", "-d", "-F", "got %q %p"]
    with subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert any(line.startswith("Subscribed") for line in process.stdout)
        publish(broker, "-t", name, "-q", "1", "-m", "x", "--repeat", "2", "-V", version)
        assert [line for line in process.stdout if line.startswith("got")] == ["got 1 x\n"] * 2


@needs_mosquitto_clients
def test_subscribe_prints_what_mosquitto_pub_sends_with_its_properties(broker: Ports, name: str) -> None:
    with subscribed(broker, "-t", name, "-q", "1", "-C", "1", "--json") as process:
        given = ["content-type", "text/plain"], ["user-property", "a", "b"], ["correlation-data", "c-1"]
        properties = [word for words in given for word in ("-D", "publish", *words)]
        command = ["mosquitto_pub", "-p", str(broker.tcp), "-V", "5", "-q", "1", "-t", name, "-m", "ä", *properties]
        subprocess.run(command, check=True, timeout=_WAIT_S)
        (row,) = map(json.loads, printed(process))
    assert (row["topic"], row["qos"], row["retain"], row["payload"], row["payloadlen"]) == (name, 1, 0, "ä", 2)
    assert row["properties"] == {"content-type": "text/plain", "correlation-data": "c-1", "user-property": [["a", "b"]]}


def test_properties_of_a_message_arrive(broker: Ports, name: str) -> None:
    template = "%C|%R|%D|%P|%F|%S"
    options = ["-D", "subscribe", "subscription-identifier", "7", "-F", template]
    with subscribed(broker, "-t", name, "-C", "1", *options) as process:
        given = ["content-type a/b", "response-topic back", "correlation-data id", "payload-format-indicator 1"]
        words = [word for each in given for word in ("-D", "publish", *each.split())]
        publish(broker, "-t", name, "-m", "x", *words, "-D", "publish", "user-property", "k", "v w")
        assert printed(process) == ["a/b|back|id|k:v w|1|7"]


@contextmanager
def relay(port: int) -> Iterator[tuple[int, list[socket.socket]]]:
    """Passes connections on to a port: its own port, and the clients' sockets, which a test may shut down."""
    clients: list[socket.socket] = []
    brokers: list[socket.socket] = []
    threads: list[Thread] = []

    def pump(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def accept(listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client = listening.accept()[0]
                broker = socket.create_connection(("127.0.0.1", port))
                clients.append(client)
                brokers.append(broker)
                threads.extend(Thread(target=pump, args=ends) for ends in ((client, broker), (broker, client)))
                for thread in threads[-2:]:
                    thread.start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepting = Thread(target=accept, args=(listening,))
        accepting.start()
        yield listening.getsockname()[1], clients
        listening.shutdown(socket.SHUT_RDWR)
        accepting.join()
        for one in clients:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for one in (*clients, *brokers):
            one.close()


def test_a_lost_connection_is_made_again(node: Ports, name: str) -> None:
    with relay(node.tcp) as (port, clients):
        through = replace(node, tcp=port)
        with subscribed(through, "-t", name, "-C", "2") as process:
            assert process.stderr is not None
            publish(node, "-t", name, "-m", "before")
            assert process.stdout is not None
            assert process.stdout.readline() == "before\n"
            clients[0].shutdown(socket.SHUT_RDWR)
            lines = [line for line in iter(process.stderr.readline, "received SUBACK\n") if "heliograph" in line]
            assert any("[client_connection_lost]" in line and "again in 1 s" in line for line in lines)
            publish(node, "-t", name, "-m", "after")
            assert printed(process) == ["after"]
        with subscribed(through, "-t", name, "--no-reconnect") as process:
            clients[-1].shutdown(socket.SHUT_RDWR)
            assert process.wait(_WAIT_S) == 7


def test_retained_messages_are_told_apart_and_removed(broker: Ports, name: str) -> None:
    for topic in ("a", "b"):
        publish(broker, "-t", f"{name}/{topic}", "-r", "-m", topic)
    ours = [*broker.options("tcp"), "-t", f"{name}/#", "-v"]
    assert run("subscribe", *ours, "-C", "2").stdout.splitlines() == [f"{name}/a a", f"{name}/b b"]
    assert run("subscribe", *ours, "-R", "-W", "0.3").returncode == 27
    removed = run("subscribe", *ours, "--remove-retained", "-T", f"{name}/b", "-C", "1")
    assert (removed.returncode, removed.stdout) == (0, f"{name}/a a\n")
    assert run("subscribe", *ours, "-C", "1").stdout == f"{name}/b b\n"
    with subscribed(broker, "-t", f"{name}/#", "--retained-only") as process:
        publish(broker, "-t", f"{name}/c", "-n")
        assert printed(process) == ["b"]


def test_a_kept_session_gets_what_came_meanwhile(broker: Ports, name: str) -> None:
    session = [*broker.options("tcp"), "-i", name, "-c", "-q", "1", "-t", name]
    assert run("subscribe", *session, "-E").returncode == 0
    publish(broker, "-t", name, "-q", "1", "-m", "meanwhile")
    assert run("subscribe", *session, "-C", "1").stdout == "meanwhile\n"
    assert run("subscribe", *broker.options("tcp"), "-i", name, "-c", "-U", name, "-E").returncode == 0
    publish(broker, "-t", name, "-q", "1", "-m", "too late")
    session = [*broker.options("tcp"), "-i", name, "-c", "-x", "0", "-t", f"{name}/else", "-W", "0.3"]
    assert run("subscribe", *session).stdout == ""


def test_the_will_is_published_for_a_client_that_breaks_off(broker: Ports, name: str) -> None:
    with subscribed(broker, "-t", f"{name}/will", "-C", "1", "-v") as process:
        options = ["-t", f"{name}/else", "--will-topic", f"{name}/will", "--will-payload", "gone"]
        with subscribed(broker, *options) as dying:
            dying.kill()
        assert printed(process) == [f"{name}/will gone"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_subscribe_in_order(node: Ports, name: str, number: signal.Signals) -> None:
    will = ["--will-topic", f"{name}/will", "--will-payload", "gone"]
    with subscribed(node, "-t", f"{name}/will", "-C", "1") as watching:
        with subscribed(node, "-t", name, *will) as process:
            process.send_signal(number)
            assert process.wait(_WAIT_S) == 0
        publish(node, "-t", f"{name}/will", "-m", "no will before this")
        assert printed(watching) == ["no will before this"], "it left without DISCONNECT"


def test_input_of_every_kind_is_one_message(node: Ports, name: str, tmp_path: Path) -> None:
    file = tmp_path / "payload"
    file.write_bytes(b"\xff\x00two\nlines")
    with subscribed(node, "-t", name, "-C", "4", "-F", "%l %x") as process:
        publish(node, "-t", name, "-f", str(file))
        publish(node, "-t", name, "-s", given=b"a\nb\n")
        publish(node, "-t", name, "-n")
        assert run("publish", "-L", f"mqtt://u:p@127.0.0.1:{node.tcp}/{name}", "-m", "url").returncode == 0
        assert printed(process) == ["11 ff0074776f0a6c696e6573", "4 610a620a", "0 ", "3 75726c"]


def test_binary_payloads_are_told_in_json(node: Ports, name: str) -> None:
    with subscribed(node, "-t", name, "-C", "2", "--json") as process:
        publish(node, "-t", name, "-s", given=b"\xff\xfe")
        publish(node, "-t", name, "-m", "text")
        first, second = map(json.loads, printed(process))
    assert (first["payload"], second["payload"]) == ({"$base64": "//4="}, "text")


def test_a_client_outlives_its_keepalive(node: Ports, name: str) -> None:
    with subscribed(node, "-t", name, "-k", "1", "-C", "1") as process:
        assert process.stderr is not None
        assert sum(line == "received PINGRESP\n" for line, _ in zip(process.stderr, range(4), strict=False)) == 2
        publish(node, "-t", name, "-m", "still there")
        assert printed(process) == ["still there"]


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (["-i", "mallory"], 0x8A, "the broker refused the connection: banned (0x8a)"),
        (["-i", "mallory", "-V", "311"], 5, "the broker refused the connection: not authorized (code 5)"),
        (["-f", "BIG"], 0x95, "the broker takes 65536 at most"),
    ],
)
def test_a_refusal_is_told_with_its_reason(
    node: Ports, name: str, tmp_path: Path, options: list[str], code: int, told: str
) -> None:
    big = tmp_path / "big"
    big.write_bytes(bytes(70_000))
    words = [str(big) if word == "BIG" else word for word in options]
    message = [] if "-f" in words else ["-m", "x"]
    done = run("publish", *node.options("tcp"), "-t", name, *message, *words)
    assert done.returncode == code
    assert "[client_refused]" in done.stderr
    assert told in done.stderr


def test_what_cannot_be_reached_is_told(node: Ports, name: str) -> None:
    nowhere = run("publish", "-h", "127.0.0.1", "-p", str(free_port()), "-t", name, "-m", "x")
    assert (nowhere.returncode, "Connection refused" in nowhere.stderr) == (1, True)
    unknown = run("publish", "-h", "127.0.0.1", "-p", str(node.tls), "--tls", "-t", name, "-m", "x")
    assert (unknown.returncode, "TLS: " in unknown.stderr) == (8, True)
    wrong = run("publish", "-h", "127.0.0.1", "-p", str(node.tls), "-t", name, "-m", "x")
    assert (wrong.returncode, "[client_connection_lost]" in wrong.stderr) == (7, True)
    wrong_path = run("publish", *node.options("ws"), "--ws-path", "/else", "-t", name, "-m", "x")
    assert (wrong_path.returncode, "the server answered 404" in wrong_path.stderr) == (1, True)
    assert run("publish", *node.options("wss")[:4], "--ws", "--insecure", "-t", name, "-m", "x").returncode == 0


@cases(
    ("command", "told"),
    [
        ("publish -m x", "-t is missing"),
        ("publish -t a", "Give one of -m, -f, -l, -n and -s"),
        ("publish -t a/# -m x", "holds a wildcard"),
        (f"publish -t {'a' * 65_536} -m x", "65,536 bytes; at most 65,535 are valid"),
        ("publish -t a\udcff -m x", "is not valid UTF-8"),
        ("publish -t a -m x -q 3", "invalid choice: 3"),
        ("publish -t a -m x -p 0", "a whole number from 1 to 65535 is expected"),
        ("publish -t a -m x -L http://x", "it begins with one of mqtt://, mqtts://, ws://, wss://"),
        ("publish -t a -m x -h h -L mqtt://x", "--url and --host contradict each other"),
        ("publish -t a -m x -D publish content-typ y", "properties of publish are payload-format-indicator"),
        (
            "publish -t a -m x -D publish message-expiry-interval soon",
            "a whole number from 0 to 4294967295 is expected",
        ),
        ("publish -t a -m x -V 311 -D publish content-type y", "-D needs MQTT 5"),
        ("publish -t a -m x --will-qos 1", "a will needs --will-topic"),
        ("publish -t a -m x --cafile /none", "the files for TLS cannot be used (/none)"),
        ("publish -t a -m x --password-file /none", "the password file /none cannot be read"),
        ("publish -t a -m x -c", "-c needs -i"),
        ("publish -t a -f /none", "the file /none cannot be read"),
        ("subscribe", "-t is missing"),
        ("subscribe -t a/#/b", '"a/#/b" is no topic filter'),
        ("subscribe -t a -F %Z", "the format has %Z"),
        ("subscribe -t a -V 311 --no-local", "--no-local needs MQTT 5"),
    ],
)
def test_wrong_options_are_told_with_what_is_valid(command: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    from heliograph.cli.main import main

    try:
        code: object = main(command.split())
    except SystemExit as exit:
        code = exit.code
    assert code == 2
    assert told in capsys.readouterr().err
