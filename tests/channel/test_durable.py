"""Messages that are stored: nothing is acknowledged before its commit, and acknowledgements keep their order."""

from hypothesis import given
from hypothesis import strategies as st

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.kernel import Kernel, Peer
from support.packets import publish

V3 = p.V3_1_1


def world(version: int = p.V5) -> tuple[Kernel, Peer]:
    """A kernel that stores what is published below `s/`, and a publisher."""
    kernel = Kernel(stored=["s/#"])
    if version == p.V5:
        return kernel, kernel.connect("pub", session_expiry_interval=60)
    return kernel, kernel.connect("pub", version=version, clean_start=False)


def come_back(kernel: Kernel, version: int = p.V5) -> Peer:
    peer = kernel.peer(version)
    peer.connect("pub", clean_start=False)
    assert peer.heard() == ["CONNACK 0x00 present"]
    return peer


@cases("version", [p.V3_1, p.V3_1_1, p.V5])
@cases(("qos", "answer"), [(1, "PUBACK #1"), (2, "PUBREC #1")])
def test_the_acknowledgement_leaves_after_the_commit(version: int, qos: int, answer: str) -> None:
    kernel, pub = world(version)
    pub.publish("s/t", b"x", qos, 1)
    assert pub.heard() == []
    kernel.commit()
    assert pub.heard() == [answer]


def test_subscribers_do_not_wait_for_the_commit() -> None:
    kernel, pub = world()
    sub = kernel.connect("sub")
    sub.subscribe("s/#", 1)
    pub.publish("s/t", b"x", 1, 1)
    assert sub.heard() == ["PUBLISH s/t 'x' q1 #1"]


def test_qos_0_is_stored_and_nobody_waits() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x")
    pub.publish("t", b"x", 1, 1)
    assert pub.heard() == ["PUBACK #1 0x10"]
    assert [(message.topic, message.payload) for _, message in kernel.sink.messages] == [("s/t", b"x")]


def test_a_stored_message_has_a_receiver() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 1, 1)
    kernel.commit()
    assert pub.heard() == ["PUBACK #1"]  # not "no matching subscribers"


def test_a_stored_message_that_no_session_waits_for_had_no_subscriber() -> None:
    kernel, pub = world()
    reasons: list[str] = []
    kernel.broker.hooks.message_dropped.add(lambda message, reason, _: reasons.append(reason))
    pub.publish("s/t", b"x", 1, 1)
    assert kernel.broker.counters.snapshot()["messages.dropped.no_subscribers"] == 1
    assert reasons == []  # it is not lost: history and pipeline have it
    kernel.connect("sub").subscribe("s/#", 1)
    pub.publish("s/t", b"x", 1, 2)
    assert kernel.broker.counters.snapshot()["messages.dropped.no_subscribers"] == 1


def test_acknowledgements_leave_in_the_order_of_their_messages() -> None:
    kernel, pub = world()
    pub.publish("t", b"", 1, 1)
    pub.publish("s/t", b"", 1, 2)
    pub.publish("t", b"", 1, 3)  # not stored, but behind one that is
    kernel.sink.cut()
    pub.publish("s/t", b"", 2, 4)
    pub.publish("t", b"", 2, 5)
    pub.publish("s/t", b"", 1, 6)
    assert pub.heard() == ["PUBACK #1 0x10"]
    kernel.commit()
    assert pub.heard() == ["PUBACK #2", "PUBACK #3 0x10"]
    pub.publish("t", b"", 1, 7)
    assert pub.heard() == []
    kernel.commit()
    assert pub.heard() == ["PUBREC #4", "PUBREC #5 0x10", "PUBACK #6", "PUBACK #7 0x10"]
    pub.publish("t", b"", 1, 8)
    assert pub.heard() == ["PUBACK #8 0x10"]


def test_a_commit_answers_every_publisher_that_waits_for_it() -> None:
    kernel = Kernel(stored=["s/#"])
    pubs = [kernel.connect(f"pub{number}") for number in range(3)]
    for pub in pubs:
        pub.publish("s/t", b"", 1, 1)
    kernel.commit()
    assert [pub.heard() for pub in pubs] == [["PUBACK #1"]] * 3


