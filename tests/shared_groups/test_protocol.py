"""Leader and borrowers by themselves: messages are late, come in another order than those of others, or are lost.

Whoever works on a share here counts up from where the share was granted; what two count, or nobody, is a fault.
"""

import random
import sys
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from heliograph.shared_groups.borrower import ENDED, Borrower, Forgotten, Granted, Invalidated, Overdue, Revoking
from heliograph.shared_groups.leader import Leader
from heliograph.shared_groups.protocol import (
    SHARES_PER_STREAM,
    BorrowerId,
    Disconnect,
    Grant,
    GroupName,
    Invalidate,
    LeaderConnectResponse,
    LeaderWanted,
    Ping,
    Progress,
    Revoke,
    Revoked,
    RevokeFinished,
    Saved,
    Share,
    StreamOffer,
    Timers,
    ToBorrower,
    ToLeader,
    UpdateProgress,
)
from heliograph.storage.interface import BEGINNING, END, Position, Rank, StreamId
from support.forms import seeds

GROUP = GroupName("g", "t/#")
LENGTH = 40  # messages of a share


def stream(number: int, generation: int = 1) -> StreamOffer:
    return StreamOffer(StreamId("messages", 0, generation, number), Rank(0, generation))


def new_leader(*streams: StreamOffer) -> Leader:
    leader = Leader(GROUP, "node/1", Timers(), 0, BEGINNING, {})
    leader.on_streams(streams)
    return leader


def save(leader: Leader, is_saved: bool = True) -> None:
    token, _ = leader.take_changes()
    leader.on_saved(token, is_saved)


def outgoing(leader: Leader, borrower: BorrowerId) -> list[ToBorrower]:
    found = [message for receiver, message in leader.outgoing if receiver == borrower]
    leader.outgoing = [one for one in leader.outgoing if one[0] != borrower]
    return found


def connected(leader: Leader, *names: str) -> list[BorrowerId]:
    ids = [BorrowerId(name, number) for number, name in enumerate(names)]
    for one in ids:
        leader.on_message(0, one, LeaderWanted())
        assert outgoing(leader, one) == [LeaderConnectResponse("node/1")]
    leader.balance(0)
    return ids


def take_all(leader: Leader, borrower: BorrowerId, position: Position = BEGINNING, sequence: int = 1) -> list[Grant]:
    """Answer grants; what changes nothing is answered at once."""
    grants = [message for message in outgoing(leader, borrower) if isinstance(message, Grant)]
    progress = {grant.share: (grant.number, Progress(position)) for grant in grants}
    leader.on_message(0, borrower, UpdateProgress(sequence, progress))
    assert outgoing(leader, borrower) in ([], [Saved(sequence)])
    return grants


def test_shares_of_a_stream_are_spread_over_all_borrowers() -> None:
    leader = new_leader(stream(1), stream(2))
    ids = connected(leader, "a", "b", "c")
    held = [Counter(grant.share.stream for grant in take_all(leader, one)) for one in ids]
    assert sum(map(Counter.total, held)) == 2 * SHARES_PER_STREAM
    assert {count.total() for count in held} <= {10, 11}
    assert all(4 <= count <= 7 for one in held for count in one.values())


def test_a_share_is_granted_again_when_what_it_came_back_with_is_saved() -> None:
    leader = new_leader(stream(1))
    (a,) = connected(leader, "a")
    grants = take_all(leader, a)
    leader.on_message(
        0, a, Disconnect(2, {grant.share: (grant.number, Progress(Position(5, 0, 0))) for grant in grants})
    )
    (b,) = connected(leader, "b")
    assert outgoing(leader, b) == []
    save(leader, is_saved=False)
    leader.balance(0)
    assert outgoing(leader, b) == []
    save(leader)
    leader.balance(0)
    again = take_all(leader, b, Position(5, 0, 0))
    assert {grant.progress for grant in again} == {Progress(Position(5, 0, 0))}
    assert len(again) == SHARES_PER_STREAM
    assert outgoing(leader, a) == [Saved(2)]


