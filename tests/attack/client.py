"""A client that attacks: it sends whatever bytes it is told to, and throws away what it is sent."""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final, Self, cast

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.decode import remaining_length
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties

_FILTERS_PER_PACKET: Final = 1000
_WAITING_HIGH: Final = 1 << 20


class Client(asyncio.Protocol):
    """One MQTT 5 connection; lives until the process ends or `close`."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._lost = asyncio.Event()
        self._buffer = b""
        self._expected: tuple[int, asyncio.Future[bytes]] | None = None
        self._packet_id = 0

    @classmethod
    async def connect(cls, port: int, clientid: str, *, clean: bool = True, expiry_s: int = 0) -> Self:
        """Connect and wait for CONNACK."""
        _, client = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        properties = Properties()
        if expiry_s:
            properties.numbers[props.SESSION_EXPIRY_INTERVAL] = expiry_s
        packet = p.Connect(p.V5, clientid, clean, 0, None, None, None, properties)
        await client.ask(encode_packet(packet, p.V5), p.CONNACK)
        return client

    async def subscribe(self, topic_filters: Sequence[str], qos: int = 0) -> None:
        """Subscribe, in as many packets as it takes."""
        for first in range(0, len(topic_filters), _FILTERS_PER_PACKET):
            some = topic_filters[first : first + _FILTERS_PER_PACKET]
            entries = [p.SubscribeEntry(each, qos, False, False, 2) for each in some]
            self._packet_id += 1
            packet = p.Subscribe(self._packet_id, entries, Properties())
            await self.ask(encode_packet(packet, p.V5), p.SUBACK)

    async def ask(self, data: bytes, kind: int) -> bytes:
        """Send bytes and wait for the next packet of a kind; all others are thrown away."""
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._expected = kind, answer
        self.send(data)
        return await answer

    def send(self, data: bytes) -> None:
        """Send bytes."""
        if self._transport is not None:
            self._transport.write(data)

    async def flood(self, data: bytes) -> None:
        """Send the same bytes again and again, as fast as they are taken, until the connection is lost."""
        while not self._lost.is_set():
            self.send(data)
            await self._writable.wait()
            await asyncio.sleep(0)

    def stop_reading(self) -> None:
        """Leave what the broker sends in the system's buffers from now on."""
        if self._transport is not None:
            self._transport.pause_reading()

    async def close(self) -> None:
        """Vanish without DISCONNECT."""
        if self._transport is not None:
            self._transport.abort()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lost.wait(), 5)

    # --- told by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_WAITING_HIGH)
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        self._lost.set()
        self._writable.set()
        if self._expected is not None and not self._expected[1].done():
            self._expected[1].set_exception(ConnectionError("the broker closed the connection"))

    def pause_writing(self) -> None:
        """The broker does not read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Look for the packet that is awaited, if there is one."""
        if self._expected is None:
            return
        data = self._buffer + data
        at = 0
        while len(data) - at >= 2:
            length, body = remaining_length(data, at + 1, len(data))
            if length < 0 or body + length > len(data):
                break
            kind, answer = self._expected
            if data[at] >> 4 == kind:
                self._expected = None
                self._buffer = b""
                answer.set_result(data[at : body + length])
                return
            at = body + length
        self._buffer = data[at:]
