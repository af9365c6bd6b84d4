"""Clients that keep to the specification in seeded histories: subscribers acknowledge late or never, publishers repeat
what was not acknowledged."""

from typing import Protocol

from heliograph.mqtt import packets as p
from support.durable import DurableKernel
from support.kernel import Peer


class World(Protocol):
    """Where they live; its kernel is another one after a crash."""

    @property
    def kernel(self) -> DurableKernel: ...


class Actor:
    """A client that has a session; it outlives connections and brokers."""

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.peer: Peer | None = None
        self.is_known = False  # the broker must know its session

    def come(self, world: World) -> None:
        """Connect, and wait for CONNACK if the commits allow it."""
        self.peer = world.kernel.peer(p.V5)
        self.peer.connect(self.clientid, clean_start=False, session_expiry_interval=100_000)

    def leave(self, politely: bool) -> None:
        if self.peer is not None:
            if politely and not self.peer.closed():
                self.peer.disconnect()
            self.peer.drop()
        self.lost()

    def lost(self) -> None:
        self.peer = None

    def read(self, world: World) -> None:
        peer = self.peer
        if peer is None:
            return
        for packet in peer.received():
            if isinstance(packet, p.Connack):
                assert packet.session_present or not self.is_known, f"{self.clientid}'s session is gone"
                self.connected(world, packet.session_present)
            elif isinstance(packet, p.Disconnect):
                raise AssertionError(f"{self.clientid} is sent away: 0x{packet.code:02x} {world.kernel.reports}")
            else:
                self.on_packet(world, packet)
        if peer.closed():
            raise AssertionError(f"{self.clientid}'s connection was closed: {world.kernel.reports}")

    def connected(self, world: World, present: bool) -> None:
        raise NotImplementedError

    def on_packet(self, world: World, packet: p.Packet) -> None:
        raise NotImplementedError


class Subscriber(Actor):
    """Subscribes once; keeps what it got, and the identifiers of QoS 2 messages that are not released."""

    def __init__(self, clientid: str, topic_filter: str, qos: int) -> None:
        super().__init__(clientid)
        self.topic_filter = topic_filter
        self.qos = qos
        self.got: list[bytes] = []
        self._incoming: set[int] = set()
        self._unsent: list[p.Packet] = []

    def connected(self, world: World, present: bool) -> None:
        if not present:
            self._incoming.clear()
            assert self.peer is not None
            self.peer.send_subscribe(p.SubscribeEntry(self.topic_filter, self.qos, False, False, 0))

    def on_packet(self, world: World, packet: p.Packet) -> None:
        if isinstance(packet, p.Suback):
            self.is_known = True
        elif isinstance(packet, p.Publish):
            if packet.qos != 2 or packet.packet_id not in self._incoming:
                self.got.append(packet.payload)
            if packet.qos == 2:
                self._incoming.add(packet.packet_id)
            self._unsent.append(p.Ack(p.PUBACK if packet.qos == 1 else p.PUBREC, packet.packet_id, 0))
        elif isinstance(packet, p.Ack) and packet.kind == p.PUBREL:
            self._incoming.discard(packet.packet_id)
            self._unsent.append(p.Ack(p.PUBCOMP, packet.packet_id, 0))

    def acknowledge(self, count: int) -> None:
        some, self._unsent = self._unsent[:count], self._unsent[count:]
        if some and self.peer is not None:
            self.peer.send(*some)

    def lost(self) -> None:
        super().lost()
        self._unsent = []


class Publisher(Actor):
    """Publishes numbered messages and repeats them until they are acknowledged."""

    def __init__(self, clientid: str) -> None:
        super().__init__(clientid)
        self.published: list[tuple[str, bytes, int]] = []
        self.open: dict[int, tuple[str, bytes, int, bool]] = {}  # by identifier; whether PUBREC came
        self._ready = False
        self._last_id = 0

    def connected(self, world: World, present: bool) -> None:
        self.is_known = True
        self._ready = True
        assert self.peer is not None
        for packet_id, (topic, payload, qos, released) in list(self.open.items()):
            if released:
                self.peer.send(p.Ack(p.PUBREL, packet_id, 0))
            else:
                self.peer.publish(topic, payload, qos, packet_id, dup=True)

    def publish(self, world: World, topic: str, qos: int) -> None:
        if self.peer is None or not self._ready or len(self.open) > 15:
            return
        payload = f"{self.clientid} {topic} {len(self.published)}".encode()
        self._last_id = self._last_id % 30 + 1
        while self._last_id in self.open:
            self._last_id = self._last_id % 30 + 1
        self.published.append((topic, payload, qos))
        self.open[self._last_id] = (topic, payload, qos, False)
        self.peer.publish(topic, payload, qos, self._last_id)
        world.kernel.now_us += 1

    def on_packet(self, world: World, packet: p.Packet) -> None:
        if not isinstance(packet, p.Ack):
            return
        assert packet.code < 0x80 or packet.kind == p.PUBCOMP, f"refused with 0x{packet.code:02x}"
        if packet.kind == p.PUBREC:
            topic, payload, qos, _ = self.open[packet.packet_id]
            self.open[packet.packet_id] = (topic, payload, qos, True)
            assert self.peer is not None
            self.peer.send(p.Ack(p.PUBREL, packet.packet_id, 0))
        else:
            self.open.pop(packet.packet_id, None)

    def lost(self) -> None:
        super().lost()
        self._ready = False
