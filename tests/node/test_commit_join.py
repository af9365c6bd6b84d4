"""An acknowledgement leaves when every database has what it is about, in the order of the leading database."""

from heliograph.broker.faults import Faults
from heliograph.node.commit_join import CommitJoin
from heliograph.storage.errors import StorageError, StorageFullError


class Leading:
    """A commit queue that gathers under the ticket that it is told."""

    def __init__(self) -> None:
        self.gathering_ticket = 1
        self.touched: list[int] = []

    def touch(self) -> int:
        self.touched.append(self.gathering_ticket)
        return self.gathering_ticket


class World:
    def __init__(self) -> None:
        self.leader = Leading()
        self.answers: list[tuple[int, bool]] = []
        self.faults = Faults()
        self.join = CommitJoin(self.leader, self.answer, self.faults)
        self.retained = self.join.follow("retained")
        self.copy = self.join.follow("copy")

    def answer(self, ticket: int, error: StorageError | None) -> None:
        self.answers.append((ticket, error is None))

    def commit(self, ticket: int, error: StorageError | None = None) -> None:
        self.leader.gathering_ticket = max(self.leader.gathering_ticket, ticket + 1)
        self.join.done(ticket, error)


FULL = StorageFullError("no space left", database="retained")


def test_where_only_the_leader_takes_something_it_is_answered_at_once() -> None:
    world = World()
    world.commit(1)
    world.commit(2, FULL)
    assert world.answers == [(1, True), (2, False)]
    assert world.join.pending_ticket() == 0
    assert world.leader.touched == []


def test_a_ticket_waits_for_every_database_that_took_something_meanwhile() -> None:
    world = World()
    world.retained.took(7)
    world.copy.took(3)
    world.commit(1)
    world.retained.done(7, None)
    assert world.answers == []
    world.copy.done(3, None)
    assert world.answers == [(1, True)]


def test_later_tickets_keep_behind_one_that_waits() -> None:
    world = World()
    world.commit(1)
    world.retained.took(7)
    world.commit(2)
    world.commit(3)
    assert world.answers == [(1, True)]
    world.retained.done(7, None)
    assert world.answers == [(1, True), (2, True), (3, True)]


def test_a_database_that_is_done_first_makes_nobody_wait() -> None:
    world = World()
    world.retained.took(7)
    world.retained.done(7, None)
    assert world.answers == []
    world.commit(1)
    assert world.answers == [(1, True)]


def test_what_another_database_refuses_is_refused_and_nothing_else() -> None:
    world = World()
    world.retained.took(7)
    world.commit(1)
    world.retained.took(8)
    world.commit(2)
    world.retained.done(7, FULL)
    world.retained.done(8, None)
    assert world.answers == [(1, False), (2, True)]


def test_one_refused_commit_of_several_under_a_ticket_refuses_it() -> None:
    world = World()
    world.retained.took(7)
    world.retained.took(8)
    world.commit(1)
    world.retained.done(7, FULL)
    assert world.answers == []
    world.retained.done(8, None)
    assert world.answers == [(1, False)]


def test_a_message_that_the_leader_does_not_store_is_settled_under_its_next_ticket() -> None:
    world = World()
    world.retained.took(7)
    assert world.join.pending_ticket() == 1
    assert world.leader.touched == [1]
    world.commit(1)
    world.retained.done(7, None)
    assert world.answers == [(1, True)]


def test_a_refused_commit_refuses_every_ticket_that_it_was_for() -> None:
    world = World()
    world.retained.took(7)
    world.commit(1)
    world.retained.took(7)
    world.commit(2)
    world.retained.took(8)
    world.commit(3)
    world.retained.done(7, FULL)
    world.retained.done(8, None)
    assert world.answers == [(1, False), (2, False), (3, True)]


def test_the_leader_s_own_outcome_is_told_apart() -> None:
    world = World()
    own: list[StorageError | None] = []
    world.join = CommitJoin(world.leader, lambda ticket, error: own.append(world.join.own_error), Faults())
    retained = world.join.follow("retained")
    retained.took(7)
    retained.done(7, FULL)
    world.commit(1)
    world.commit(2, FULL)
    assert own == [None, FULL]


def test_an_answer_that_raises_keeps_later_tickets_from_nobody() -> None:
    world = World()
    contained: list[str] = []
    world.faults.on_fault = lambda boundary, error: contained.append(boundary)

    def answer(ticket: int, error: StorageError | None) -> None:
        if ticket == 1:
            raise RuntimeError("not today")
        world.answer(ticket, error)

    world.join = CommitJoin(world.leader, answer, world.faults)
    follower = world.join.follow("copy")
    follower.took(1)
    world.commit(1)
    world.commit(2)
    follower.done(1, None)
    assert world.answers == [(2, True)]
    assert contained == ["commits"]
