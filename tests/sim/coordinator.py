"""A coordinator in a simulation, as far away as etcd is, and no kinder.

Requests and answers are late or lost, so that a commit may have an outcome that is not known, and come about later. It
loses its quorum, and forgets old changes. A lease ends late; after a lost quorum it begins from its start.
"""

import asyncio
import bisect
import random
from collections.abc import AsyncIterator, Callable, Collection
from pathlib import Path
from typing import Any, Final, TypeAlias

from heliograph.cluster.coordination.embedded import EmbeddedCoordinator
from heliograph.cluster.coordination.interface import (
    Changes,
    Commit,
    CommitOutcome,
    Coordinator,
    CoordinatorAwayError,
    CoordinatorError,
    Guard,
    LeaseGoneError,
    LeaseGrant,
    Listing,
    Put,
    Record,
    WatchGoneError,
    check_sizes,
)
from heliograph.storage.state.local import LocalState
from sim.loop import Agenda, Time
from sim.machine import Machine, Machines

_TIMEOUT_US: Final = 1_000_000  # of a client for an answer


class _Lease:
    def __init__(self, ttl_us: int) -> None:
        self.ttl_us = ttl_us
        self.renewals = 0


class SimulatedCoordinator:
    """The state that all nodes share.

    Args:
        chance: What decides delays and losses.

    Attributes:
        losses: How likely a request or an answer is lost.
        latency_us: How long either travels at most.
        has_quorum: Without it, nothing is answered and no lease ends.
    """

    def __init__(self, time: Time, agenda: Agenda, chance: random.Random) -> None:
        self.losses = chance.choice((0.0, 0.05, 0.3))
        self.latency_us = chance.choice((500, 20_000, 400_000))
        self.has_quorum = True
        self.agenda = agenda
        self.chance = chance
        self.records: dict[str, Record] = {}
        self.revision = 1
        self.changes: list[Changes] = []  # since the last compaction
        self.compacted = 0
        self.waiting: list[Callable[[], None]] = []  # watches, for the next commit
        self._time = time
        self._leases: dict[int, _Lease] = {}
        self._held: dict[str, int] = {}  # leases by keys
        self._next_lease = 1

    def client(self, machine: Machine) -> Coordinator:
        """The coordinator as a node sees it."""
        return _Client(self, machine)

    def lose_quorum(self) -> None:
        """Nothing is answered from now on."""
        self.has_quorum = False
        self._wake()

    def regain_quorum(self) -> None:
        """All is answered again, and every lease begins from its start."""
        self.has_quorum = True
        for number in list(self._leases):
            self.keep(number)

    def compact(self) -> None:
        """Forget all changes."""
        self.changes.clear()
        self.compacted = self.revision

    def handle(self, name: str, arguments: tuple[Any, ...], answer: Callable[[Any], None]) -> None:
        """Do what was asked for, at once, later or never."""
        if not self.has_quorum:
            if self.chance.random() < 0.5:  # a member has it, and proposes it again until there is a quorum
                self.agenda.after(self.chance.randrange(1, 3_000_000), lambda: self.handle(name, arguments, answer))
            return
        try:
            result = getattr(self, name)(*arguments)
        except CoordinatorError as error:
            result = error
        answer(result)

    def stream(self, prefix: str, since: int, answer: Callable[[Any], None]) -> None:
        """Answer with all changes behind a revision, and with an error in the end."""
        if not self.has_quorum:
            self.agenda.after(3_000_000, lambda: answer(CoordinatorAwayError("no leader")))
            return
        if since < self.compacted:
            answer(WatchGoneError(f"what was before revision {self.compacted} is forgotten"))
            return
        first = bisect.bisect_right(self.changes, since, key=lambda one: one.revision)
        answer(Changes(since, {}))
        for one in self.changes[first:]:
            records = {key: record for key, record in one.records.items() if key.startswith(prefix)}
            if records:
                answer(Changes(one.revision, records))
        at = self.revision
        self.waiting.append(lambda: self.stream(prefix, at, answer))

    # --- what requests do when they arrive

    def get(self, prefix: str) -> Listing:
        found = {key: record for key, record in self.records.items() if key.startswith(prefix)}
        return Listing(found, self.revision)

    def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str]) -> Commit:
        for guard in guards:
            record = self.records.get(guard.key)
            if (0 if record is None else record.revision) != guard.revision:
                return Commit(CommitOutcome.CONFLICT)
        for put in puts:
            if put.lease and put.lease not in self._leases:
                raise LeaseGoneError(f"the lease {put.lease:x} has ended")
        self.revision += 1
        changed: dict[str, Record | None] = {}
        for key in deletes:
            if self.records.pop(key, None) is not None:
                changed[key] = None
            self._held.pop(key, None)
        for put in puts:
            changed[put.key] = self.records[put.key] = Record(put.key, put.value, self.revision)
            self._held.pop(put.key, None)
            if put.lease:
                self._held[put.key] = put.lease
        if changed:
            self.changes.append(Changes(self.revision, changed))
        self._wake()
        return Commit(CommitOutcome.COMMITTED, self.revision)

    def _wake(self) -> None:
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()

    def grant(self, ttl_s: int) -> LeaseGrant:
        number, self._next_lease = self._next_lease, self._next_lease + 1
        self._leases[number] = _Lease(ttl_s * 1_000_000)
        self.keep(number)
        return LeaseGrant(number, ttl_s)

    def keep(self, number: int, timeout_s: float = 0.0) -> None:
        lease = self._leases.get(number)
        if lease is None:
            raise LeaseGoneError(f"the lease {number:x} has ended")
        lease.renewals += 1
        renewals = lease.renewals

        def end() -> None:
            if lease.renewals == renewals and self.has_quorum:
                self.revoke(number)

        self.agenda.after(lease.ttl_us + self.chance.randrange(500_000), end)

    def revoke(self, number: int) -> None:
        if self._leases.pop(number, None) is not None:
            self.commit((), (), [key for key, lease in self._held.items() if lease == number])


