"""A real broker that is killed: what the members of a durable group find over TCP when it is back."""

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = "durable_sessions.enable = true"


class Member:
    """A paho client of a group with a persistent session; the library acknowledges, and comes back by itself."""

    def __init__(self, clientid: str, port: int, topic_filter: str, qos: int, log: "Log") -> None:
        self._filter = topic_filter
        self._qos = qos
        self._log = log
        self._ready = threading.Event()
        self._client = Client(CallbackAPIVersion.VERSION2, client_id=clientid, clean_session=False)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = lambda client, data, message: log.add(clientid, bytes(message.payload))
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(20)

    def stop(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: Client, data: Any, flags: Any, reason: Any, properties: Any) -> None:
        client.subscribe(self._filter, self._qos)


class Log:
    """What all members got together."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.by_member: dict[str, list[bytes]] = {}
        self._changed = threading.Condition()

    def add(self, clientid: str, payload: bytes) -> None:
        with self._changed:
            self.counts[payload] += 1
            self.by_member.setdefault(clientid, []).append(payload)
            self._changed.notify()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.counts) >= count, 30), f"{len(self.counts)} of {count} came"


def publish(port: int, topic: str, payloads: list[bytes], qos: int) -> None:
    """Publish as several clients, and wait for the acknowledgements."""
    for number in range(4):
        client = Client(CallbackAPIVersion.VERSION2, client_id=f"publisher-{number}")
        client.max_inflight_messages_set(100)
        client.connect("127.0.0.1", port)
        client.loop_start()
        infos = [client.publish(topic, payload, qos) for payload in payloads[number::4]]
        for info in infos:
            info.wait_for_publish(30)
        client.disconnect()
        client.loop_stop()


@pytest.mark.parametrize("qos", [1, 2])
def test_a_group_gets_everything_though_the_broker_is_killed(tmp_path: Path, qos: int) -> None:
    expected = [b"%d" % number for number in range(1_500)]
    log = Log()
    with NodeProcess(tmp_path, SETTINGS) as node:
        members = [Member(name, node.port, "$share/g/t/#", qos, log) for name in ("one", "two")]
        publish(node.port, "t/1", expected[:1000], qos)
        node.kill()  # while members take what was published
        node.start()
        members.append(Member("three", node.port, "$share/g/t/#", qos, log))
        publish(node.port, "t/1", expected[1000:], qos)
        log.wait_for(len(expected))
        for member in members:
            member.stop()
        assert set(log.counts) == set(expected)
        assert len(log.by_member) >= 2
        if qos == 2:
            assert [payload for payload, count in log.counts.items() if count > 1] == []
        assert node.stop() == 0
