"""Packets in any pieces, and channels that give others a turn."""

from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from mqtt.bank import FROM_CLIENT
from support.cases import cases
from support.forms import examples
from support.kernel import Kernel
from support.packets import publish
from support.strategies import VERSIONS, client_packets
from support.wire import wire

CONNECT = {
    p.V3_1: '10 # "MQIsdp" 03 02 0000 "c"',
    p.V3_1_1: '10 # "MQTT" 04 02 0000 "c"',
    p.V5: '10 # "MQTT" 05 02 0000 {} "c"',
}
SMALL = [case for case in FROM_CLIENT if len(case.data) < 20_000]


@cases("version", VERSIONS)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_any_split_of_a_stream_says_the_same(version: int, data: st.DataObject) -> None:
    packets = data.draw(st.lists(client_packets(version), min_size=1, max_size=6))
    stream = wire(CONNECT[version])
    stream += b"".join(encode_packet(packet, version) for packet in packets)
    stream += data.draw(st.sampled_from([b"", *(case.data for case in SMALL)]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    assert said(stream, cuts) == said(stream, [])
    assert said(stream, list(range(0, len(stream), 7))) == said(stream, [])


def said(stream: bytes, cuts: list[int]) -> tuple[bytes, bytes, bool, list[str]]:
    """What the broker does when a stream arrives in pieces."""
    kernel = Kernel()
    watcher = kernel.connect("watcher")
    watcher.subscribe("#", 2)
    peer = kernel.peer()
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        peer.send_bytes(stream[start:stop])
    return bytes(peer.wire.written), bytes(watcher.wire.written), peer.closed(), kernel.reports


def test_byte_by_byte() -> None:
    kernel = Kernel()
    peer = kernel.peer()
    for byte in wire(CONNECT[p.V5]) + wire('82 # 0001 {} "t" 01') + publish("t", b"x" * 300, 1, 9).data + wire("c0 #"):
        peer.send_bytes(bytes([byte]))
    assert peer.heard() == [
        "CONNACK 0x00",
        "SUBACK #1 [0x01]",
        f"PUBLISH t '{'x' * 300}' q1 #1",
        "PUBACK #9",
        "PINGRESP",
    ]


def test_a_packet_that_never_ends_is_not_acted_on() -> None:
    kernel = Kernel()
    sub, pub = kernel.connect("sub"), kernel.connect("pub")
    sub.subscribe("t")
    pub.send_bytes(publish("t", b"whole").data + publish("t", b"x" * 1000).data[:-1])
    pub.drop()
    assert sub.heard() == ["PUBLISH t 'whole' q0"]


def test_a_publisher_with_many_receivers_gives_others_a_turn() -> None:
    kernel = Kernel()
    subs = [kernel.connect(f"sub{number}") for number in range(100)]
    for sub in subs:
        sub.subscribe("t")
    pub = kernel.connect("pub")
    pub.feed(b"".join(publish("t", b"%d" % number, 1, number + 1).data for number in range(400)))
    assert pub.paused()
    kernel.turn()  # what was delivered is written before more is
    first = len(subs[0].received())
    assert 140 <= first < 400
    assert len(pub.received()) == first
    kernel.run()
    assert not pub.paused()
    for sub in subs:
        payloads = [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)]
        assert payloads == [b"%d" % number for number in range(first if sub is subs[0] else 0, 400)]
    assert len(pub.received()) == 400 - first


def test_a_connection_lost_between_its_turns_ends_there() -> None:
    kernel = Kernel()
    subs = [kernel.connect(f"sub{number}") for number in range(100)]
    for sub in subs:
        sub.subscribe("t")
    pub = kernel.connect("pub")
    pub.feed(b"".join(publish("t", b"x").data for number in range(400)))
    pub.drop()
    assert len(subs[0].received()) < 400
    assert kernel.context.channels.statistics()["connections.open"] == 100


def test_a_client_that_does_not_read_its_answers_is_not_read_from() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.congest()
    peer.send_bytes(wire("c0 #") * 40_000)
    assert peer.paused()
    peer.send_bytes(wire("c0 #") * 40_000)
    peer.congest(False)
    assert not peer.paused()
    assert len(peer.received()) == 80_000
