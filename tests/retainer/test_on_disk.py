"""Retained messages of a node that is killed, whose disk is full, or whose files are damaged."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet, encode_publish
from heliograph.mqtt.properties import Properties
from support.packets import decode_all
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_storage { flight.enable = false, messages.topics = [] }
retainer.msg_expiry_interval = 0s
"""
TIMEOUT_S = 20.0


class Client:
    """A client with a blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._data = b""

    def publish(self, topic: str, payload: bytes, expiry_s: int | None = None) -> int:
        """Publish a retained message at QoS 1: the reason code of its acknowledgement."""
        properties = b"" if expiry_s is None else b"\x02" + expiry_s.to_bytes(4, "big")
        packet = encode_publish(p.V5, topic.encode(), payload, 1, True, False, 1, properties)
        self._connection.sendall(packet)
        answer = self.receive()
        assert isinstance(answer, p.Ack)
        return 0 if answer.code == rc.NO_MATCHING_SUBSCRIBERS else answer.code

    def subscribe(self, topic_filter: str, count: int) -> dict[str, bytes]:
        """Subscribe, and read so many retained messages and nothing more."""
        entry = p.SubscribeEntry(topic_filter, 0, False, False, 0)
        self._connection.sendall(encode_packet(p.Subscribe(1, [entry], Properties()), p.V5))
        assert isinstance(self.receive(), p.Suback)
        found = {}
        for _ in range(count):
            message = self.receive()
            assert isinstance(message, p.Publish)
            found[message.topic.decode()] = message.payload
        self._connection.sendall(encode_packet(p.Ping(p.PINGREQ), p.V5))
        assert isinstance(self.receive(), p.Ping)
        return found

    def receive(self) -> p.Packet:
        """The next packet."""
        while True:
            size = _packet_bytes(self._data)
            if size and len(self._data) >= size:
                data, self._data = self._data[:size], self._data[size:]
                (packet,) = decode_all(data, p.V5)
                return packet
            more = self._connection.recv(65_536)
            assert more, "the node closed the connection"
            self._data += more


def _packet_bytes(data: bytes) -> int:
    """How long the packet at the beginning is, 0 if that is not known yet."""
    length = 0
    for place, byte in enumerate(data[1:5]):
        length |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return length + place + 2
    return 0


@contextmanager
def client(node: NodeProcess) -> Iterator[Client]:
    with socket.create_connection(("127.0.0.1", node.port), timeout=TIMEOUT_S) as connection:
        connect = p.Connect(p.V5, "c", True, 0, None, None, None, Properties())
        connection.sendall(encode_packet(connect, p.V5))
        one = Client(connection)
        assert isinstance(one.receive(), p.Connack)
        yield one


def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        with client(node) as publisher:
            for number in range(300):
                assert publisher.publish(f"d/{number}/state", b"%d" % number) == rc.SUCCESS
            for number in range(100):
                assert publisher.publish(f"d/{number}/state", b"") == rc.SUCCESS
            assert publisher.publish("d/200/state", b"new") == rc.SUCCESS
        node.kill()
        node.start()
        expected = {f"d/{number}/state": b"%d" % number for number in range(100, 300)} | {"d/200/state": b"new"}
        with client(node) as subscriber:
            assert subscriber.subscribe("d/+/state", 200) == expected
        with client(node) as subscriber:
            assert subscriber.subscribe("d/150/#", 1) == {"d/150/state": b"150"}
        assert node.stop() == 0
        node.start()
        with client(node) as subscriber:
            assert subscriber.subscribe("#", 200) == expected


def test_what_expires_while_the_node_is_down_is_not_delivered(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        with client(node) as publisher:
            publisher.publish("short", b"x", expiry_s=0)
            publisher.publish("long", b"x", expiry_s=1000)
        node.kill()
        node.start()
        with client(node) as subscriber:
            assert subscriber.subscribe("#", 1) == {"long": b"x"}


def test_a_full_disk_refuses_the_publisher_and_keeps_what_it_has(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS, file_bytes_max=300_000) as node:
        taken = 0
        with client(node) as publisher:
            codes = []
            for number in range(1000):
                codes.append(publisher.publish(f"d/{number:03d}", bytes(3000)))
                if codes[-1] != rc.SUCCESS:
                    break
                taken += 1
            assert codes[-1] == rc.QUOTA_EXCEEDED
            assert taken > 10
        with client(node) as subscriber:
            assert sorted(subscriber.subscribe("d/+", taken)) == [f"d/{number:03d}" for number in range(taken)]
        assert "retained messages are refused [storage_full]" in node.log.read_text()


def test_a_damaged_database_refuses_retained_messages_and_nothing_else(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        with client(node) as publisher:
            publisher.publish("a", b"x")
        node.stop()
        current = node.data_dir / "keyed" / "retained" / "CURRENT"
        good = current.read_bytes()
        current.write_text("no manifest\n")
        node.start()
        with client(node) as publisher:
            assert publisher.publish("a", b"new") != rc.SUCCESS
            assert publisher.subscribe("#", 0) == {}
        current.write_bytes(good)
        with client(node) as publisher:
            assert _until_taken(publisher) == rc.SUCCESS
        with client(node) as subscriber:
            assert subscriber.subscribe("a", 1) == {"a": b"newer"}
        assert "the database of retained messages cannot be opened" in node.log.read_text()


def _until_taken(publisher: Client) -> int:
    """Publish until the node has opened the database again, which it tries once a second."""
    code = rc.UNSPECIFIED_ERROR
    while code != rc.SUCCESS:
        code = publisher.publish("a", b"newer")
    return code


@pytest.mark.parametrize("storage_type", ["ram", "disc"])
def test_where_they_are_kept_is_a_setting(tmp_path: Path, storage_type: str) -> None:
    with NodeProcess(tmp_path, f"{SETTINGS}\nretainer.backend.storage_type = {storage_type}") as node:
        with client(node) as publisher:
            assert publisher.publish("a", b"x") == rc.SUCCESS
        node.stop()
        assert (node.data_dir / "keyed").exists() == (storage_type == "disc")
        node.start()
        with client(node) as subscriber:
            assert subscriber.subscribe("#", int(storage_type == "disc")) == (
                {"a": b"x"} if storage_type == "disc" else {}
            )
