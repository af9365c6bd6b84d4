"""The alarm of durable groups: on while their database refuses what is read or saved, and off when it does not."""

from pathlib import Path

from heliograph.storage.errors import StorageFullError
from shared_groups.test_members import member, publish, take
from support.groups import GroupKernel


def active(kernel: GroupKernel) -> list[str]:
    return [alarm.name for alarm in kernel.alarms.active()]


def test_the_alarm_lasts_while_progress_is_refused(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    assert active(kernel) == []
    kernel.automatic = False
    kernel.connect("pub").publish("t/0", b"x", 1)
    kernel.commit()
    take(one)
    kernel.advance(1)
    assert kernel.group_state.waiting
    while kernel.group_state.waiting:
        kernel.group_state.commit(StorageFullError("no space", database="shared_groups"))
    kernel.advance(1)
    assert active(kernel) == ["shared_groups_refused"]
    assert str(kernel.node_groups.health).startswith("no space")
    kernel.automatic = True
    kernel.advance(2)
    assert active(kernel) == []
    assert kernel.node_groups.health.is_good


def test_the_alarm_lasts_while_groups_cannot_be_read_at_a_start(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    publish(kernel, 1)
    take(one)
    kernel.unreadable = ("shared_groups",)
    kernel = kernel.crash()
    assert active(kernel) == ["shared_groups_refused"]
    kernel.group_state.fault = None
    kernel.advance(2)
    assert active(kernel) == []
