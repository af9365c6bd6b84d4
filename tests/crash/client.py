"""An MQTT 5 client as the specification wants it, whose session outlives its connections and the broker's deaths.

`Client` holds one identifier and what a client must keep for it: messages that are not acknowledged, released messages,
identifiers that it took at QoS 2. It connects again and again until it is told to stop; what it does meanwhile is up to
the classes in `actors`.
"""

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import Final

from crash.history import RETAINED, History, Published, identity_of, payload_of
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import PINGREQ, encode_ack, encode_packet, encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import Properties
from support.packets import decode_all, say

_READ_BYTES: Final = 65_536
_RETRY_S: Final = 0.02
_CONNACK_S: Final = 10.0
SESSION_EXPIRY_S: Final = 3600
_PACKET_IDS: Final = 65_535

Hook = Callable[[], None]


class Outgoing:
    """A message that the broker has not taken for good."""

    __slots__ = ("is_released", "message", "payload", "retain", "topic")

    def __init__(self, topic: str, payload: bytes, retain: bool, message: Published) -> None:
        self.topic = topic
        self.payload = payload
        self.retain = retain
        self.message = message
        self.is_released = False  # PUBREC came, PUBREL was sent


class Client:
    """One client identifier. Owned by a run, which awaits `run` and ends it with `stop`.

    Args:
        clientid: Its identifier.
        port: Where the broker is, when it is.
        history: Where it writes what it sees.
        choose: Its own chance.
        on_packet: Called for each packet that came; the run may kill the broker in it.
        expiry_s: How long its session outlives a connection; with 0 it begins anew each time.
    """

    def __init__(
        self,
        clientid: str,
        port: int,
        history: History,
        choose: Random,
        on_packet: Hook,
        expiry_s: int = SESSION_EXPIRY_S,
    ) -> None:
        self.clientid = clientid
        self.history = history
        self.choose = choose
        self.is_settling = False  # from now on it behaves, so that the run can come to rest
        self.is_connected = False
        self._port = port
        self._on_packet = on_packet
        self._expiry_s = expiry_s
        self._stopping = False
        self._had_session = False
        self._writer: asyncio.StreamWriter | None = None
        self._unacknowledged: dict[int, Outgoing] = {}
        self._taken: dict[int, tuple[str, int]] = {}  # at QoS 2, until PUBREL
        self._next_id = 0

    @property
    def unacknowledged_count(self) -> int:
        """Messages that the broker has not taken for good."""
        return len(self._unacknowledged)

    async def run(self) -> None:
        """Connect until `stop`, and be away between connections as the actor likes."""
        while not self._stopping:
            try:
                await self._connection()
            except (OSError, EOFError, TimeoutError, ConnectionError):
                await asyncio.sleep(_RETRY_S)  # the broker is down, or starts
            finally:
                self.history.note(self.clientid, "is disconnected")
                self.is_connected = False
                await self._close()
            if not self._stopping and not self.is_settling:
                await asyncio.sleep(self.away_s())  # as long as clients are away

    async def stop(self) -> None:
        """Leave politely."""
        self._stopping = True
        self.leave()
        await self._close()

    # --- what an actor decides

    def away_s(self) -> float:
        """How long it stays away after a connection ended."""
        return 0.0

    def on_connected(self) -> None:
        """CONNACK came, and what had to be sent again was."""

    def on_message(self, packet: p.Publish, topic: str, number: int) -> None:
        """A message came; at QoS 2 the first time under its identifier."""

    def on_system_message(self, topic: str, payload: bytes) -> None:
        """The broker says something about itself."""

    def on_acknowledged(self, message: Published) -> None:
        """The broker took a message for good, or refused it."""

    def on_suback(self, packet: p.Suback) -> None:
        """SUBACK or UNSUBACK came."""

    def acknowledge(self, data: bytes) -> None:
        """PUBACK or PUBREC is due."""
        self.send(data)

    # --- what it does

    def publish(self, topic: str, qos: int, *, retain: bool = False, is_clear: bool = False, padding: int = 0) -> None:
        """Send the next message to a topic; at QoS 1 and 2 until it is acknowledged."""
        message = self.history.publish(topic, qos, is_clear=is_clear)
        payload = b"" if is_clear else payload_of(topic, message.number, padding)
        packet_id = 0
        if qos:
            packet_id = self._free_id()
            self._unacknowledged[packet_id] = Outgoing(topic, payload, retain, message)
        self.send(encode_publish(p.V5, topic.encode(), payload, qos, retain, False, packet_id, b""))

    def subscribe(self, entries: list[p.SubscribeEntry]) -> int:
        """Send SUBSCRIBE; its packet identifier."""
        packet_id = self._free_id()
        self.send(encode_packet(p.Subscribe(packet_id, entries, Properties()), p.V5))
        return packet_id

    def unsubscribe(self, topic_filters: list[str]) -> int:
        """Send UNSUBSCRIBE; its packet identifier."""
        packet_id = self._free_id()
        self.send(encode_packet(p.Unsubscribe(packet_id, topic_filters, Properties()), p.V5))
        return packet_id

    def send(self, data: bytes) -> None:
        """Send a packet if there is a connection; a lost one is noticed by reading."""
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(data)
            self.history.note(self.clientid, f"  -> {said(data)}")

    def leave(self) -> None:
        """DISCONNECT, and close."""
        self.send(encode_packet(p.Disconnect(0, Properties()), p.V5))
        if self._writer is not None:
            self._writer.close()

    def break_off(self) -> None:
        """Lose the connection at once, with whatever is on its way."""
        if self._writer is not None:
            self._writer.transport.abort()

    def ping(self) -> None:
        """Send PINGREQ."""
        self.send(PINGREQ)

    # --- the protocol

    async def _connection(self) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        properties = Properties()
        properties.numbers[props.SESSION_EXPIRY_INTERVAL] = self._expiry_s
        properties.numbers[props.RECEIVE_MAXIMUM] = self.choose.choice([3, 20, 100])
        connect = p.Connect(p.V5, self.clientid, not self._expiry_s, 0, None, None, None, properties)
        self.send(encode_packet(connect, p.V5))
        data = b""
        async with asyncio.timeout(_CONNACK_S):
            while not self.is_connected:
                data = self._handle(data + await _some_bytes(reader))
        while not self._stopping:
            data = self._handle(data + await _some_bytes(reader))

    def _handle(self, data: bytes) -> bytes:
        """Take all whole packets off `data`; the rest."""
        at = 0
        while at + 2 <= len(data):
            length, body = remaining_length(data, at + 1, len(data))
            if length < 0 or body + length > len(data):
                break
            try:
                packet = decode_packet(data, at, body, body + length, p.V5)
            except ProtocolError as error:
                self.fault(f"sent what is no MQTT: {error}")
                raise ConnectionError from error
            at = int(body + length)
            self.history.note(self.clientid, f"<- {say(packet)}")
            self._on_packet()
            self._receive(packet)
        return data[at:]

    def _receive(self, packet: p.Packet) -> None:
        kind = int(packet.kind)
        if isinstance(packet, p.Publish):
            self._receive_publish(packet)
        elif isinstance(packet, p.Ack):
            self._receive_ack(kind, packet)
        elif isinstance(packet, p.Connack):
            self._receive_connack(packet)
        elif isinstance(packet, p.Suback):
            self.on_suback(packet)
        elif isinstance(packet, p.Disconnect):
            if packet.code in (rc.PROTOCOL_ERROR, rc.MALFORMED_PACKET, rc.SESSION_TAKEN_OVER):
                self.fault(f"was disconnected with 0x{packet.code:02x}")
            raise ConnectionError(f"DISCONNECT 0x{packet.code:02x}")

    def _receive_connack(self, packet: p.Connack) -> None:
        if packet.code:
            self.history.count("not_let_in")
            raise ConnectionError(f"CONNACK 0x{packet.code:02x}")
        self.history.count("connects")
        if packet.session_present:
            self.history.count("resumed_sessions")
        elif self._had_session and self._expiry_s:
            self.fault("lost its session")
            self._taken.clear()
        self._had_session = True
        self.is_connected = True
        for packet_id, outgoing in self._unacknowledged.items():
            self.history.resend(outgoing.message)
            if outgoing.is_released:
                self.send(encode_ack(p.PUBREL, packet_id, 0, p.V5))
                continue
            topic, qos = outgoing.topic.encode(), outgoing.message.qos
            self.send(encode_publish(p.V5, topic, outgoing.payload, qos, outgoing.retain, True, packet_id, b""))
        self.on_connected()

    def _receive_publish(self, packet: p.Publish) -> None:
        packet_id, qos = int(packet.packet_id), int(packet.qos)
        if packet.topic.startswith(b"$SYS/"):
            self.on_system_message(packet.topic.decode(), packet.payload)
            return
        if not packet.payload and not packet.retain and packet.topic.startswith(RETAINED.encode()):
            self._acknowledge_clear(packet_id, qos)
            return
        try:
            identity = identity_of(packet.payload)
        except ValueError:
            self.fault(f"got a payload that nobody sent: {packet.payload[:40]!r}")
            return
        if identity[0] != packet.topic.decode():
            self.fault(f"got the payload {packet.payload[:40]!r} under the topic {packet.topic!r}")
        if qos == 2:
            if packet_id in self._taken:
                if self._taken[packet_id] != identity:
                    self.fault(f"got {identity} under identifier {packet_id}, which {self._taken[packet_id]} holds")
            else:
                self._taken[packet_id] = identity
                self.on_message(packet, *identity)
            self.acknowledge(encode_ack(p.PUBREC, packet_id, 0, p.V5))
            return
        self.on_message(packet, *identity)
        if qos == 1:
            self.acknowledge(encode_ack(p.PUBACK, packet_id, 0, p.V5))

    def _acknowledge_clear(self, packet_id: int, qos: int) -> None:
        """A topic's retained message was cleared just now, which has no identity."""
        if qos:
            self.send(encode_ack(p.PUBACK if qos == 1 else p.PUBREC, packet_id, 0, p.V5))

    def _receive_ack(self, kind: int, packet: p.Ack) -> None:
        packet_id = packet.packet_id
        if kind == p.PUBREL:
            self._taken.pop(packet_id, None)
            self.send(encode_ack(p.PUBCOMP, packet_id, 0, p.V5))
            return
        outgoing = self._unacknowledged.get(packet_id)
        if outgoing is None:
            if kind == p.PUBREC and packet.code < 0x80:
                self.send(encode_ack(p.PUBREL, packet_id, rc.PACKET_IDENTIFIER_NOT_FOUND, p.V5))
            return
        if kind == p.PUBREC:
            self.history.acknowledge(outgoing.message, packet.code)
            if packet.code < 0x80:
                outgoing.is_released = True
                self.send(encode_ack(p.PUBREL, packet_id, 0, p.V5))
                return
        elif kind == p.PUBACK:
            self.history.acknowledge(outgoing.message, packet.code)
        elif not outgoing.is_released:
            self.fault(f"got PUBCOMP {packet_id} before PUBREC")
        del self._unacknowledged[packet_id]
        self.on_acknowledged(outgoing.message)

    def fault(self, text: str) -> None:
        """Note something that no broker may do."""
        self.history.faults.append(f"protocol: {self.clientid} {text}")

    def _free_id(self) -> int:
        while True:
            self._next_id = self._next_id % _PACKET_IDS + 1
            if self._next_id not in self._unacknowledged:
                return self._next_id

    async def _close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1):
                    await writer.wait_closed()


def said(data: bytes) -> str:
    """A packet that is sent, in words."""
    return ", ".join(say(packet) for packet in decode_all(data, p.V5))


async def _some_bytes(reader: asyncio.StreamReader) -> bytes:
    data = await reader.read(_READ_BYTES)
    if not data:
        raise EOFError
    return data
