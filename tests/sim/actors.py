"""Clients that keep to the specification and are otherwise as bad as clients are: slow, gone, back elsewhere.

They know what they sent and got, write it into the `History`, and check at once what can be checked at once.
"""

import random
from collections import deque
from typing import TYPE_CHECKING, Final

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.decode import decode_packet, remaining_length
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import ALLOWED_PUBLISH_TO_CLIENT, Properties, properties_from_wire
from sim.disk import MARKER
from sim.history import Delivery, Line, Record, Sent, Version, Violation
from sim.machine import REFUSES_US
from sim.network import Connection
from support.packets import properties, publish, say

if TYPE_CHECKING:
    from sim.world import World

FOR_EVER_S: Final = 1_000_000
_V3_UNAVAILABLE: Final = 3
_PATIENCE_US: Final = 30_000_000  # for CONNACK
_OPEN_MAX: Final = 12
_EXPECTED_GOODBYES: Final = frozenset(
    {rc.SESSION_TAKEN_OVER, rc.SERVER_SHUTTING_DOWN, rc.KEEP_ALIVE_TIMEOUT, rc.UNSPECIFIED_ERROR, rc.QUOTA_EXCEEDED}
)


class Actor:
    """A client and its session; it outlives connections and brokers.

    Args:
        expiry_s: Its session's expiry interval; 0 for a session in memory.
        version: Of MQTT; before 5, sessions do not expire.
    """

    def __init__(self, world: "World", clientid: str, expiry_s: int, version: int = p.V5) -> None:
        self.world = world
        self.clientid = clientid
        self.version = version
        self.expiry_s = expiry_s
        self.chance: random.Random = world.chance
        self.connection: Connection | None = None
        self.is_welcome = False  # CONNACK has come
        self.wants_clean = expiry_s == 0
        self._is_established = False  # the broker must know its session
        self._connected_us = 0
        self._heard_us = 0  # when the broker was certainly there,
        self._absent_since_us = 0  # on the connection before
        self._left_us = 0  # when the broker knew at the latest that it was gone
        self._was_clean = False
        self._buffer = bytearray()
        self._last_id = 0

    # --- its connection

    def come(self) -> None:
        """Connect, whether there is a connection or not."""
        world = self.world
        connection = world.broker.connect(self)
        if connection is None:
            return
        self._forget_connection()
        self._was_clean = self.wants_clean
        self._absent_since_us = self._heard_us
        self._connected_us = world.clock.us
        self.connection = connection
        keepalive_s = self.chance.choice((0, 10))
        self.send(
            p.Connect(
                self.version,
                self.clientid,
                self.wants_clean,
                keepalive_s,
                None,
                None,
                None,
                self._asked_for(),
            )
        )

    def _asked_for(self) -> Properties:
        if self.version != p.V5:
            return properties()
        return properties(session_expiry_interval=self.expiry_s, receive_maximum=self.chance.choice((1, 3, 50)))

    def leave(self) -> None:
        """Go: politely, or by closing the connection."""
        connection = self.connection
        if connection is None:
            return
        if self.chance.random() < 0.5:
            self.send(p.Disconnect(0, properties()))
        self.world.trace(f"{self.clientid} leaves")
        connection.hang_up()
        self._forget_connection()
        self.on_gone()

    def act(self) -> None:
        """Do something."""
        if self.connection is None:
            self.come()
        elif not self.is_welcome and self.world.clock.us - self._connected_us > _PATIENCE_US:
            self.leave()

    def is_content(self) -> bool:
        """Whether it waits for nothing."""
        return self.is_welcome and self.connection is not None and not self.connection.is_broken

    def send(self, *packets: p.Packet) -> None:
        """Send packets, if it has a connection."""
        if self.connection is not None:
            for packet in packets:
                self.world.trace(f"{self.clientid} > {told(packet)}")
            self.connection.send(b"".join(encode_packet(packet, self.version) for packet in packets))

    def new_id(self, used: "dict[int, Sent] | None" = None) -> int:
        """A packet identifier that is free."""
        self._last_id = self._last_id % 40 + 1
        while used is not None and self._last_id in used:
            self._last_id = self._last_id % 40 + 1
        return self._last_id

    # --- what comes

    def on_data(self, connection: Connection, data: bytes) -> None:
        """Bytes came."""
        if connection is not self.connection:
            return
        self._heard_us = self.world.clock.us
        self._buffer += data
        for packet in self._packets():
            self.world.trace(f"{self.clientid} < {told(packet)}")
            self.world.history.tick()
            if isinstance(packet, p.Connack):
                self._on_connack(packet)
            elif isinstance(packet, p.Disconnect):
                if packet.code not in _EXPECTED_GOODBYES:
                    raise Violation(f"{self.clientid} is sent away with 0x{packet.code:02x}")
                self._heard_us = self._connected_us  # the broker may have ended it long before it could say so
            else:
                self.on_packet(packet)
        if self.connection is connection:
            self.world.on_heard()

    def on_lost(self, connection: Connection) -> None:
        """The connection is over."""
        if connection is self.connection:
            self.world.trace(f"{self.clientid} has lost its connection")
            self._forget_connection()
            self.on_gone()

    def _packets(self) -> list[p.Packet]:
        found: list[p.Packet] = []
        data, at = bytes(self._buffer), 0
        while at + 1 < len(data):
            length, body = remaining_length(data, at + 1, len(data))
            if length < 0 or body + length > len(data):
                break
            found.append(decode_packet(data, at, body, body + length, self.version))
            at = body + length
        del self._buffer[:at]
        return found

    def _on_connack(self, packet: p.Connack) -> None:
        if packet.code in (rc.SERVER_UNAVAILABLE, _V3_UNAVAILABLE) and self.world.refuses():
            self._heard_us = self._absent_since_us
            return  # its session cannot be read now; the broker closes the connection
        if packet.code != 0:
            raise Violation(f"{self.clientid} is refused with 0x{packet.code:02x}")
        present = packet.session_present
        if present and self._was_clean:
            raise Violation(f"{self.clientid} gets a session that it wanted to be over")
        now = self.world.clock.us
        if not present and not self._was_clean and self._is_established and not self._may_be_over(now):
            raise Violation(f"the session of {self.clientid} is gone")
        if present and self._must_be_over():
            raise Violation(f"the session of {self.clientid} is there, though its time was over")
        self.is_welcome = True
        self._is_established = True
        self.wants_clean = self.expiry_s == 0
        self.on_connected(present)

    def _may_be_over(self, now_us: int) -> bool:
        return self.world.clock_jumps or now_us - self._absent_since_us >= self.expiry_s * 1_000_000

    def _must_be_over(self) -> bool:
        if self.world.clock_jumps or not self._left_us:
            return False
        since_us = max(self._left_us, self.world.broker.started_us)  # a killed broker has saved nothing of it
        return self._connected_us - since_us > (self.expiry_s + 3) * 1_000_000

    def _forget_connection(self) -> None:
        before, self.connection = self.connection, None
        if not self.is_welcome and self._is_established and self._may_be_over(self.world.clock.us):
            self.wants_clean = True  # it cannot know whether the session that it finds is another one
        if before is not None and before.client_has and not before.is_broken:
            self.world.abandoned.append(before)  # it stands until the broker, or its keepalive, ends it
        self._left_us = before.broker_lost_us if before is not None else self._left_us
        self.is_welcome = False
        self._buffer.clear()

    # --- what kinds of clients do

    def on_connected(self, present: bool) -> None:
        """CONNACK has come."""
        raise NotImplementedError

    def on_packet(self, packet: p.Packet) -> None:
        """Another packet has come."""
        raise NotImplementedError

    def on_gone(self) -> None:
        """The connection is over."""


