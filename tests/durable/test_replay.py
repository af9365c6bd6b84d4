"""Sessions that fall behind, catch up and are live again: nothing is lost, doubled or out of order."""

from dataclasses import replace
from pathlib import Path

from heliograph.config.storage import DurableSessionsConfig
from heliograph.mqtt import packets as p
from heliograph.session.durable import DurableSession
from heliograph.storage.errors import StorageFullError
from support.cases import cases
from support.durable import DurableKernel
from support.kernel import Peer
from support.options import SESSION


def session_of(kernel: DurableKernel, clientid: str = "sub") -> DurableSession:
    session = kernel.sessions.find(clientid)
    assert isinstance(session, DurableSession)
    return session


def payloads(peer: Peer) -> list[str]:
    """What was published to a client since the last look; it acknowledges it."""
    got = []
    for packet in peer.received():
        if isinstance(packet, p.Publish):
            got.append(packet.payload.decode())
            if packet.qos == 1:
                peer.ack(p.PUBACK, packet.packet_id)
            elif packet.qos == 2:
                peer.ack(p.PUBREC, packet.packet_id)
        elif isinstance(packet, p.Ack) and packet.kind == p.PUBREL:
            peer.ack(p.PUBCOMP, packet.packet_id)
    return got


def drain(peer: Peer) -> list[str]:
    """All that comes until nothing more does."""
    got = []
    quiet = 0
    while quiet < 3:
        more = payloads(peer)
        got += more
        quiet = 0 if more else quiet + 1
    return got


def arrived(kernel: DurableKernel, *filters: str, qos: int = 1) -> Peer:
    sub = kernel.come("sub")
    sub.skip()
    for topic_filter in filters:
        sub.subscribe(topic_filter, qos)
    return sub


@cases("qos", [1, 2])
def test_what_waits_in_memory_for_a_slow_reader_is_bounded_by_bytes(tmp_path: Path, qos: int) -> None:
    limits = replace(SESSION, max_inflight=2, max_mqueue_len=0, max_mqueue_bytes=60_000, max_awaiting_rel=0)
    kernel = DurableKernel(tmp_path, session_options=limits)
    sub = arrived(kernel, "t", qos=qos)
    pub = kernel.connect("pub")
    for number in range(30):
        pub.publish("t", b"%d " % number + bytes(10_000), qos)
        assert session_of(kernel).statistics()["mqueue_bytes"] <= 60_000
    assert session_of(kernel).backlog.behind
    assert [payload.split()[0] for payload in drain(sub)] == [str(number) for number in range(30)]
    assert session_of(kernel).statistics()["mqueue_dropped"] == 0


def test_what_is_not_committed_yet_is_remembered_up_to_so_many_bytes(tmp_path: Path) -> None:
    limits = replace(SESSION, max_inflight=20, max_mqueue_bytes=60_000)
    kernel = DurableKernel(tmp_path, session_options=limits)
    sub = arrived(kernel, "t", qos=1)
    pub = kernel.connect("pub")
    kernel.automatic = False
    got: list[str] = []
    for number in range(20):
        pub.publish("t", b"%d " % number + bytes(10_000), 1, number + 1)
        got += payloads(sub)
    assert session_of(kernel).backlog.behind
    kernel.automatic = True
    pub.publish("t", b"20 ", 1)
    got += drain(sub)
    assert [payload.split()[0] for payload in got] == [str(number) for number in range(21)]


@cases("qos", [1, 2])
def test_a_client_that_reads_too_slowly_gets_everything_from_the_disk(tmp_path: Path, qos: int) -> None:
    kernel = DurableKernel(
        tmp_path, session_options=replace(SESSION, max_inflight=10, max_mqueue_len=50, max_awaiting_rel=0)
    )
    sub = arrived(kernel, "t", qos=qos)
    pub = kernel.connect("pub")
    expected = [str(number) for number in range(500)]
    for number in expected[:300]:
        pub.publish("t", number.encode(), qos)
    assert session_of(kernel).backlog.behind
    assert session_of(kernel).statistics()["mqueue_len"] == 0
    got = payloads(sub)
    for number in expected[300:]:
        pub.publish("t", number.encode(), qos)
        got += payloads(sub)
    got += drain(sub)
    assert got == expected
    assert not session_of(kernel).backlog.behind
    pub.publish("t", b"live", qos)
    assert payloads(sub) == ["live"]


