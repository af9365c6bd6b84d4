"""Sections 4.2 and 6, and chapter 7: packets over real TCP and WebSocket connections to a node."""

import base64
import hashlib
import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

from conformance.dialogue import both_versions, encoded
from conformance.statements import proves
from support.cases import cases
from support.process import NodeProcess

pytestmark = pytest.mark.service

BINARY, TEXT, CONTINUATION = 0x2, 0x1, 0x0


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    directory: Path = tmp_path_factory.mktemp("node")
    with NodeProcess(directory, 'listeners.ws.default.bind = "127.0.0.1:0"') as started:
        yield started


class Connection:
    """A TCP connection to a node."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def read(self, count: int) -> bytes:
        """Exactly so many bytes, or what came before the end."""
        while len(self._unread) < count:
            data = self._socket.recv(65_536)
            if not data:
                break
            self._unread += data
        found, self._unread = self._unread[:count], self._unread[count:]
        return found

    def read_until(self, mark: bytes) -> bytes:
        """Everything up to a mark."""
        found = b""
        while not found.endswith(mark):
            byte = self.read(1)
            assert byte, f"the connection ended behind {found!r}"
            found += byte
        return found


class WebSocket(Connection):
    """A WebSocket connection to a node."""

    def __init__(self, node: NodeProcess, subprotocols: str | None = "mqtt") -> None:
        found = re.search(r"ws://[^\s,]*?:(\d+)", node.ready_line)
        assert found is not None, node.ready_line
        super().__init__(int(found[1]))
        self._packets = b""
        key = base64.b64encode(os.urandom(16)).decode()
        offered = "" if subprotocols is None else f"Sec-WebSocket-Protocol: {subprotocols}\r\n"
        self.send(
            f"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n{offered}\r\n".encode()
        )
        status, *lines = self.read_until(b"\r\n\r\n").decode().strip().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        accept = hashlib.sha1(f"{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11".encode()).digest()
        if self.status == 101:
            assert self.headers["sec-websocket-accept"] == base64.b64encode(accept).decode()

    def frame(self, payload: bytes, opcode: int = BINARY, *, is_final: bool = True) -> None:
        """Send one frame."""
        mask = os.urandom(4)
        head = bytes([(0x80 if is_final else 0) | opcode])
        head += bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
        self.send(head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload)))

    def read_frame(self) -> tuple[int, bytes]:
        """The opcode and the payload of the next frame; (-1, b"") at the end of the connection."""
        head = self.read(2)
        if len(head) < 2:
            return -1, b""
        length = head[1]
        if length == 126:
            length = int.from_bytes(self.read(2), "big")
        return head[0] & 0x0F, self.read(length)

    def read_packets(self, count: int) -> bytes:
        """So many bytes of MQTT, all of which must come in binary frames."""
        while len(self._packets) < count:
            opcode, payload = self.read_frame()
            assert opcode in (BINARY, CONTINUATION), (opcode, payload)
            self._packets += payload
        found, self._packets = self._packets[:count], self._packets[count:]
        return found


def connect(version: int, clientid: str) -> bytes:
    return encoded(f'10 # "MQTT" {version:02x} 02 0000 {{}} "{clientid}"', version)


def read_connack(connection: WebSocket) -> None:
    head = connection.read_packets(2)
    assert (head[0], connection.read_packets(head[1])[:2]) == (0x20, b"\0\0")


@both_versions
@proves("MQTT-4.2-1", "3.1.1 MQTT-7.1.1-1", "3.1.1 MQTT-7.0.0-2")
def test_bytes_over_tcp_arrive_all_and_in_order(node: NodeProcess, version: int) -> None:
    with Connection(node.port) as client:
        client.send(connect(version, f"tcp-{version}"))
        head = client.read(2)
        assert (head[0], client.read(head[1])[:2]) == (0x20, b"\0\0")
        client.send(encoded('82 # 0001 {} "tcp/order" 00', version))
        suback = encoded("90 # 0001 {} 00", version)
        assert client.read(len(suback)) == suback
        packets = [encoded(f"30 # \"tcp/order\" {{}} '{number:06d}'", version) for number in range(5000)]
        client.send(b"".join(packets))
        assert client.read(sum(map(len, packets))) == b"".join(packets)


@both_versions
@proves("MQTT-6.0.0-1", "MQTT-6.0.0-2", "MQTT-6.0.0-4", "3.1.1 MQTT-6.0.0-1", "3.1.1 MQTT-6.0.0-2")
@proves("3.1.1 MQTT-6.0.0-4")
def test_packets_and_frames_need_not_begin_together(node: NodeProcess, version: int) -> None:
    with WebSocket(node) as client:
        assert (client.status, client.headers["sec-websocket-protocol"]) == (101, "mqtt")
        packet = connect(version, f"ws-{version}")
        for byte in packet[:-1]:
            client.frame(bytes([byte]))
        client.frame(packet[-1:] + encoded("c0 # ", version), is_final=False)
        client.frame(b"", CONTINUATION)
        client.frame(encoded("c0 #", version)[:1], is_final=False)
        client.frame(encoded("c0 #", version)[1:] + encoded("c0 #", version) * 2, CONTINUATION)
        read_connack(client)
        assert client.read_packets(8) == b"\xd0\0" * 4


@both_versions
@cases("is_connected", [False, True])
@proves("MQTT-6.0.0-1", "3.1.1 MQTT-6.0.0-1")
def test_a_text_frame_closes_the_connection(node: NodeProcess, version: int, is_connected: bool) -> None:
    with WebSocket(node) as client:
        if is_connected:
            client.frame(connect(version, f"text-{version}"))
            read_connack(client)
        client.frame(encoded("c0 #", version), TEXT)
        frames = []
        while (frame := client.read_frame())[0] != -1:
            frames.append(frame[0])
        assert BINARY not in frames


@proves("MQTT-6.0.0-4", "3.1.1 MQTT-6.0.0-4")
@cases("offered", ["mqtt", "mqttv3.1, mqtt", "chat, mqtt", "mqtt, mqtt-v5", "mqtt-v5, mqtt"])
def test_the_subprotocol_selected_is_mqtt(node: NodeProcess, offered: str) -> None:
    with WebSocket(node, offered) as client:
        assert client.status == 101
        assert client.headers["sec-websocket-protocol"] == "mqtt"


@proves("MQTT-6.0.0-4", "3.1.1 MQTT-6.0.0-4")
@cases("offered", ["chat", "MQTTX"])
def test_another_subprotocol_is_not_selected(node: NodeProcess, offered: str) -> None:
    with WebSocket(node, offered) as client:
        assert client.status != 101 or "sec-websocket-protocol" not in client.headers