class Publisher(Actor):
    """Publishes numbered messages and repeats them until they are acknowledged."""

    def __init__(self, world: "World", clientid: str, topics: list[str], version: int) -> None:
        super().__init__(world, clientid, FOR_EVER_S, version)
        self._topics = topics
        self.open: dict[int, Sent] = {}
        self._released: set[int] = set()
        self._count = 0

    def act(self) -> None:
        chance = self.chance
        if not self.is_welcome:
            super().act()
        elif chance.random() < 0.06:
            self.leave()
        elif chance.random() < 0.03:
            self.come()  # beside the old connection
        else:
            for _ in range(chance.choice((1, 1, 2, 6))):
                self._publish()

    def is_content(self) -> bool:
        return super().is_content() and not self.open

    def _publish(self) -> None:
        if len(self.open) >= _OPEN_MAX:
            return
        world, chance = self.world, self.chance
        self._count += 1
        marker = b"<%s-%d>" % (self.clientid.encode(), self._count)
        retain = chance.random() < 0.2
        payload = marker + b"." * chance.choice((0, 0, 30, 700))
        if retain and chance.random() < 0.2:
            payload = b""  # nothing is to be retained any more
        qos = chance.choice((0, 1, 1, 2, 2))
        # A repetition at QoS 1 may come behind a later message at QoS 2, so what is retained is told apart.
        topic = f"r/{self.clientid}/{qos}" if retain else chance.choice(self._topics)
        sent = Sent(marker, topic, payload, qos, retain, self.clientid, world.history.tick(), world.clock.us)
        if payload:
            world.history.sent[marker] = sent
        if retain:
            world.history.retained[topic].append(sent)
        packet_id = 0
        if qos:
            packet_id = self.new_id(self.open)
            self.open[packet_id] = sent
        self._send(packet_id, sent, dup=False)

    def _send(self, packet_id: int, sent: Sent, *, dup: bool) -> None:
        retain, version = sent.retain, self.version
        topic = sent.topic if sent.delay_s is None else f"$delayed/{sent.delay_s}/{sent.topic}"
        self.send(publish(topic, sent.payload, sent.qos, packet_id, retain=retain, dup=dup, version=version))

    def on_connected(self, present: bool) -> None:
        if not present:
            self._begin_anew()
        for packet_id, sent in list(self.open.items()):
            if packet_id in self._released:
                self.send(p.Ack(p.PUBREL, packet_id, 0))
            else:
                sent.is_repeated = True
                self._send(packet_id, sent, dup=True)

    def _begin_anew(self) -> None:
        """Its session is gone: what was open at QoS 2 may or may not have come."""
        for packet_id in [packet_id for packet_id, sent in self.open.items() if sent.qos == 2]:
            self.open.pop(packet_id).is_given_up = True
        self._released.clear()

    def on_packet(self, packet: p.Packet) -> None:
        if not isinstance(packet, p.Ack):
            raise Violation(f"{self.clientid} gets {say(packet)}")
        sent = self.open.get(packet.packet_id)
        if sent is None:
            raise Violation(f"{self.clientid} gets {say(packet)} for nothing that it sent")
        if packet.kind == p.PUBCOMP:
            if packet.packet_id not in self._released:
                raise Violation(f"{self.clientid} gets {say(packet)} before it released anything")
            self._done(packet.packet_id)
            return
        if packet.kind != (p.PUBACK if sent.qos == 1 else p.PUBREC):
            raise Violation(f"{self.clientid} gets {say(packet)} for a message at QoS {sent.qos}")
        if self.world.broker.machine.disk.fault_us > sent.sent_us - REFUSES_US:
            sent.is_doubtful = True
        if packet.code >= rc.UNSPECIFIED_ERROR:
            if not self.world.refuses():
                raise Violation(f"{self.clientid} is refused {sent.marker!r} with 0x{packet.code:02x}")
            sent.is_given_up = True
            self._done(packet.packet_id)
            return
        if sent.acked_at is None:
            sent.acked_at = self.world.history.at
        if packet.kind == p.PUBACK:
            self._done(packet.packet_id)
        else:
            self._released.add(packet.packet_id)
            self.send(p.Ack(p.PUBREL, packet.packet_id, 0))

    def _done(self, packet_id: int) -> None:
        del self.open[packet_id]
        self._released.discard(packet_id)


