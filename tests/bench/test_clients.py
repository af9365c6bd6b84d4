"""The sans-IO clients: handshakes, and that handling packets by the column changes nothing that a broker could see."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.mqtt.errors import MalformedPacketError, ProtocolError
from heliograph_bench.clients import Client, Login
from heliograph_bench.latency import Latencies
from heliograph_bench.packets import BrokerRefusedError, packet
from heliograph_bench.publisher import Publisher
from heliograph_bench.subscriber import Receiver
from heliograph_bench.workload import Shape, Workload
from support.cases import cases
from support.forms import examples

CONNACK = {4: b"\x20\x02\x00\x00", 5: b"\x20\x03\x00\x00\x00"}
SUBACK = {4: b"\x90\x03\x00\x01", 5: b"\x90\x04\x00\x01\x00"}
NOW = 1_700_000_000_000_000


def cut(data: bytes) -> list[bytes]:
    """The packets of a complete stream, each as its bytes."""
    found = []
    while data:
        assert data[1] < 0x80, "the tests use short packets"
        length = 2 + data[1]
        found.append(data[:length])
        data = data[length:]
    return found


@dataclass
class IdealBroker:
    """In memory, one packet at a time: what the columnwise clients are held against.

    Forwards what a publisher sends to a subscriber, both at one QoS, and answers both as the specification says."""

    version: int
    qos: int
    delivered: int = 0
    to_publisher: bytearray = field(default_factory=bytearray)
    to_subscriber: bytearray = field(default_factory=bytearray)
    acked_by_subscriber: list[int] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    released: list[bytes] = field(default_factory=list)

    def from_publisher(self, data: bytes) -> None:
        for wire in cut(data):
            kind = wire[0] & 0xF0
            if kind == 0x60:
                self.to_publisher += b"\x70\x02" + wire[2:4]
                self.released.append(wire[2:4])
                continue
            assert kind == 0x30
            assert (wire[0] >> 1) & 3 == self.qos
            self._forward(wire)

    def _forward(self, wire: bytes) -> None:
        at = 4 + ((wire[2] << 8) | wire[3])
        packet_id = wire[at : at + 2] if self.qos else b""
        rest = wire[at + len(packet_id) :]
        self.seen.append(packet_id)
        if self.qos:
            self.to_publisher += (b"\x40\x02" if self.qos == 1 else b"\x50\x02") + packet_id
        self.delivered += 1
        own_id = ((self.delivered - 1) % 65535 + 1).to_bytes(2, "big") if self.qos else b""
        self.to_subscriber += packet(wire[0], wire[2:at] + own_id + rest)

    def from_subscriber(self, data: bytes) -> None:
        for wire in cut(data):
            packet_id = int.from_bytes(wire[2:4], "big")
            if wire[0] == 0x50:
                self.to_subscriber += b"\x62\x02" + wire[2:4]
            else:
                assert wire[0] == (0x40 if self.qos == 1 else 0x70)
                self.acked_by_subscriber.append(packet_id)


def publisher(version: int = 4, qos: int = 1, window: int = 100) -> Publisher:
    client = Publisher(Login("p", version), "bench/1", 16, qos, window)
    assert client.receive(CONNACK[version], NOW) == b""
    assert client.ready
    return client


def subscriber(version: int = 4, qos: int = 1) -> tuple[Receiver, Latencies]:
    latencies = Latencies()
    client = Receiver(Login("s", version), ["bench/1"], qos, latencies)
    assert client.receive(CONNACK[version], NOW).startswith(b"\x82")
    assert client.receive(SUBACK[version] + bytes([qos]), NOW) == b""
    assert client.ready
    return client, latencies


def test_a_connect_carries_version_keepalive_and_credentials() -> None:
    wire = Client(Login("me", 5, 30, "anna", "secret")).connect()
    assert wire == b"\x10\x1d\x00\x04MQTT\x05\xc2\x00\x1e\x00\x00\x02me\x00\x04anna\x00\x06secret"


@cases(
    ("version", "wire", "said"),
    [
        (4, b"\x20\x02\x00\x05", r"refused the connection: not authorized \(code 5\)"),
        (5, b"\x20\x03\x00\x87\x00", r"refused the connection: not authorized \(0x87\)"),
        (5, b"\x20\x0a\x00\x89\x07\x1f\x00\x04full", r"server busy \(0x89\): full"),
    ],
)
def test_a_refused_connection_says_why(version: int, wire: bytes, said: str) -> None:
    with pytest.raises(BrokerRefusedError, match=said):
        Client(Login("me", version)).receive(wire, NOW)


@cases(
    ("version", "code", "said"),
    [(4, 0x80, "code 128"), (5, 0x87, "not authorized"), (5, 0, "granted QoS 0 where QoS 1")],
)
def test_a_refused_subscription_says_why(version: int, code: int, said: str) -> None:
    client = Receiver(Login("s", version), ["a"], 1, Latencies())
    client.receive(CONNACK[version], NOW)
    with pytest.raises(BrokerRefusedError, match=said):
        client.receive(SUBACK[version] + bytes([code]), NOW)


def test_many_filters_go_into_several_packets() -> None:
    client = Receiver(Login("s"), [f"never/{i}" for i in range(120)], 0, Latencies())
    assert client.receive(CONNACK[4], NOW).count(b"never/") == 120
    for number, filters in ((1, 50), (2, 50), (3, 20)):
        assert not client.ready
        client.receive(bytes([0x90, 2 + filters, 0, number]) + bytes(filters), NOW)
    assert client.ready


def test_a_publisher_keeps_to_the_window_and_to_the_brokers_receive_maximum() -> None:
    client = Publisher(Login("p", 5), "t", 8, 1, 100)
    client.receive(b"\x20\x06\x00\x00\x03\x21\x00\x14", NOW)
    assert client.room == 20
    client.publish(15, NOW)
    assert client.room == 5
    client.receive(b"\x40\x02\x00\x01\x40\x02\x00\x02", NOW)
    assert (client.room, client.acked) == (7, 2)


@cases("window", [1, 20])
def test_acknowledgements_are_dated_from_the_messages_making(window: int) -> None:
    latencies = Latencies()
    client = Publisher(Login("p"), "t", 8, 1, window, latencies=latencies)
    client.receive(CONNACK[4], NOW)
    for packet_id in range(1, window + 1):
        client.publish(1, NOW + packet_id)
    for packet_id in range(1, window + 1):
        client.receive(bytes([0x40, 2, 0, packet_id]), NOW + packet_id + 200)
    assert (latencies.count, latencies.percentile(0), latencies.max_us) == (window, 200, 200)


def test_one_piece_of_acknowledgements_may_be_of_several_bursts_and_parts_of_them() -> None:
    latencies = Latencies()
    client = Publisher(Login("p"), "t", 8, 1, 100, latencies=latencies)
    client.receive(CONNACK[4], NOW)
    client.publish(3, NOW)
    client.publish(3, NOW + 50)
    acknowledgements = b"".join(bytes([0x40, 2, 0, packet_id]) for packet_id in range(1, 7))
    client.receive(acknowledgements[:8], NOW + 100)
    assert (latencies.count, latencies.max_us) == (2, 100)
    client.receive(acknowledgements[8:], NOW + 101)
    assert (latencies.count, latencies.percentile(50), latencies.max_us) == (6, 51, 101)
    client.publish(1, NOW + 200)
    client.receive(b"\x40\x02\x00\x07", NOW + 205)
    assert (latencies.count, latencies.percentile(0)) == (7, 5)


def test_a_session_is_to_outlive_its_subscriber_only_if_it_was_asked_for() -> None:
    for expiry_s, flags in ((0, 0x02), (60, 0x00)):
        workload = Workload(Shape.PAIR, publishers=1, subscribers=1, version=4, session_expiry_s=expiry_s)
        (receiver,), (sender,), _ = workload.build(Latencies())
        assert receiver.connect()[9] == flags
        assert sender.connect()[9] == 0x02


def test_a_broker_without_qos_2_is_reported() -> None:
    with pytest.raises(BrokerRefusedError, match="QoS 1 at most"):
        Publisher(Login("p", 5), "t", 8, 2, 1).receive(b"\x20\x05\x00\x00\x02\x24\x01", NOW)


@pytest.mark.slow
def test_packet_ids_go_round_and_never_are_zero() -> None:
    client = publisher(window=40000)
    ids = []
    for _ in range(3):
        wires = cut(client.publish(40000, NOW))
        ids += [int.from_bytes(wire[11:13], "big") for wire in wires]
        client.receive(b"".join(b"\x40\x02" + wire[11:13] for wire in wires), NOW)
    assert ids == [i % 65535 + 1 for i in range(120000)]
    assert client.settled


@given(st.integers(0, 2**32))
def test_acknowledgements_in_any_order_settle_every_message(seed: int) -> None:
    random = Random(seed)
    client = publisher(window=300)
    waiting: list[bytes] = []
    while client.sent < 2000:
        waiting += [wire[11:13] for wire in cut(client.publish(random.randint(1, max(client.room, 1)), NOW))]
        random.shuffle(waiting)
        acked, waiting = waiting[: len(waiting) // 2], waiting[len(waiting) // 2 :]
        client.receive(b"".join(b"\x40\x02" + packet_id for packet_id in acked), NOW)
        assert client.room == 300 - len(waiting)
    client.receive(b"".join(b"\x40\x02" + packet_id for packet_id in waiting), NOW)
    assert client.settled
    assert client.acked == client.sent


@cases("wire", [b"\x40\x02\x00\x07", b"\x40\x02\x00\x01\x40\x02\x00\x01"])
def test_an_acknowledgement_of_nothing_in_flight_is_a_fault_of_the_broker(wire: bytes) -> None:
    client = publisher()
    client.publish(3, NOW)
    with pytest.raises(ProtocolError, match="not in flight"):
        client.receive(wire, NOW)


def test_messages_that_the_broker_refuses_are_counted() -> None:
    client = publisher(version=5)
    client.publish(4, NOW)
    client.receive(b"\x40\x03\x00\x01\x97\x40\x03\x00\x02\x97\x40\x03\x00\x03\x10\x40\x02\x00\x04", NOW)
    assert (client.acked, client.rejected, client.settled) == (4, 2, True)


def test_a_refused_qos_2_message_ends_with_its_pubrec() -> None:
    client = publisher(version=5, qos=2)
    client.publish(2, NOW)
    assert client.receive(b"\x50\x03\x00\x01\x97\x50\x03\x00\x02\x00", NOW) == b"\x62\x02\x00\x02"
    client.receive(b"\x70\x02\x00\x02", NOW)
    assert (client.acked, client.rejected, client.settled) == (2, 1, True)


@cases("version", [4, 5])
@cases("qos", [0, 1, 2])
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 2**32))
def test_every_message_arrives_and_is_acknowledged_however_the_streams_are_cut(
    version: int, qos: int, seed: int
) -> None:
    random = Random(seed)
    sender, (receiver, latencies) = publisher(version, qos), subscriber(version, qos)
    broker = IdealBroker(version, qos)
    goal, now = 400, NOW
    while receiver.received < goal or not sender.settled:
        now += 50
        count = min(sender.room, goal - sender.sent, random.choice((1, 2, 7, 100)))
        if count > 0:
            broker.from_publisher(sender.publish(count, now))
        for queue, client, answer in (
            (broker.to_publisher, sender, broker.from_publisher),
            (broker.to_subscriber, receiver, broker.from_subscriber),
        ):
            size = random.choice((1, 3, 4, 8, 40, 500, 100_000))
            taken = bytes(queue[:size])
            del queue[:size]
            answer(client.receive(taken, now))
    broker.from_subscriber(receiver.receive(bytes(broker.to_subscriber), now))
    assert (sender.sent, receiver.received, latencies.count) == (goal, goal, goal)
    if qos:
        assert sender.acked == goal
        assert broker.acked_by_subscriber == list(range(1, goal + 1))
        assert broker.released == (broker.seen if qos == 2 else [])
        assert broker.seen == [i.to_bytes(2, "big") for i in range(1, goal + 1)]


def test_a_message_with_properties_is_dated_by_its_payload() -> None:
    client, latencies = subscriber(version=5, qos=0)
    body = b"\x00\x07bench/1" + b"\x05\x02\x00\x00\x00\x63" + (NOW - 1500).to_bytes(8, "big")
    client.receive((bytes([0x30, len(body)]) + body) * 3, NOW)
    plain = b"\x00\x07bench/1\x00" + (NOW - 1500).to_bytes(8, "big") + bytes(5)
    client.receive((bytes([0x30, len(plain)]) + plain) * 3 + bytes([0x30, len(body)]) + body, NOW)
    assert client.received == 7
    assert (latencies.count, latencies.max_us) == (7, 1500)


def test_messages_of_others_are_counted_without_a_latency() -> None:
    client, latencies = subscriber(qos=0)
    client.receive(b"\x30\x0b\x00\x07bench/1hi\x30\x18\x00\x07bench/1not a timestamp", NOW)
    assert (client.received, latencies.count) == (2, 0)


def test_the_reason_of_a_disconnect_is_kept() -> None:
    client = publisher(version=5)
    client.receive(b"\xe0\x02\x8b\x00", NOW)
    assert client.farewell == "server shutting down (0x8b)"


def test_what_no_broker_may_send_is_named() -> None:
    client = publisher()
    with pytest.raises(ProtocolError, match="sent publisher p packet type 3"):
        client.receive(b"\x30\x03\x00\x01a", NOW)
    receiver, _ = subscriber()
    with pytest.raises(MalformedPacketError, match="shorter than its parts"):
        receiver.receive(b"\x32\x04\x00\x09ab", NOW)
    with pytest.raises(MalformedPacketError, match="more than four bytes"):
        publisher().receive(b"\x40\xff\xff\xff\xff\x01", NOW)