def test_a_later_generation_waits_for_the_end_of_the_one_before_share_by_share() -> None:
    leader = new_leader(stream(1), stream(1, 2))
    (a,) = connected(leader, "a")
    grants = take_all(leader, a)
    assert {grant.share.stream.generation for grant in grants} == {1}
    first = grants[0]
    leader.on_message(0, a, UpdateProgress(2, {first.share: (first.number, Progress(END))}, frozenset({first.share})))
    leader.balance(0)
    assert outgoing(leader, a) == [Revoked(first.share, first.number)]
    leader.on_message(0, a, RevokeFinished(first.share, first.number))
    leader.balance(0)
    assert outgoing(leader, a) == []
    save(leader)
    leader.balance(0)
    (grant,) = take_all(leader, a, sequence=3)
    assert grant.share == Share(stream(1, 2).stream, first.share.number)


def test_a_borrower_whose_client_takes_nothing_gives_way() -> None:
    leader = new_leader(stream(1))
    a, b = connected(leader, "a", "b")
    held = take_all(leader, a), take_all(leader, b)
    leader.on_message(0, a, Ping(False))
    leader.balance(0)
    revoked = [message for message in outgoing(leader, a) if isinstance(message, Revoke)]
    assert {one.share for one in revoked} == {grant.share for grant in held[0]}
    leader.on_message(0, b, Ping(False))  # nobody is better than another
    leader.balance(0)
    assert not [message for message in outgoing(leader, b) if isinstance(message, Revoke)]


def test_a_borrower_that_is_silent_is_given_up_and_told_so() -> None:
    timers = Timers()
    leader = new_leader(stream(1))
    (a,) = connected(leader, "a")
    take_all(leader, a)
    leader.tick(timers.borrower_timeout_us)
    assert outgoing(leader, a) == [Invalidate()]
    leader.on_message(timers.borrower_timeout_us, a, Ping(True))
    assert outgoing(leader, a) == [Invalidate()]


def test_a_borrower_without_answers_begins_anew() -> None:
    timers = Timers()
    borrower = Borrower(GROUP, BorrowerId("a", 1), timers, 0)
    borrower.on_message(0, LeaderConnectResponse("node/1"))
    borrower.tick(timers.ping_us)
    borrower.tick(timers.ping_us + timers.ping_timeout_us)
    assert borrower.events == [Invalidated()]
    assert borrower.status == ENDED


class Talk:
    """A leader and its borrowers, whose messages all arrive; what their messages say is counted, in shares."""

    def __init__(self, streams: int) -> None:
        self.leader = new_leader(*(stream(number) for number in range(1, streams + 1)))
        self.borrowers: dict[BorrowerId, Borrower] = {}
        self.said = 0

    def join(self) -> None:
        """One more borrower comes, and all settles."""
        one = BorrowerId("b", len(self.borrowers))
        self.borrowers[one] = Borrower(GROUP, one, Timers(), 0)
        while self._bring_to_leader() or self._bring_to_borrowers():
            if self.leader.has_changes:
                save(self.leader)
            self.leader.balance(0)

    def _bring_to_leader(self) -> bool:
        found = False
        for id_, borrower in self.borrowers.items():
            for event in borrower.events:
                if isinstance(event, Revoking):
                    borrower.finish(0, {event.share: Progress(Position(1, 0, 0))})
            outgoing, borrower.outgoing, borrower.events = borrower.outgoing, [], []
            for message in outgoing:
                found = True
                self.said += 1 + (len(message.progress) if isinstance(message, UpdateProgress) else 0)
                self.leader.on_message(0, id_, message)
        return found

    def _bring_to_borrowers(self) -> bool:
        outgoing, self.leader.outgoing = self.leader.outgoing, []
        for receiver, message in outgoing:
            self.said += 1
            self.borrowers[receiver].on_message(0, message)
        return bool(outgoing)


def test_what_is_said_grows_with_the_streams_and_not_with_their_square() -> None:
    said = []
    for streams in (4, 64):
        talk = Talk(streams)
        talk.join()
        said.append(talk.said / (streams * SHARES_PER_STREAM))
    assert said[1] < 1.2 * said[0]
    assert said[1] < 5


def test_what_is_said_as_members_come_grows_with_the_shares_that_move() -> None:
    talk = Talk(16)
    talk.join()
    for members in range(2, 40):
        before = talk.said
        talk.join()
        moved = 16 * SHARES_PER_STREAM / members
        assert talk.said - before < 14 * moved + 10


