"""Wills of clients with durable sessions: they are published though the broker was killed, and taken back for good."""

from pathlib import Path

from heliograph.broker import hooks
from heliograph.broker.actions import Action
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.cases import cases
from support.durable import DurableKernel
from support.kernel import Peer
from support.packets import properties


def come_with_will(
    kernel: DurableKernel, delay_s: int = 0, *, qos: int = 1, retain: bool = False, expiry_s: int = 600
) -> Peer:
    """A client whose CONNECT carries a will."""
    shown = properties(will_delay_interval=delay_s, content_type="text/plain") if delay_s else properties()
    peer = kernel.peer(p.V5)
    will = p.Will("w/c", b"gone", qos, retain, shown)
    peer.connect("c", clean_start=False, session_expiry_interval=expiry_s, will=will)
    return peer


def watched(kernel: DurableKernel) -> None:
    watcher = kernel.come("watcher", expiry_s=100_000)
    watcher.skip()
    watcher.subscribe("w/#", 1)
    watcher.drop()


def heard(kernel: DurableKernel) -> list[str]:
    """The wills that came since the last look; the watcher stays away in between."""
    watcher = kernel.come("watcher", expiry_s=100_000)
    packets = [packet for packet in watcher.received() if isinstance(packet, p.Publish)]
    for packet in packets:
        watcher.ack(p.PUBACK, packet.packet_id)
    watcher.drop()
    return [packet.payload.decode() for packet in packets]


def wills_on_disk(kernel: DurableKernel) -> int:
    return sum(key.startswith(b"l") for key in kernel.disk)


