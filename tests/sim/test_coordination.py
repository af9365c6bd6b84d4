"""A coordinator that is slow and loses answers and its quorum: holders of a lease stop in time, mirrors hear all."""

import asyncio
import random
from pathlib import Path

import pytest

from heliograph.cluster.coordination.holding import HeldLease, take_lease
from heliograph.cluster.coordination.interface import (
    CommitOutcome,
    Coordinator,
    CoordinatorError,
    Guard,
    Listing,
    Put,
    Record,
)
from heliograph.cluster.coordination.mirror import Mirror
from heliograph.storage.state.awaited import AwaitedCommits
from heliograph.storage.state.interface import StateBatch
from sim.coordinator import EmbeddedServer, Server, server_of
from sim.machine import Machines
from support.forms import seeds

_TTL_S = 5
_COUNT = "/count"
_SEEDS = 100


class Node:
    """Wants to be the one node of a cluster that holds a key, and has a mirror of it."""

    def __init__(self, machines: Machines, server: Server, name: str) -> None:
        self.machine = machines.add(name)
        self.name = name
        self.held: HeldLease | None = None
        self.away: list[str] = []
        self._coordinator = server.client(self.machine)
        self.mirror = Mirror(self._coordinator, "/", lambda keys: None, self.away.append)
        self.counted: list[int] = []  # what it has added to the count, as far as it knows
        loop = self.machine.loop
        self._work = [loop.create_task(work) for work in (self._hold(), self._count())]
        loop.create_task(self.mirror.run())

    @property
    def is_holder(self) -> bool:
        """Whether it would act for the cluster now; while it is paused it does nothing."""
        with self.machine.running():
            return not self.machine.is_paused and self.held is not None and self.held.is_held

    def ask(self) -> "asyncio.Task[Listing]":
        """Read what there is, and write nothing from now on."""
        for task in self._work:
            task.cancel()
        return self.machine.loop.create_task(self._coordinator.get("/"))

    async def _hold(self) -> None:
        while True:
            try:
                lease = await take_lease(self._coordinator, _TTL_S)
                if await self._is_written(self._coordinator, lease):
                    self.held = lease
                    await lease.run()
                    self.held = None
                await self._coordinator.revoke(lease.id)
            except CoordinatorError:
                pass
            await asyncio.sleep(2)  # of the simulation

    async def _count(self) -> None:
        coordinator = self._coordinator
        while True:
            try:
                record = (await coordinator.get(_COUNT)).records.get(_COUNT)
                guard = Guard(_COUNT, 0 if record is None else record.revision)
                count = count_of(record) + 1
                if (await coordinator.commit([guard], [Put(_COUNT, b"%d" % count)])).outcome is CommitOutcome.COMMITTED:
                    self.counted.append(count)
            except CoordinatorError:
                pass
            await asyncio.sleep(0.5)  # of the simulation

    async def _is_written(self, coordinator: Coordinator, lease: HeldLease) -> bool:
        value = f"{self.name} {lease.id}".encode()
        written = await coordinator.commit([Guard("/holder", 0)], [Put("/holder", value, lease.id)])
        if written.outcome is CommitOutcome.UNKNOWN:
            record = (await coordinator.get("/holder")).records.get("/holder")
            return record is not None and record.value == value
        return written.outcome is CommitOutcome.COMMITTED


def count_of(record: Record | None) -> int:
    return 0 if record is None else int(record.value)


def run(machines: Machines, seconds: float, nodes: list[Node]) -> None:
    until_us = machines.time.us + round(seconds * 1e6)
    while machines.turn(until_us):
        holders = [node.name for node in nodes if node.is_holder]
        assert len(holders) < 2, f"{holders} at once, at {machines.time.us} us"


def trouble(machines: Machines, server: Server, nodes: list[Node], chance: random.Random) -> None:
    what = chance.random()
    if what < 0.3:
        chance.choice(nodes).machine.pause(chance.randrange(1, 12_000_000))
    elif what < 0.5:
        chance.choice(nodes).machine.clock.wall_us += chance.randrange(-3_600_000_000, 3_600_000_000)
    elif isinstance(server, EmbeddedServer) and what < 0.7:
        server.break_disk(chance.randrange(1, 8_000_000))
    elif isinstance(server, EmbeddedServer):
        server.trap = lambda: end(machines, server, nodes, chance)
    elif what < 0.8:
        server.lose_quorum()
        machines.agenda.after(chance.randrange(1, 15_000_000), server.regain_quorum)
    else:
        server.compact()


def end(machines: Machines, server: EmbeddedServer, nodes: list[Node], chance: random.Random) -> None:
    """Kill the core node, and start it again: it has all that nodes count on."""
    server.kill(power=chance.random() < 0.7)
    counted = max((node.counted[-1] for node in nodes if node.counted), default=0)

    def start() -> None:
        server.start()
        kept = count_of(server.records.get(_COUNT))
        assert kept >= counted, f"{counted} was committed, and {kept} is kept"

    machines.agenda.after(chance.randrange(1, 8_000_000), start)


def simulate(kind: str, seed: int, path: Path) -> None:
    """A cluster in all kinds of trouble, then without."""
    chance = random.Random(seed)
    machines = Machines()
    with machines.installed():
        server = server_of(kind, machines, chance, path / str(seed))
        nodes = [Node(machines, server, f"{seed} {number}") for number in range(3)]
        for _ in range(8):
            run(machines, 12.0 if kind == "embedded" else chance.uniform(0.1, 10.0), nodes)
            trouble(machines, server, nodes, chance)
        server.losses, server.latency_us = 0.0, 500
        run(machines, 30.0, nodes)
        assert [node.is_holder for node in nodes].count(True) == 1, f"seed {seed}: one holds it in the end"
        for node in nodes:
            node.ask()
        run(machines, 10.0, nodes)  # the lease ends, and all is quiet
        listed = nodes[0].ask()
        run(machines, 1.0, nodes)
        records = listed.result().records
        assert [node.mirror.records for node in nodes] == [records] * 3, f"seed {seed}: mirrors are equal"
        counted = [count for node in nodes for count in node.counted]
        assert len(set(counted)) == len(counted), f"seed {seed}: each has added one to what was there"
        assert max(counted) <= count_of(records.get(_COUNT))


@pytest.mark.parametrize("seed", seeds(_SEEDS, 4))
@pytest.mark.parametrize("kind", ["etcd", "embedded"])
def test_no_two_nodes_hold_a_lease_at_once_and_mirrors_end_equal(kind: str, seed: int, tmp_path: Path) -> None:
    simulate(kind, seed, tmp_path)


def test_an_answer_before_the_disk_has_it_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def at_once(self: AwaitedCommits, batch: StateBatch) -> None:
        tasks.append(asyncio.ensure_future(commit(self, batch)))

    tasks: list[asyncio.Future[None]] = []
    commit = AwaitedCommits.commit

    def search() -> None:
        for seed in range(12, 60):
            simulate("embedded", seed, tmp_path)

    monkeypatch.setattr(AwaitedCommits, "commit", at_once)
    with pytest.raises(AssertionError, match=r"was committed, and|at once"):
        search()


def test_a_holder_that_does_not_ask_before_it_acts_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(HeldLease, "is_held", True)

    def search() -> None:
        for seed in range(12, 60):
            simulate("etcd", seed, tmp_path)

    with pytest.raises(AssertionError, match="at once"):
        search()
