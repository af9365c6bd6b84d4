"""A node in this process whose configuration a test changes while clients stay connected."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self, TypeVar

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.parts import BansPart
from heliograph.broker.client import ClientInfo
from heliograph.config.loading import load_config
from heliograph.config.settings import Config
from heliograph.mqtt import packets as p
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import encode_packet
from heliograph.node import Node
from heliograph.node.kernel import KernelPart
from heliograph.node.listeners import ListenersPart
from heliograph.transport.listener import Listener
from support.packets import PropertyValue, properties, publish
from support.websocket_client import open_websocket

WAIT_S = 60.0  # beyond which it does not come; for a machine that is slow
# What the system holds for a client that does not read is known then, and does not grow while it is watched.
_RECEIVE_BUFFER = 32_768
# A process more for each node, at an address that two of them cannot have; a test of it says so after this.
_NO_READER = "durable_storage.flight.enable = false"

PacketT = TypeVar("PacketT", bound=p.Packet)


class Reads(Protocol):
    """What a client reads from."""

    async def read(self, count: int, /) -> bytes: ...


class Writes(Protocol):
    """What a client writes to."""

    def write(self, data: bytes, /) -> None: ...

    def close(self) -> None: ...


class MqttClient:
    """A client on a real socket; what comes is kept until a test asks for it.

    Attributes:
        disconnect: The DISCONNECT that the node sent, if it did.
        is_reading: Cleared while it does not read what it is sent.
    """

    def __init__(self, reader: Reads, writer: Writes, version: int) -> None:
        self.version = version
        self.is_reading = asyncio.Event()
        self.is_reading.set()
        self.disconnect: p.Disconnect | None = None
        self._reader = reader
        self._writer = writer
        self._packets: list[p.Packet] = []
        self._came = asyncio.Event()
        self._is_closed = False
        self._last_id = 0
        self._reading = asyncio.create_task(self._read())

    @property
    def is_closed(self) -> bool:
        """Whether the node has closed the connection."""
        return self._is_closed

    def send(self, *packets: p.Packet) -> None:
        """Send packets."""
        self._writer.write(b"".join(encode_packet(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    def send_connect(
        self,
        clientid: str,
        *,
        clean_start: bool = True,
        keepalive_s: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: p.Will | None = None,
        **named: PropertyValue,
    ) -> None:
        """Send CONNECT."""
        self.send(
            p.Connect(self.version, clientid, clean_start, keepalive_s, will, username, password, properties(**named))
        )

    async def take(self, kind: type[PacketT], which: Callable[[PacketT], bool] = lambda packet: True) -> PacketT:
        """The next packet of a kind; others stay.

        Raises:
            ConnectionError: The connection is closed before it comes.
        """
        async with asyncio.timeout(WAIT_S):
            while True:
                for packet in self._packets:
                    if isinstance(packet, kind) and which(packet):
                        self._packets.remove(packet)
                        return packet
                if self._is_closed:
                    raise ConnectionError(f"closed, with {self.disconnect}")
                self._came.clear()
                await self._came.wait()

    async def until_closed(self) -> p.Disconnect | None:
        """Wait until the node closes the connection: what it said, if anything."""
        async with asyncio.timeout(WAIT_S):
            await self._reading
        return self.disconnect

    async def ping(self) -> None:
        """Have the node answer: it has handled all that was sent before."""
        self.send(p.Ping(p.PINGREQ))
        await self.take(p.Ping)

    async def subscribe(self, topic_filter: str, qos: int = 0) -> int:
        """Subscribe to one filter: the reason code."""
        self._last_id += 1
        entry = p.SubscribeEntry(topic_filter, qos, False, False, 0)
        self.send(p.Subscribe(self._last_id, [entry], properties()))
        return (await self.take(p.Suback)).codes[0]

    async def publish(
        self, topic: str, payload: bytes = b"", qos: int = 0, *, retain: bool = False, **named: PropertyValue
    ) -> int:
        """Publish, and wait for the answer at QoS 1 and 2 (of which PUBREC is the last): its reason code, else 0."""
        packet_id = 0
        if qos:
            self._last_id += 1
            packet_id = self._last_id
        packet = publish(topic, payload, qos, packet_id, retain=retain, dup=False, version=self.version, **named)
        self._writer.write(packet.data)
        if not qos:
            return 0
        return (await self.take(p.Ack, lambda ack: ack.packet_id == packet_id)).code

    def acknowledge(self, packet: p.Publish) -> None:
        """Send PUBACK."""
        self.send(p.Ack(p.PUBACK, packet.packet_id, 0))

    async def payloads(self) -> list[bytes]:
        """What of the messages that came is not taken yet; none is on its way any more."""
        return [packet.payload for packet in await self._messages()]

    async def topics(self) -> list[str]:
        """The same, by their topics."""
        return [packet.topic.decode() for packet in await self._messages()]

    async def leave(self) -> None:
        """Close the connection without a word, and wait until the node has closed its end, where TCP can say so."""
        if isinstance(self._writer, asyncio.StreamWriter) and self._writer.can_write_eof() and not self._is_closed:
            self._writer.write_eof()
        else:
            self._writer.close()
        await self.until_closed()

    def close(self) -> None:
        """Close the connection without a word."""
        self._writer.close()

    async def _messages(self) -> list[p.Publish]:
        await self.ping()
        found = [packet for packet in self._packets if isinstance(packet, p.Publish)]
        self._packets = [packet for packet in self._packets if not isinstance(packet, p.Publish)]
        return found

    async def _read(self) -> None:
        data = b""
        try:
            while chunk := await self._reader.read(65536):
                data = self._parse(data + chunk)
                await self.is_reading.wait()
        except OSError:
            pass
        finally:
            self._is_closed = True
            self._writer.close()
            self._came.set()

    def _parse(self, data: bytes) -> bytes:
        while len(data) >= 2:
            length, body = remaining_length(data, 1, len(data))
            if length < 0 or body + length > len(data):
                break
            packet = decode_packet(data, 0, body, body + length, self.version)
            data = data[body + length :]
            if isinstance(packet, p.Disconnect):
                self.disconnect = packet
            self._packets.append(packet)
        self._came.set()
        return data


class RunningNode:
    """A node with a configuration file that a test writes anew; an asynchronous context.

    Args:
        directory: Where its files lie.
        always: Settings that every configuration of it has. It has no storage reader unless they say so.
        settings: Those that it starts with.
    """

    def __init__(self, directory: Path, always: str, settings: str = "") -> None:
        self._file = directory / "node.conf"
        self._data_dir = str(directory / "data")
        self._always = always
        self.node = Node(self.load(settings))
        self._clients: list[MqttClient] = []

    def load(self, settings: str) -> Config:
        """A configuration with these settings beside those that it always has."""
        self._file.write_text(f"{_NO_READER}\n{self._always}\n{settings}\n")
        return load_config(self._file, {}, {"node.data_dir": self._data_dir})

    async def change(self, settings: str = "") -> bool:
        """Have these settings beside those that it always has, in the place of others: whether they are used."""
        return await self.node.reload(self.load(settings))

    def listener(self, name: str = "tcp:default") -> Listener:
        """The listener of that name."""
        return next(one for one in self.listeners.listeners if f"{one.kind}:{one.name}" == name)

    @property
    def listeners(self) -> ListenersPart:
        """The part of the listeners."""
        return self.node.parts.get(ListenersPart)

    def client(self, clientid: str) -> ClientInfo:
        """Who is connected with a client id."""
        found = self.node.parts.get(KernelPart).context.channels.find_client(clientid)
        assert found is not None
        return found

    @property
    def bans(self) -> BanList:
        """The bans."""
        return self.node.parts.get(BansPart).bans

    async def open(
        self,
        listener: str = "tcp:default",
        version: int = p.V5,
        tls: ssl.SSLContext | None = None,
        header: bytes = b"",
    ) -> MqttClient:
        """A connection that has sent nothing yet.

        Args:
            header: What a proxy sends before anything else.
        """
        where = self.listener(listener)
        sock = await self.plain(listener)
        if header:
            await asyncio.get_running_loop().sock_sendall(sock, header)
        if where.websocket is not None:
            stream = await open_websocket(sock, where.websocket.mqtt_path, tls)
            client = MqttClient(stream, stream, version)
        elif tls is not None:
            client = MqttClient(
                *await asyncio.open_connection(sock=sock, ssl=tls, server_hostname="localhost"), version
            )
        else:
            client = MqttClient(*await asyncio.open_connection(sock=sock), version)
        self._clients.append(client)
        return client

    async def plain(self, listener: str) -> socket.socket:
        """A socket that is connected to a listener."""
        where = self.listener(listener)
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)
        await asyncio.get_running_loop().sock_connect(sock, (where.host, where.port))
        return sock

    async def connect(
        self,
        clientid: str,
        *,
        listener: str = "tcp:default",
        version: int = p.V5,
        tls: ssl.SSLContext | None = None,
        clean_start: bool = True,
        keepalive_s: int = 0,
        username: str | None = None,
        password: bytes | None = None,
        will: p.Will | None = None,
        **named: PropertyValue,
    ) -> MqttClient:
        """A client that is let in."""
        client = await self.open(listener, version, tls)
        client.send_connect(
            clientid,
            clean_start=clean_start,
            keepalive_s=keepalive_s,
            username=username,
            password=password,
            will=will,
            **named,
        )
        connack = await client.take(p.Connack)
        assert connack.code == 0, hex(connack.code)
        return client

    async def connack(
        self,
        clientid: str,
        username: str | None = None,
        password: bytes | None = None,
        *,
        listener: str = "tcp:default",
        version: int = p.V5,
    ) -> int:
        """The reason code with which a client is let in or refused; its connection ends then."""
        client = await self.open(listener, version)
        client.send_connect(clientid, username=username, password=password)
        code = (await client.take(p.Connack)).code
        await client.leave()
        return code

    async def __aenter__(self) -> Self:
        await self.node.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.node.stop()
        for client in self._clients:
            client.close()
        for client in self._clients:
            await client.until_closed()
