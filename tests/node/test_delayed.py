"""Delayed messages on the disk: acknowledged when they are kept, published after a restart, refused while it fails."""

from collections.abc import Sequence

import pytest

from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.commit_join import CommitJoin
from heliograph.node.delayed import StoredDelayed
from heliograph.storage.errors import StorageError, StorageFullError
from heliograph.storage.state.interface import OnStateCommitted
from support.cases import cases
from support.durable import FakeState
from support.kernel import FakeSink, Kernel
from support.packets import properties
from support.services import Node


class Leader:
    """The commit queue of `messages`, as the kernel's sink has it."""

    def __init__(self, sink: FakeSink) -> None:
        self._sink = sink

    @property
    def gathering_ticket(self) -> int:
        return self._sink.open_ticket

    def touch(self) -> int:
        self._sink.tie()
        return self._sink.open_ticket


class DelayedNode(Node):
    """A node that keeps delayed messages on a disk that a crash leaves.

    Args:
        before: The node whose place it takes after a crash.
        fault: Why what is on the disk cannot be read.
    """

    def __init__(
        self,
        settings: str = "",
        before: "DelayedNode | None" = None,
        passed_s: int = 1,
        fault: StorageError | None = None,
    ) -> None:
        super().__init__(settings, stored=("#",))
        if before is not None:
            self.now_us = before.now_us + passed_s * 1_000_000
            self.broker.begin_turn(self.now_us)
        self.disk: dict[bytes, bytes] = {} if before is None else before.disk
        self.state = FakeState(self.disk)
        self.state.fault = fault
        self.join = CommitJoin(Leader(self.sink), self._done, self.broker.faults)
        self.sink.join = self.join
        self.stored = StoredDelayed(self.delayed, self._open, before is not None, self.join, self.defer, self.alarms)
        self.stored.load()
        self.is_full = False  # the disk

    def crash(self, passed_s: int = 1) -> "DelayedNode":
        return DelayedNode("", self, passed_s)

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.stored.tick()
        self.run()

    def commit_all(self) -> None:
        """Let both databases commit what waits."""
        for _ in range(5):
            while self.state.waiting:
                full = StorageFullError("no space", database="delayed") if self.is_full else None
                self.state.commit(full)
            if self.sink.is_waiting:
                self.commit_messages()
            self.run()

    def commit_messages(self) -> None:
        sink = self.sink
        sink.committed_ticket += 1
        sink.open_ticket = max(sink.open_ticket, sink.committed_ticket + 1)
        sink.messages = [one for one in sink.messages if one[0] > sink.committed_ticket]
        full = StorageFullError("no space", database="messages") if self.is_full else None
        self.join.done(sink.committed_ticket, full)
        self.run()

    def _open(self, on_committed: OnStateCommitted) -> FakeState:
        self.state.listen(on_committed)
        return self.state

    def _done(self, ticket: int, error: StorageError | None) -> None:
        own = self.join.own_error
        self.context.commits.done(ticket, code_of(own), True, code_of(error))
        self.sessions.wills.on_committed(ticket, own is not None, error is not None)
        self.delayed.on_committed(ticket, own is not None, error is not None)


def code_of(error: StorageError | None) -> int:
    return rc.SUCCESS if error is None else rc.QUOTA_EXCEEDED


def heard(node: Kernel, topic_filter: str, seconds: float) -> list[str]:
    """What a new subscriber hears while time passes."""
    sub = node.connect("watcher")
    sub.subscribe(topic_filter)
    node.advance(seconds)
    return sub.heard()


def payloads(messages: Sequence[tuple[int, Message]]) -> list[bytes]:
    return [message.payload for _, message in messages]


@cases(("qos", "answer"), [(1, "PUBACK #5"), (2, "PUBREC #5")])
def test_the_acknowledgement_waits_for_the_disk(qos: int, answer: str) -> None:
    node = DelayedNode()
    pub = node.connect()
    pub.publish("$delayed/10/t", b"x", qos, 5)
    assert pub.heard() == []
    node.commit_messages()
    assert pub.heard() == []
    node.state.commit()
    node.run()
    assert pub.heard() == [answer]