def test_answers_that_wait_hold_back_nothing_else() -> None:
    _, pub = world()
    pub.publish("s/t", b"", 1, 1)
    pub.send(p.Ping(p.PINGREQ))
    assert pub.heard() == ["PINGRESP"]
    assert pub.subscribe("t") == [0]


# --- refusals


@cases("code", [rc.QUOTA_EXCEEDED, rc.UNSPECIFIED_ERROR])
@cases(("qos", "answer"), [(1, "PUBACK #1"), (2, "PUBREC #1")])
def test_a_refused_commit_refuses_in_mqtt_5(code: int, qos: int, answer: str) -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", qos, 1)
    kernel.commit(code)
    assert pub.heard() == [f"{answer} 0x{code:02x}"]
    assert not pub.closed()
    pub.publish("s/t", b"x", qos, 1)  # the identifier is free, and the broker goes on
    kernel.commit()
    assert pub.heard() == [answer]
    assert len(kernel.sink.messages) == 2
    assert kernel.broker.counters.snapshot()["messages.refused"] == 1


@cases("qos", [1, 2])
def test_a_refused_commit_ends_the_connection_in_mqtt_3(qos: int) -> None:
    kernel, pub = world(V3)
    pub.publish("t", b"", 1, 7)
    pub.publish("s/t", b"x", qos, 1)
    pub.publish("t", b"", 1, 8)
    kernel.commit(rc.QUOTA_EXCEEDED)
    assert pub.heard() == ["PUBACK #7"]  # neither an acknowledgement of 1 nor, out of order, of 8
    assert pub.closed()
    again = come_back(kernel, V3)
    again.publish("s/t", b"x", qos, 1, dup=True)
    kernel.commit()
    assert len(kernel.sink.messages) == 2  # it was not taken, so it is taken now
    assert again.heard() == ["PUBACK #1" if qos == 1 else "PUBREC #1"]


def test_a_refusal_refuses_only_what_was_in_that_commit() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"", 1, 1)
    pub.publish("t", b"", 1, 2)
    kernel.sink.cut()
    pub.publish("s/t", b"", 1, 3)
    kernel.commit(rc.QUOTA_EXCEEDED)
    kernel.commit()
    assert pub.heard() == ["PUBACK #1 0x97", "PUBACK #2 0x10", "PUBACK #3"]


# --- QoS 2 and repetitions


@cases("reconnect", [False, True])
def test_a_repetition_during_the_commit_waits_for_it_too(reconnect: bool) -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 2, 5)
    if reconnect:
        pub.drop()
        pub = come_back(kernel)
    pub.publish("s/t", b"x", 2, 5, dup=True)
    assert pub.heard() == []
    kernel.commit()
    assert pub.heard() == (["PUBREC #5"] if reconnect else ["PUBREC #5", "PUBREC #5"])
    assert len(kernel.sink.messages) == 1
    pub.publish("s/t", b"x", 2, 5, dup=True)  # the commit is done: answered at once
    assert pub.heard() == ["PUBREC #5"]


def test_a_repetition_of_a_refused_message_is_a_new_one() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 2, 5)
    pub.drop()
    kernel.commit(rc.QUOTA_EXCEEDED)  # nobody is there to be told
    pub = come_back(kernel)
    pub.publish("s/t", b"x", 2, 5, dup=True)
    kernel.commit()
    assert pub.heard() == ["PUBREC #5"]
    assert len(kernel.sink.messages) == 2


def test_a_repetition_behind_a_later_message_shares_the_refusal_of_its_own_commit() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 2, 5)
    pub.drop()
    kernel.sink.cut()
    pub = come_back(kernel)
    pub.publish("s/t", b"y", 1, 6)
    pub.publish("s/t", b"x", 2, 5, dup=True)
    kernel.commit(rc.QUOTA_EXCEEDED)
    assert pub.heard() == []  # it stands behind message 6
    kernel.commit()
    assert pub.heard() == ["PUBACK #6", "PUBREC #5 0x97"]


