"""A node removes what is older than its settings say, while it goes on."""

import socket
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from support.process import NodeProcess
from support.waiting import wait_until

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_storage.messages.retention = 1s
durable_storage.messages.generation_interval = 1s
"""


def publish(port: int, payload: bytes) -> None:
    """Publish at QoS 1 and wait for the acknowledgement."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        connect = p.Connect(p.V5, "c1", True, 0, None, None, None, Properties())
        client.sendall(encode_packet(connect, p.V5))
        assert client.recv(1000)[0] == p.CONNACK << 4
        body = b"\0\3a/b" + b"\0\1" + b"\0" + payload
        client.sendall(bytes([0x32, len(body)]) + body)
        assert client.recv(1000)[0] == p.PUBACK << 4


def test_messages_go_when_they_are_old_and_the_node_goes_on(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, reader=True) as node:
        publish(node.port, b"old")
        with StorageClient(f"127.0.0.1:{node.flight_port}") as reader:
            assert reader.info("messages")["messages"] == 1
            (first,) = [stream.stream for stream in reader.streams(MessageSelection())]
        node.stop()
        node.settings = SETTINGS
        node.start()
        with StorageClient(f"127.0.0.1:{node.flight_port}") as reader:
            wait_until(lambda: not reader.info("messages")["messages"], "the old message goes")
            publish(node.port, b"young")
            assert first in reader.plan(MessageSelection(), {first: ""}).dropped
        node.stop()
