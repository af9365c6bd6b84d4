"""What the command-line clients of mosquitto see."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = [
    pytest.mark.service,
    pytest.mark.skipif(
        shutil.which("mosquitto_pub") is None or shutil.which("mosquitto_sub") is None,
        reason="mosquitto_pub and mosquitto_sub are not installed",
    ),
]

WAIT_S = 10
both_versions = pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])


def publish(broker: tuple[str, int], *options: str, given: str | None = None) -> None:
    host, port = broker
    command = ["mosquitto_pub", "-h", host, "-p", str(port), *options]
    subprocess.run(command, input=given, text=True, check=True, timeout=WAIT_S)


@contextmanager
def subscribed(broker: tuple[str, int], *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A mosquitto_sub that the broker has told that it is subscribed."""
    host, port = broker
    command = [
        "mosquitto_sub",
        "-d",
        "-h",
        host,
        "-p",
        str(port),
        "-W",
        str(WAIT_S),
        "-F",
        "message %t|%q|%r|%p",
        *options,
    ]
    with subprocess.Popen(["stdbuf", "-oL", *command], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert any(line.startswith("Subscribed") for line in process.stdout), "never subscribed"
            yield process
        finally:
            process.terminate()


def lines(process: "subprocess.Popen[str]") -> list[str]:
    """The messages that it printed, once it has as many as it was told to wait for."""
    assert process.stdout is not None
    printed = [line.rstrip("\n").removeprefix("message ") for line in process.stdout if line.startswith("message ")]
    assert process.wait(WAIT_S) == 0
    return printed


@both_versions
@pytest.mark.parametrize("qos", ["0", "1", "2"])
def test_lines_published_are_lines_received(broker: tuple[str, int], name: str, version: str, qos: str) -> None:
    with subscribed(broker, "-V", version, "-q", qos, "-t", f"{name}/+", "-C", "50") as process:
        given = "".join(f"line {n}\n" for n in range(50))
        publish(broker, "-V", version, "-q", qos, "-t", f"{name}/a", "-l", given=given)
        assert lines(process) == [f"{name}/a|{qos}|0|line {n}" for n in range(50)]


@both_versions
def test_a_retained_message_is_marked(broker: tuple[str, int], name: str, version: str) -> None:
    publish(broker, "-V", version, "-q", "1", "-r", "-t", f"{name}/state", "-m", "on")
    with subscribed(broker, "-V", version, "-q", "1", "-t", f"{name}/#", "-C", "1") as process:
        assert lines(process) == [f"{name}/state|1|1|on"]
    publish(broker, "-V", version, "-q", "1", "-r", "-n", "-t", f"{name}/state")


@both_versions
def test_a_kept_session_gets_what_it_missed(broker: tuple[str, int], name: str, version: str) -> None:
    session = ["-V", version, "-i", name, "-c", "-q", "1", "-t", f"{name}/#"]
    if version == "mqttv5":
        session += ["-x", "60"]
    with subscribed(broker, *session):
        pass
    for word in ("one", "two"):
        publish(broker, "-V", version, "-q", "1", "-t", f"{name}/x", "-m", word)
    host, port = broker
    command = ["mosquitto_sub", "-h", host, "-p", str(port), "-W", str(WAIT_S), "-C", "2", *session]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=WAIT_S).stdout
    assert output.split() == ["one", "two"]