class EmbeddedServer:
    """The coordinator that a core node keeps, on a machine that is killed and loses its power.

    Args:
        machine: Of the core node.
        path: Of its data, on the disk of that machine.

    Attributes:
        trap: Called when a node has heard that something is committed, since it counts on it then.
    """

    def __init__(self, machine: Machine, agenda: Agenda, chance: random.Random, path: Path) -> None:
        self.losses = chance.choice((0.0, 0.05, 0.3))
        self.latency_us = chance.choice((500, 20_000, 400_000))
        self.agenda = agenda
        self.chance = chance
        self.machine = machine
        self.trap: Callable[[], None] | None = None
        self._path = path
        self._coordinator: EmbeddedCoordinator | None = None
        self._watches: list[Callable[[], None]] = []
        self.start()

    @property
    def records(self) -> dict[str, Record]:
        """What it has after a start, before it does anything."""
        assert self._coordinator is not None
        with self.machine.running():
            task = self.machine.loop.create_task(self._coordinator.get(""))
            self.machine.loop.turn()
        return task.result().records

    def client(self, machine: Machine) -> Coordinator:
        """The coordinator as a node sees it."""
        return _Client(self, machine)

    def start(self) -> None:
        """Begin a process."""
        self.machine.disk.heal()
        with self.machine.running():
            state = LocalState(self._path, "cluster")
            state.open()
            self._coordinator = EmbeddedCoordinator(state)

    def break_disk(self, us: int) -> None:
        """Have writes and syncs fail now and then, for so long."""
        disk = self.machine.disk
        disk.write_errors, disk.sync_errors = self.chance.choice((0.0, 0.2)), self.chance.choice((0.2, 0.6))
        self.agenda.after(us, disk.heal)

    def kill(self, *, power: bool) -> None:
        """End the process at once; its connections break."""
        self._coordinator = None
        self.machine.new_process()
        self.machine.disk.crash(power=power)
        watches, self._watches = self._watches, []
        for end in watches:
            self.agenda.after(self.chance.randrange(1_000_000), end)

    def handle(self, name: str, arguments: tuple[Any, ...], answer: Callable[[Any], None]) -> None:
        """Do what was asked for, in the process of now."""
        coordinator = self._coordinator
        if coordinator is None:
            return

        async def act() -> None:
            try:
                result = await getattr(coordinator, name)(*arguments)
            except CoordinatorError as error:
                result = error
            answer(result)

        with self.machine.running():
            self.machine.loop.create_task(act())

    def stream(self, prefix: str, since: int, answer: Callable[[Any], None]) -> None:
        """Answer with all changes behind a revision, and with an error in the end."""
        coordinator = self._coordinator
        if coordinator is None:
            answer(CoordinatorAwayError("it is not there"))
            return

        async def act() -> None:
            try:
                async for changes in coordinator.watch(prefix, since):
                    answer(changes)
            except CoordinatorError as error:
                answer(error)

        self._watches.append(lambda: answer(CoordinatorAwayError("its connection is broken")))
        with self.machine.running():
            self.machine.loop.create_task(act())


