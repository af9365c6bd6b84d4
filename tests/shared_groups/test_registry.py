"""Who leads a group: what a lease is worth when two nodes want it, and what is left of a leader that lost it."""

from collections.abc import Sequence
from typing import Any

from heliograph.shared_groups import record
from heliograph.shared_groups.protocol import (
    BorrowerId,
    Disconnect,
    Grant,
    GroupName,
    Invalidate,
    LeaderConnectResponse,
    LeaderWanted,
    Progress,
    Saved,
    Share,
    StreamOffer,
    Timers,
    ToBorrower,
    ToLeader,
    UpdateProgress,
)
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import Position, Rank, StreamId
from heliograph.storage.state.interface import StateBatch
from support.cases import cases
from support.durable import FakeState

GROUP = GroupName("g", "t/#")
STREAM = StreamId("messages", 0, 1, 1)
A = BorrowerId("a", 1)


class State(FakeState):
    """One database that two nodes write to."""

    name = "shared_groups"


class Nodes:
    """Two nodes, one database, one clock."""

    def __init__(self) -> None:
        self.now_us = 1_000_000
        self.state = State({})
        self.outgoing: list[tuple[BorrowerId, ToBorrower]] = []
        self.one, self.two = self.node("one"), self.node("two")

    def node(self, name: str) -> LeaderRegistry:
        return LeaderRegistry(self.state, self.streams, self, lambda: self.now_us, Timers(), name)

    def streams(self, group: GroupName, start: int) -> Sequence[StreamOffer]:
        return [StreamOffer(STREAM, Rank(0, 1))]

    def to_borrower(self, receiver: BorrowerId, message: ToBorrower) -> None:
        self.outgoing.append((receiver, message))

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        raise AssertionError("leaders write to borrowers only")

    def commit(self) -> None:
        while self.state.waiting:
            self.state.commit()

    def heard(self, kind: type[Any]) -> list[Any]:
        found = [message for _, message in self.outgoing if isinstance(message, kind)]
        self.outgoing = [one for one in self.outgoing if not isinstance(one[1], kind)]
        return found


def leads(registry: LeaderRegistry) -> bool:
    return registry.statistics()["leaders"] == 1


def led_by_one() -> Nodes:
    nodes = Nodes()
    nodes.one.open(GROUP, 5, 7)
    nodes.commit()
    nodes.one.on_message(GROUP, A, LeaderWanted())
    nodes.one.settle()
    assert nodes.heard(LeaderConnectResponse) == [LeaderConnectResponse("one/1")]
    return nodes


def test_nobody_leads_before_the_lease_is_committed() -> None:
    nodes = Nodes()
    nodes.one.on_message(GROUP, A, LeaderWanted())
    nodes.one.open(GROUP, 5, 7)
    nodes.one.settle()
    assert nodes.outgoing == []
    nodes.commit()
    assert len(nodes.heard(LeaderConnectResponse)) == 1


def test_a_borrower_that_left_before_there_was_a_leader_gets_nothing() -> None:
    nodes = Nodes()
    nodes.one.open(GROUP, 5, 7)
    nodes.one.on_message(GROUP, A, LeaderWanted())
    nodes.one.on_message(GROUP, A, Disconnect(1, {}))
    nodes.commit()
    nodes.one.settle()
    assert nodes.outgoing == []


def test_of_two_nodes_that_want_a_group_one_gets_it() -> None:
    nodes = Nodes()
    nodes.one.open(GROUP, 5, 7)
    nodes.two.open(GROUP, 5, 7)
    nodes.commit()
    assert (leads(nodes.one), leads(nodes.two)) == (True, False)


def test_a_lease_that_is_renewed_is_kept_and_one_that_ran_out_is_taken_over() -> None:
    nodes = led_by_one()
    nodes.two.open(GROUP, 5, 7)
    for _ in range(6):
        nodes.now_us += 10_000_000
        nodes.one.tick()
        nodes.two.tick()
        nodes.commit()
    assert not leads(nodes.two)
    nodes.now_us += 31_000_000
    nodes.two.tick()
    nodes.commit()
    assert leads(nodes.two)
    nodes.one.tick()
    assert not leads(nodes.one)


