"""Wills of many clients at once, and a broker that is killed or stopped before they are due: all of them arrive."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.packets import properties
from support.process import NodeProcess
from support.watcher import Watcher

pytestmark = [pytest.mark.service, pytest.mark.slow]

CLIENTS = 20
FOR_EVER_S = 0xFFFFFFFF


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """Closes what it is given at the end."""
    with ExitStack() as stack:
        yield stack


def connect_with_will(port: int, number: int, *, retain: bool) -> socket.socket:
    """A client with a durable session that never ends, and a will that is due a second after it vanishes."""
    connection = socket.create_connection(("127.0.0.1", port))
    will = p.Will(f"w/{number}", b"gone", 1, retain, properties(will_delay_interval=1))
    shown = properties(session_expiry_interval=FOR_EVER_S)
    connection.sendall(encode_packet(p.Connect(p.V5, f"c{number}", False, 0, will, None, None, shown), p.V5))
    assert connection.recv(1)[0] >> 4 == p.CONNACK
    return connection


@pytest.mark.parametrize("retain", [False, True])
@pytest.mark.parametrize("are_connected", [False, True])
@pytest.mark.parametrize("ends", ["killed", "stopped"])
def test_every_will_that_is_due_arrives_after_a_restart(
    tmp_path: Path, held: ExitStack, ends: str, are_connected: bool, retain: bool
) -> None:
    with NodeProcess(tmp_path) as node:
        watcher = Watcher(node.port, "w/#", 1, CLIENTS)
        held.callback(watcher.stop)
        for number in range(CLIENTS):
            connection = held.enter_context(connect_with_will(node.port, number, retain=retain))
            if not are_connected:
                connection.close()
        if ends == "killed":
            node.kill()
        else:
            assert node.stop() == 0
        node.start()
        assert watcher.has_all.wait(40), sorted(watcher.heard)
