"""Durable groups at a start: what they wait for, what they pass over, and what they know afterwards."""

import logging
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.shared_groups.protocol import GroupName
from heliograph.storage.engine import records
from shared_groups.test_members import SHARED, member, publish, take
from support.cases import cases
from support.groups import GroupKernel
from support.packets import properties


@cases("database", ["sessions", "shared_groups"])
@cases("qos", [1, 2])
def test_members_get_nothing_until_it_is_known_what_was_done(tmp_path: Path, qos: int, database: str) -> None:
    kernel = GroupKernel(tmp_path)
    one, two = member(kernel, "one", qos), member(kernel, "two", qos)
    done = publish(kernel, 5, qos)
    assert sorted(take(one) + take(two)) == sorted(done)
    one.drop()
    two.drop()
    kernel.unreadable = (database,)
    kernel = kernel.crash()
    memory = kernel.connect("memory")  # of whose group nobody knows whether it is kept
    memory.subscribe(SHARED, qos)
    later = publish(kernel, 5, qos, 5)
    kernel.advance(2)
    assert [packet for packet in memory.received() if isinstance(packet, p.Publish)] == []
    kernel.state.fault = kernel.group_state.fault = None
    kernel.advance(2)
    one = kernel.come("one")
    kernel.run()
    assert sorted(take(memory) + take(one)) == sorted(later)


def test_a_member_that_leaves_before_the_start_does_not_end_its_group(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    assert take(one) == []
    one.drop()
    sent = publish(kernel, 5)
    kernel.unreadable = ("sessions", "shared_groups")
    kernel = kernel.crash()
    memory = kernel.connect("memory")
    memory.subscribe(SHARED, 1)
    memory.disconnect()
    kernel.run()
    kernel.state.fault = kernel.group_state.fault = None
    kernel.advance(2)
    one = kernel.come("one")
    kernel.run()
    assert sorted(take(one)) == sorted(sent)


def test_a_member_that_left_in_the_turn_it_came_gets_no_shares_when_its_group_is_back(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path)
    gone = kernel.connect("gone", clean_start=False, session_expiry_interval=600)
    gone.send(
        p.Subscribe(1, [p.SubscribeEntry(SHARED, 1, False, False, 0)], properties()),
        p.Unsubscribe(2, [SHARED], properties()),
    )
    one = member(kernel, "one")
    sent = publish(kernel, 5)
    assert sorted(take(one)) == sorted(sent)


def test_a_declared_group_outlives_a_durable_member_that_was_there_at_the_start(tmp_path: Path) -> None:
    kernel = GroupKernel(tmp_path, declared={GroupName("g", "t/#"): False})
    member(kernel, "one").drop()
    kernel = kernel.crash()
    one = kernel.come("one")
    assert take(one) == []
    one.unsubscribe(SHARED)
    one.disconnect()
    sent = publish(kernel, 5)
    two = kernel.connect("two")
    two.send_subscribe(p.SubscribeEntry(SHARED, 1, False, False, 0))
    assert sorted(take(two)) == sorted(sent)


def test_a_damaged_block_is_passed_over_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = GroupKernel(tmp_path)
    one = member(kernel, "one")
    one.drop()
    pub = kernel.connect("pub")
    for number in range(5):
        pub.publish("t/1", b"%d" % number, 1)
        kernel.run()
    rocks = kernel.database.contents()[0]
    key, value = list(records(rocks, b"B", b"C"))[2]
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    with caplog.at_level(logging.ERROR):
        one = kernel.come("one")
        assert take(one) == ["0", "1", "3", "4"]
        pub.publish("t/1", b"after", 1)
        kernel.run()
        assert take(one) == ["after"]
    assert kernel.groups.statistics()["shared_groups.damaged_places"] == 1
    assert caplog.text.count("shared groups pass over") == 1
