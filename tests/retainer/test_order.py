"""A retained message on the disk: when it is acknowledged, who sees it before, and what a refusal leaves."""

from dataclasses import replace
from pathlib import Path

import pytest

from heliograph.broker.message import Message, make_message
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.commit_join import CommitJoin
from heliograph.node.storage_sink import StorageSink
from heliograph.retainer.disk import DiskRetainer, RetainedCommits
from heliograph.retainer.options import RetainerOptions
from heliograph.storage.errors import StorageError, StorageFullError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.table import KeyedTable
from support.cases import cases
from support.kernel import Kernel, Peer
from support.options import RETAINER


class Leader(GroupCommit):
    """The commit queue of messages, of which a test says when it is done."""

    def __init__(self) -> None:
        self.ticket = 1

    @property
    def gathering_ticket(self) -> int:
        return self.ticket

    @property
    def is_full(self) -> bool:
        return False

    @property
    def is_filling(self) -> bool:
        return False

    def touch(self) -> int:
        return self.ticket

    def append(self, message: object) -> int:
        return self.ticket


class Commits(RetainedCommits):
    """Those of the table: each change has a ticket of its own."""

    def __init__(self, table: KeyedTable, join: CommitJoin) -> None:
        super().__init__()
        self._table = table
        self._follower = join.follow("retained")
        self._waiting: list[tuple[int, KeyedChange]] = []
        self._ticket = 0

    def submit(self, change: KeyedChange, awaited: bool) -> None:
        self._ticket += 1
        self._waiting.append((self._ticket, change))
        if awaited:
            self._follower.took(self._ticket)

    def is_idle(self) -> bool:
        return not self._waiting

    def commit(self) -> None:
        """The disk has the oldest change."""
        ticket, change = self._waiting.pop(0)
        self._table.write([change])
        self._follower.done(ticket, None)

    def refuse(self, error: StorageError) -> None:
        """The disk does not take the oldest change."""
        ticket, change = self._waiting.pop(0)
        with pytest.raises(StorageError):
            self._table.write([change, KeyedChange(b"", None, 0)])
        self._follower.done(ticket, error)


class World:
    """A kernel with retained messages on the disk; messages of `kept/#` are stored too."""

    def __init__(self, path: Path, options: RetainerOptions = RETAINER) -> None:
        self.kernel = kernel = Kernel()
        self.leader = Leader()
        self.join = CommitJoin(self.leader, self._done, kernel.broker.faults)
        kernel.broker.set_sink(StorageSink(self.leader, ("kept/#",), self.join))
        self.table = KeyedTable("retained", path, clock=lambda: int(kernel.broker.now_us))
        self.table.open()
        self.commits = Commits(self.table, self.join)
        kernel.broker.retained = DiskRetainer(kernel.broker, self.table, self.commits, options)

    def commit_messages(self) -> None:
        """The disk has the messages that are stored."""
        self.leader.ticket += 1
        self.join.done(self.leader.ticket - 1, None)
        self.kernel.run()

    def commit(self) -> None:
        """The disk has the oldest retained message."""
        self.commits.commit()
        self.kernel.run()

    def retained(self, topic_filter: str = "#") -> list[str]:
        """What a new subscriber gets."""
        peer = self.kernel.connect("look")
        peer.send_subscribe(p.SubscribeEntry(topic_filter, 0, False, False, 0))
        heard = peer.heard()[1:]
        peer.drop()
        return heard

    def _done(self, ticket: int, error: StorageError | None) -> None:
        code = rc.SUCCESS if error is None else rc.QUOTA_EXCEEDED
        self.kernel.context.commits.done(ticket, code, True)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "retained")


def publisher(world: World, version: int = p.V5) -> Peer:
    return world.kernel.connect("pub", version=version)


@cases(("qos", "ack"), [(1, "PUBACK #1 0x10"), (2, "PUBREC #1 0x10")])
@cases("payload", [b"x", b""])
def test_the_acknowledgement_waits_for_the_commit(tmp_path: Path, qos: int, ack: str, payload: bytes) -> None:
    world = World(tmp_path / "retained")
    world.kernel.connect("other").publish("a", b"old", retain=True)
    peer = publisher(world)
    peer.publish("a", payload, qos, retain=True)
    world.commit()
    world.commit_messages()
    assert peer.heard() == []
    world.commit()
    assert peer.heard() == [ack]


def test_the_acknowledgement_of_a_stored_message_waits_for_both(world: World) -> None:
    peer = publisher(world)
    peer.publish("kept/1", b"x", 1, retain=True)
    peer.publish("kept/2", b"x", 1, retain=True)
    world.commit()
    assert peer.heard() == []
    world.commit_messages()
    assert peer.heard() == []
    world.commit()
    assert peer.heard() == ["PUBACK #1", "PUBACK #2"]


