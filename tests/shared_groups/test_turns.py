"""What waits for its turn is bounded, whoever writes it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import Properties
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.open_share import OpenShare, Waiting
from heliograph.shared_groups.protocol import Progress, Share
from heliograph.shared_groups.stream_reader import Messages, Publishers, StreamReader
from heliograph.shared_groups.turns import GroupTurns
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.interface import BEGINNING, Batch, Position, StoredMessage, StreamId, StreamIterator
from reference.storage import message
from support.cases import cases
from support.groups import GroupKernel
from support.kernel import Peer
from support.options import SESSION

_WRITES = 100
_LETTERS = 300


class _Leaders:
    """A loop whose turns the test has, and leaders that answer with many messages as often as they are asked."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.turns = GroupTurns(self, lambda: None, self, 1.0)
        self.left = _WRITES
        self.delivered = 0

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.due.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> None:
        raise AssertionError(delay)

    def on_messages_read(self) -> None:
        if self.left > 0:
            self.left -= 1
            for _ in range(_LETTERS):
                self.turns.post(self.take)

    def on_sent(self, member: Member) -> None:
        raise AssertionError(member)

    def go_on(self) -> None:
        self.turns.schedule_more()

    def take(self) -> None:
        self.delivered += 1


def test_leaders_write_no_more_while_very_many_letters_wait() -> None:
    leaders = _Leaders()
    leaders.turns.schedule()
    most = 0
    while leaders.due:
        leaders.due.pop(0)()
        most = max(most, leaders.turns.statistics()["protocol_messages"])
    assert leaders.delivered == _WRITES * _LETTERS
    assert most < 3000


class _NoMessages(Messages):
    def next_readable(self, iterator: StreamIterator, max_messages: int, report: Callable[[Damage], object]) -> Batch:
        raise AssertionError(iterator)


class _Reader(StreamReader):
    """A reader that has no shares to read for, and counts what it is told."""

    def __init__(self, stream: StreamId) -> None:
        super().__init__(_NoMessages(), stream, "t/#", 0, Publishers(), Waiting(), lambda damage: None)
        self.told = 0

    def on_grown(self) -> None:
        self.told += 1

    def read(self, committed_us: int) -> list[OpenShare] | None:
        return None


def test_a_commit_concerns_the_readers_of_its_streams_only_and_some_of_them_at_once() -> None:
    leaders = _Leaders()
    leaders.left = 0
    crowded, other = StreamId("messages", 0, 1, 1), StreamId("messages", 0, 1, 2)
    many, one, gone = [_Reader(crowded) for _ in range(3000)], _Reader(other), _Reader(crowded)
    for reader in (*many, gone):
        leaders.turns.add_reader(crowded, reader)
    leaders.turns.add_reader(other, one)
    leaders.turns.remove_reader(crowded, gone)
    leaders.turns.on_grown([other])
    while leaders.due:
        leaders.due.pop(0)()
    assert (one.told, sum(reader.told for reader in many)) == (1, 0)
    leaders.turns.on_grown([crowded])
    told = 0
    while leaders.due:
        leaders.due.pop(0)()
        before, told = told, sum(reader.told for reader in many)
        assert told - before <= 1024
    assert {reader.told for reader in many} == {1}
    assert (one.told, gone.told) == (1, 0)


class _EndOf(Messages):
    """A stream behind whose beginning there is nothing, or what is not committed."""

    def __init__(self, *stored: StoredMessage) -> None:
        self.stored = stored

    def next_readable(self, iterator: StreamIterator, max_messages: int, report: Callable[[Damage], object]) -> Batch:
        positions = [Position(one.stored_at, 0, 0) for one in self.stored]
        end = positions[-1] if positions else iterator.position
        return Batch(StreamIterator(iterator.stream, iterator.topic_filter, end), self.stored, positions)