@cases("is_stored", [True, False])
def test_a_leader_goes_on_after_a_renewal_was_refused_by_a_disk_that_cannot_be_read_either(is_stored: bool) -> None:
    nodes = led_by_one()
    fault = StorageError("the disk fails", database="shared_groups")
    nodes.now_us += 20_000_000
    nodes.one.tick()
    before = dict(nodes.state.durable)
    nodes.state.fault = fault
    nodes.state.commit(fault)
    nodes.one.go_on()
    nodes.one.tick()
    assert leads(nodes.one)
    nodes.state.fault = None
    if not is_stored:
        nodes.state.values = before
    nodes.one.tick()
    nodes.commit()
    nodes.now_us += 20_000_000
    nodes.one.tick()
    nodes.commit()
    assert leads(nodes.one)
    assert nodes.one.statistics()["lost_leases"] == 0  # borrowers need not connect once more
    found = nodes.one.database.find(GROUP)
    assert found is not None
    assert found.lease_until_us > nodes.now_us


def test_what_a_deposed_leader_saves_is_refused() -> None:
    nodes = led_by_one()
    share, number, _ = _granted(nodes)
    found = nodes.one.database.find(GROUP)
    assert found is not None
    batch = StateBatch()
    batch.put(record.group_key(GROUP), record.encode_group(found._replace(leader="two", term=found.term + 1)))
    nodes.state.submit(batch)
    progress = {share: (number, Progress(Position(9, 0, 0)))}
    nodes.one.on_message(GROUP, A, UpdateProgress(1, progress))
    nodes.one.settle()
    nodes.commit()
    assert not leads(nodes.one)
    assert nodes.heard(Invalidate) == [Invalidate()]
    assert nodes.heard(Saved) == []
    assert nodes.state.get(record.progress_key(GROUP, share)) is None


def test_progress_is_confirmed_when_it_is_durable() -> None:
    nodes = led_by_one()
    share, number, _ = _granted(nodes)
    nodes.one.on_message(GROUP, A, UpdateProgress(1, {share: (number, Progress(Position(9, 0, 0), ((1, 2),)))}))
    nodes.one.settle()
    assert nodes.heard(Saved) == []
    nodes.commit()
    assert nodes.heard(Saved) == [Saved(1)]


def test_the_same_node_goes_on_where_it_was_killed() -> None:
    nodes = led_by_one()
    share, number, _ = _granted(nodes)
    reached = Progress(Position(9, 0, 0), ((1, 2),))
    nodes.one.on_message(GROUP, A, UpdateProgress(1, {share: (number, reached)}))
    nodes.one.settle()
    nodes.commit()
    nodes.state = State(nodes.state.durable)
    again = nodes.node("one")
    again.claim(GROUP, share, (3, 4), lambda: None)
    again.open(GROUP, 0, 0)
    nodes.commit()
    again.on_message(GROUP, A, LeaderWanted())
    again.settle()
    nodes.commit()
    grant = {one.share: one for one in nodes.heard(Grant)}[share]
    assert grant.progress == Progress(Position(9, 0, 0), ((1, 2), (3, 4)))
    assert grant.number > number
    assert again.database.find(GROUP) is not None


@cases(
    "value",
    [b"", b"[]", b"[2, 1, 1, 1, 1, 1]", b"{}"],
)
def test_a_record_that_cannot_be_read_is_none(value: bytes) -> None:
    nodes = Nodes()
    nodes.state.values[record.group_key(GROUP)] = value
    assert nodes.one.database.find(GROUP) is None


def _granted(nodes: Nodes) -> tuple[Share, int, Progress]:
    grant = nodes.heard(Grant)[0]
    return grant.share, grant.number, grant.progress
