"""Packets with very many filters are decoded bit by bit."""

from heliograph.channel.turns import WORK_PER_TURN
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.kernel import Kernel
from support.packets import properties


def test_no_turn_decodes_all_of_a_hundred_thousand_filters() -> None:
    kernel = Kernel()
    peer = kernel.connect("peer")
    names = [f"{number:x}" for number in range(100_000)]
    subscribe = p.Subscribe(1, [p.SubscribeEntry(name, 0, False, False, 0) for name in names], properties())
    for packet in (subscribe, p.Unsubscribe(2, names, properties())):
        peer.feed(encode_packet(packet, p.V5) + b"\xc0\x00")
        most = 0
        while kernel.has_work:
            before = kernel.broker.work
            kernel.turn()
            most = max(most, kernel.broker.work - before)
        assert most <= 3 * WORK_PER_TURN
        suback, ping = peer.received()
        assert isinstance(suback, p.Suback)
        assert suback.codes == [0] * len(names)
        assert ping.kind == p.PINGRESP
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_a_fault_far_behind_ends_the_conversation_before_anything_is_subscribed_to() -> None:
    kernel = Kernel()
    peer = kernel.connect("peer")
    entries = [p.SubscribeEntry("t", 0, False, False, 0) for _ in range(5000)]
    data = encode_packet(p.Subscribe(1, entries, properties()), p.V5)
    peer.send_bytes(data[:-1] + b"\x03")
    assert peer.closed()
    assert kernel.broker.statistics()["subscriptions.count"] == 0


def test_a_connection_that_ends_while_its_packet_is_decoded() -> None:
    kernel = Kernel()
    peer = kernel.connect("peer")
    entries = [p.SubscribeEntry("t", 0, False, False, 0) for _ in range(50_000)]
    peer.feed(encode_packet(p.Subscribe(1, entries, properties()), p.V5))
    peer.drop()
    assert kernel.broker.statistics()["subscriptions.count"] == 0
