"""What waits for its turn is bounded, whoever writes it."""

from collections.abc import Callable

from heliograph.shared_groups.member import Member
from heliograph.shared_groups.reading import Messages, OpenShare, Publishers, StreamReader
from heliograph.shared_groups.turns import GroupTurns
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.interface import Batch, StreamId, StreamIterator

_WRITES = 100
_LETTERS = 300


class _Leaders:
    """A loop whose turns the test has, and leaders that answer with many letters as often as they are asked."""

    def __init__(self) -> None:
        self.due: list[Callable[[], None]] = []
        self.turns = GroupTurns(self, lambda: None, self, 1.0)
        self.left = _WRITES
        self.delivered = 0

    def call_soon(self, callback: Callable[[], None], /) -> None:
        self.due.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None], /) -> None:
        raise AssertionError(delay)

    def on_letters_read(self) -> None:
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
        most = max(most, leaders.turns.statistics()["letters"])
    assert leaders.delivered == _WRITES * _LETTERS
    assert most < 3000


class _NoMessages(Messages):
    def next_readable(self, iterator: StreamIterator, max_messages: int, report: Callable[[Damage], object]) -> Batch:
        raise AssertionError(iterator)


class _Reader(StreamReader):
    """A reader that has no shares to read for, and counts what it is told."""

    def __init__(self, stream: StreamId) -> None:
        super().__init__(_NoMessages(), stream, "t/#", 0, Publishers(), lambda damage: None)
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
