"""What must be durable before what, commit by commit; docs/ordering.md has the reasons."""

from pathlib import Path

from heliograph.mqtt import packets as p
from support.groups import GroupKernel
from support.kernel import Peer

SHARED = "$share/g/t"


def publishes(peer: Peer) -> list[str]:
    return [packet.payload.decode() for packet in peer.received() if isinstance(packet, p.Publish)]


def alone(path: Path, qos: int, *, is_durable: bool = True) -> tuple[GroupKernel, Peer, Peer]:
    """A member that has a kept group for itself, and a publisher; commits are stepped from now on."""
    kernel = GroupKernel(path)
    keeper = kernel.connect("keeper", session_expiry_interval=600)
    keeper.subscribe(SHARED, qos)
    member = kernel.connect("member", session_expiry_interval=600 if is_durable else 0)
    member.subscribe(SHARED, qos)
    keeper.drop()
    pub = kernel.connect("pub")
    kernel.run()
    kernel.automatic = False
    return kernel, member, pub


def settle_groups(kernel: GroupKernel) -> None:
    while kernel.group_state.waiting:
        kernel.commit_groups()


def test_a_message_is_delivered_when_it_is_committed(tmp_path: Path) -> None:
    kernel, member, pub = alone(tmp_path, 1)
    pub.publish("t", b"x", 1)
    assert publishes(member) == []
    kernel.commit()
    settle_groups(kernel)
    assert publishes(member) == ["x"]


def test_a_refused_message_is_delivered_to_nobody(tmp_path: Path) -> None:
    kernel, member, pub = alone(tmp_path, 1)
    pub.publish("t", b"x", 1)
    kernel.commit(0x97)
    settle_groups(kernel)
    assert publishes(member) == []


def test_qos_2_is_the_sessions_own_when_its_identifier_is_saved_and_not_before(tmp_path: Path) -> None:
    kernel, member, pub = alone(tmp_path, 2)
    pub.publish("t", b"x", 2)
    kernel.commit()
    settle_groups(kernel)
    assert publishes(member) == []  # held
    kernel = kernel.crash()  # the session was not saved, so that another may have it
    assert publishes(_joined(kernel, "other")) == ["x"]


def test_qos_2_goes_to_nobody_else_once_the_session_has_it_though_the_group_does_not_know(tmp_path: Path) -> None:
    kernel, member, pub = alone(tmp_path, 2)
    pub.publish("t", b"x", 2)
    kernel.commit()
    settle_groups(kernel)
    while kernel.state.waiting:
        kernel.commit_state()
    assert publishes(member) == ["x"]
    assert [key for key in kernel.disk if key[:1] == b"b"] != []
    kernel = kernel.crash()  # before the group's progress is saved
    assert publishes(_joined(kernel, "other")) == []
    assert publishes(kernel.come("member")) == ["x"]


def test_the_note_goes_when_the_groups_progress_is_saved(tmp_path: Path) -> None:
    kernel, _, pub = alone(tmp_path, 2)
    pub.publish("t", b"x", 2)
    kernel.commit()
    settle_groups(kernel)
    while kernel.state.waiting:
        kernel.commit_state()
    assert [key for key in kernel.state.values if key[:1] == b"b"] != []
    settle_groups(kernel)
    assert [key for key in kernel.state.values if key[:1] == b"b"] == []
    while kernel.state.waiting:
        kernel.commit_state()
    kernel = kernel.crash()
    assert publishes(_joined(kernel, "other")) == []


def test_a_session_in_memory_gets_qos_2_when_the_progress_that_counts_it_is_saved(tmp_path: Path) -> None:
    kernel, member, pub = alone(tmp_path, 2, is_durable=False)
    pub.publish("t", b"x", 2)
    kernel.commit()
    while kernel.group_state.waiting and not any(batch.changes for _, batch in kernel.group_state.waiting):
        kernel.commit_groups()
    assert publishes(member) == []
    settle_groups(kernel)
    assert publishes(member) == ["x"]


def test_a_membership_is_durable_before_its_suback(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    member = kernel.connect("member", session_expiry_interval=600)
    kernel.automatic = False
    member.send_subscribe(p.SubscribeEntry(SHARED, 1, False, False, 0))
    assert member.heard() == []
    while kernel.state.waiting:
        kernel.commit_state()
    assert member.heard() == ["SUBACK #1 [0x01]"]
    kernel.connect("pub").publish("t", b"x", 1)
    kernel.commit()
    kernel = kernel.crash()  # the group's own record was never committed
    assert publishes(kernel.come("member")) == ["x"]


def _joined(kernel: GroupKernel, clientid: str) -> Peer:
    peer = kernel.connect(clientid, session_expiry_interval=600)
    peer.send_subscribe(p.SubscribeEntry(SHARED, 2, False, False, 0))
    return peer