def test_what_was_acknowledged_is_published_after_a_crash_and_then_forgotten() -> None:
    node = DelayedNode()
    pub = node.connect(username="u")
    pub.publish("$delayed/10/t", b"one", 1, 1, content_type="text/plain", message_expiry_interval=60)
    pub.publish("$delayed/10/t", b"two", 0)
    pub.publish("$delayed/10/t", b"three", 2, 3, retain=True)
    node.commit_all()
    node = node.crash(4)
    sub = node.connect("sub")
    sub.subscribe("t", 2, retain_as_published=True)
    node.advance(5)
    assert sub.received() == []
    node.advance(1)
    found = [packet for packet in sub.received() if isinstance(packet, p.Publish)]
    assert [(one.payload, one.qos, one.retain) for one in found] == [
        (b"one", 1, False),
        (b"two", 0, False),
        (b"three", 2, True),
    ]
    assert b"text/plain" in found[0].property_bytes
    assert payloads(node.sink.messages) == [b"one", b"two", b"three"]
    assert len(node.disk) == 3
    node.commit_all()
    assert node.disk == {}
    assert heard(node.crash(), "t", 100) == []


def test_messages_that_came_due_while_the_broker_was_down_keep_their_order() -> None:
    node = DelayedNode()
    pub = node.connect()
    for number in range(300):
        pub.publish("$delayed/5/t", b"%d" % number)
    pub.publish("$delayed/4/t", b"first")
    node.commit_all()
    node = node.crash(60)
    said = heard(node, "t", 0.5)
    assert said == ["PUBLISH t 'first' q0", *(f"PUBLISH t '{number}' q0" for number in range(300))]


def test_numbers_go_on_after_a_crash() -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/50/t", b"old")
    node.commit_all()
    node = node.crash()
    node.connect().publish("$delayed/49/t", b"new")
    node.commit_all()
    assert len(node.disk) == 2
    assert heard(node.crash(100), "t", 1) == ["PUBLISH t 'old' q0", "PUBLISH t 'new' q0"]


def test_a_message_that_is_published_and_not_stored_comes_again_after_a_crash() -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/1/t", b"x", 1, 5)
    node.commit_all()
    node.advance(1)  # its own commit is not done
    assert heard(node.crash(), "t", 1) == ["PUBLISH t 'x' q0"]


def test_a_publication_that_the_disk_refuses_is_made_again() -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/1/t", b"x", 1, 5)
    node.commit_all()
    node.is_full = True
    node.advance(1)
    node.commit_all()
    assert len(node.disk) == 1
    node.is_full = False
    sub = node.connect("sub")
    sub.subscribe("t")
    node.advance(10)
    node.commit_all()
    assert sub.heard() == ["PUBLISH t 'x' q0"]
    assert node.disk == {}


def refuse_elsewhere(node: DelayedNode) -> None:
    """A further database refuses what it was given while the commit of `messages` gathered, which is done."""
    copy = node.join.follow("copy")
    copy.took(1)
    node.join.pending_ticket()
    while node.state.waiting:
        node.state.commit()
    copy.done(1, StorageFullError("no space", database="copy"))
    node.commit_all()


@cases(("retain", "times"), [(False, 1), (True, 2)])
def test_a_publication_is_made_again_only_where_its_own_databases_refuse_it(retain: bool, times: int) -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/1/t", b"x", 1, 5, retain=retain)
    node.commit_all()
    sub = node.connect("sub")
    sub.subscribe("t")
    node.advance(1)
    refuse_elsewhere(node)
    node.advance(10)
    node.commit_all()
    assert sub.heard() == ["PUBLISH t 'x' q0"] * times
    assert node.disk == {}


