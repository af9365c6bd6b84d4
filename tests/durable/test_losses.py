"""What a session cannot get any more is left out, counted and said; the rest comes."""

import logging
from pathlib import Path

import pytest

from heliograph.durable_sessions.replay import ReplayedDatabase
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.engine import records
from heliograph.storage.errors import StorageFullError
from heliograph.storage.interface import Batch, StreamIterator
from support.durable import DurableKernel, got, leave


def statistics(kernel: DurableKernel, name: str) -> float:
    return kernel.durable.statistics()[f"durable_sessions.{name}"]


def test_a_damaged_block_is_left_out_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = DurableKernel(tmp_path)
    alarms = kernel.alarms
    leave(kernel, "a", "t")
    leave(kernel, "b", "t")
    pub = kernel.connect("pub")
    for number in range(5):
        pub.publish("t", b"%d" % number, 1)
    rocks = kernel.database.contents()[0]
    key, value = list(records(rocks, b"B", b"C"))[2]
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    with caplog.at_level(logging.WARNING):
        assert got(kernel, "a", leaves=True) == ["0", "1", "3", "4"]
    assert statistics(kernel, "damaged_streams") == 1
    assert "client 'a' missed what was stored in messages/0/1/1 from" in caplog.text
    assert [(alarm.name, alarm.details["client"]) for alarm in alarms.active()] == [("durable_sessions_damaged", "a")]
    assert got(kernel, "b", leaves=True) == ["0", "1", "3", "4"]
    assert statistics(kernel, "damaged_streams") == 2
    pub.publish("t", b"after", 1)
    assert got(kernel, "a", leaves=True) == ["after"]
    assert statistics(kernel, "damaged_streams") == 2


def test_a_dropped_generation_behind_the_cursor_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "t")
    pub = kernel.connect("pub")
    pub.publish("t", b"old", 1)
    kernel.database.add_generation()
    pub.publish("t", b"new", 1)
    kernel.database.drop_generation(1)
    with caplog.at_level(logging.WARNING):
        assert got(kernel, "sub", leaves=True) == ["new"]
    assert statistics(kernel, "dropped_backlogs") == 1
    assert "client 'sub' missed what was stored in shard 0 from" in caplog.text
    kernel.database.add_generation()
    kernel.database.drop_generation(2)
    assert got(kernel, "sub", leaves=True) == []  # it had everything of that one
    assert statistics(kernel, "dropped_backlogs") == 1


def test_the_alarm_lasts_while_session_state_is_refused(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    alarms = kernel.alarms
    kernel.automatic = False
    sub = kernel.come("sub")
    kernel.state.commit(StorageFullError("no room", database="sessions"))
    kernel.advance(0.1)
    assert [alarm.name for alarm in alarms.active()] == ["durable_sessions_refused"]
    kernel.advance(1)
    while kernel.state.waiting:
        kernel.commit_state()
    kernel.advance(0.1)
    assert alarms.active() == []
    assert sub.heard() == ["CONNACK 0x00"]


def test_a_wide_filter_that_matches_little_holds_up_nobody(tmp_path: Path) -> None:
    """One look at the stream ends though nothing was found, and the next goes on from there."""
    kernel = DurableKernel(tmp_path)
    leave(kernel, "rare", "+/rare")
    kernel.advance(1)
    kernel.automatic = False
    pub = kernel.connect("pub")
    for number in range(120):  # so many names that those of both levels share a stream
        for level in range(12):
            pub.publish(f"{number}/{level}", b"x", 0)
    for number in range(12_000):
        pub.publish(f"{200 + number}/{number % 19}", b"x", 0)
    pub.publish("20000/rare", b"found", 0)
    kernel.automatic = True
    kernel.run()
    streams = kernel.database.get_streams("+/rare")
    most = 0
    for stream in streams:
        looks = looks_at(kernel.database, kernel.database.make_iterator(stream.id, "+/rare"))
        most = max(most, looks)
    assert most >= 2
    assert got(kernel, "rare", leaves=True) == ["found"]


def looks_at(database: ReplayedDatabase, iterator: StreamIterator) -> int:
    """How many looks it takes to come to the end."""

    def fail(damage: Damage) -> None:
        raise AssertionError(damage)

    count = 0
    while isinstance(batch := database.next_readable(iterator, 100, fail, 4096), Batch) and batch.iterator != iterator:
        iterator = batch.iterator
        count += 1
    return count


def test_one_topic_of_a_shared_stream_is_read_by_its_index_however_much_there_is(tmp_path: Path) -> None:
    kernel = DurableKernel(tmp_path)
    leave(kernel, "sub", "5000/x")
    kernel.advance(1)
    pub = kernel.connect("pub")
    for number in range(110):
        pub.publish(f"{number}/x", b"", 0)
    expected = []
    for number in range(600):  # more than a page of the index
        pub.publish("5000/x", b"%d" % number, 1)
        expected.append(str(number))
    assert got(kernel, "sub", leaves=True) == expected
