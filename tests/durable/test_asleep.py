"""Sessions whose clients are away: publishers do not come across them, and they need not be in memory."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.durable_sessions import record
from heliograph.durable_sessions.scan import SessionScan
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.session.durable import DurableSession
from heliograph.storage.errors import StorageError
from support.cases import cases
from support.durable import DurableKernel, got, leave
from support.options import CHANNEL, SESSION


class SlowToStart(DurableKernel):
    """A node that has not yet met the sessions on its disk when clients come, before `meet`."""

    def __init__(self, path: Path, before: DurableKernel) -> None:
        self._scan_steps: list[Callable[[], None]] | None = []
        super().__init__(path, before)

    def call_soon(self, callback: Callable[[], None], /) -> None:
        is_scan = isinstance(getattr(callback, "__self__", None), SessionScan)
        if is_scan and self._scan_steps is not None:
            self._scan_steps.append(callback)
        else:
            super().call_soon(callback)

    def meet(self) -> None:
        """Have the sessions met."""
        steps, self._scan_steps = self._scan_steps, None
        for callback in steps or ():
            self.call_soon(callback)
        self.run()


def visits(kernel: DurableKernel, topic: str) -> int:
    """How many subscriptions a publish comes across."""
    return sum(len(entry.subscriptions) for entry in kernel.broker.router.filters.match(topic))


@cases("topic_filter", ["#", "t/#", "+/1", "t/1"])
def test_a_publisher_does_not_come_across_who_is_away(tmp_path: Path, topic_filter: str) -> None:
    kernel = DurableKernel(tmp_path)
    for number in range(50):
        leave(kernel, f"sub-{number}", topic_filter)
    assert visits(kernel, "t/1") == 0
    assert kernel.broker.statistics()["subscriptions.count"] == 50
    pub = kernel.connect("pub")
    pub.publish("t/1", b"x", 1)
    assert pub.heard() == ["PUBACK #1"]  # no word of nobody being there: it is kept for them
    assert kernel.broker.counters.messages_dropped_no_subscribers == 0
    for number in range(50):
        assert got(kernel, f"sub-{number}") == ["x"]
    assert visits(kernel, "t/1") == 50
    assert kernel.broker.statistics()["subscriptions.count"] == 50


def test_filters_that_match_more_than_is_stored_stay(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, stored=("stored/#",))
    leave(kernel, "a", "stored/+", "+/x", "other")
    assert (visits(kernel, "stored/y"), visits(kernel, "stored/x"), visits(kernel, "other")) == (0, 1, 1)
    kernel.connect("pub").publish("stored/x", b"s", 1)
    kernel.connect("pub").publish("other", b"o", 1)
    assert sorted(got(kernel, "a")) == ["o", "s", "s"]  # it matches two subscriptions


def test_what_comes_while_a_client_comes_back_is_neither_lost_nor_doubled(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "#")
    kernel.automatic = False
    pub = kernel.connect("pub")
    pub.publish("t", b"0", 1)
    sub = kernel.come("sub")
    while kernel.state.waiting:
        kernel.commit_state()
    kernel.sink.cut()
    pub.publish("t", b"1", 1)  # it is in the routing table again, and waits for the commit of what came before
    assert sub.heard() == ["CONNACK 0x00 present"]
    kernel.commit()
    assert [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)] == [b"0", b"1"]
    kernel.commit()
    kernel.advance(1)
    assert sub.received() == []


def test_a_subscription_may_be_dropped_and_made_again_before_the_backlog_is_read(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    leave(kernel, "sub", "a", "b")
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("a", b"a%d" % number, 1)
        pub.publish("b", b"b%d" % number, 1)
    sub = kernel.come("sub")
    first = [packet for packet in sub.received() if isinstance(packet, p.Publish)][-1]
    sub.unsubscribe("a", "b")
    assert kernel.broker.statistics()["subscriptions.count"] == 0
    kernel.advance(1)
    sub.subscribe("b", 1)
    kernel.advance(1)
    pub.publish("b", b"new", 1)
    sub.ack(p.PUBACK, first.packet_id)
    assert [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)] == [b"new"]


def test_a_retained_message_comes_for_a_subscription_that_is_made_again_with_a_backlog(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    leave(kernel, "sub", "a", "r")
    pub = kernel.connect("pub")
    pub.publish("r", b"retained", 1, retain=True)
    for number in range(2):
        pub.publish("a", b"%d" % number, 1)
    sub = kernel.come("sub")
    payloads = []
    sub.send_subscribe(p.SubscribeEntry("r", 1, False, False, 0))
    while packets := sub.received():
        for packet in packets:
            if isinstance(packet, p.Publish):
                payloads.append((packet.payload.decode(), packet.retain))
                sub.ack(p.PUBACK, packet.packet_id)
    assert sorted(payloads) == [("0", False), ("1", False), ("retained", False), ("retained", True)]


def test_a_start_reads_no_session_that_can_sleep(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    for number in range(300):
        leave(kernel, f"sub-{number}", "t")
    kernel = kernel.crash()
    assert kernel.sessions.all() == []
    assert (len(kernel.sessions), kernel.sessions.statistics()["sessions.away"]) == (300, 300)
    assert kernel.broker.statistics()["subscriptions.count"] == 300
    kernel.connect("pub").publish("t", b"x", 1)
    assert got(kernel, "sub-7") == ["x"]
    assert len(kernel.sessions) == 301
    assert kernel.broker.statistics()["subscriptions.count"] == 300


def test_a_client_that_comes_before_its_session_was_met_finds_it(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    leave(kernel, "other", "t")
    kernel.connect("pub").publish("t", b"x", 1)
    kernel.database.close()
    slow = SlowToStart(tmp_path, kernel)
    assert slow.sessions.statistics()["sessions.count"] == 0
    assert got(slow, "sub") == ["x"]
    assert slow.come("nobody").heard() == ["CONNACK 0x00"]
    slow.meet()
    assert slow.sessions.statistics()["sessions.count"] == 3
    assert got(slow, "other") == ["x"]


def test_sessions_that_must_be_awake_are_so_after_a_start(tmp_path: Path) -> None:
    options = replace(CHANNEL, exclusive_subscription=True)
    kernel = DurableKernel(tmp_path, stored=("stored/#",), channel_options=options)
    leave(kernel, "a", "stored/#")
    leave(kernel, "b", "other")
    leave(kernel, "c", "$exclusive/stored/x")
    leave(kernel, "d", "$share/g/stored/x")
    kernel = kernel.crash()
    assert sorted(session.clientid for session in kernel.sessions.all()) == ["b", "c", "d"]
    kernel.connect("pub").publish("other", b"x", 1)
    assert got(kernel, "b") == ["x"]


def test_a_session_is_let_go_from_memory_when_its_client_stays_away(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=2))
    sub = kernel.come("sub")
    sub.skip()
    sub.subscribe("t", 2)
    pub = kernel.connect("pub")
    for number in range(3):
        pub.publish("t", b"%d" % number, 2)
    assert len([packet for packet in sub.received() if isinstance(packet, p.Publish)]) == 2
    sub.publish("elsewhere", b"x", 2, packet_id=9)
    sub.drop()
    for _ in range(3):
        kernel.advance(61)
    assert kernel.sessions.held("sub") is None
    assert len(kernel.sessions) == 2
    sub = kernel.come("sub")
    assert sub.heard() == ["CONNACK 0x00 present", "PUBLISH t '0' q2 #1 dup", "PUBLISH t '1' q2 #2 dup"]
    published = kernel.broker.counters.messages_published
    sub.publish("elsewhere", b"x", 2, packet_id=9, dup=True)
    assert sub.heard() == ["PUBREC #9"]
    assert kernel.broker.counters.messages_published == published
    sub.ack(p.PUBREC, 1)
    sub.ack(p.PUBCOMP, 1)
    assert [packet.payload for packet in sub.received() if isinstance(packet, p.Publish)] == [b"2"]


def test_a_session_that_sleeps_ends_in_time_and_leaves_nothing(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t", "u", expiry_s=1000)
    kernel = kernel.crash()
    ended = []
    kernel.broker.hooks.point("session.terminated").add(lambda clientid, _: ended.append(clientid))
    kernel.advance(1000)
    assert ended == ["sub"]
    assert kernel.disk.keys() == {b"w"}
    assert kernel.broker.statistics()["subscriptions.count"] == 0
    assert kernel.come("sub").heard() == ["CONNACK 0x00"]


def test_records_of_no_session_are_removed(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    for number in range(100):
        kernel.disk[record.subscription_key(f"gone-{number}", "t")] = b"[1,false,false,0,0,0]"
        kernel.disk[record.taken_key(f"gone-{number}", 5)] = b"[0,1,1]"
        kernel.disk[record.taken_up_to_key(f"gone-{number}")] = b"[1,1]"
    kernel = kernel.crash()
    assert {key[:1] for key in kernel.disk} == {b"s", b"u", b"w"}
    assert kernel.broker.statistics()["subscriptions.count"] == 1
    assert kernel.durable.statistics()["durable_sessions.removed"] == 100


def test_a_clean_start_after_a_crash_ends_a_session_that_sleeps(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    kernel.connect("pub").publish("t", b"x", 1)
    kernel = kernel.crash()
    assert kernel.come("sub", clean_start=True).heard() == ["CONNACK 0x00"]
    assert kernel.broker.statistics()["subscriptions.count"] == 0
    kernel = kernel.crash()
    assert kernel.come("sub").heard() == ["CONNACK 0x00 present"]
    assert not any(key.startswith(b"u") for key in kernel.disk)


def test_a_session_that_cannot_be_read_now_refuses_its_client_and_is_not_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    kernel = kernel.crash()

    def refuse(key: bytes) -> bytes | None:
        raise StorageError("the disk does not answer", database="sessions")

    with monkeypatch.context() as broken:
        broken.setattr(kernel.state, "get", refuse)
        assert kernel.come("sub").take(p.Connack).code == rc.SERVER_UNAVAILABLE
        assert kernel.connect("memory").heard() == []  # who has none is not concerned
    assert kernel.come("sub").heard() == ["CONNACK 0x00 present"]


def test_expired_sessions_are_removed_bit_by_bit(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    for number in range(1_000):
        left: tuple[object, ...] = (1, 10, "", 1, kernel.now_us, 1, 1, 0, [], [])
        kernel.disk[record.session_key(f"c{number}")] = json.dumps(left).encode()
    kernel = kernel.crash(100.0)
    assert kernel.disk.keys() == {b"w"}
    assert not any(isinstance(session, DurableSession) for session in kernel.sessions.all())
