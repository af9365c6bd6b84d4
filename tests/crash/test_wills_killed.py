"""Wills of many clients at once, and a broker that is killed or stopped before they are due: all of them arrive."""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.packets import properties
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

CLIENTS = 20
FOR_EVER_S = 0xFFFFFFFF


class Watcher:
    """A subscriber of `w/#` whose session outlives the broker."""

    def __init__(self, port: int) -> None:
        self.heard: set[str] = set()
        self.has_all = threading.Event()
        self._has_subscribed = threading.Event()
        self.client = Client(CallbackAPIVersion.VERSION2, client_id="watcher", clean_session=False)
        self.client.reconnect_delay_set(1, 1)
        self.client.on_message = self._on_message
        self.client.on_subscribe = lambda *_: self._has_subscribed.set()
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        self.client.subscribe("w/#", 1)
        assert self._has_subscribed.wait(20)

    def _on_message(self, client: Client, data: Any, message: Any) -> None:
        self.heard.add(message.topic)
        if len(self.heard) == CLIENTS:
            self.has_all.set()


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
        watcher = Watcher(node.port)
        held.callback(watcher.client.loop_stop)
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
