"""What a session sends to its client, in which order and how much of it at once."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt.errors import ProtocolError
from heliograph.session.mqueue import DELIVERY_BYTES
from heliograph.session.sender import UNSENT_BYTES_MAX
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import SESSION
from support.packets import publish, say


def kernel_with(**limits: Any) -> Kernel:
    return Kernel(session_options=replace(SESSION, **limits))


def subscriber(
    kernel: Kernel, qos: int = 2, *, receive_maximum: int = 65_535, maximum_packet_size: int = 0xFFFFFFFF
) -> Peer:
    peer = kernel.connect(
        "sub",
        session_expiry_interval=3600,
        receive_maximum=receive_maximum,
        maximum_packet_size=maximum_packet_size,
    )
    peer.subscribe("t", qos)
    return peer


def back(
    kernel: Kernel, version: int = p.V5, *, receive_maximum: int = 65_535, maximum_packet_size: int = 0xFFFFFFFF
) -> Peer:
    """The same client on a new connection; what it hears begins with CONNACK."""
    peer = kernel.peer(version)
    if version == p.V5:
        peer.connect(
            "sub",
            clean_start=False,
            session_expiry_interval=3600,
            receive_maximum=receive_maximum,
            maximum_packet_size=maximum_packet_size,
        )
    else:
        peer.connect("sub", clean_start=False)
    return peer


# --- the inflight window


@cases(("max_inflight", "receive_maximum", "window"), [(3, 65_535, 3), (32, 2, 2), (1, 1, 1)])
def test_no_more_than_the_window_is_sent_unacknowledged(max_inflight: int, receive_maximum: int, window: int) -> None:
    kernel = kernel_with(max_inflight=max_inflight)
    sub, pub = subscriber(kernel, receive_maximum=receive_maximum), kernel.connect("pub")
    for number in range(6):
        pub.publish("t", b"%d" % number, 1)
    heard = sub.heard()
    assert heard == [f"PUBLISH t '{number}' q1 #{number + 1}" for number in range(window)]
    for number in range(window, 6):
        sub.ack(p.PUBACK, number - window + 1)
        assert sub.heard() == [f"PUBLISH t '{number}' q1 #{number + 1}"]


def test_qos_2_holds_its_place_in_the_window_until_pubcomp() -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"one", 2)
    pub.publish("t", b"two", 2)
    assert sub.heard() == ["PUBLISH t 'one' q2 #1"]
    sub.ack(p.PUBREC, 1)
    assert sub.heard() == ["PUBREL #1"]
    sub.ack(p.PUBREC, 1)  # again: only the PUBREL is
    assert sub.heard() == ["PUBREL #1"]
    sub.ack(p.PUBCOMP, 1)
    assert sub.heard() == ["PUBLISH t 'two' q2 #2"]


def test_a_pubrec_that_refuses_ends_the_delivery() -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"one", 2)
    pub.publish("t", b"two", 2)
    sub.received()
    sub.ack(p.PUBREC, 1, 0x97)
    assert sub.heard() == ["PUBLISH t 'two' q2 #2"]


def test_qos_0_passes_a_full_window() -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"one", 1)
    pub.publish("t", b"two", 1)
    pub.publish("t", b"three", 0)
    assert sub.heard() == ["PUBLISH t 'one' q1 #1", "PUBLISH t 'three' q0"]


def test_acknowledgements_of_what_was_not_sent_change_nothing() -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"one", 1)
    pub.publish("t", b"two", 1)
    sub.received()
    sub.ack(p.PUBACK, 9)
    sub.ack(p.PUBCOMP, 9)
    sub.ack(p.PUBREC, 9)
    assert sub.heard() == ["PUBREL #9 0x92"]
    sub.ack(p.PUBACK, 1)
    assert sub.heard() == ["PUBLISH t 'two' q1 #2"]


def test_packet_identifiers_wrap_and_pass_over_those_in_use() -> None:
    kernel = kernel_with(max_inflight=2)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"stays", 1)
    assert sub.heard() == ["PUBLISH t 'stays' q1 #1"]
    session = kernel.sessions.find("sub")
    assert session is not None
    for packet_id in range(2, 65_536):
        pub.channel.reader.receive(b"\x32\x08\x00\x01t\x00\x01\x00x!")
        assert session.on_puback(packet_id)
    kernel.run()
    sub.skip()
    pub.publish("t", b"next", 1)
    assert sub.heard() == ["PUBLISH t 'next' q1 #2"]


# --- coming back


def test_what_is_unacknowledged_is_sent_again_in_its_first_order_then_what_waited() -> None:
    kernel = kernel_with(max_inflight=4)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    for number, qos in enumerate([1, 2, 2, 1, 1, 0, 2]):
        pub.publish("t", b"%d" % number, qos)
    sub.ack(p.PUBREC, 2)
    sub.ack(p.PUBREC, 3, 0x80)  # makes room for message 4
    assert sub.heard()[-2:] == ["PUBREL #2", "PUBLISH t '4' q1 #5"]
    sub.drop()
    pub.publish("t", b"away", 1)
    again = back(kernel)
    assert again.heard() == [
        "CONNACK 0x00 present",
        "PUBLISH t '0' q1 #1 dup",
        "PUBREL #2",
        "PUBLISH t '3' q1 #4 dup",
        "PUBLISH t '4' q1 #5 dup",
    ]
    for kind, packet_id in [(p.PUBACK, 1), (p.PUBCOMP, 2)]:
        again.ack(kind, packet_id)
    assert again.heard() == ["PUBLISH t '6' q2 #6", "PUBLISH t 'away' q1 #7"]


def test_a_smaller_window_after_coming_back_holds_for_what_is_sent_again() -> None:
    kernel = kernel_with(max_inflight=4)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    for number in range(5):
        pub.publish("t", b"%d" % number, 1)
    sub.drop()
    again = back(kernel, receive_maximum=2)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH t '0' q1 #1 dup", "PUBLISH t '1' q1 #2 dup"]
    pub.publish("t", b"5", 1)  # may not overtake what is to be sent again
    assert again.heard() == []
    again.ack(p.PUBACK, 1)
    assert again.heard() == ["PUBLISH t '2' q1 #3 dup"]
    again.ack(p.PUBACK, 2)
    again.ack(p.PUBACK, 3)
    assert again.heard() == ["PUBLISH t '3' q1 #4 dup", "PUBLISH t '4' q1 #5"]


def test_an_acknowledgement_from_before_does_not_widen_the_window() -> None:
    kernel = kernel_with(max_inflight=4)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    for number in range(4):
        pub.publish("t", b"%d" % number, 1)
    sub.drop()
    pub.publish("t", b"new", 1)
    again = back(kernel, receive_maximum=1)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH t '0' q1 #1 dup"]
    again.ack(p.PUBACK, 3)  # received on the earlier connection
    assert again.heard() == []
    again.ack(p.PUBACK, 1)
    assert again.heard() == ["PUBLISH t '1' q1 #2 dup"]
    again.ack(p.PUBACK, 2)
    assert again.heard() == ["PUBLISH t '3' q1 #4 dup"]


def test_a_client_may_come_back_with_another_version() -> None:
    kernel = Kernel()
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"x", 2, content_type="text")
    sub.drop()
    again = back(kernel, p.V3_1_1)
    assert again.heard() == ["CONNACK 0x00 present", "PUBLISH t 'x' q2 #1 dup"]
    again.ack(p.PUBREC, 1)
    assert again.heard() == ["PUBREL #1"]


def test_while_the_client_is_away_the_queue_keeps_to_its_policy() -> None:
    kernel = kernel_with(max_mqueue_len=3)
    dropped: list[str] = []
    kernel.broker.hooks.delivery_dropped.add(
        lambda clientid, message, reason, _: dropped.append(f"{message.payload.decode()} {reason}")
    )
    sub, pub = subscriber(kernel), kernel.connect("pub")
    sub.drop()
    for number, qos in enumerate([1, 0, 1, 1, 1, 0]):
        pub.publish("t", b"%d" % number, qos)
    assert back(kernel).heard()[1:] == ["PUBLISH t '2' q1 #1", "PUBLISH t '3' q1 #2", "PUBLISH t '4' q1 #3"]
    assert dropped == ["1 queue_full", "0 queue_full", "5 qos0_msg"]
    counters = kernel.broker.counters.snapshot()
    assert (counters["delivery.dropped.queue_full"], counters["delivery.dropped.qos0_msg"]) == (2, 1)


@cases("alias_max", [0, 5])
def test_qos_0_that_waited_is_not_overtaken_by_what_comes_later(alias_max: int) -> None:
    kernel = kernel_with()
    sub, pub = subscriber(kernel, 1), kernel.connect("pub")
    sub.drop()
    for payload, qos in ((b"1", 1), (b"a", 0), (b"2", 1), (b"b", 0)):
        pub.publish("t", payload, qos)
    again = kernel.peer()
    again.connect("sub", clean_start=False, receive_maximum=1, topic_alias_maximum=alias_max)
    pub.publish("t", b"c", 0)
    payloads = [packet.payload for packet in again.received() if isinstance(packet, p.Publish)]
    assert payloads == [b"1", b"a", b"b", b"c"]  # a full window holds back QoS 1 alone [MQTT-4.6.0-6]
    again.ack(p.PUBACK, 1)
    assert [packet.payload for packet in again.received() if isinstance(packet, p.Publish)] == [b"2"]


def test_what_waited_does_not_fill_memory_in_one_turn() -> None:
    kernel = kernel_with(max_mqueue_bytes=0)
    sub, pub = subscriber(kernel, 0), kernel.connect("pub")
    sub.drop()
    for number in range(60):
        pub.publish("t", b"%d " % number + b"x" * 900_000, 0)
    again = back(kernel)
    came: list[int] = []
    for turn in range(5):
        packets = [packet for packet in again.received() if isinstance(packet, p.Publish)]
        came += [int(packet.payload.split()[0]) for packet in packets]
        assert sum(len(packet.data) for packet in packets) <= UNSENT_BYTES_MAX + 2_000_000
        pub.publish("t", b"%d live" % (60 + turn), 0)
        kernel.advance(1)
    came += [int(packet.payload.split()[0]) for packet in again.received() if isinstance(packet, p.Publish)]
    assert came == list(range(65))
    pub.publish("t", b"65 at once", 0)
    assert again.heard() == ["PUBLISH t '65 at once' q0"]


def test_qos_0_does_not_wait_if_the_operator_does_not_want_it() -> None:
    kernel = kernel_with(mqueue_store_qos0=False)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    sub.drop()
    pub.publish("t", b"0", 0)
    pub.publish("t", b"1", 1)
    assert back(kernel).heard()[1:] == ["PUBLISH t '1' q1 #1"]


def test_messages_that_expire_while_they_wait_are_dropped() -> None:
    kernel = Kernel()
    sub, pub = subscriber(kernel), kernel.connect("pub")
    sub.drop()
    pub.publish("t", b"short", 1, message_expiry_interval=10)
    pub.publish("t", b"long", 1, message_expiry_interval=100)
    pub.publish("t", b"ever", 1)
    kernel.advance(10)
    again = back(kernel)
    received = again.received()
    assert [say(packet) for packet in received[1:]] == ["PUBLISH t 'long' q1 #1", "PUBLISH t 'ever' q1 #2"]
    publish = received[1]
    assert isinstance(publish, p.Publish)
    assert publish.property_bytes == b"\x02" + (90).to_bytes(4, "big")  # [MQTT-3.3.2-6]
    assert kernel.broker.counters.snapshot()["delivery.dropped.expired"] == 1


def test_what_was_sent_once_does_not_expire() -> None:
    kernel = Kernel()
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"x", 1, message_expiry_interval=10)
    sub.drop()
    kernel.advance(60)
    assert back(kernel).heard()[1:] == ["PUBLISH t 'x' q1 #1 dup"]


def test_an_upgrade_of_qos_if_the_operator_wants_it() -> None:
    kernel = kernel_with(upgrade_qos=True)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"x", 0)
    assert sub.heard() == ["PUBLISH t 'x' q2 #1"]


# --- the client's maximum packet size


@cases("qos", [0, 1, 2])
def test_packets_beyond_the_clients_limit_are_not_sent(qos: int) -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel, maximum_packet_size=40), kernel.connect("pub")
    pub.publish("t", b"x" * 40, qos)
    assert sub.heard() == []
    exact = 40 - 2 - 3 - 1 - (2 if qos else 0)
    pub.publish("t", b"x" * exact, qos)
    (packet,) = sub.received()
    assert isinstance(packet, p.Publish)
    assert len(packet.data) == 40
    assert kernel.broker.counters.snapshot()["delivery.dropped.too_large"] == 1


def test_a_limit_that_shrinks_also_holds_for_what_is_sent_again() -> None:
    kernel = kernel_with(max_inflight=2)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"x" * 100, 1)
    pub.publish("t", b"y", 1)
    sub.drop()
    pub.publish("t", b"z", 1)
    again = back(kernel, maximum_packet_size=60)
    assert again.heard()[1:] == ["PUBLISH t 'y' q1 #2 dup", "PUBLISH t 'z' q1 #3"]


# --- a client that does not read


def test_a_congested_connection_loses_qos_0_and_queues_the_rest() -> None:
    kernel = Kernel()
    sub, pub = subscriber(kernel), kernel.connect("pub")
    sub.congest()
    pub.publish("t", b"0", 0)
    pub.publish("t", b"1", 1)
    pub.publish("t", b"2", 2)
    assert sub.heard() == []
    sub.congest(False)
    assert sub.heard() == ["PUBLISH t '1' q1 #1", "PUBLISH t '2' q2 #2"]
    pub.publish("t", b"3", 0)
    assert sub.heard() == ["PUBLISH t '3' q0"]
    assert kernel.broker.counters.snapshot()["delivery.dropped.qos0_msg"] == 1


def test_answers_wait_behind_congestion_in_order() -> None:
    kernel = Kernel()
    peer = kernel.connect()
    peer.congest()
    peer.send(p.Ping(p.PINGREQ))
    peer.publish("t", b"", 1, 4)
    assert peer.heard() == []
    peer.congest(False)
    assert peer.heard() == ["PINGRESP", "PUBACK #4 0x10"]


def test_acknowledgements_during_congestion_free_the_window() -> None:
    kernel = kernel_with(max_inflight=1)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"1", 1)
    pub.publish("t", b"2", 1)
    sub.received()
    sub.congest()
    sub.ack(p.PUBACK, 1)
    assert sub.heard() == []
    sub.congest(False)
    assert sub.heard() == ["PUBLISH t '2' q1 #2"]


# --- what operators see


def test_statistics_and_repr() -> None:
    kernel = kernel_with(max_inflight=1, max_mqueue_len=7)
    sub, pub = subscriber(kernel), kernel.connect("pub")
    pub.publish("t", b"1", 1)
    pub.publish("t", b"2", 1)
    sub.publish("x", b"", 2, 9)
    session = kernel.sessions.find("sub")
    assert session is not None
    assert session.statistics() == {
        "subscriptions_cnt": 1,
        "inflight_cnt": 1,
        "inflight_max": 1,
        "mqueue_len": 1,
        "mqueue_max": 7,
        "mqueue_bytes": DELIVERY_BYTES + len(publish("t", b"2", 1, 1).data) + len("pub"),
        "mqueue_bytes_max": 8 * 1024 * 1024,
        "mqueue_dropped": 0,
        "awaiting_rel_cnt": 1,
    }
    assert repr(session) == "Session('sub', attached, 1 inflight)"
    sub.drop()
    assert repr(session) == "Session('sub', away, 1 inflight)"


# --- whatever happens, nothing at QoS 1 or 2 is lost, doubled or out of order


steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 2)),
        st.tuples(st.just("answer"), st.integers(1, 3)),
        st.tuples(st.sampled_from(["drop", "congest", "relieve"]), st.just(0)),
    ),
    min_size=15,
    max_size=60,
)


@given(steps=steps, max_inflight=st.integers(1, 4), receive_maximum=st.integers(1, 4))
def test_a_client_that_comes_and_goes_gets_everything_in_order(
    steps: list[tuple[str, int]], max_inflight: int, receive_maximum: int
) -> None:
    kernel = kernel_with(max_inflight=max_inflight, max_mqueue_len=0)
    pub = kernel.connect("pub")
    client = Client(kernel, min(max_inflight, receive_maximum), receive_maximum)
    sent: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number, (what, value) in enumerate(steps):
        if what == "publish":
            payload = b"%d" % number
            sent[value].append(payload)
            pub.publish("t", payload, value)
        elif what == "answer":
            client.answer(value)
        elif what == "drop":
            client.come_back()
        else:
            client.peer.congest(what == "congest")
        client.look()
    client.peer.congest(False)
    client.look()
    while client.pending:
        client.answer(len(client.pending))
        client.look()
    assert client.delivered[2] == sent[2]  # exactly once
    assert list(dict.fromkeys(client.delivered[1])) == sent[1]  # at least once, first deliveries in order
    assert set(client.delivered[0]) <= set(sent[0])


class Client:
    """A subscriber that follows the specification and checks that the broker does."""

    def __init__(self, kernel: Kernel, window: int, receive_maximum: int) -> None:
        self._kernel = kernel
        self._window = window
        self._receive_maximum = receive_maximum
        self.peer = subscriber(kernel, receive_maximum=receive_maximum)
        self.delivered: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
        self.pending: list[tuple[int, int]] = []  # the answers that the broker waits for, oldest first
        self._received_ids: set[int] = set()  # QoS 2: taken and not released

    def come_back(self) -> None:
        self.peer.drop()
        self.pending.clear()
        self.peer = back(self._kernel, receive_maximum=self._receive_maximum)

    def answer(self, count: int) -> None:
        answers, self.pending = self.pending[:count], self.pending[count:]
        for kind, packet_id in answers:
            self.peer.ack(kind, packet_id)

    def look(self) -> None:
        for packet in self.peer.received():
            if isinstance(packet, p.Publish):
                self._take(packet)
            elif isinstance(packet, p.Ack):
                assert packet.kind == p.PUBREL
                assert packet.code == 0
                self._received_ids.discard(packet.packet_id)
                self.pending.append((p.PUBCOMP, packet.packet_id))
            elif not isinstance(packet, p.Connack):
                raise ProtocolError(say(packet))
        assert len(self.pending) <= self._window
        assert len({packet_id for _, packet_id in self.pending}) == len(self.pending)

    def _take(self, packet: p.Publish) -> None:
        packet_id = int(packet.packet_id)
        if packet.qos == 2 and packet_id in self._received_ids:
            assert packet.dup
        else:
            self.delivered[int(packet.qos)].append(packet.payload)
        if packet.qos == 2:
            self._received_ids.add(packet_id)
        if packet.qos:
            self.pending.append((p.PUBACK if packet.qos == 1 else p.PUBREC, packet_id))