# --- connections that end


def test_nobody_is_answered_who_is_gone() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 1, 1)
    pub.disconnect()
    kernel.commit()
    assert pub.heard() == []
    again = come_back(kernel)
    kernel.commit()
    assert again.heard() == []


def test_a_taken_over_connection_is_not_answered() -> None:
    kernel, pub = world()
    pub.publish("s/t", b"x", 1, 1)
    again = come_back(kernel)
    kernel.commit()
    assert pub.heard() == ["DISCONNECT 0x8e"]
    assert again.heard() == []


# --- a full buffer


def test_a_full_buffer_stops_reading_from_those_who_fill_it() -> None:
    kernel, pub = world()
    other = kernel.connect("other")
    kernel.sink.full = True
    pub.publish("s/t", b"1", 1, 1)
    other.publish("t", b"", 1, 1)
    assert pub.paused()
    assert not other.paused()
    assert other.heard() == ["PUBACK #1 0x10"]
    pub.publish("s/t", b"2", 1, 2)  # stays in the socket
    assert len(kernel.sink.messages) == 1
    kernel.commit()  # still full
    assert pub.heard() == ["PUBACK #1"]
    assert pub.paused()
    kernel.sink.full = False
    kernel.sink.messages.clear()
    kernel.commit()
    assert not pub.paused()
    assert [message.payload for _, message in kernel.sink.messages] == [b"2"]
    kernel.commit()
    assert pub.heard() == ["PUBACK #2"]


def test_a_connection_that_ends_while_it_waits_for_room() -> None:
    kernel, pub = world()
    kernel.sink.full = True
    pub.publish("s/t", b"1", 1, 1)
    pub.drop()
    kernel.sink.full = False
    kernel.commit()
    assert pub.paused()  # nobody reads from a connection that is gone
    assert come_back(kernel).heard() == []


def test_two_reasons_to_pause_both_have_to_go() -> None:
    kernel, pub = world()
    kernel.sink.full = True
    pub.congest()
    pub.send(publish("s/t", b"", 0), *[p.Ping(p.PINGREQ) for _ in range(40_000)])
    assert pub.paused()
    kernel.sink.full = False
    kernel.commit()
    assert pub.paused()
    pub.congest(False)
    assert not pub.paused()


# --- any order of publishing, committing and refusing

steps = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(0, 2), st.booleans()),
        st.tuples(st.just("commit"), st.sampled_from([0, 0, 0x97]), st.just(True)),
        st.tuples(st.just("cut"), st.just(0), st.just(True)),
    ),
    min_size=5,
    max_size=40,
)


@given(steps=steps)
def test_every_message_is_answered_once_in_order_and_as_its_commit_ended(steps: list[tuple[str, int, bool]]) -> None:
    kernel, pub = world()
    expected: list[tuple[int, int]] = []  # packet identifier and ticket (0: not stored), in the order of publishing
    outcomes: dict[int, int] = {}
    answered: list[tuple[int, int]] = []
    packet_id = 0
    for what, number, is_stored in [*steps, *[("commit", 0, True)] * len(steps)]:
        if what == "publish":
            if number:
                packet_id += 1
                expected.append((packet_id, kernel.sink.open_ticket if is_stored else 0))
            pub.publish("s/t" if is_stored else "t", b"x", number, packet_id if number else 0)
        elif what == "cut":
            kernel.sink.cut()
        else:
            outcomes[kernel.sink.committed_ticket + 1] = number
            kernel.commit(number)
        for packet in pub.received():
            assert isinstance(packet, p.Ack)
            answered.append((packet.packet_id, packet.code))
            if packet.kind == p.PUBREC and packet.code < 0x80:
                pub.ack(p.PUBREL, packet.packet_id)
                pub.take(p.Ack)
        for (_, code), (_, ticket) in zip(answered, expected, strict=False):
            assert ticket in outcomes or ticket == 0
            assert code == (outcomes[ticket] if ticket else 0x10)
    assert [packet_id for packet_id, _ in answered] == [packet_id for packet_id, _ in expected]