def test_members_that_get_no_share_are_no_work_for_the_others() -> None:
    leader = new_leader(stream(1))
    ids = connected(leader, *(f"b{number}" for number in range(SHARES_PER_STREAM)))
    for one in ids:
        assert len(take_all(leader, one)) == 1
    for number in range(100, 200):
        leader.on_message(0, BorrowerId("late", number), LeaderWanted())
        leader.balance(0)
        leader.on_message(0, BorrowerId("late", number - 50), Disconnect(1, {}))
        leader.balance(0)
    assert {message for _, message in leader.outgoing} == {LeaderConnectResponse("node/1"), Saved(1)}
    leader.outgoing = []
    leader.on_message(0, ids[0], Disconnect(2, {}))
    leader.balance(0)
    assert [type(message) for _, message in leader.outgoing] == [Saved, Grant]


def test_what_a_borrower_said_after_a_letter_that_was_lost_counts_when_it_says_all_again() -> None:
    timers = Timers()
    leader = new_leader(stream(1))
    borrower = Borrower(GROUP, BorrowerId("a", 1), timers, 0)
    leader.on_message(0, borrower.id, LeaderWanted())
    leader.balance(0)
    for message in outgoing(leader, borrower.id):
        borrower.on_message(0, message)
    shares = [event.share for event in borrower.events if isinstance(event, Granted)]
    borrower.outgoing = []  # they are lost
    borrower.report(0, {shares[0]: Progress(Position(7, 0, 0))})
    for said in borrower.outgoing:
        leader.on_message(0, borrower.id, said)
    assert not leader.has_changes
    borrower.outgoing = []
    borrower.tick(timers.resend_us)
    for said in borrower.outgoing:
        leader.on_message(0, borrower.id, said)
    _, changes = leader.take_changes()
    assert changes == {shares[0]: Progress(Position(7, 0, 0))}


# --- histories


class Worker:
    """A client that counts up its shares; a session's part, without a session."""

    def __init__(self, world: "World", name: str) -> None:
        self.world = world
        self.name = name
        self.shares: dict[Share, int] = {}
        self.closed: set[Share] = set()
        self.leaving = False
        self.borrower = world.new_borrower(name)

    def work(self) -> None:
        progress = {}
        for share in self.shares:
            if share not in self.closed and self.shares[share] < LENGTH and not self.leaving:
                self.shares[share] += 1
                self.world.counts[share, self.shares[share]] += 1
                progress[share] = Progress(Position(self.shares[share], 0, 0))
        self.borrower.report(self.world.now_us, progress)
        self.post()

    def leave(self) -> None:
        self.leaving = True
        self.borrower.disconnect({share: Progress(Position(at, 0, 0)) for share, at in self.shares.items()})
        self.post()

    def handle(self) -> None:
        events, self.borrower.events = self.borrower.events, []
        for event in events:
            if isinstance(event, Granted):
                self.shares[event.share] = event.progress.position.time
            elif isinstance(event, Revoking | Overdue) and event.share is not None:
                self.closed.add(event.share)
                progress = Progress(Position(self.shares[event.share], 0, 0))
                self.borrower.finish(self.world.now_us, {event.share: progress})
            elif isinstance(event, Forgotten):
                del self.shares[event.share]
                self.closed.discard(event.share)
            elif isinstance(event, Invalidated):
                raise AssertionError("the mail repairs itself sooner")
        self.post()

    def post(self) -> None:
        for message in self.borrower.outgoing:
            self.world.to_leader(self.borrower.id, message)
        self.borrower.outgoing = []


