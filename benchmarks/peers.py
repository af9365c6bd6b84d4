"""MQTT clients on plain blocking sockets, for benchmarks that hold thousands of them and time single packets.

`heliograph bench` makes load; these make conditions, cheaply enough that one process opens ten thousand a second.
"""

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Self

from heliograph_bench import packets
from heliograph_bench.runs import packet_length

_UNSUBSCRIBE: Final = 0xA2
_UNSUBACK: Final = 0xB0
_PUBLISH_QOS_1: Final = packets.PUBLISH | 2
_PUBACK: Final = b"\x40\x02"
_AT_ONCE: Final = 100
_PIECE: Final = 262_144
_TIMEOUT_S: Final = 30.0


class PeerError(Exception):
    """A broker did not answer as it must."""


class Peer:
    """One connected client; its owner closes it.

    Args:
        session_expiry_s: How long its session outlives it; 0: not at all, and none is resumed. (MQTT 3.1.1 knows no
            length: until the broker forgets it.)
        receive_buffer: Size of the socket's receive buffer, 0 for the system's choice.
        version: Of the protocol: 4 or 5.
    """

    def __init__(
        self,
        port: int,
        clientid: str,
        session_expiry_s: int = 0,
        receive_buffer: int = 0,
        version: int = packets.V5,
    ) -> None:
        self.clientid = clientid
        self.resumed = False
        self._version = version
        self._rest = b""
        self._socket = socket.socket()
        if receive_buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.connect(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(packets.connect(clientid, version, 0, None, None, session_expiry_s))

    def connected(self) -> None:
        """Wait for the CONNACK."""
        body = self.expect(packets.CONNACK)
        packets.read_connack(body, self._version)
        self.resumed = body[0] == 1

    def send(self, data: bytes) -> None:
        """Send packets."""
        self._socket.sendall(data)

    def expect(self, header: int) -> bytes:
        """The body of the next packet, which has to begin with that byte."""
        found, body = self.next_packet()
        if found != header:
            raise PeerError(f"{self.clientid} got packet 0x{found:02x} in place of 0x{header:02x}")
        return body

    def next_packet(self) -> tuple[int, bytes]:
        """First byte and body of the next packet."""
        while True:
            length, body = packet_length(self._rest, 0, len(self._rest)) if len(self._rest) >= 2 else (0, 0)
            if length and length <= len(self._rest):
                packet, self._rest = self._rest[:length], self._rest[length:]
                return packet[0], packet[body:]
            data = self._socket.recv(_PIECE)
            if not data:
                raise PeerError(f"the broker closed the connection of {self.clientid}")
            self._rest += data

    def subscribe(self, topic_filters: list[str], qos: int = 0) -> None:
        """Subscribe, and wait for the SUBACK."""
        self.ask_for(topic_filters, qos)
        self.granted(qos)

    def ask_for(self, topic_filters: list[str], qos: int = 0) -> None:
        """Subscribe, and let the SUBACK come when it does."""
        self.send(packets.subscribe(1, topic_filters, qos, self._version))

    def granted(self, qos: int = 0) -> None:
        """Wait for the SUBACK."""
        packets.read_suback(self.expect(packets.SUBACK), self._version, qos)

    def unsubscribe(self, topic_filter: str) -> None:
        """Unsubscribe, and wait for the UNSUBACK."""
        name = topic_filter.encode()
        self.send(packets.packet(_UNSUBSCRIBE, b"\0\1\0" + len(name).to_bytes(2, "big") + name))
        self.expect(_UNSUBACK)

    def ping(self) -> None:
        """Wait until the broker has handled everything that was sent."""
        self.send(packets.PINGREQ_PACKET)
        self.expect(packets.PINGRESP)

    def receive(self, size: int) -> bytes:
        """Exactly so many bytes."""
        while len(self._rest) < size:
            data = self._socket.recv(_PIECE)
            if not data:
                raise PeerError(f"the broker closed the connection of {self.clientid}")
            self._rest += data
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def close(self) -> None:
        """Close the connection without a DISCONNECT."""
        self._socket.close()


class Publisher:
    """A connection of an event loop that publishes at QoS 1 by MQTT 3.1.1. A context, in which it is connected.

    Raises:
        PeerError: The broker refuses it.
    """

    def __init__(self, port: int, clientid: bytes = b"bench") -> None:
        self._port = port
        self._clientid = clientid
        self._sent = 0

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writer.write(packets.connect(self._clientid.decode(), packets.V3_1_1, 600, None, None, 0))
        if (await self._reader.readexactly(4))[3]:
            raise PeerError("the broker refuses the connection")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    def send(self, topic: bytes, payload: bytes) -> None:
        """Publish, and let the acknowledgement come when it does."""
        self._sent += 1
        variable = len(topic).to_bytes(2, "big") + topic + (self._sent % 65535 or 1).to_bytes(2, "big") + payload
        self._writer.write(packets.packet(_PUBLISH_QOS_1, variable))

    async def acknowledged(self, count: int) -> None:
        """Wait for so many acknowledgements."""
        await self._reader.readexactly(4 * count)

    async def publish(self, topic: bytes, payloads: Sequence[bytes]) -> None:
        """Publish, and wait until all of them are acknowledged."""
        for payload in payloads:
            self.send(topic, payload)
        await self.acknowledged(len(payloads))


class Subscriber(Publisher):
    """The same, which acknowledges what it gets.

    Attributes:
        arrived: When each message arrived, by `time.perf_counter`, and its payload.
    """

    def __init__(self, port: int, clientid: bytes) -> None:
        super().__init__(port, clientid)
        self.arrived: list[tuple[float, bytes]] = []
        self._reading: asyncio.Task[None]

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        await super().__aexit__()

    async def subscribe(self, topic: bytes) -> None:
        """Subscribe at QoS 1, and read from then on."""
        self._writer.write(packets.subscribe(1, [topic.decode()], 1, packets.V3_1_1))
        await self._reader.readexactly(5)
        self._reading = asyncio.create_task(self._read())

    async def has(self, count: int, seconds: float) -> None:
        """Wait until so many have arrived.

        Raises:
            PeerError: They have not after so many seconds.
        """
        end = time.monotonic() + seconds
        while len(self.arrived) < count:
            if time.monotonic() > end or self._reading.done():
                raise PeerError(f"{len(self.arrived)} of {count} messages arrived")
            await asyncio.sleep(0.002)

    async def _read(self) -> None:
        rest = b""
        while data := await self._reader.read(_PIECE):
            rest += data
            at, now, answers = 0, time.perf_counter(), b""
            while at < len(rest):
                length, body = packet_length(rest, at, len(rest))
                if not length or at + length > len(rest):
                    break
                topic_end = at + body + 2 + int.from_bytes(rest[at + body : at + body + 2], "big")
                answers += _PUBACK + rest[topic_end : topic_end + 2]
                self.arrived.append((now, rest[topic_end + 2 : at + length]))
                at += length
            self._writer.write(answers)
            rest = rest[at:]


def publish(topic: str, payload: bytes, retain: bool = False) -> bytes:
    """A PUBLISH of MQTT 5 at QoS 0."""
    name = topic.encode()
    body = len(name).to_bytes(2, "big") + name + b"\0" + payload
    return packets.packet(packets.PUBLISH | int(retain), body)


def crowd(port: int, clientids: Sequence[str], session_expiry_s: int = 0, receive_buffer: int = 0) -> list[Peer]:
    """Connect many clients, a hundred at a time."""
    peers: list[Peer] = []
    for first in range(0, len(clientids), _AT_ONCE):
        some = [Peer(port, name, session_expiry_s, receive_buffer) for name in clientids[first : first + _AT_ONCE]]
        for peer in some:
            peer.connected()
        peers += some
    return peers


def timed(action: Callable[..., None], calls: Iterable[tuple[object, ...]]) -> list[float]:
    """How many microseconds each call of an action takes, given its arguments."""
    times: list[float] = []
    for arguments in calls:
        began = time.perf_counter()
        action(*arguments)
        times.append((time.perf_counter() - began) * 1e6)
    return times
