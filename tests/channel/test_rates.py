"""Listeners with rates: who sends too fast waits, and nothing is lost or overtakes."""

from dataclasses import replace

from heliograph.channel.options import ChannelOptions
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import CHANNEL, LISTENER
from support.packets import properties, publish

VERSIONS = [p.V3_1_1, p.V5]


def taken(sub: Peer) -> list[int]:
    return [int(packet.payload) for packet in sub.received() if isinstance(packet, p.Publish)]


def messages(count: int, version: int = p.V5) -> bytes:
    return b"".join(publish("t", b"%d" % number, version=version).data for number in range(count))


def kernel_with(options: ChannelOptions, version: int = p.V5) -> tuple[Kernel, Peer, Peer]:
    """A kernel, a subscriber at a listener without rates, and a publisher at one with them."""
    kernel = Kernel()
    sub = kernel.connect("sub")
    sub.subscribe("t")
    return kernel, sub, kernel.connect("pub", version=version, options=options)


@cases("version", VERSIONS)
def test_so_many_messages_a_second(version: int) -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=10.0)), version)
    pub.send_bytes(messages(35, version))
    assert taken(sub) == list(range(11))  # a second's worth, and the one that it must pay back
    assert pub.paused()
    got = 11
    for _ in range(10):
        kernel.advance(0.5)
        more = taken(sub)
        assert len(more) <= 6
        assert more == list(range(got, got + len(more)))
        got += len(more)
    assert got == 35
    assert not pub.paused()
    assert not pub.closed()


def test_after_a_rest_a_burst_may_come() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=2.0, messages_burst=8.0)))
    pub.send_bytes(messages(10))
    assert taken(sub) == list(range(10))
    assert not pub.paused()
    kernel.advance(3)
    pub.send_bytes(messages(10))
    assert len(taken(sub)) == 7
    assert pub.paused()


def test_so_many_bytes_a_second() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, bytes_rate=1000.0)))
    data = b"".join(publish("t", b"%0490d" % number).data for number in range(8))
    pub.send_bytes(data)
    got = taken(sub)
    assert got == [0, 1]
    for second in range(1, 8):
        kernel.advance(1)
        got += taken(sub)
        assert len(data) * len(got) / 8 <= 1000 * (second + 1) + 500
    assert got == list(range(8))


def test_one_packet_may_be_larger_than_the_rate_and_is_paid_back() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, bytes_rate=1000.0)))
    pub.send_bytes(publish("t", b"%04000d" % 1).data + publish("t", b"2").data)
    assert taken(sub) == [1]
    kernel.advance(3)
    assert taken(sub) == []
    kernel.advance(1)
    assert taken(sub) == [2]


def test_other_packets_are_no_messages() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    for _ in range(20):
        pub.send(p.Ping(p.PINGREQ))
    assert pub.heard() == ["PINGRESP"] * 20
    pub.send_bytes(messages(2) + encode_packet(p.Ping(p.PINGREQ), p.V5))
    assert taken(sub) == [0, 1]
    assert pub.heard() == []  # nothing overtakes, not even an answer
    kernel.advance(1)
    assert pub.heard() == ["PINGRESP"]


def test_everything_behind_it_waits_in_its_order() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    packets: list[p.Packet] = [publish("t", b"0", 1, 1), publish("t", b"1", 2, 2), publish("t", b"2", 1, 3)]
    packets += [p.Ack(p.PUBREL, 2, 0), p.Subscribe(4, [p.SubscribeEntry("x", 1, False, False, 0)], properties())]
    packets += [publish("t", b"3", 1, 5), p.Ping(p.PINGREQ), p.Disconnect(0, properties())]
    pub.send(*packets)
    for _ in range(6):
        kernel.advance(1)
    assert pub.heard() == [
        "PUBACK #1",
        "PUBREC #2",
        "PUBACK #3",
        "PUBCOMP #2",
        "SUBACK #4 [0x01]",
        "PUBACK #5",
        "PINGRESP",
    ]
    assert taken(sub) == [0, 1, 2, 3]
    assert pub.closed()


def test_a_packet_that_came_in_part_is_completed_later() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    data = messages(4)
    for cut in range(0, len(data), 5):
        pub.send_bytes(data[cut : cut + 5])
    assert taken(sub) == [0, 1]
    for _ in range(4):
        kernel.advance(1)
    assert taken(sub) == [2, 3]


def test_who_waits_is_not_silent() -> None:
    kernel = Kernel()
    pub = kernel.connect("pub", keepalive_s=10, options=replace(CHANNEL, listener=replace(LISTENER, bytes_rate=10.0)))
    pub.send_bytes(publish("t", b"x" * 1000).data)
    assert pub.paused()
    waited_s = 0
    while pub.paused():
        kernel.advance(18)
        waited_s += 18
    assert waited_s >= 100
    assert not pub.closed()
    kernel.advance(16)
    assert pub.closed()


def test_who_is_gone_before_it_may_send_again() -> None:
    kernel, sub, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    pub.send_bytes(messages(5))
    pub.drop()
    for _ in range(10):
        kernel.advance(1)
    assert taken(sub) == [0, 1]
    assert kernel.context.channels.statistics()["connections.open"] == 1


def test_a_client_that_waits_gets_what_others_send() -> None:
    kernel, _, pub = kernel_with(replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    pub.subscribe("other", 1)
    pub.send_bytes(messages(5))
    assert pub.paused()
    kernel.connect("second").publish("other", b"x", 1)
    assert pub.heard() == ["PUBLISH other 'x' q1 #1"]


def test_a_full_storage_and_a_rate_are_both_waited_for() -> None:
    kernel = Kernel(stored=["t"])
    pub = kernel.connect("pub", options=replace(CHANNEL, listener=replace(LISTENER, messages_rate=1.0)))
    kernel.sink.full = True
    pub.send_bytes(messages(4))
    assert len(kernel.sink.messages) == 2
    kernel.advance(5)
    assert len(kernel.sink.messages) == 2
    assert pub.paused()
    kernel.sink.full = False
    kernel.commit()
    assert len(kernel.sink.messages) == 4
    assert pub.paused()  # for the rate, of the third and the fourth
    kernel.advance(5)
    assert not pub.paused()


def test_the_rate_of_one_client_is_not_that_of_others() -> None:
    options = replace(CHANNEL, listener=replace(LISTENER, messages_rate=2.0))
    kernel, sub, one = kernel_with(options)
    two = kernel.connect("two", options=options)
    one.send_bytes(messages(9))
    two.send_bytes(messages(2))
    assert taken(sub) == [0, 1, 2, 0, 1]
    assert one.paused()
    assert not two.paused()
