"""Joins the commits of several databases: an acknowledgement waits until all of them have the message.

Channels wait for the tickets of one commit queue, that of `messages`, which **leads**. What another database takes is
tied to the ticket that the leader gathers at that moment: the message itself gets this ticket, since both are handed
out in one turn. Commits of all databases run side by side, so joining them costs no time beyond the slowest.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from heliograph.broker.faults import COMMITS, Faults
from heliograph.storage.errors import StorageError

OnDone = Callable[[int, StorageError | None], None]


class TicketSource(Protocol):
    @property
    def gathering_ticket(self) -> int: ...

    def touch(self) -> int:
        """The same, which is answered for even if nothing comes."""


class Follower:
    """What a database beside the leader has taken and not answered for; made by `CommitJoin.follow`.

    Tickets are those of the database's own commit queue: they never fall.
    """

    def __init__(self, join: "CommitJoin", name: str, is_full: Callable[[], bool]) -> None:
        self.name = name
        self.is_full = is_full
        self._join = join
        self._tied: deque[tuple[int, int, int]] = deque()  # the leader's ticket, its own oldest and newest for it

    @property
    def first(self) -> int | None:
        return self._tied[0][0] if self._tied else None

    @property
    def last(self) -> int | None:
        return self._tied[-1][0] if self._tied else None

    def took(self, ticket: int) -> None:
        """The database has taken something of the message that is handled now."""
        leading, first = self._join.gathering_ticket, ticket
        if self._tied and self._tied[-1][0] == leading:
            _, first, _ = self._tied.pop()
        self._tied.append((leading, first, ticket))

    def done(self, ticket: int, error: StorageError | None) -> None:
        if error is not None:
            for leading, first, last in self._tied:  # one commit may hold what is tied to several of the leader's
                if first <= ticket <= last:
                    self._join.refuse(leading, error)
        while self._tied and self._tied[0][2] <= ticket:
            self._tied.popleft()
        self._join.release()

    def __repr__(self) -> str:
        return f"Follower({self.name!r}, {len(self._tied)} tickets wait)"


class CommitJoin:
    """Joins the commits of a node's databases; owned by the node, lives in its event-loop thread.

    Args:
        on_done: Called for each ticket of the leader, in order, when everything tied to it is durable, or refused. Its
            error is any database's: what only the leader keeps goes by `own_error`.
    """

    def __init__(self, leader: TicketSource, on_done: OnDone, faults: Faults) -> None:
        self._leader = leader
        self._faults = faults
        self._on_done = on_done
        self._followers: list[Follower] = []
        self._waiting: deque[tuple[int, StorageError | None]] = deque()  # the leader has these
        self._refused: dict[int, StorageError] = {}
        self.own_error: StorageError | None = None  # of the leader alone, for the ticket that `on_done` is called for

    @property
    def gathering_ticket(self) -> int:
        """The leader's ticket of the message that is handled now."""
        return self._leader.gathering_ticket

    @property
    def is_full(self) -> bool:
        """Whether publishers must wait until another database has committed what it took."""
        return any(follower.is_full() for follower in self._followers)

    def follow(self, name: str, is_full: Callable[[], bool] = lambda: False) -> Follower:
        """`is_full` says whether publishers must wait for its commits, where no sink of the database says so."""
        follower = Follower(self, name, is_full)
        self._followers.append(follower)
        return follower

    def unfollow(self, follower: Follower) -> None:
        """Let acknowledgements wait no longer for a database, which has answered for all that it took."""
        self._followers.remove(follower)
        self.release()

    def pending_ticket(self) -> int:
        """The ticket after which everything is durable that the message handled now went to; 0 if it went nowhere."""
        gathering = self._leader.gathering_ticket
        if any(follower.last == gathering for follower in self._followers):
            return self._leader.touch()
        return 0

    def done(self, ticket: int, error: StorageError | None) -> None:
        self._waiting.append((ticket, error))
        self.release()

    def refuse(self, ticket: int, error: StorageError) -> None:
        self._refused[ticket] = error

    def release(self) -> None:
        firsts = [first for follower in self._followers if (first := follower.first) is not None]
        while self._waiting and all(self._waiting[0][0] < first for first in firsts):
            ticket, error = self._waiting.popleft()
            refused = self._refused.pop(ticket, None)
            self.own_error = error
            self._faults.run(COMMITS, partial(self._on_done, ticket, error or refused))

    def __repr__(self) -> str:
        return f"CommitJoin({len(self._waiting)} tickets wait, {self._followers})"
