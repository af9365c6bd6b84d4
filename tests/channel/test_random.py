"""Any packets in any order and any state end legal or closed, and leave nothing behind."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.session.options import SessionOptions
from mqtt.bank import CASES
from support.kernel import Kernel, Peer
from support.packets import properties, say
from support.strategies import VERSIONS, client_packets, packets

RAW = [case.data for case in CASES if len(case.data) < 2_000]
CLIENT_IDS = ["one", "two"]
FROM_BROKER = (p.Connack, p.Publish, p.Ack, p.Suback, p.Ping, p.Disconnect)
ACTIONS = [
    "connect",
    "packet",
    "packet",
    "packet",
    "any packet",
    "raw",
    "drop",
    "time",
    "commit",
    "cut",
    "full",
    "congest",
]


class Watched:
    """A connection whose every word is checked against what the specification lets a broker say."""

    def __init__(self, peer: Peer, receive_maximum: int) -> None:
        self.peer = peer
        self._receive_maximum = receive_maximum
        self._heard_count = 0
        self._unacknowledged: set[int] = set()
        self._is_over = False

    def check(self) -> None:
        for packet in self.peer.received():
            assert not self._is_over, f"{say(packet)} behind DISCONNECT"
            assert isinstance(packet, p.Connack) == (self._heard_count == 0), say(packet)
            assert isinstance(packet, FROM_BROKER), say(packet)
            assert packet.kind not in (p.PINGREQ, p.AUTH), say(packet)
            self._heard_count += 1
            if isinstance(packet, p.Publish):
                self._check_publish(packet)
            elif isinstance(packet, p.Disconnect):
                assert self.peer.version == p.V5
                assert packet.code >= 0x80
                self._is_over = True
            elif isinstance(packet, p.Ack) and self.peer.version != p.V5:
                assert packet.code == 0
        assert not self._is_over or self.peer.closed()

    def forget(self, packet: p.Packet) -> None:
        """The client sent this: if it ends a delivery, the broker may send another."""
        ends = isinstance(packet, p.Ack) and (
            packet.kind in (p.PUBACK, p.PUBCOMP) or (packet.kind == p.PUBREC and packet.code >= 0x80)
        )
        if ends and isinstance(packet, p.Ack):
            self._unacknowledged.discard(packet.packet_id)

    def forget_everything(self) -> None:
        """The client sent bytes that nobody looked at."""
        self._unacknowledged.clear()

    def _check_publish(self, packet: p.Publish) -> None:
        assert packet.topic
        if self.peer.version == p.V5:
            named = props.properties_from_wire(packet.property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT)
            assert props.TOPIC_ALIAS not in named.numbers
        if packet.qos:
            assert packet.packet_id not in self._unacknowledged, f"{say(packet)} is in use"
            self._unacknowledged.add(int(packet.packet_id))
            assert len(self._unacknowledged) <= self._receive_maximum


def connected(kernel: Kernel, data: st.DataObject) -> Watched:
    version = data.draw(st.sampled_from(VERSIONS))
    peer = kernel.peer(version)
    will = data.draw(st.sampled_from([None, p.Will("a", b"will", 1, True, properties())]))
    receive_maximum = data.draw(st.integers(1, 3)) if version == p.V5 else 65_535
    clientid, clean_start = data.draw(st.sampled_from(CLIENT_IDS)), data.draw(st.booleans())
    keepalive_s, expiry_s = data.draw(st.sampled_from([0, 10])), data.draw(st.sampled_from([0, 60]))
    if version == p.V5:
        peer.connect(
            clientid,
            clean_start=clean_start,
            keepalive_s=keepalive_s,
            will=will,
            receive_maximum=receive_maximum,
            session_expiry_interval=expiry_s,
        )
    else:
        peer.connect(clientid, clean_start=clean_start, keepalive_s=keepalive_s, will=will)
    return Watched(peer, receive_maximum)


def act(kernel: Kernel, watched: list[Watched], data: st.DataObject) -> None:
    action = data.draw(st.sampled_from(ACTIONS))
    if action == "connect" or not watched:
        watched.append(connected(kernel, data))
        return
    one = watched[data.draw(st.integers(0, len(watched) - 1))]
    peer = one.peer
    if action == "packet" or action == "any packet":
        packet = data.draw(client_packets(peer.version) if action == "packet" else packets(peer.version))
        one.forget(packet)
        if not peer.closed() and not peer.lost:
            peer.send(packet)
    elif action == "raw":
        one.forget_everything()
        peer.send_bytes(data.draw(st.sampled_from(RAW) | st.binary(max_size=20)))
    elif action == "drop":
        peer.drop()
    elif action == "time":
        kernel.advance(data.draw(st.sampled_from([0.001, 5, 20, 100])))
    elif action == "commit":
        kernel.commit(data.draw(st.sampled_from([0, 0x80, 0x97])))
    elif action == "cut":
        kernel.sink.cut()
    elif action == "full":
        kernel.sink.full = not kernel.sink.full
    elif not peer.lost:
        peer.congest(data.draw(st.booleans()))


@pytest.mark.slow
@settings(max_examples=60)
@given(data=st.data(), steps=st.integers(10, 40))
def test_any_packets_in_any_state_end_legal_or_closed(data: st.DataObject, steps: int) -> None:
    kernel = Kernel(session_options=SessionOptions(max_mqueue_len=3, max_awaiting_rel=2), stored=["a/#", "b"])
    watched: list[Watched] = []
    for _ in range(steps):
        act(kernel, watched, data)
        for one in watched:
            one.check()
        assert kernel.hook_failures == []
    for one in watched:
        one.peer.drop()
    for clientid in CLIENT_IDS:
        kernel.connect(clientid, clean_start=True).disconnect()
    assert_nothing_is_left(kernel)


def assert_nothing_is_left(kernel: Kernel) -> None:
    assert kernel.context.channels.statistics() == {"connections.count": 0, "live_connections.count": 0}
    leftover = [session.clientid for session in kernel.sessions._sessions.values()]
    for clientid in leftover:  # those of packets of the bank and of generated CONNECTs
        kernel.connect(clientid, clean_start=True).disconnect()
    assert kernel.sessions.statistics() == {"sessions.count": 0, "sessions.away": 0}
    statistics = kernel.broker.router.statistics()
    assert (statistics["topics.count"], statistics["subscriptions.count"]) == (0, 0)
    assert kernel.broker.router._trie._root.is_empty()
