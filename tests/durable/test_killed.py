"""A real broker that is killed: what clients find over TCP when it is back."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from heliograph.durable_sessions import record
from heliograph.storage.state.local import LocalState
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]


class Subscriber:
    """A paho client with a persistent session that remembers what it got; the library acknowledges."""

    def __init__(self, clientid: str, port: int, topic_filter: str = "", qos: int = 1) -> None:
        self.got: list[bytes] = []
        self.was_present = False
        self._changed = threading.Condition()
        self._ready = threading.Event()
        self._filter = topic_filter
        self._qos = qos
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=clientid, clean_session=False)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(20)

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.got) >= count, 30), f"{len(self.got)} of {count} came"

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        self.was_present = bool(flags.session_present)
        if self._filter:
            client.subscribe(self._filter, self._qos)
        else:
            self._ready.set()

    def _on_subscribe(self, client: Client, data: Any, mid: int, reasons: Any, properties: Any) -> None:
        self._ready.set()

    def _on_message(self, client: Client, data: Any, message: Any) -> None:
        with self._changed:
            self.got.append(message.payload)
            self._changed.notify()


def publish(port: int, topic: str, payloads: list[bytes], qos: int) -> None:
    """Publish and wait for the acknowledgements."""
    client = Client(CallbackAPIVersion.VERSION2, client_id="publisher")
    client.max_inflight_messages_set(100)
    client.connect("127.0.0.1", port)
    client.loop_start()
    infos = [client.publish(topic, payload, qos) for payload in payloads]
    for info in infos:
        info.wait_for_publish(30)
    client.disconnect()
    client.loop_stop()


@pytest.mark.parametrize("qos", [1, 2])
def test_what_was_acknowledged_comes_to_a_client_that_was_away_while_the_broker_was_killed(
    tmp_path: Path, qos: int
) -> None:
    expected = [b"%d" % number for number in range(3_000)]
    with NodeProcess(tmp_path) as node:
        Subscriber("sub", node.port, "t/#", qos).stop()
        publish(node.port, "t/1", expected[:1500], qos)
        node.kill()
        node.start()
        publish(node.port, "t/1", expected[1500:], qos)
        node.kill()
        node.start()
        sub = Subscriber("sub", node.port)
        assert sub.was_present
        sub.wait_for(len(expected))
        publish(node.port, "t/1", [b"live"], qos)
        sub.wait_for(len(expected) + 1)
        sub.stop()
        assert sub.got == [*expected, b"live"]
        node.stop()


def test_a_stop_and_a_start_keep_the_session_too(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        sub = Subscriber("sub", node.port, "t", 2)
        publish(node.port, "t", [b"1", b"2"], 2)
        sub.wait_for(2)
        sub.stop()
        assert node.stop() == 0
        node.start()
        publish(node.port, "t", [b"3"], 2)
        sub = Subscriber("sub", node.port)
        sub.wait_for(1)
        sub.stop()
        assert (sub.was_present, sub.got) == (True, [b"3"])
        assert node.stop() == 0


def test_a_session_outlives_that_sessions_are_switched_off(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:
        Subscriber("sub", node.port, "t", 1).stop()
        assert node.stop() == 0
        node.settings = "durable_sessions.enable = false"
        node.start()
        publish(node.port, "t", [b"1"], 2)
        assert node.stop() == 0
        assert asyncio.run(noted_off(node.data_dir))
        node.settings = ""
        node.start()
        sub = Subscriber("sub", node.port)
        sub.wait_for(1)
        sub.stop()
        assert (sub.was_present, sub.got) == (True, [b"1"])
        assert node.stop() == 0
        assert not asyncio.run(noted_off(node.data_dir))


async def noted_off(data_dir: Path) -> bool:
    """Whether the database of sessions knows since when they are off."""
    state = LocalState(data_dir, "sessions")
    state.open()
    value = state.get(record.OFF_SINCE)
    await state.close()
    return value is not None


def test_while_durable_sessions_are_off_nothing_of_them_is_kept(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, "durable_sessions.enable = false") as node:
        Subscriber("sub", node.port, "t").stop()
        node.kill()
        node.start()
        sub = Subscriber("sub", node.port)
        sub.stop()
        assert not sub.was_present
        assert not (node.data_dir / "state" / "sessions").exists()