def test_connack_waits_for_the_will(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    kernel.automatic = False
    peer = come_with_will(kernel)
    assert peer.heard() == []
    while kernel.state.waiting:
        kernel.commit_state()
    assert peer.heard() == ["CONNACK 0x00"]
    assert wills_on_disk(kernel) == 1


def test_a_will_is_published_at_the_start_after_a_crash(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel)
    kernel = kernel.crash()
    kernel.advance(1)
    assert heard(kernel) == ["gone"]
    assert wills_on_disk(kernel) == 0
    kernel = kernel.crash()
    kernel.advance(1)
    assert heard(kernel) == []


def test_a_delay_begins_with_the_start_after_a_crash(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel, 30)
    kernel = kernel.crash(100)
    kernel.advance(29)
    assert heard(kernel) == []
    kernel.advance(2)
    assert heard(kernel) == ["gone"]


def test_a_delay_that_has_begun_goes_on_while_the_broker_is_down(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel, 30).drop()
    kernel.advance(10)
    kernel = kernel.crash(15)
    kernel.advance(4)
    assert heard(kernel) == []
    kernel.advance(2)
    assert heard(kernel) == ["gone"]


def test_the_end_of_the_session_ends_the_delay(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel, 1000, expiry_s=20)
    kernel = kernel.crash()
    kernel.advance(21)
    assert heard(kernel) == ["gone"]
    assert kernel.sessions.find("c") is None


def test_a_session_that_ended_while_the_broker_was_down_leaves_its_will(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel, 1000, expiry_s=20).drop()
    kernel = kernel.crash(100)
    kernel.advance(1)
    assert heard(kernel) == ["gone"]
    assert wills_on_disk(kernel) == 0


def test_disconnect_takes_it_back_for_good(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel).disconnect()
    assert wills_on_disk(kernel) == 0
    kernel = kernel.crash()
    kernel.advance(100)
    assert heard(kernel) == []


def test_a_client_that_comes_back_in_time_takes_it_back(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel, 30)
    kernel = kernel.crash()
    kernel.come("c").skip()
    assert wills_on_disk(kernel) == 0
    kernel.advance(100)
    assert heard(kernel) == []


def test_a_client_that_comes_back_at_once_takes_no_will_back_that_had_no_delay(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel)
    kernel = kernel.crash()
    come_with_will(kernel)  # before the first tick
    kernel.advance(1)
    assert heard(kernel) == ["gone"]
    assert wills_on_disk(kernel) == 1  # the new one


def test_a_published_will_is_forgotten_only_when_it_is_stored_itself(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    peer = come_with_will(kernel)
    kernel.automatic = False
    peer.drop()
    while kernel.state.waiting:
        kernel.commit_state()
    assert wills_on_disk(kernel) == 1
    again = kernel.crash()  # the will's own commit was not done
    again.advance(1)
    assert heard(again) == ["gone"]


def test_a_will_that_is_stored_and_not_forgotten_comes_twice_rather_than_never(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    peer = come_with_will(kernel)
    kernel.automatic = False
    peer.drop()
    kernel.commit()
    kernel = kernel.crash()  # before session state was committed
    kernel.advance(1)
    assert heard(kernel) == ["gone", "gone"]


def test_what_a_will_says_survives(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watcher = kernel.connect("memory")
    come_with_will(kernel, 5, qos=2, retain=True)
    kernel = kernel.crash()
    watcher = kernel.connect("memory")
    watcher.subscribe("w/#", 2, retain_as_published=True)
    kernel.advance(6)
    packet = watcher.take(p.Publish)
    assert (packet.topic, packet.payload, packet.qos, packet.retain) == (b"w/c", b"gone", 2, True)
    assert b"text/plain" in packet.property_bytes


def test_rights_are_asked_for_after_the_crash(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    come_with_will(kernel)
    kernel = kernel.crash()
    asked = []

    def deny(client: object, action: Action, topic: str, _: object) -> tuple[str, str]:
        asked.append((action.kind, topic))
        return hooks.STOP, "deny"

    remove = kernel.broker.hooks.point(hooks.CLIENT_AUTHORIZE)
    remove.add(deny)
    kernel.advance(1)
    assert asked == [("publish", "w/c")]
    remove.remove(deny)
    assert heard(kernel) == []


def test_the_will_of_a_session_in_memory_is_not_saved(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    come_with_will(kernel, expiry_s=0)
    kernel.run()
    assert kernel.disk.keys() <= {b"w"}


def leave_many(kernel: DurableKernel, count: int, delay_s: int) -> None:
    """Clients that vanish, each with a will; their sessions do not end."""
    for number in range(count):
        peer = kernel.peer(p.V5)
        will = p.Will(f"w/{number}", b"%d" % number, 1, False, properties(will_delay_interval=delay_s))
        peer.connect(f"c{number}", clean_start=False, session_expiry_interval=0xFFFFFFFF, will=will)
        peer.drop()


@cases("count", [2, 20, 900])
def test_all_wills_that_are_due_are_published_after_a_restart(tmp_path: Path, count: int) -> None:
    kernel = DurableKernel(tmp_path)
    watcher = kernel.connect("memory")
    leave_many(kernel, count, 30)
    assert wills_on_disk(kernel) == count
    kernel = kernel.crash(10)
    watcher = kernel.connect("memory")
    watcher.subscribe("w/#", 0)
    kernel.advance(19)
    assert watcher.received() == []
    kernel.advance(1)
    kernel.advance(0.5)  # what one tick may not do, the next ones do
    kernel.advance(0.5)
    heard = [packet.payload for packet in watcher.received() if isinstance(packet, p.Publish)]
    assert sorted(heard, key=int) == [b"%d" % number for number in range(count)]
    assert wills_on_disk(kernel) == 0


def test_wills_of_clients_that_were_connected_at_the_crash_are_all_published(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    for number in range(5):
        peer = kernel.peer(p.V5)
        will = p.Will(f"w/{number}", b"", 0, False, properties(will_delay_interval=1))
        peer.connect(f"c{number}", clean_start=False, session_expiry_interval=0xFFFFFFFF, will=will)
    kernel = kernel.crash()
    watcher = kernel.connect("memory")
    watcher.subscribe("w/#", 0)
    kernel.advance(1)
    assert sorted(watcher.heard()) == [f"PUBLISH w/{number} '' q0" for number in range(5)]


def test_a_client_that_came_back_keeps_its_will_when_others_are_published(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave_many(kernel, 3, 30)
    kernel = kernel.crash(1)
    kernel.come("c1")
    watcher = kernel.connect("memory")
    watcher.subscribe("w/#", 0)
    kernel.advance(60)
    assert sorted(watcher.heard()) == ["PUBLISH w/0 '0' q0", "PUBLISH w/2 '2' q0"]


def refuse_all(kernel: DurableKernel) -> None:
    """The disk is full: whatever is waiting is refused."""
    while kernel.sink.is_waiting:
        kernel.commit(rc.QUOTA_EXCEEDED)
    while kernel.state.waiting:
        kernel.commit_state()


def test_wills_that_a_full_disk_refuses_are_published_when_there_is_room(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    leave_many(kernel, 4, 1)
    kernel.automatic = False
    kernel.advance(1)
    refuse_all(kernel)
    assert (wills_on_disk(kernel), kernel.sessions.wills.published.statistics()["wills.refused"]) == (4, 4)
    kernel.advance(1)
    refuse_all(kernel)
    assert kernel.sessions.wills.published.statistics()["wills.refused"] == 4
    kernel.automatic = True
    kernel.advance(60)
    kernel.advance(1)
    assert sorted(heard(kernel)) == ["0", "1", "2", "3"]
    assert (wills_on_disk(kernel), kernel.sessions.wills.published.statistics()["wills.refused"]) == (0, 0)


def test_while_the_disk_refuses_one_will_asks_now_and_then(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watcher = kernel.connect("memory")
    watcher.subscribe("w/#", 0)
    leave_many(kernel, 4, 1)
    kernel.automatic = False
    kernel.advance(1)
    refuse_all(kernel)
    assert len(watcher.received()) == 4
    for _ in range(60):
        kernel.advance(1)
        refuse_all(kernel)
    assert len(watcher.received()) == 6  # after 1, 2, 4, 8, 16 and 30 seconds, less than once a will


def test_wills_that_were_refused_are_published_after_a_restart(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    leave_many(kernel, 4, 0)
    leave_many(kernel, 4, 1)
    kernel.automatic = False
    kernel.advance(1)
    refuse_all(kernel)
    kernel = kernel.crash()
    kernel.advance(1)
    assert sorted(heard(kernel)) == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_a_refused_will_of_a_session_in_memory_is_kept_too(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    watched(kernel)
    peer = come_with_will(kernel, expiry_s=0)
    kernel.automatic = False
    peer.drop()
    refuse_all(kernel)
    kernel.automatic = True
    kernel.advance(1)
    assert heard(kernel) == ["gone"]


def test_a_saved_will_outlives_the_commit_of_the_retained_message_that_it_became(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, stored=("other",))
    peer = come_with_will(kernel, retain=True)
    kernel.automatic = False
    peer.drop()
    while kernel.state.waiting:
        kernel.commit_state()
    assert wills_on_disk(kernel) == 1  # a power cut now leaves no retained message
    kernel.commit()
    kernel.commit_state()
    assert wills_on_disk(kernel) == 0


def test_a_saved_will_outlives_a_refused_retained_message(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path, stored=("other",))
    peer = come_with_will(kernel, retain=True)
    kernel.automatic = False
    peer.drop()
    refuse_all(kernel)
    assert wills_on_disk(kernel) == 1
    kernel.automatic = True
    kernel.advance(1)
    assert wills_on_disk(kernel) == 0
