"""Durable shared groups as their members see them: what comes to whom, what goes back, what a restart keeps."""

from pathlib import Path

from heliograph.mqtt import packets as p
from heliograph.shared_groups.protocol import GroupName
from heliograph.storage.errors import StorageFullError
from support.cases import cases
from support.groups import GroupKernel
from support.kernel import Peer

SHARED = "$share/g/t/#"


def member(kernel: GroupKernel, clientid: str, qos: int = 1, *, window: int = 65_535, expiry_s: int = 600) -> Peer:
    """A member that is connected and subscribed."""
    peer = kernel.connect(clientid, clean_start=False, session_expiry_interval=expiry_s, receive_maximum=window)
    assert peer.subscribe(SHARED, qos) == [qos]
    kernel.run()
    return peer


def publish(kernel: GroupKernel, count: int, qos: int = 1, first: int = 0) -> list[str]:
    """Messages of many publishers, each with a number; what they say."""
    sent = []
    for publisher in range(8):
        pub = kernel.connect(f"pub-{publisher}")
        for number in range(first, first + count):
            pub.publish(f"t/{number % 3}", f"{publisher}-{number}".encode(), qos)
            sent.append(f"{publisher}-{number}")
            if qos == 2:
                pub.ack(p.PUBREL, number - first + 1)
        pub.disconnect()
    kernel.run()
    return sent


def take(peer: Peer) -> list[str]:
    """What a client was sent, which it acknowledges, until nothing more comes."""
    got: list[str] = []
    while True:
        packets = peer.received()
        if not packets:
            return got
        answers: list[p.Packet] = []
        for packet in packets:
            if isinstance(packet, p.Publish):
                got.append(packet.payload.decode())
                if packet.qos:
                    answers.append(p.Ack(p.PUBACK if packet.qos == 1 else p.PUBREC, packet.packet_id, 0))
            elif isinstance(packet, p.Ack) and packet.kind == p.PUBREL:
                answers.append(p.Ack(p.PUBCOMP, packet.packet_id, 0))
        if answers:
            peer.send(*answers)
        peer.kernel.run()


@cases("qos", [0, 1, 2])
def test_each_message_goes_to_one_member(tmp_path: Path, qos: int) -> None:
    kernel = GroupKernel(tmp_path)
    group = [member(kernel, f"m{number}", qos) for number in range(4)]
    sent = publish(kernel, 10, qos)
    got = [take(peer) for peer in group]
    assert sorted(one for mine in got for one in mine) == sorted(sent)
    assert sum(bool(mine) for mine in got) >= 3
    for mine in got:
        for publisher in range(8):
            numbers = [int(one.split("-")[1]) for one in mine if one.startswith(f"{publisher}-")]
            assert numbers == sorted(numbers)


@cases("qos", [0, 1, 2])
def test_durable_members_and_members_in_memory_work_side_by_side(tmp_path: Path, qos: int) -> None:
    kernel = GroupKernel(tmp_path)
    memory = member(kernel, "memory", qos, expiry_s=0)
    durable = member(kernel, "durable", qos)
    sent = publish(kernel, 10, qos)
    got = take(memory), take(durable)
    assert sorted(got[0] + got[1]) == sorted(sent)
    assert got[0]
    assert got[1]


@cases("qos", [1, 2])
def test_a_group_whose_members_are_away_misses_nothing(tmp_path: Path, qos: int) -> None:
    kernel = GroupKernel(tmp_path)
    first = member(kernel, "one", qos)
    sent = publish(kernel, 5, qos)
    assert sorted(take(first)) == sorted(sent)
    first.disconnect()
    later = publish(kernel, 5, qos, 5)
    kernel = kernel.crash()
    later += publish(kernel, 5, qos, 10)
    back = kernel.come("one")
    assert sorted(take(back)) == sorted(later)