@cases("stored", [(), (message()._replace(stored_at=20),)], ids=["nothing", "not committed"])
def test_a_share_that_is_behind_the_others_does_not_have_what_is_not_there_read_again_and_again(
    stored: tuple[StoredMessage, ...],
) -> None:
    leaders = _Leaders()
    leaders.left = 0
    stream, waiting = StreamId("messages", 0, 1, 1), Waiting()
    reader = StreamReader(_EndOf(*stored), stream, "t/#", 0, Publishers(), waiting, lambda damage: None)
    for number, begins in enumerate([BEGINNING, Position(10, 0, 0)]):
        reader.shares[number] = OpenShare(Share(stream, number), Progress(begins), waiting)
    leaders.turns.add_reader(stream, reader)
    leaders.turns.on_committed(15)
    leaders.turns.want_read(reader)
    turns = 0
    while leaders.due and turns < 10:
        leaders.due.pop(0)()
        turns += 1
    assert turns < 10
    assert leaders.turns.awaits(reader) is bool(stored)  # for the commit, if there is one to come


class _Faulty(_Reader):
    def on_grown(self) -> None:
        raise RuntimeError("not today")

    def read(self, committed_us: int) -> list[OpenShare] | None:
        raise RuntimeError("not today")


def test_a_letter_or_a_reader_that_raises_keeps_no_other_from_its_turn() -> None:
    leaders = _Leaders()
    leaders.left = 0
    contained: list[str] = []
    leaders.turns.faults.on_fault = lambda boundary, error: contained.append(boundary)
    stream = StreamId("messages", 0, 1, 1)
    faulty, reader = _Faulty(stream), _Reader(stream)
    for one in (faulty, reader):
        leaders.turns.add_reader(stream, one)
    leaders.turns.post(faulty.on_grown)
    leaders.turns.post(leaders.take)
    leaders.turns.on_grown([stream])
    leaders.due.pop(0)()
    assert (leaders.delivered, reader.told) == (1, 1)
    assert contained == ["turns"] * 3


_GROUPS = 150
_COUNTED = ("durable", "awake", "members", "woken", "elections", "saves", "delivered", "leaders")


class _CountedKernel(GroupKernel):
    """A node that counts what a turn does for its groups."""

    most = 0

    def turn(self) -> None:
        before, batches = self._numbers(), self.batches()
        super().turn()
        done = [abs(one - other) for one, other in zip(self._numbers(), before, strict=True)]
        self.most = max(self.most, *done, self.batches() - batches)

    def batches(self) -> int:
        return self.group_state.batches_count if hasattr(self, "group_state") else 0

    def _numbers(self) -> list[int]:
        if not hasattr(self, "groups"):
            return [0] * len(_COUNTED)
        numbers = self.groups.statistics()
        return [numbers.get(f"shared_groups.{name}", 0) for name in _COUNTED]


def _take(peer: Peer) -> int:
    count = 0
    while packets := [packet for packet in peer.received() if isinstance(packet, p.Publish)]:
        count += len(packets)
        peer.send(*(p.Ack(p.PUBACK, packet.packet_id, 0) for packet in packets))
        peer.kernel.run()
    return count


def test_whatever_happens_to_many_groups_a_turn_does_a_part_of_it(tmp_path: Path) -> None:
    kernel = _CountedKernel(tmp_path, session_options=replace(SESSION, max_inflight=_GROUPS))
    pub = kernel.come("pub")
    peer = kernel.come("many")
    filters = [f"$share/g{number}/t/#" for number in range(_GROUPS)]
    peer.send_subscribe(*(p.SubscribeEntry(name, 1, False, False, 0) for name in filters))
    kernel.run()
    peer.skip()
    for number in (1, 2):
        pub.publish("t/1", b"x", 1, number)
        kernel.run()
        assert _take(peer) == _GROUPS
        for _ in range(15):
            kernel.advance(1)
        assert kernel.groups.statistics()["shared_groups.awake"] == 0
    peer.drop()
    pub.publish("t/1", b"x", 1, 3)
    kernel.run()
    peer = kernel.come("many")
    assert _take(peer) == _GROUPS
    peer.drop()
    kernel.run()
    peer = kernel.come("many")
    peer.send(p.Unsubscribe(9, filters[: _GROUPS // 2], Properties()))
    kernel.run()
    kernel.come("many", clean_start=True)
    kernel.run()
    assert kernel.groups.statistics()["shared_groups.durable"] == 0
    assert kernel.group_disk == {}
    assert kernel.most <= 64