class Delayer(Publisher):
    """Publishes messages that are to be held for a while, over restarts."""

    def __init__(self, world: "World", clientid: str) -> None:
        super().__init__(world, clientid, [], p.V5)

    def _publish(self) -> None:
        if len(self.open) >= _OPEN_MAX:
            return
        world, chance = self.world, self.chance
        self._count += 1
        marker = b"<%s-%d>" % (self.clientid.encode(), self._count)
        sent = Sent(marker, "late", marker, chance.choice((1, 2)), False, self.clientid, world.history.tick(), 0)
        sent.sent_us = world.clock.us
        sent.delay_s = chance.choice((0, 1, 3))
        sent.is_doubtful = True  # what was published and not stored is published again
        world.history.sent[marker] = sent
        packet_id = self.new_id(self.open)
        self.open[packet_id] = sent
        self._send(packet_id, sent, dup=False)


class Subscriber(Actor):
    """Subscribes to this and that, changes its mind, acknowledges late."""

    def __init__(self, world: "World", clientid: str, filters: list[str], expiry_s: int) -> None:
        super().__init__(world, clientid, expiry_s)
        self.record = Record(clientid)
        world.history.records.append(self.record)
        self._filters = filters
        self.retained: dict[str, bytes] = {}  # what it got as retained, by topic
        self._lines: dict[str, Line] = {}
        self._asked: dict[int, tuple[Line, Version | None]] = {}  # by packet identifier; None: UNSUBSCRIBE
        self._incoming: set[int] = set()  # QoS 2 messages that are not released
        self._unsent: deque[p.Packet] = deque()
        self._is_sleepy = False

    def act(self) -> None:
        chance = self.chance
        what = chance.random()
        if not self.is_welcome:
            if self.connection is None and chance.random() < 0.04 and self.world.may_clean:
                self.wants_clean = True
            super().act()
        elif what < 0.05:
            self.leave()
        elif what < 0.07:
            self.come()
        elif what < 0.20 and not self._asked:
            self._change()
        elif what < 0.25:
            self._is_sleepy = not self._is_sleepy
        elif not self._is_sleepy:
            self.acknowledge(chance.choice((1, 3, 100)))

    def on_data(self, connection: Connection, data: bytes) -> None:
        super().on_data(connection, data)
        if self.world.is_settling and self.is_welcome:
            self.acknowledge(len(self._unsent))

    def is_content(self) -> bool:
        return super().is_content() and not self._unsent and not self._asked

    def acknowledge(self, count: int) -> None:
        """Send some of the acknowledgements that are due."""
        some = [self._unsent.popleft() for _ in range(min(count, len(self._unsent)))]
        if some:
            self.send(*some)

    # --- subscriptions

    def _change(self) -> None:
        self.ask(self.chance.choice(self._filters))

    def ask(self, topic_filter: str) -> None:
        """Subscribe, subscribe again, or unsubscribe."""
        chance = self.chance
        line = self._lines.get(topic_filter)
        if line is None or chance.random() < 0.5:
            if line is None:
                is_lossy = self.expiry_s == 0 and self.world.has_short_queues
                line = self._lines[topic_filter] = Line(topic_filter, is_lossy=is_lossy)
                self.record.lines.append(line)
            version = Version(self.world.new_number(), chance.choice((0, 1, 2, 2)), self.world.history.tick())
            line.versions.append(version)
            self._subscribe(line, version)
        elif chance.random() < 0.4:
            line.ending_at = self.world.history.tick()
            self._unsubscribe(line)

    def _subscribe(self, line: Line, version: Version) -> None:
        packet_id = self.new_id()
        self._asked[packet_id] = line, version
        entry = p.SubscribeEntry(line.topic_filter, version.qos, False, False, 0)
        self.send(p.Subscribe(packet_id, [entry], properties(subscription_identifier=[version.number])))

    def _unsubscribe(self, line: Line) -> None:
        packet_id = self.new_id()
        self._asked[packet_id] = line, None
        self.send(p.Unsubscribe(packet_id, [line.topic_filter], properties()))

    def _on_suback(self, packet: p.Suback) -> None:
        asked = self._asked.pop(packet.packet_id, None)
        if asked is None or len(packet.codes) != 1:
            raise Violation(f"{self.clientid} gets {say(packet)} for nothing that it sent")
        line, version = asked
        (code,) = packet.codes
        if code >= rc.UNSPECIFIED_ERROR:
            raise Violation(f"{self.clientid} gets {say(packet)} for {line.topic_filter!r}")
        if version is None:
            line.ended_at = self.world.history.at
            if self._lines.get(line.topic_filter) is line:
                del self._lines[line.topic_filter]
            return
        if code != version.qos:
            raise Violation(f"{self.clientid} gets {say(packet)} for a subscription at QoS {version.qos}")
        version.confirmed_at = self.world.history.at

    # --- what comes

    def on_connected(self, present: bool) -> None:
        if not present:
            self._begin_anew()
        self._asked.clear()
        self._unsent.clear()  # what was not acknowledged on the connection before is sent again on this one
        for line in list(self._lines.values()):
            if line.ending_at is not None:
                self._unsubscribe(line)
            elif line.versions[-1].confirmed_at is None:
                self._subscribe(line, line.versions[-1])

    def _begin_anew(self) -> None:
        """Its session is gone, and with it all subscriptions."""
        at = self.world.history.tick()
        for line in self._lines.values():
            line.ending_at = line.ended_at = at
        self._lines.clear()
        self._incoming.clear()

    def on_packet(self, packet: p.Packet) -> None:
        if isinstance(packet, p.Suback):
            self._on_suback(packet)
        elif isinstance(packet, p.Publish):
            self._on_publish(packet)
        elif isinstance(packet, p.Ack) and packet.kind == p.PUBREL:
            self._incoming.discard(packet.packet_id)
            self._unsent.append(p.Ack(p.PUBCOMP, packet.packet_id, 0))
        else:
            raise Violation(f"{self.clientid} gets {say(packet)}")

    def _on_publish(self, packet: p.Publish) -> None:
        topic = bytes(packet.topic).decode()
        payload, numbers = bytes(packet.payload), _subscription_ids(packet)
        if packet.qos:
            self._unsent.append(p.Ack(p.PUBACK if packet.qos == 1 else p.PUBREC, packet.packet_id, 0))
        if packet.qos == 2:
            if packet.packet_id in self._incoming:
                return
            self._incoming.add(packet.packet_id)
        history = self.world.history
        if packet.retain:
            history.check_retained(self.record, topic, payload, numbers)
            self.retained[topic] = payload
            return
        if not payload:
            return
        found = MARKER.match(payload)
        marker = found.group() if found else b""
        history.check_publish(self.record, topic, payload, marker, packet.qos, numbers)
        self.record.deliveries.append(Delivery(history.at, marker, packet.qos, numbers))

    def on_gone(self) -> None:
        self._unsent.clear()
        if self.expiry_s == 0:
            self._begin_anew()


def told(packet: p.Packet) -> str:
    """A packet in words, with what tells subscriptions apart."""
    if isinstance(packet, p.Subscribe):
        (entry,) = packet.entries
        numbers = packet.properties.subscription_ids
        return f"SUBSCRIBE #{packet.packet_id} {entry.topic_filter} q{entry.qos} as {numbers}"
    if isinstance(packet, p.Unsubscribe):
        return f"UNSUBSCRIBE #{packet.packet_id} {packet.topic_filters}"
    if isinstance(packet, p.Publish):
        return f"{say(packet)} {_subscription_ids(packet) or ''}"
    if isinstance(packet, p.Connect):
        clean = "clean " if packet.clean_start else ""
        return f"CONNECT {clean}{packet.properties.named()} keepalive {packet.keepalive_s}"
    return say(packet)


def _subscription_ids(packet: p.Publish) -> list[int]:
    return list(properties_from_wire(packet.property_bytes, ALLOWED_PUBLISH_TO_CLIENT).subscription_ids)