@cases(("retain", "times"), [(False, 1), (True, 2)])
def test_a_will_is_published_again_only_where_its_own_databases_refuse_it(retain: bool, times: int) -> None:
    node = DelayedNode()
    sub = node.connect("sub")
    sub.subscribe("w")
    node.connect(will=p.Will("w", b"gone", 1, retain, properties())).drop()
    refuse_elsewhere(node)
    for _ in range(10):
        node.advance(1)
        node.commit_all()
    assert sub.heard() == ["PUBLISH w 'gone' q0"] * times


class CopyingNode(DelayedNode):
    """A node that keeps each message in a further database, too."""

    def __init__(self) -> None:
        super().__init__()
        self.copy = self.join.follow("copy")
        self.sink.copies.append(self.copy)

    def answer(self, error: StorageError | None = None) -> None:
        """The further database has what it was given, or refuses it and what is to come."""
        self.broker.is_refusing = error is not None
        self.sink.refusal_code = code_of(error)
        self.copy.done(self.sink.open_ticket, error)
        self.commit_all()


FULL = StorageFullError("no space", database="copy")


def test_a_publication_that_one_of_several_databases_refuses_is_not_made_again_before_that_takes_it() -> None:
    node = CopyingNode()
    node.connect().publish("$delayed/1/t", b"x", 1, 5)
    node.commit_all()
    sub = node.connect("sub")
    sub.subscribe("t")
    node.advance(1)
    node.answer(FULL)
    for _ in range(60):
        node.advance(1)
        node.commit_all()
    assert sub.heard() == ["PUBLISH t 'x' q0"]
    assert node.statistics()["delayed.count"] == 1
    node.answer()
    node.advance(10)
    node.answer()
    assert sub.heard() == ["PUBLISH t 'x' q0"]
    assert node.disk == {}


def test_wills_that_one_of_several_databases_refuses_are_not_published_again_before_that_takes_them() -> None:
    node = CopyingNode()
    sub = node.connect("sub")
    sub.subscribe("w/#")
    node.connect("first", will=p.Will("w/0", b"", 1, False, properties())).drop()
    node.answer(FULL)
    for number in range(1, 20):
        node.connect("c", will=p.Will(f"w/{number}", b"", 1, False, properties())).drop()
    for _ in range(120):
        node.advance(1)
        node.commit_all()
    assert sub.heard() == ["PUBLISH w/0 '' q0"]
    node.answer()
    for _ in range(31):  # one of them asks, and then all others come
        node.advance(1)
        node.answer()
    assert sorted(sub.heard()) == sorted(f"PUBLISH w/{number} '' q0" for number in range(20))
    assert node.sessions.wills.published.statistics()["wills.refused"] == 0


def test_a_will_that_is_stored_says_nothing_of_those_that_other_databases_refuse() -> None:
    node = DelayedNode()
    sub = node.connect("sub")
    sub.subscribe("w/#")
    node.connect("kept", will=p.Will("w/kept", b"x", 1, True, properties())).drop()
    refuse_elsewhere(node)
    node.connect("other", will=p.Will("w/other", b"y", 1, False, properties())).drop()
    node.commit_all()
    node.advance(0.5)
    assert sub.heard() == ["PUBLISH w/kept 'x' q0", "PUBLISH w/other 'y' q0"]
    node.advance(1)
    assert sub.heard() == ["PUBLISH w/kept 'x' q0"]


def test_while_the_disk_refuses_publishers_are_refused_and_nothing_is_published_twice() -> None:
    node = DelayedNode()
    node.is_full = True
    pub = node.connect()
    pub.publish("$delayed/1/t", b"x", 1, 5)
    node.commit_all()
    assert pub.heard() == ["PUBACK #5 0x97"]
    pub.publish("$delayed/1/t", b"y", 1, 6)
    assert pub.heard() == ["PUBACK #6 0x97"]  # at once
    node.is_full = False
    node.advance(1)
    node.commit_all()
    pub.publish("$delayed/1/t", b"x", 1, 7)
    node.commit_all()
    assert pub.heard() == ["PUBACK #7"]
    assert heard(node, "t", 5) == ["PUBLISH t 'x' q0"]
    assert node.statistics()["delayed.dropped.not_stored"] == 2