def test_what_comes_while_commits_are_under_way_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = arrived(kernel, "t")
    sub.drop()
    kernel.automatic = False
    pub = kernel.connect("pub")
    pub.publish("t", b"0", 1)
    pub.publish("t", b"1", 1)
    kernel.commit()
    pub.publish("t", b"2", 1)  # not committed when the client comes
    sub = kernel.come("sub")
    kernel.commit_state()
    while kernel.state.waiting:
        kernel.commit_state()
    assert payloads(sub) == ["0", "1"]
    assert session_of(kernel).backlog.catching
    kernel.sink.cut()
    pub.publish("t", b"3", 1)  # of the next commit: waits in memory
    assert payloads(sub) == []
    kernel.commit()
    assert payloads(sub) == ["2", "3"]
    assert not session_of(kernel).backlog.behind
    kernel.commit()
    assert payloads(sub) == []


def test_a_message_of_a_commit_of_which_a_part_was_sent_comes_once(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=2))
    sub = arrived(kernel, "t", qos=2)
    sub.drop()
    kernel.automatic = False
    pub = kernel.connect("pub")
    for number in range(5):
        pub.publish("t", b"%d" % number, 2)
    kernel.automatic = True
    kernel.run()
    sub = kernel.come("sub")
    sub.skip()
    kernel = kernel.crash()
    sub = kernel.come("sub")
    assert sub.heard() == ["CONNACK 0x00 present", "PUBLISH t '0' q2 #1 dup", "PUBLISH t '1' q2 #2 dup"]
    for number in (1, 2):
        sub.ack(p.PUBREC, number)
        sub.ack(p.PUBCOMP, number)
    assert drain(sub) == ["2", "3", "4"]