def test_what_a_member_has_not_acknowledged_goes_to_another_at_once(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    sent = publish(kernel, 3)
    taken = [packet.payload.decode() for packet in one.received() if isinstance(packet, p.Publish)]
    assert sorted(taken) == sorted(sent)
    two = member(kernel, "two")
    one.drop()
    kernel.run()
    assert sorted(take(two)) == sorted(sent)


def test_what_a_member_has_at_qos_2_stays_its_own(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one", 2)
    sent = publish(kernel, 3, 2)
    one.drop()
    two = member(kernel, "two", 2)
    kernel.run()
    assert take(two) == []
    kernel = kernel.crash()
    two = kernel.come("two")
    assert take(two) == []
    assert sorted(take(kernel.come("one"))) == sorted(sent)


def test_a_new_member_gets_its_part(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    sent = publish(kernel, 5)
    got = take(one)
    two = member(kernel, "two")
    sent += publish(kernel, 5, 1, 5)
    mine = take(two)
    assert mine
    assert sorted(got + take(one) + mine) == sorted(sent)


def test_a_member_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    slow = member(kernel, "slow", window=1)
    fast = member(kernel, "fast")
    sent = publish(kernel, 10)
    got = take(fast)
    assert len(got) < len(sent) - 1
    kernel.advance(6)
    kernel.advance(6)
    got += take(fast)
    assert len(sent) - 15 < len(set(got)) < len(sent)  # without the share that the slow one has a message of
    kernel.advance(11)
    got += take(fast)
    assert set(got) == set(sent)
    assert len(got) == len(sent)
    assert len(slow.received()) == 1


def test_messages_that_are_not_stored_are_shared_as_ever(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path, stored=("other",))
    one, two = member(kernel, "one"), member(kernel, "two")
    sent = publish(kernel, 5)
    got = take(one), take(two)
    assert sorted(got[0] + got[1]) == sorted(sent)


def test_a_message_that_a_member_may_not_have_goes_to_one_that_may(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    kernel.broker.hooks.client_authorize.add(
        lambda client, action, topic, verdict: "deny" if client.clientid == "barred" and topic == "t/1" else verdict
    )
    one, two = member(kernel, "barred"), member(kernel, "other")
    sent = publish(kernel, 6)
    got = take(two), take(one)
    assert sorted(got[0] + got[1]) == sorted(sent)


def test_the_last_member_takes_the_group_along(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    publish(kernel, 3)
    take(one)
    assert one.unsubscribe(SHARED) == [0]
    kernel.run()
    assert kernel.group_disk == {}
    publish(kernel, 3)
    again = member(kernel, "two")
    assert take(again) == []


@cases("from_earliest", [False, True])
def test_a_declared_group_outlives_its_members(tmp_path: Path, from_earliest: bool) -> None:
    kernel = GroupKernel(tmp_path)
    early = publish(kernel, 2)
    kernel.database.close()
    kernel = GroupKernel(tmp_path, kernel, declared={GroupName("g", "t/#"): from_earliest})
    sent = publish(kernel, 3, 1, 2) + (early if from_earliest else [])
    kernel = kernel.crash()
    memory = kernel.connect("memory")
    memory.send_subscribe(p.SubscribeEntry(SHARED, 1, False, False, 0))
    assert sorted(take(memory)) == sorted(sent)
    memory.disconnect()
    sent = publish(kernel, 2, 1, 5)
    later = kernel.connect("later")
    later.send_subscribe(p.SubscribeEntry(SHARED, 1, False, False, 0))
    assert sorted(take(later)) == sorted(sent)


def test_progress_outlives_a_crash(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    publish(kernel, 5)
    take(one)
    kernel.advance(1)
    kernel = kernel.crash()
    assert take(kernel.come("one")) == []


def test_a_group_whose_last_session_expires_is_forgotten(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one", expiry_s=60)
    one.disconnect()
    kernel.advance(61)
    assert kernel.group_disk == {}
    assert [key for key in kernel.disk if key[:1] in (b"m", b"b")] == []
    assert kernel.groups.statistics()["shared_groups.durable"] == 0


def test_while_the_disk_refuses_progress_messages_go_on(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one, two = member(kernel, "one"), member(kernel, "two")
    kernel.automatic = False
    pub = kernel.connect("pub")
    got = []
    for number in range(5):
        pub.publish("t/0", b"%d" % number, 1)
        kernel.commit()
        got += take(one) + take(two)
        kernel.advance(1)
        while kernel.state.waiting:
            kernel.commit_state()
        while kernel.group_state.waiting:
            kernel.group_state.commit(StorageFullError("no space", database="shared_groups"))
    assert got == ["0", "1", "2", "3", "4"]
    kernel.automatic = True
    kernel.advance(1)
    kernel = kernel.crash()
    assert take(kernel.come("one")) + take(kernel.come("two")) == []
