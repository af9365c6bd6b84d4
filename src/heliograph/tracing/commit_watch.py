"""Which traced messages wait for which storage commits."""

from collections.abc import Callable, Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.channel.commits import Commits
from heliograph.channel.handles import CommitWaiter

MessageId = tuple[int, int]

_AWAITED_MAX: Final = 10_000  # messages at a time; the commits of further ones are not reported


class CommitWatch(CommitWaiter):
    """Waits for the commits of messages; owned by a recorder.

    Args:
        on_done: Called with a ticket, the reason code of a refused commit or 0, and the ids of its messages.
    """

    def __init__(self, commits: Commits, on_done: Callable[[int, int, Sequence[MessageId]], object]) -> None:
        self._commits = commits
        self._on_done = on_done
        self._awaited: dict[int, list[MessageId]] = {}
        self._count = 0

    def wait(self, ticket: int, message: MessageId) -> None:
        if self._count >= _AWAITED_MAX or not self._commits.is_pending(ticket):
            return
        if ticket not in self._awaited:
            self._awaited[ticket] = []
            self._commits.wait(ticket, self)
        self._awaited[ticket].append(message)
        self._count += 1

    def on_committed(self, ticket: i64, code: i64) -> None:
        messages = self._awaited.pop(int(ticket), [])
        self._count -= len(messages)
        self._on_done(int(ticket), int(code), messages)

    def abort(self) -> None: ...