def test_a_subscription_that_is_made_with_a_backlog_brings_nothing_from_before(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    sub = arrived(kernel, "a")
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("a", b"a%d" % number, 1)
        pub.publish("b", b"b%d" % number, 1)
    kernel.advance(1)
    sub = kernel.come("sub")
    first = sub.received()[-1]
    assert isinstance(first, p.Publish)
    sub.subscribe("b", 1)
    kernel.advance(1)
    pub.publish("b", b"new", 1)
    pub.publish("a", b"a3", 1)
    sub.ack(p.PUBACK, first.packet_id)
    kernel.run()
    assert drain(sub) == ["a1", "a2", "new", "a3"]


def test_an_unsubscription_with_a_backlog_ends_it_but_not_what_is_in_flight(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    sub = arrived(kernel, "a", "b", qos=2)
    sub.drop()
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("a", b"a%d" % number, 2)
        pub.publish("b", b"b%d" % number, 2)
    sub = kernel.come("sub")
    sub.skip()  # a0 is in flight
    sub.unsubscribe("a")
    kernel = kernel.crash()
    sub = kernel.come("sub")
    assert sub.heard() == ["CONNACK 0x00 present", "PUBLISH a 'a0' q2 #1 dup"]
    sub.ack(p.PUBREC, 1)
    sub.ack(p.PUBCOMP, 1)
    assert drain(sub) == ["b0", "b1", "b2"]


def test_what_waits_goes_with_its_subscription_and_does_not_follow_what_the_next_one_brought(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    arrived(kernel, "t").drop()
    kernel.automatic = False
    pub = kernel.connect("pub")
    for number in range(3):  # one commit each, of which the client finds the first done
        pub.publish("t", b"%d" % number, 1)
        kernel.sink.cut()
    kernel.commit()
    sub = kernel.come("sub")
    while kernel.state.waiting:
        kernel.commit_state()
    first = sub.received()[-1]
    assert isinstance(first, p.Publish)
    pub.publish("t", b"waits", 0)
    kernel.sink.cut()
    for _ in range(3):
        kernel.commit()
    kernel.automatic = True
    sub.unsubscribe("t")
    sub.subscribe("t", 1)
    kernel.advance(1)
    pub.publish("t", b"later", 0)
    sub.ack(p.PUBACK, first.packet_id)
    assert drain(sub) == ["later"]
    assert not session_of(kernel).backlog.behind


@cases(("before", "after"), [(2, 1), (1, 2), (1, 0)])
def test_the_qos_of_a_subscription_changes_with_a_backlog(tmp_path: Path, before: int, after: int) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    sub = arrived(kernel, "t", qos=before)
    sub.drop()
    kernel.advance(1)
    pub = kernel.connect("pub")
    for number in range(4):
        pub.publish("t", b"%d" % number, 2)
    kernel = kernel.crash()
    sub = kernel.come("sub")
    first = sub.received()[-1]
    assert isinstance(first, p.Publish)
    assert first.qos == before
    sub.subscribe("t", after)
    sub.ack(p.PUBACK if before == 1 else p.PUBREC, first.packet_id)
    if before == 2:
        sub.skip()
        sub.ack(p.PUBCOMP, first.packet_id)
    publishes = [packet for packet in sub.received() if isinstance(packet, p.Publish)]
    assert publishes[0].payload == b"1"
    assert {packet.qos for packet in publishes} == {after}


def test_qos_0_comes_once_and_only_from_the_absence(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = arrived(kernel, "t")
    pub = kernel.connect("pub")
    pub.publish("t", b"before", 0)
    assert payloads(sub) == ["before"]
    kernel.advance(1)
    sub.drop()
    kernel.advance(1)
    pub.publish("t", b"away", 0)
    sub = kernel.come("sub")
    assert payloads(sub) == ["away"]
    pub.publish("t", b"live", 0)
    assert payloads(sub) == ["live"]
    sub = kernel.crash().come("sub")
    assert payloads(sub) == []


def test_qos_0_of_an_absence_does_not_wait_if_the_operator_does_not_want_it(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, mqueue_store_qos0=False))
    sub = arrived(kernel, "t")
    sub.drop()
    kernel.advance(1)
    pub = kernel.connect("pub")
    pub.publish("t", b"zero", 0)
    pub.publish("t", b"one", 1)
    assert payloads(kernel.come("sub")) == ["one"]


def test_topics_that_are_not_stored_wait_in_memory(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, stored=("stored/#",))
    sub = arrived(kernel, "#")
    sub.drop()
    pub = kernel.connect("pub")
    pub.publish("other", b"memory", 1)
    pub.publish("stored/x", b"disk", 1)
    assert session_of(kernel).statistics()["mqueue_len"] == 1
    assert sorted(payloads(kernel.come("sub"))) == ["disk", "memory"]


def test_a_retained_message_comes_though_the_session_is_behind(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    sub = arrived(kernel, "a")
    sub.drop()
    pub = kernel.connect("pub")
    pub.publish("r", b"retained", 1, retain=True)
    for number in range(3):
        pub.publish("a", b"%d" % number, 1)
    sub = kernel.come("sub")
    got = payloads(sub)
    sub.send_subscribe(p.SubscribeEntry("r", 1, False, False, 0))
    got += drain(sub)
    assert sorted(got) == ["0", "1", "2", "retained"]
    assert [one for one in got if one != "retained"] == ["0", "1", "2"]


def test_many_sessions_share_the_turns(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, settings=DurableSessionsConfig(batch_size=16))
    names = [f"sub-{number}" for number in range(20)]
    for name in names:
        sub = kernel.come(name)
        sub.skip()
        sub.subscribe(f"t/{name}/#", 1)
        sub.subscribe("all", 1)
        sub.drop()
    pub = kernel.connect("pub")
    for number in range(30):
        for name in names:
            pub.publish(f"t/{name}/{number % 3}", b"%d" % number, 1)
        pub.publish("all", b"all %d" % number, 1)
    subs = [kernel.come(name) for name in names]
    for sub in subs:
        got = drain(sub)
        assert [one for one in got if one.startswith("all")] == [f"all {number}" for number in range(30)]
        for rest in range(3):
            own = [int(one) for one in got if not one.startswith("all") and int(one) % 3 == rest]
            assert own == list(range(rest, 30, 3))
    assert kernel.durable.statistics()["durable_sessions.replaying"] == 0


def test_a_refused_commit_of_session_state_is_repeated(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = kernel.come("sub")
    sub.skip()
    kernel.automatic = False
    sub.send_subscribe(p.SubscribeEntry("t", 1, False, False, 0))
    kernel.state.commit(StorageFullError("no room", database="sessions"))
    kernel.run()
    assert sub.heard() == []
    kernel.advance(1)
    while kernel.state.waiting:
        kernel.commit_state()
    assert sub.heard() == ["SUBACK #1 [0x01]"]
    assert kernel.crash().come("sub").heard() == ["CONNACK 0x00 present"]
