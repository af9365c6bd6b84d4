"""`heliograph bench` over TLS and WebSocket, against mosquitto."""

import json
import ssl
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.commands import run
from support.cases import cases
from support.mosquitto import Listeners, free_port

pytestmark = pytest.mark.service


@cases("qos", [0, 1, 2])
@cases("transport", ["tcp", "tls", "ws", "wss"])
def test_what_is_sent_is_received(
    mosquitto_listeners: Listeners, capsys: pytest.CaptureFixture[str], transport: str, qos: int
) -> None:
    trust = ["--cafile", mosquitto_listeners.cafile] if transport in ("tls", "wss") else []
    place = ["-p", mosquitto_listeners.ports[transport], "--transport", transport, *trust]
    assert run("pair", *place, "-c", 2, "-n", 300, "-q", qos, "-s", 500, "--json", "--quiet") == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["received"], result["lost"], result["transport"]) == (600, 0, transport)


@cases("transport", ["tls", "wss"])
def test_a_certificate_is_checked_unless_it_must_not_be(
    mosquitto_listeners: Listeners, capsys: pytest.CaptureFixture[str], transport: str
) -> None:
    options = ["-p", mosquitto_listeners.ports[transport], "--transport", transport, "-n", 1, "-q", 1, "--quiet"]
    assert run("pub", *options) == 1
    assert "its certificate is not trusted" in capsys.readouterr().out
    assert run("pub", *options, "--insecure") == 0
    assert f"MQTT 5 over {transport}" in capsys.readouterr().out


def test_a_listener_of_another_transport_is_reported(
    mosquitto_listeners: Listeners, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["-p", mosquitto_listeners.ports["tcp"], "--transport", "ws", "-n", 1, "--quiet"]
    assert run("pub", *options) == 1
    assert "1 × the server closed the connection during the WebSocket handshake" in capsys.readouterr().out


@cases(
    ("options", "said"),
    [
        (["--transport", "tls", "--cafile", "/nowhere/ca.pem"], "--cafile /nowhere/ca.pem: No such file"),
        (["--transport", "ws", "--ws-path", "mqtt"], "--ws-path mqtt: a path such as /mqtt is expected"),
        (["--precise"], "--precise is about when messages are due, so it needs --rate"),
    ],
)
def test_options_that_make_no_sense(capsys: pytest.CaptureFixture[str], options: Sequence[str], said: str) -> None:
    assert run("pub", "-p", free_port(), "-n", 1, "--quiet", *options) == 2
    assert f"[bench_options] {said}" in capsys.readouterr().err


def test_a_file_without_certificates_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(ssl.SSLError):
        ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    assert run("pub", "--transport", "wss", "--cafile", tmp_path / "ca.pem", "-n", 1, "--quiet") == 2
    assert f"--cafile {tmp_path / 'ca.pem'}" in capsys.readouterr().err


def test_a_precise_rate_is_kept(mosquitto_listeners: Listeners, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["-p", mosquitto_listeners.ports["tcp"], "-r", 2000, "--precise", "-n", 300, "--json", "--quiet"]
    assert run("pair", *options) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["received"] == 300
    assert result["received_per_s"] <= 2000 * 1.02
