"""Groups that have nothing to do are asleep: nobody leads them and nothing is read; what concerns them wakes them."""

from dataclasses import replace
from pathlib import Path

from heliograph.mqtt import packets as p
from heliograph.storage.errors import StorageFullError
from shared_groups.test_members import SHARED, member, publish, take
from support.cases import cases
from support.groups import GroupKernel
from support.kernel import Peer
from support.options import SESSION
from support.packets import properties

REST_S = 12


def state(kernel: GroupKernel) -> tuple[int, int, int, int]:
    """How many groups are kept, awake and led, and how often one was woken."""
    numbers = kernel.groups.statistics()
    return tuple(numbers[f"shared_groups.{name}"] for name in ("durable", "awake", "leaders", "woken"))  # type: ignore[return-value]  # four of them


def rest(kernel: GroupKernel) -> None:
    """Let groups fall asleep that have nothing to do."""
    for _ in range(REST_S + 1):
        kernel.advance(1)
    assert state(kernel)[1:3] == (0, 0)


def many(kernel: GroupKernel, count: int, clientid: str = "many") -> Peer:
    """A client with many groups."""
    peer = kernel.connect(clientid, clean_start=False, session_expiry_interval=600)
    peer.send_subscribe(*(p.SubscribeEntry(f"$share/g{at}/t/#", 1, False, False, 0) for at in range(count)))
    peer.skip()
    return peer


