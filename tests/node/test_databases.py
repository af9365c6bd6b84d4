"""Messages of some topics go to a database of their own, and are acknowledged when it has them."""

import socket
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.pipeline.datasource.client import StorageClient
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_storage.messages.topics = ["plain/#", "both/#"]
durable_storage.databases.audit { topics = ["audit/#", "both/#"], retention = infinity, n_shards = 2 }
"""


def publish(port: int, *topics: str) -> list[int]:
    """Publish to each topic at QoS 1: the reason codes of the acknowledgements."""
    codes = []
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        connect = p.Connect(p.V5, "c1", True, 0, None, None, None, Properties())
        client.sendall(encode_packet(connect, p.V5))
        assert client.recv(1000)[0] == p.CONNACK << 4
        for topic in topics:
            name = topic.encode()
            body = len(name).to_bytes(2, "big") + name + b"\0\1" + b"\0" + b"x"
            client.sendall(bytes([0x32, len(body)]) + body)
            puback = client.recv(1000)
            assert puback[0] == p.PUBACK << 4
            codes.append(puback[4] if puback[1] > 2 else rc.SUCCESS)
    return codes


def test_a_database_of_its_own_holds_what_its_topics_say(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS, reader=True) as node:
        stored = publish(node.port, "plain/1", "audit/1", "audit/2", "both/1")
        assert stored == [rc.SUCCESS] * 4
        assert publish(node.port, "neither/1") == [rc.NO_MATCHING_SUBSCRIBERS]
        node.kill()
        node.start()
        with StorageClient(f"127.0.0.1:{node.flight_port}") as reader:
            assert reader.info("messages")["messages"] == 2
            assert reader.info("audit")["messages"] == 3
            assert reader.info("audit")["shards"] == 2
        node.stop()


def test_a_database_that_cannot_be_opened_refuses_what_is_for_it_alone(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        publish(node.port, "both/1")
        node.stop()
        for file in (node.data_dir / "storage" / "audit").glob("CURRENT"):
            file.write_text("no manifest\n")
        node.start()
        assert publish(node.port, "plain/1", "audit/1", "both/1") == [
            rc.SUCCESS,
            rc.UNSPECIFIED_ERROR,
            rc.UNSPECIFIED_ERROR,
        ]
        node.stop()
