"""`heliograph start` as an operator sees it: the ready line, wrong settings, taken ports, the end."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from heliograph import __version__
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]


def start_and_fail(tmp_path: Path, config: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a start that must not succeed."""
    file = tmp_path / "heliograph.conf"
    file.write_text(config)
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "heliograph.cli.main",
            "start",
            "--config",
            str(file),
            "--data-dir",
            str(tmp_path / "d"),
        ],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={**os.environ, **environment},
    )


def connected(port: int, clientid: str, version: int = p.V5, *, clean_start: bool = True) -> socket.socket:
    """A raw client behind its CONNACK."""
    client = socket.create_connection(("127.0.0.1", port), timeout=10)
    client.sendall(encode_packet(p.Connect(version, clientid, clean_start, 0, None, None, None, Properties()), version))
    assert client.recv(1)[0] == p.CONNACK << 4
    rest = client.recv(client.recv(1)[0])
    assert rest[1] == 0
    return client


def test_the_ready_line_names_every_listener_and_sigterm_ends_with_zero(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, reader=True) as node:
        assert node.ready_line == (
            f"heliograph {__version__} is ready: mqtt tcp://127.0.0.1:{node.port}, "
            f"flight grpc://127.0.0.1:{node.flight_port}"
        )
        assert node.stop() == 0
    assert "Traceback" not in node.log.read_text()


