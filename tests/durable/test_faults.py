"""Disks that fail for a moment, and clocks that are set: nothing is lost for good, and nothing comes twice at QoS 2."""

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.config.storage import DurableSessionsConfig
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.storage.errors import StorageError, StorageFullError
from support.durable import DurableKernel, FakeState, after_a_lost_identifier
from support.kernel import Peer
from support.options import SESSION


class Broken:
    """A disk that does not answer."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, *_: object) -> None:
        self.asked += 1
        raise StorageError("the disk does not answer", database="messages")


def published(peer: Peer) -> list[str]:
    return [packet.payload.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def subscribed(kernel: DurableKernel, *entries: tuple[str, int]) -> Peer:
    sub = kernel.come("sub")
    sub.skip()
    for topic_filter, qos in entries:
        sub.subscribe(topic_filter, qos)
    return sub


def test_what_is_in_flight_is_not_forgotten_because_it_cannot_be_read_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel, ("t", 2))
    kernel.connect("pub").publish("t", b"x", 2)
    assert published(sub) == ["x"]
    kernel = kernel.crash()
    with monkeypatch.context() as broken:
        broken.setattr(kernel.database, "next", Broken())
        assert kernel.come("sub").take(p.Connack).code == rc.SERVER_UNAVAILABLE
    assert kernel.come("sub").heard() == ["CONNACK 0x00 present", "PUBLISH t 'x' q2 #1 dup"]


def test_a_repetition_that_a_full_disk_cannot_judge_is_refused_for_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = after_a_lost_identifier(tmp_path)
    pub = kernel.come("pub")
    pub.skip()

    def full(_: bytes) -> None:
        raise StorageFullError("no room", database="sessions")

    monkeypatch.setattr(kernel.state, "get", full)
    pub.publish("t", b"x", 2, 7, dup=True)
    assert pub.heard() == ["DISCONNECT 0x97"]


def test_a_replay_that_is_interrupted_gives_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # No more is read than the client may have unacknowledged.
    settings = DurableSessionsConfig(batch_size=2)
    kernel = DurableKernel(tmp_path, session_options=replace(SESSION, max_inflight=2), settings=settings)
    subscribed(kernel, ("t", 2)).drop()
    kernel.automatic = False
    pub = kernel.connect("pub")
    for number in range(4):  # all of one commit
        pub.publish("t", b"%d" % number, 2)
    kernel.automatic = True
    kernel.run()
    sub = kernel.come("sub")
    got = published(sub)
    assert got == ["0", "1"]
    with monkeypatch.context() as broken:
        disk = Broken()
        broken.setattr(kernel.database, "next_readable", disk)
        session = kernel.sessions.find("sub")
        assert session is not None
        for packet_id in (1, 2):
            sub.ack(p.PUBREC, packet_id)
            sub.ack(p.PUBCOMP, packet_id)
        assert disk.asked == 1
        session.pump()
        kernel.run()
        assert disk.asked == 1  # one retry waits, and none beside
    kernel.advance(2)
    assert published(sub) == ["2", "3"]


def test_messages_are_not_lost_when_the_clock_is_set_back(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    kernel.set_wall_clock(3_600_000_000)
    kernel.advance(1)
    subscribed(kernel, ("t", 1)).drop()
    kernel = kernel.crash()  # its clock is an hour behind
    kernel.connect("pub").publish("t", b"x", 1)
    assert published(kernel.come("sub")) == ["x"]


def test_overlapping_subscriptions_bring_a_qos_2_message_no_third_time(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    sub = subscribed(kernel, ("t", 2), ("+", 1))
    kernel.connect("pub").publish("t", b"x", 2)
    packets = [packet for packet in sub.received() if isinstance(packet, p.Publish)]
    assert sorted(packet.qos for packet in packets) == [1, 2]
    for packet in packets:
        sub.ack(p.PUBACK if packet.qos == 1 else p.PUBREC, packet.packet_id)
        if packet.qos == 2:
            sub.ack(p.PUBCOMP, packet.packet_id)
    sub.skip()
    sub.drop()
    assert published(kernel.come("sub")) == []


def test_clients_wait_outside_until_the_database_of_sessions_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = DurableKernel(tmp_path)
    subscribed(kernel, ("t", 1))
    kernel.come("clean")
    with monkeypatch.context() as broken:
        broken.setattr(FakeState, "scan", Broken())
        kernel = kernel.crash()
        assert kernel.come("sub").take(p.Connack).code == rc.SERVER_UNAVAILABLE
        assert kernel.come("sub", version=p.V3_1_1).take(p.Connack).code == rc.SERVER_UNAVAILABLE
        memory = kernel.connect("memory")
        memory.subscribe("m")
        memory.publish("m", b"x")
        assert published(memory) == ["x"]
        kernel.connect("clean").disconnect()  # it ends the session that it has on the disk
        kernel.advance(2)
        assert kernel.come("sub").take(p.Connack).code == rc.SERVER_UNAVAILABLE
    kernel.advance(2)
    kernel.connect("pub").publish("t", b"y", 1)
    sub = kernel.come("sub")
    assert sub.heard() == ["CONNACK 0x00 present", "PUBLISH t 'y' q1 #1"]
    assert kernel.come("clean").heard() == ["CONNACK 0x00"]


def test_a_client_whose_repetition_cannot_be_looked_up_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = after_a_lost_identifier(tmp_path)
    pub = kernel.come("pub")
    assert pub.heard() == ["CONNACK 0x00 present"]
    with monkeypatch.context() as broken:
        broken.setattr(kernel.state, "get", Broken())
        pub.publish("t", b"x", 2, packet_id=7, dup=True)
        assert pub.heard() == ["DISCONNECT 0x80"]
    pub = kernel.come("pub")
    pub.publish("t", b"x", 2, packet_id=7, dup=True)
    assert pub.heard() == ["CONNACK 0x00 present", "PUBREC #7"]


def test_a_retained_message_whose_identifier_a_crash_took_along_is_retained_by_its_repetition(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    pub = kernel.come("pub")
    pub.skip()
    kernel.automatic = False
    pub.publish("t", b"x", 2, packet_id=7, retain=True)
    kernel.commit()
    kernel = kernel.crash()  # its retained messages were in memory
    pub = kernel.come("pub")
    pub.publish("t", b"x", 2, packet_id=7, retain=True, dup=True)
    assert pub.heard() == ["CONNACK 0x00 present", "PUBREC #7"]
    late = kernel.connect("late")
    late.send_subscribe(p.SubscribeEntry("t", 1, False, False, 0))
    assert late.heard() == ["SUBACK #1 [0x01]", "PUBLISH t 'x' q1 #1 retain"]