class _Client(Coordinator):
    """A node's connection."""

    def __init__(self, server: "SimulatedCoordinator | EmbeddedServer", machine: Machine) -> None:
        self._server = server
        self._machine = machine

    async def get(self, prefix: str) -> Listing:
        listing: Listing = await self._ask("get", prefix)
        return listing

    async def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str] = ()) -> Commit:
        check_sizes(guards, puts, deletes)
        try:
            commit: Commit = await self._ask("commit", guards, puts, deletes)
        except CoordinatorAwayError:
            commit = Commit(CommitOutcome.UNKNOWN)
        server = self._server
        if commit.outcome is CommitOutcome.COMMITTED and isinstance(server, EmbeddedServer) and server.trap is not None:
            server.agenda.after(0, server.trap)
            server.trap = None
        return commit

    async def watch(self, prefix: str, since: int) -> AsyncIterator[Changes]:
        server, machine = self._server, self._machine
        loop = machine.loop
        heard: asyncio.Queue[Changes | CoordinatorError] = asyncio.Queue()
        last_us = 0

        def answer(item: Changes | CoordinatorError) -> None:
            nonlocal last_us

            def arrive() -> None:
                if machine.loop is loop:
                    with machine.running():
                        heard.put_nowait(item)

            # In order, as all of one connection.
            last_us = max(last_us, machine.clock.us + server.chance.randrange(server.latency_us))
            server.agenda.at(last_us, arrive)

        server.agenda.after(server.chance.randrange(server.latency_us), lambda: server.stream(prefix, since, answer))
        while True:
            item = await heard.get()
            if isinstance(item, CoordinatorError):
                raise item
            yield item

    async def grant(self, ttl_s: int) -> LeaseGrant:
        granted: LeaseGrant = await self._ask("grant", ttl_s)
        return granted

    async def keep(self, lease: int, timeout_s: float) -> None:
        await self._ask("keep", lease, timeout_s)

    async def revoke(self, lease: int) -> None:
        await self._ask("revoke", lease)

    async def close(self) -> None:
        """There is no connection."""

    async def _ask(self, name: str, *arguments: Any) -> Any:
        """What a request does at the coordinator, if it comes there and its answer comes back in time."""
        server, agenda, chance, machine = self._server, self._server.agenda, self._server.chance, self._machine
        answer: asyncio.Future[Any] = machine.loop.create_future()

        def settle(result: Any) -> None:
            with machine.running():
                if answer.done():
                    return
                if isinstance(result, Exception):
                    answer.set_exception(result)
                else:
                    answer.set_result(result)

        def answered(result: Any) -> None:
            if chance.random() >= server.losses:
                agenda.after(chance.randrange(server.latency_us), lambda: settle(result))

        agenda.after(_TIMEOUT_US, lambda: settle(CoordinatorAwayError("no answer in time")))
        if chance.random() >= server.losses:
            agenda.after(chance.randrange(server.latency_us), lambda: server.handle(name, arguments, answered))
        return await answer


Server: TypeAlias = SimulatedCoordinator | EmbeddedServer


def server_of(kind: str, machines: Machines, chance: random.Random, path: Path) -> Server:
    """A coordinator of its own kind: `etcd`, or `embedded` with a machine and a path for its data."""
    if kind == "etcd":
        return SimulatedCoordinator(machines.time, machines.agenda, chance)
    return EmbeddedServer(machines.add(f"core {path.name}"), machines.agenda, chance, path)