class World:
    def __init__(self, seed: int, loss: float) -> None:
        self.random = random.Random(seed)
        self.loss = loss
        self.now_us = 0
        self.counts: Counter[tuple[Share, int]] = Counter()
        self.timers = Timers(borrower_timeout_us=10**12, ping_timeout_us=10**12)
        self.leader = Leader(GROUP, "node/1", self.timers, 0, BEGINNING, {})
        self.streams = [stream(1), stream(2)]
        self.leader.on_streams(self.streams)
        self.messenger: dict[tuple[object, object], deque[Callable[[], None]]] = {}
        self.saves: deque[int] = deque()
        self.workers: list[Worker] = []
        self.parted: list[Worker] = []
        self._numbers = 0

    def new_borrower(self, name: str) -> Borrower:
        self._numbers += 1
        return Borrower(GROUP, BorrowerId(name, self._numbers), self.timers, self.now_us)

    def to_leader(self, sender: BorrowerId, message: ToLeader) -> None:
        # What says goodbye is not repaired by a timer here, but by the leader's patience, which is endless.
        if isinstance(message, Disconnect) or self.random.random() >= self.loss:
            self.messenger.setdefault((sender, "leader"), deque()).append(
                lambda: self.leader.on_message(self.now_us, sender, message)
            )

    def post(self) -> None:
        for receiver, message in self.leader.outgoing:
            worker = next((one for one in self.workers if one.borrower.id == receiver), None)
            if worker is not None and self.random.random() >= self.loss:
                self.messenger.setdefault(("leader", receiver), deque()).append(_bring(worker, message))
        self.leader.outgoing = []

    def step(self) -> None:
        chance = self.random
        what = chance.random()
        self.now_us += 1000
        if what < 0.5 and self.messenger:
            pair = chance.choice(list(self.messenger))
            self.messenger[pair].popleft()()
            if not self.messenger[pair]:
                del self.messenger[pair]
        elif what < 0.6 and self.leader.has_changes:
            self.saves.append(self.leader.take_changes()[0])
        elif what < 0.7 and self.saves:
            self.leader.on_saved(self.saves.popleft(), chance.random() < 0.8)
        elif what < 0.8 and self.workers:
            chance.choice(self.workers).work()
        elif what < 0.82 and len(self.workers) < 5:
            self.workers.append(Worker(self, "w"))
            self.workers[-1].post()
        elif what < 0.83 and len(self.workers) > 1:
            worker = self.workers.pop(chance.randrange(len(self.workers)))
            worker.leave()
        elif what < 0.86:
            self.tick()
        self.leader.balance(self.now_us)
        self.post()
        for worker in self.workers:
            worker.handle()

    def tick(self) -> None:
        self.now_us += 500_000
        for worker in self.workers:
            worker.borrower.tick(self.now_us)
        self.leader.tick(self.now_us)


def _bring(worker: Worker, message: ToBorrower) -> Callable[[], None]:
    return lambda: worker.borrower.on_message(worker.world.now_us, message)


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("seed", seeds(10, 4))
def test_nothing_is_counted_twice_or_never(seed: int, loss: float) -> None:
    world = World(seed, loss)
    for _ in range(3000):
        world.step()
    world.loss = 0.0
    for _ in range(60):
        while world.messenger or world.leader.has_changes or world.saves:
            for pair in list(world.messenger):
                for bring in world.messenger.pop(pair):
                    bring()
            if world.leader.has_changes:
                world.saves.append(world.leader.take_changes()[0])
            while world.saves:
                world.leader.on_saved(world.saves.popleft(), True)
            world.leader.balance(world.now_us)
            world.post()
            for worker in world.workers:
                worker.handle()
        world.tick()
        for worker in world.workers:
            worker.work()
    shares = [Share(offer.stream, number) for offer in world.streams for number in range(SHARES_PER_STREAM)]
    assert world.counts == Counter({(share, at): 1 for share in shares for at in range(1, LENGTH + 1)})


def lines_of(action: Callable[[], object]) -> int:
    """How many lines an action executes, those of loops as often as they are gone through."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return count


def test_what_it_costs_that_a_member_leaves_goes_by_the_shares_and_not_by_the_members() -> None:
    costs = []
    for count in (50, 2_000):
        leader = new_leader(stream(1))
        ids = connected(leader, *(f"m{number}" for number in range(count)))
        holders = [one for one in ids if take_all(leader, one)]
        assert len(holders) == SHARES_PER_STREAM
        leader.on_message(0, ids[-1], Ping(False))  # another one, which takes nothing now
        leader.balance(0)
        leader.on_message(0, holders[0], Disconnect(2, {}))
        costs.append(lines_of(partial(leader.balance, 0)))
        assert [type(message) for _, message in leader.outgoing if isinstance(message, Grant)] == [Grant]
    assert costs[1] < 1.1 * costs[0]
