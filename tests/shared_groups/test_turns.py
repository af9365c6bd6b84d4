"""What waits for its turn is bounded, whoever writes it."""

from collections.abc import Callable

from heliograph.shared_groups.member import Member
from heliograph.shared_groups.turns import GroupTurns

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
                self.turns.post(self._take)

    def on_sent(self, member: Member) -> None:
        raise AssertionError(member)

    def go_on(self) -> None:
        self.turns.schedule_more()

    def _take(self) -> None:
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
