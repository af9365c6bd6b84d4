"""Wills of clients with durable sessions: they are published though the broker was killed, and taken back for good."""

from pathlib import Path

from heliograph.broker import hooks
from heliograph.mqtt import packets as p
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

    def deny(client: object, action: str, topic: str, _: object) -> tuple[str, str]:
        asked.append((action, topic))
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