def test_a_message_that_is_not_retained_waits_for_nothing(world: World) -> None:
    publisher(world).publish("a", b"x", retain=True)
    other = world.kernel.connect("other")
    other.publish("b", b"x", 1)
    assert other.heard() == ["PUBACK #1 0x10"]


def test_a_message_too_large_to_be_retained_waits_for_the_end_of_the_one_before(tmp_path: Path) -> None:
    world = World(tmp_path / "retained", replace(RETAINER, max_payload_size=3))
    peer = publisher(world)
    peer.publish("a", b"abc", retain=True)
    peer.publish("a", b"abcd", 1, retain=True)
    world.commit()
    world.commit_messages()
    assert peer.heard() == []
    world.commit()
    assert peer.heard() == ["PUBACK #1 0x10"]


def test_what_is_not_committed_yet_is_seen(world: World) -> None:
    peer = publisher(world)
    peer.publish("a", b"old", retain=True)
    world.commit()
    peer.publish("a", b"new", retain=True)
    peer.publish("b", b"new", retain=True)
    assert world.retained() == ["PUBLISH a 'new' q0 retain", "PUBLISH b 'new' q0 retain"]
    peer.publish("a", b"", retain=True)
    assert world.retained() == ["PUBLISH b 'new' q0 retain"]


def test_a_refused_message_leaves_what_the_disk_has(world: World) -> None:
    peer = publisher(world)
    peer.publish("a", b"old", retain=True)
    world.commit()
    peer.publish("a", b"new", 1, retain=True)
    assert world.retained() == ["PUBLISH a 'new' q0 retain"]
    world.commits.refuse(StorageFullError("no room", database="retained"))
    world.commit_messages()
    assert peer.heard() == ["PUBACK #1 0x97"]
    assert world.retained() == ["PUBLISH a 'old' q0 retain"]
    assert len(world.table) == 1


def test_a_refused_message_does_not_undo_one_that_came_behind_it(world: World) -> None:
    peer = publisher(world)
    peer.publish("a", b"one", 1, retain=True)
    peer.publish("a", b"two", 1, retain=True)
    world.commits.refuse(StorageFullError("no room", database="retained"))
    world.commit_messages()
    world.commit()
    assert world.retained() == ["PUBLISH a 'two' q0 retain"]


def test_a_repeated_clearing_is_not_acknowledged_before_the_first_is_done(world: World) -> None:
    peer = publisher(world)
    peer.publish("a", b"old", retain=True)
    world.commit()
    peer.publish("a", b"", 1, retain=True)
    peer.publish("a", b"", 1, retain=True)
    world.commits.refuse(StorageFullError("no room", database="retained"))
    world.commit_messages()
    world.commit()
    assert peer.heard() == ["PUBACK #1 0x97", "PUBACK #2 0x97"]
    assert world.retained() == []


def test_clearing_what_is_not_there_waits_for_nothing(world: World) -> None:
    peer = publisher(world)
    peer.publish("never/there", b"", 1, retain=True)
    assert peer.heard() == ["PUBACK #1 0x10"]


def test_a_replaced_message_is_not_delivered_behind_the_one_that_replaced_it(world: World) -> None:
    peer = publisher(world)
    for number in range(20):
        peer.publish(f"d/{number:02d}", b"old", retain=True)
        world.commit()
    slow = world.kernel.connect("slow")
    slow.congest()
    slow.send_subscribe(p.SubscribeEntry("d/#", 0, False, False, 0))
    peer.publish("d/15", b"new", retain=True)
    slow.congest(False)
    heard = [line for line in slow.heard() if "d/15" in line]
    assert heard in (["PUBLISH d/15 'new' q0"], [])


def test_a_message_can_be_read_while_the_table_is_out_of_order(tmp_path: Path) -> None:
    world = World(tmp_path / "retained")
    peer = publisher(world)
    peer.publish("a", b"x", retain=True)
    world.commit()
    world.table.close()
    assert world.retained() == []
    assert isinstance(world.kernel.broker.retained, DiskRetainer)
    assert world.kernel.broker.retained.statistics()["retained.read_failed"] > 0


def test_a_message_for_a_table_that_was_never_open_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "retained"
    path.write_text("in the way")
    kernel = Kernel()
    table = KeyedTable("retained", path, reopen_interval_s=0.0)
    with pytest.raises(StorageError):
        table.open()
    message = _message(kernel)
    change = table.put(message)
    path.unlink()
    table.open()
    with pytest.raises(StorageError, match="File exists"):
        table.write([change])
    table.write([table.put(message)])
    assert len(table) == 1
    table.close()


def _message(kernel: Kernel) -> Message:
    return make_message(kernel.broker.now_us, 1, "a", b"x", 0, True, b"", "pub", None)