def test_a_group_is_asleep_until_there_is_a_message(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    assert state(kernel) == (1, 0, 0, 0)
    sent = publish(kernel, 2)
    assert sorted(take(one)) == sorted(sent)
    assert state(kernel) == (1, 1, 1, 1)
    rest(kernel)
    sent = publish(kernel, 2, 1, 2)
    assert sorted(take(one)) == sorted(sent)
    assert state(kernel) == (1, 1, 1, 2)


@cases("qos", [0, 1, 2])
def test_what_was_done_is_not_repeated_after_sleep(tmp_path: Path, qos: int) -> None:
    kernel = GroupKernel(tmp_path)
    one, two = member(kernel, "one", qos), member(kernel, "two", qos)
    sent, got = [], []
    for number in range(4):
        sent += publish(kernel, 2, qos, 2 * number)
        got += take(one) + take(two)
        rest(kernel)
        one.drop()
        if number == 2:
            kernel = kernel.crash()
            two = kernel.come("two")
        one = kernel.come("one")
    assert sorted(got) == sorted(sent)


def test_no_message_of_others_wakes_a_group(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    kernel.connect("pub").publish("other/1", b"x", 1)
    one = member(kernel, "one")
    kernel.connect("pub").publish("other/1", b"x", 1)
    kernel.run()
    assert take(one) == []
    assert state(kernel) == (1, 0, 0, 0)


def test_a_stream_that_is_new_wakes_the_groups_that_it_matches(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = kernel.connect("one", clean_start=False, session_expiry_interval=600)
    one.subscribe("$share/g/#", 1)
    one.subscribe("$share/h/u/#", 1)
    for topic in ("a/1", "b/1", "c/1/x"):
        kernel.connect("pub").publish(topic, topic.encode(), 1)
        kernel.run()
        assert take(one) == [topic]
        rest(kernel)
    assert state(kernel) == (2, 0, 0, 3)


def test_a_client_that_missed_nothing_wakes_no_group_when_it_comes(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    publish(kernel, 1)
    take(one)
    rest(kernel)
    one.drop()
    for _ in range(3):
        kernel.come("one").drop()
        kernel.advance(1)
    assert state(kernel) == (1, 0, 0, 1)
    sent = publish(kernel, 1, 1, 1)
    assert state(kernel) == (1, 0, 0, 1)
    assert sorted(take(kernel.come("one"))) == sorted(sent)


def test_a_restart_wakes_no_group_whose_members_are_away(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    publish(kernel, 1)
    take(one)
    rest(kernel)
    one.drop()
    kernel = kernel.crash()
    assert state(kernel) == (1, 0, 0, 0)
    one = kernel.come("one")
    assert take(one) == []
    rest(kernel)


def test_a_client_without_room_wakes_no_group_until_it_has_some(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path, session_options=replace(SESSION, max_inflight=2))
    peer = many(kernel, 20)
    kernel.connect("pub").publish("t/1", b"x", 1)
    kernel.run()
    rest_count = 0
    taken: list[int] = []
    while packets := [packet for packet in peer.received() if isinstance(packet, p.Publish)]:
        for _ in range(REST_S + 1):
            kernel.advance(1)
        assert state(kernel)[1] <= 2
        rest_count += 1
        taken += [packet.packet_id or 0 for packet in packets]
        peer.send(*(p.Ack(p.PUBACK, packet.packet_id, 0) for packet in packets))
        kernel.run()
    assert (len(taken), rest_count) == (20, 10)
    rest(kernel)


def test_groups_that_come_and_go_leave_nothing(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    publish(kernel, 1)
    for _ in range(3):
        peer = many(kernel, 50)
        publish(kernel, 1)
        take(peer)
        for at in range(50):
            peer.unsubscribe(f"$share/g{at}/t/#")
        many(kernel, 50, "gone").disconnect(session_expiry_interval=0)
        kernel.run()
        assert state(kernel)[:3] == (0, 0, 0)
        assert kernel.group_disk == {}
        peer.drop()
    assert [key for key in kernel.disk if key[:1] in (b"m", b"b")] == []


def test_a_group_that_is_made_again_begins_anew(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    sent = publish(kernel, 1)
    assert sorted(take(one)) == sorted(sent)
    one.send(
        p.Unsubscribe(5, [SHARED], properties()),
        p.Subscribe(6, [p.SubscribeEntry(SHARED, 1, False, False, 0)], properties()),
    )
    assert take(one) == []
    later = publish(kernel, 1, 1, 1)
    assert sorted(take(one)) == sorted(later)
    kernel.advance(1)
    kernel = kernel.crash()
    last = publish(kernel, 1, 1, 2)
    assert sorted(take(kernel.come("one"))) == sorted(last)


def test_a_group_of_two_names_is_left_with_the_second(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = kernel.connect("one", clean_start=False, session_expiry_interval=600)
    one.subscribe("$queue/t", 1)
    one.subscribe("$share/$queue/t", 1)
    one.unsubscribe("$queue/t")
    assert state(kernel)[0] == 1
    one.drop()
    kernel.connect("pub").publish("t", b"x", 1)
    kernel.run()
    one = kernel.come("one")
    assert take(one) == ["x"]
    one.unsubscribe("$share/$queue/t")
    kernel.run()
    assert state(kernel)[0] == 0
    assert kernel.group_disk == {}


def test_a_group_wakes_while_the_disk_refuses_its_lease(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    kernel.automatic = False
    kernel.connect("pub").publish("t/0", b"x", 1)
    kernel.commit()
    got = []
    for _ in range(4):
        while kernel.group_state.waiting:
            kernel.group_state.commit(StorageFullError("no space", database="shared_groups"))
        kernel.advance(1)
        got += take(one)
    assert got == ["x"]
    kernel.automatic = True
    rest(kernel)
    kernel = kernel.crash()
    assert take(kernel.come("one")) == []


def test_what_waits_for_a_client_that_takes_nothing_is_bounded_for_all_groups_together(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path, session_options=replace(SESSION, max_inflight=1))
    kernel.groups.waiting.bytes_max = 50_000
    groups, count = 20, 30
    peer = many(kernel, groups)
    pub = kernel.connect("pub")
    for number in range(count):
        pub.publish("t/1", b"%2000d" % number, 1, number + 1)
    kernel.run()
    got, most = [], 0
    while packets := [packet for packet in peer.received() if isinstance(packet, p.Publish)]:
        most = max(most, kernel.groups.statistics()["shared_groups.waiting_bytes"])
        got += [int(packet.payload) for packet in packets]
        peer.send(*(p.Ack(p.PUBACK, packet.packet_id, 0) for packet in packets))
        kernel.run()
        if len(got) % 50 == 0:
            kernel.advance(7)
    assert sorted(got) == sorted(list(range(count)) * groups)
    assert most < 60_000
    rest(kernel)
    assert kernel.groups.statistics()["shared_groups.waiting_bytes"] == 0