def test_the_counters_come_into_the_log_when_asked_for(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        client = connected(node.port, "c1")
        client.sendall(bytes([0x32, 7, 0, 1]) + b"o" + bytes([0, 9, 0]) + b"x")
        assert client.recv(100) == bytes([0x40, 2, 0, 9])
        os.kill(node.pid, signal.SIGUSR1)
        for _ in range(3):  # the loop may learn of the signal a turn later than of what the client sends
            client.sendall(bytes([0xC0, 0]))
            assert client.recv(100) == bytes([0xD0, 0])
        client.close()
        assert node.stop() == 0
    line = next(line for line in node.log.read_text().splitlines() if " statistics {" in line)
    numbers = json.loads(line[line.index("{") :])
    assert numbers["messages.received"] == 1
    assert numbers["storage.messages"] == 1
    assert numbers["listeners.tcp.default.current_connections"] == 1


def test_nothing_stored_leaves_history_readable(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "durable_storage.messages.topics = []", reader=True) as node:
        assert node.flight_port != 0


def test_a_stopping_node_says_goodbye_to_mqtt5_clients(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        client = connected(node.port, "c1")
        old = connected(node.port, "c2", p.V3_1_1)
        assert node.stop() == 0
        assert client.recv(100) == bytes([0xE0, 1, rc.SERVER_SHUTTING_DOWN])
        assert client.recv(100) == b""
        assert old.recv(100) == b""
        client.close()
        old.close()


def test_a_wrong_value_stops_the_start_with_file_and_line(tmp_path: Path) -> None:
    result = start_and_fail(tmp_path, "mqtt {\n  max_inflight = 0\n  max_inflite = 3\n}\n")
    assert result.returncode == 1
    assert "heliograph.conf" in result.stderr
    assert "max_inflight" in result.stderr
    assert "max_inflite" in result.stderr
    assert ":2" in result.stderr or "line 2" in result.stderr
    assert "Traceback" not in result.stderr


def test_authenticators_that_cannot_be_used_stop_the_start_without_a_traceback(tmp_path: Path) -> None:
    keys = [f'{{ mechanism = jwt, algorithm = public-key, public_key = "/nowhere{n}.pem" }}' for n in (1, 2)]
    result = start_and_fail(tmp_path, f"authentication = {keys[0]}\nlisteners.tcp.default.authentication = {keys[1]}\n")
    assert result.returncode == 1
    assert "[authenticator_invalid] authentication.1: the file '/nowhere1.pem'" in result.stderr
    assert "[authenticator_invalid] listeners.tcp.default.authentication.1: the file '/nowhere2.pem'" in result.stderr
    assert "Traceback" not in result.stderr


def test_environment_overrides_the_file(tmp_path: Path) -> None:
    result = start_and_fail(tmp_path, "", HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND="nowhere at all")
    assert result.returncode == 1
    assert "HELIOGRAPH_LISTENERS__TCP__DEFAULT__BIND" in result.stderr


def test_a_port_in_use_says_which_and_how_to_change_it(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = f'listeners.tcp.default.bind = "127.0.0.1:{port}"\ndurable_storage.flight.bind = "127.0.0.1:0"\n'
        result = start_and_fail(tmp_path, config)
    assert result.returncode == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert "listeners.tcp.default.bind" in result.stderr
    assert "Traceback" not in result.stderr


def test_two_nodes_do_not_share_a_data_directory(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        config = f'listeners.tcp.default.bind = "127.0.0.1:0"\nnode.data_dir = "{node.data_dir}"\n'
        file = tmp_path / "second.conf"
        file.write_text(config)
        result = subprocess.run(
            [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(file)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert result.returncode == 1
    assert "used by another node" in result.stderr


def test_the_broker_never_imports_pyspark(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, is_copy=False) as node:
        maps = Path(f"/proc/{node.pid}/maps").read_text()
        assert "uvloop" in maps
        assert "pyspark" not in maps
        assert "pandas" not in maps


def publish_until_refused(client: socket.socket, stop_after: int) -> int:
    """Publish at QoS 1, one at a time; the first reason code that is a refusal, or 0."""
    payload = os.urandom(60_000)
    for number in range(1, stop_after):
        name = b"t/full"
        body = len(name).to_bytes(2, "big") + name + number.to_bytes(2, "big") + b"\0" + payload
        length = len(body)
        head = bytes([0x32, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14])
        client.sendall(head + body)
        ack = client.recv(100)
        assert ack[0] == p.PUBACK << 4
        if len(ack) > 4 and ack[4] >= rc.UNSPECIFIED_ERROR:
            return ack[4]
    return 0


def test_a_full_disk_refuses_stored_messages_and_nothing_else(tmp_path: Path) -> None:
    settings = 'durable_storage.messages.topics = ["t/#"]'
    with NodeProcess(tmp_path, settings, file_bytes_max=2_000_000) as node:
        client = connected(node.port, "c1")
        client.settimeout(20)
        assert publish_until_refused(client, 200) == rc.QUOTA_EXCEEDED
        client.sendall(bytes([0x32, 7, 0, 1]) + b"o" + bytes([0, 9, 0]) + b"x")  # a topic that is not stored
        assert client.recv(100) == bytes([0x40, 3, 0, 9, rc.NO_MATCHING_SUBSCRIBERS])
        client.close()
        assert "storage_full" in node.log.read_text()


def test_a_damaged_database_refuses_and_the_broker_serves_on(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        client = connected(node.port, "c1")
        client.sendall(bytes([0x32, 7, 0, 1]) + b"o" + bytes([0, 9, 0]) + b"x")
        assert client.recv(100) == bytes([0x40, 2, 0, 9])
        client.close()
        node.kill()
        for current in node.data_dir.rglob("CURRENT"):
            current.write_text("MANIFEST-nonsense\n")
        node.start()
        client = connected(node.port, "c1")
        client.sendall(bytes([0x32, 7, 0, 1]) + b"o" + bytes([0, 9, 0]) + b"x")
        refusal = client.recv(100)
        assert refusal[0] == 0x40
        assert refusal[2:5] == bytes([0, 9, rc.UNSPECIFIED_ERROR])
        assert refusal.endswith(b"storage is damaged")
        client.sendall(bytes([0xC0, 0]))
        assert client.recv(100) == bytes([0xD0, 0])
        client.close()
        assert "messages" in node.log.read_text()


def test_settings_beyond_64_bits_mean_for_ever(tmp_path: Path) -> None:
    beyond = "99999999999999999999"
    names = ("max_mqueue_len", "max_subscriptions", "max_awaiting_rel", "keepalive_multiplier")
    settings = "\n".join(f"mqtt.{name} = {beyond}" for name in names)
    settings += f"\nmqtt.idle_timeout = {beyond}d\nmqtt.await_rel_timeout = {beyond}d"
    with NodeProcess(tmp_path, settings) as node:
        connected(node.port, "c1").close()
        assert node.stop() == 0
    assert "Traceback" not in node.log.read_text()


def test_a_damaged_table_does_not_keep_new_messages_from_being_stored(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, 'durable_storage.messages.topics = ["t/#"]') as node:
        client = connected(node.port, "c1")
        client.settimeout(20)
        assert publish_until_refused(client, 6) == 0
        client.close()
        assert node.stop() == 0
        (table,) = (node.data_dir / "storage" / "messages").glob("*.sst")
        content = bytearray(table.read_bytes())
        content[100_000:-15_000:100] = bytes(byte ^ 255 for byte in content[100_000:-15_000:100])
        table.write_bytes(content)
        node.start()
        client = connected(node.port, "c1")
        client.settimeout(20)
        assert publish_until_refused(client, 2) == 0
        client.close()
        assert node.stop() == 0
        assert "Traceback" not in node.log.read_text()


class Beginning:
    """A `heliograph start` that waits for its storage reader, which does not go on before it is let; owned by the test.

    Args:
        directory: Where configuration, data and log go.
    """

    def __init__(self, directory: Path) -> None:
        begun, self._go_on = directory / "begun", directory / "go_on"
        os.mkfifo(begun)
        os.mkfifo(self._go_on)
        code = f"import sys\nif 'heliograph.storage.reader' in sys.orig_argv:\n    open({str(begun)!r}, 'w').close()\n"
        (directory / "sitecustomize.py").write_text(f"{code}    open({str(self._go_on)!r}).close()\n")
        self.config = directory / "heliograph.conf"
        self._said: list[str] = []
        self.data_dir = directory / "data"
        self.config.write_text(
            'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight.bind = "127.0.0.1:0"\n'
        )
        command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(self.config)]
        paths = os.pathsep.join(filter(None, (str(directory), os.environ.get("PYTHONPATH"))))
        self.process = subprocess.Popen(
            [*command, "--data-dir", str(self.data_dir)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        begun.open().close()
        assert self.process.stderr is not None
        while not self._said or "starts as" not in self._said[-1]:
            self._said.append(self.process.stderr.readline())

    def log(self) -> str:
        """What it said until its end."""
        assert self.process.stderr is not None
        return "".join(self._said) + self.process.stderr.read()

    def go_on(self) -> None:
        """Let the reader serve."""
        self._go_on.open("w").close()

    def ready_line(self) -> str:
        """Wait for it."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def __enter__(self) -> "Beginning":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_a_node_that_is_asked_to_stop_while_it_starts_stops_at_once_and_in_order(tmp_path: Path) -> None:
    with Beginning(tmp_path) as node:
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(60) == 0
        assert node.ready_line() == ""
        said = node.log()
    assert "stopped before it was ready" in said
    assert "Traceback" not in said
    with NodeProcess(tmp_path) as again:  # the directory is free
        assert again.stop() == 0


def test_a_configuration_that_is_to_be_read_again_while_a_node_starts_holds_for_all_its_parts(tmp_path: Path) -> None:
    with Beginning(tmp_path) as node:
        node.config.write_text(node.config.read_text() + "mqtt.server_keepalive = 77\n")
        node.process.send_signal(signal.SIGHUP)
        os.kill(node.process.pid, signal.SIGUSR1)
        node.go_on()
        port = int(node.ready_line().partition("tcp://127.0.0.1:")[2].partition(",")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            client.sendall(encode_packet(p.Connect(p.V5, "c", True, 0, None, None, None, Properties()), p.V5))
            assert bytes([0x13, 0, 77]) in client.recv(100)  # the property Server Keep Alive
        node.process.send_signal(signal.SIGTERM)
        assert node.process.wait(20) == 0
        assert "the configuration changed: mqtt.server_keepalive" in node.log()