def full_node() -> DelayedNode:
    """A node whose disk refused a delayed message already."""
    node = DelayedNode()
    node.is_full = True
    node.connect("first").publish("$delayed/1/t", b"first", 1, 5)
    node.commit_all()
    return node


@cases("qos", [1, 2])
def test_while_the_disk_refuses_mqtt_3_gets_no_acknowledgement(qos: int) -> None:
    node = full_node()
    pub = node.connect("old", version=p.V3_1_1)
    pub.publish("$delayed/1/t", b"x", qos, 5)
    assert pub.heard() == []
    assert pub.wire.closed


def test_while_the_disk_refuses_mqtt_3_stays_connected_at_qos_0() -> None:
    node = full_node()
    pub = node.connect("old", version=p.V3_1_1)
    pub.publish("$delayed/1/t", b"x")
    assert not pub.wire.closed


def test_a_delayed_will_is_kept_while_the_disk_refuses() -> None:
    node = full_node()
    node.connect(will=p.Will("$delayed/5/w", b"gone", 1, False, properties())).drop()
    assert node.statistics()["delayed.count"] == 0
    node.is_full = False
    for _ in range(4):
        node.advance(1)
        node.commit_all()
    assert heard(node, "w", 5) == ["PUBLISH w 'gone' q0"]
    node.commit_all()
    assert heard(node, "w", 60) == []
    assert node.disk == {}


def test_a_message_that_is_delayed_twice_is_kept_while_the_disk_refuses() -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/1/$delayed/2/t", b"x", 1, 5)
    node.commit_all()
    node.is_full = True
    node.connect("first").publish("$delayed/1/t", b"first", 1, 5)
    node.commit_all()
    node.advance(1)
    assert node.statistics()["delayed.count"] == 1
    node.is_full = False
    for _ in range(6):
        node.advance(1)
        node.commit_all()
    assert heard(node, "t", 3) == ["PUBLISH t 'x' q0"]


@cases(("qos", "answer"), [(1, "PUBACK #5 0x97"), (2, "PUBREC #5 0x97")])
def test_a_refusal_by_its_own_database_is_told_though_messages_are_taken(qos: int, answer: str) -> None:
    node = DelayedNode()
    pub = node.connect()
    pub.publish("$delayed/1/t", b"x", qos, 5)
    pub.publish("t", b"y", 1, 6)
    node.state.commit(StorageFullError("no space", database="delayed"))
    node.commit_all()
    assert pub.heard() == [answer, "PUBACK #6"]


def test_a_will_that_is_delayed_by_its_topic_is_kept() -> None:
    node = DelayedNode()
    node.connect(will=p.Will("$delayed/5/w", b"gone", 1, False, properties())).drop()
    node.commit_all()
    assert heard(node.crash(2), "w", 3) == ["PUBLISH w 'gone' q0"]


def test_a_database_that_cannot_be_read_at_the_start_is_tried_again() -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/5/t", b"x", 1, 5)
    node.commit_all()
    again = DelayedNode("", node, fault=StorageError("input/output error", database="delayed"))
    again.state.fault = None
    pub = again.connect()
    pub.publish("$delayed/9/t", b"y", 1, 5)
    assert pub.heard() == ["PUBACK #5 0x97"]
    again.advance(0.5)
    assert heard(again, "t", 10) == ["PUBLISH t 'x' q0"]


def test_a_record_that_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    node = DelayedNode()
    node.connect().publish("$delayed/5/t", b"x")
    node.commit_all()
    node.disk[b"m" + bytes(8)] = b"nonsense"
    assert heard(node.crash(), "t", 10) == ["PUBLISH t 'x' q0"]
    assert "delayed message 0 on the disk cannot be read" in caplog.text
