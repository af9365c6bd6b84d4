"""Seeded histories of clients that come and go, commits that take their time, and a broker that is killed at any time.

Clients keep to the specification: subscribers acknowledge late or never, publishers repeat what was not acknowledged.
In the end everybody has everything: at QoS 1 at least once, at QoS 2 exactly once, in the order of each publisher and
topic.
"""

import random
from collections import Counter
from pathlib import Path

import pytest

from heliograph.config.sessions import DurableSessionsConfig
from heliograph.mqtt import packets as p
from heliograph.session.options import SessionOptions
from support.durable import DurableKernel
from support.kernel import Peer

TOPICS = ("t/0", "t/1", "u/0")


class Actor:
    """A client that has a session; it outlives connections and brokers."""

    def __init__(self, clientid: str) -> None:
        self.clientid = clientid
        self.peer: Peer | None = None
        self.is_known = False  # the broker must know its session

    def come(self, world: "World") -> None:
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

    def read(self, world: "World") -> None:
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

    def connected(self, world: "World", present: bool) -> None:
        raise NotImplementedError

    def on_packet(self, world: "World", packet: p.Packet) -> None:
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

    def connected(self, world: "World", present: bool) -> None:
        if not present:
            self._incoming.clear()
            assert self.peer is not None
            self.peer.send_subscribe(p.SubscribeEntry(self.topic_filter, self.qos, False, False, 0))

    def on_packet(self, world: "World", packet: p.Packet) -> None:
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

    def connected(self, world: "World", present: bool) -> None:
        self.is_known = True
        self._ready = True
        assert self.peer is not None
        for packet_id, (topic, payload, qos, released) in list(self.open.items()):
            if released:
                self.peer.send(p.Ack(p.PUBREL, packet_id, 0))
            else:
                self.peer.publish(topic, payload, qos, packet_id, dup=True)

    def publish(self, world: "World", topic: str, qos: int) -> None:
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

    def on_packet(self, world: "World", packet: p.Packet) -> None:
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


class World:
    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        options = SessionOptions(
            max_inflight=self.random.choice((1, 3, 20)), max_mqueue_len=self.random.choice((2, 30))
        )
        settings = DurableSessionsConfig(batch_size=self.random.choice((3, 512)))
        self.kernel = DurableKernel(path, session_options=options, settings=settings)
        self.kernel.automatic = False
        self.publishers = [Publisher(f"pub-{number}") for number in range(2)]
        self.subscribers = [
            Subscriber("one", "t/#", 1),
            Subscriber("two", "t/#", 2),
            Subscriber("all", "#", 2),
            Subscriber("exact", "u/0", 2),
        ]
        self.actors: list[Actor] = [*self.publishers, *self.subscribers]

    def settle(self) -> None:
        """Let everything be done that is under way, with everybody connected."""
        quiet = 0
        while quiet < 5:
            before = self.kernel.durable.statistics(), [len(one.got) for one in self.subscribers]
            for actor in self.actors:
                if actor.peer is None:
                    actor.come(self)
            self.commit_all()
            for actor in self.actors:
                actor.read(self)
            for subscriber in self.subscribers:
                subscriber.acknowledge(1000)
            self.commit_all()
            self.kernel.advance(1)
            after = self.kernel.durable.statistics(), [len(one.got) for one in self.subscribers]
            is_open = any(publisher.open for publisher in self.publishers)
            quiet = quiet + 1 if before == after and not is_open else 0

    def commit_all(self) -> None:
        while self.kernel.sink.messages or self.kernel.state.waiting:
            if self.kernel.sink.messages:
                self.kernel.commit()
            if self.kernel.state.waiting:
                self.kernel.commit_state()

    def crash(self) -> None:
        kernel, chance = self.kernel, self.random
        # Written, but nobody was told of it: any beginning of what waits.
        if kernel.sink.messages and chance.random() < 0.5:
            ticket = kernel.sink.messages[0][0]
            kernel.database.write([message for number, message in kernel.sink.messages if number == ticket])
        for _ in range(chance.randrange(len(kernel.state.waiting) + 1)):
            kernel.state.apply_first()
        self.kernel = kernel.crash(chance.random())
        self.kernel.automatic = False
        for actor in self.actors:
            actor.lost()

    def step(self) -> None:
        chance, kernel = self.random, self.kernel
        kernel.now_us += 1  # no two turns have the same time
        what = chance.random()
        actor = chance.choice(self.actors)
        if what < 0.30:
            publisher = chance.choice(self.publishers)
            for _ in range(chance.choice((1, 1, 8))):
                publisher.publish(self, chance.choice(TOPICS), chance.choice((1, 2, 2)))
        elif what < 0.45:
            if kernel.sink.messages:
                kernel.commit()
        elif what < 0.60:
            if kernel.state.waiting:
                kernel.commit_state()
        elif what < 0.65:
            kernel.sink.cut()
        elif what < 0.75:
            if actor.peer is None:
                actor.come(self)
        elif what < 0.79:
            actor.leave(chance.random() < 0.5)
        elif what < 0.97:
            actor.read(self)
            if isinstance(actor, Subscriber):
                actor.acknowledge(chance.randrange(10))
        elif what < 0.99:
            kernel.advance(chance.random() * 2)
        else:
            self.crash()

    def check(self) -> None:
        for subscriber in self.subscribers:
            prefix = subscriber.topic_filter.rstrip("#")
            counts = Counter(subscriber.got)
            first = list(dict.fromkeys(subscriber.got))
            entitled: set[bytes] = set()
            for publisher in self.publishers:
                wanted = [one for one in publisher.published if one[0].startswith(prefix)]
                entitled |= {payload for _, payload, _ in wanted}
                for _, payload, qos in wanted:
                    assert counts[payload] >= 1, f"{subscriber.clientid} never got {payload!r}"
                    if min(qos, subscriber.qos) == 2:
                        assert counts[payload] == 1, f"{subscriber.clientid} got {payload!r} {counts[payload]} times"
                for topic in TOPICS:
                    for qos in (1, 2):  # the specification orders each QoS by itself
                        order = [payload for name, payload, given in wanted if (name, given) == (topic, qos)]
                        known = set(order)
                        assert [payload for payload in first if payload in known] == order, subscriber.clientid
            assert set(counts) <= entitled


@pytest.mark.parametrize("seed", range(30))
def test_everybody_gets_everything(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, 400)


def run(path: Path, seed: int, steps: int) -> None:
    world = World(path, seed)
    world.settle()
    for _ in range(steps):
        world.step()
    world.settle()
    world.check()
    world.kernel.database.close()
