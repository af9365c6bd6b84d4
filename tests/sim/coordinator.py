"""A coordinator in a simulation, as far away as etcd is, and no kinder.

Requests and answers are late or lost, so that a commit may have an outcome that is not known, and come about later. It
loses its quorum, and forgets old changes. A lease ends late; after a lost quorum it begins from its start.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import suppress
from typing import Final, TypeVar

from heliograph.cluster.coordination.interface import (
    Changes,
    Commit,
    CommitOutcome,
    Coordinator,
    CoordinatorAwayError,
    Guard,
    LeaseGoneError,
    LeaseGrant,
    Listing,
    Put,
    Record,
    WatchGoneError,
    check_sizes,
)
from sim.loop import Agenda, Time
from sim.machine import Machine

T = TypeVar("T")

_TIMEOUT_US: Final = 1_000_000  # of a client for an answer
_SILENCE_S: Final = 3.0  # until a watch asks without a sign of news


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
        self.unknown_count = 0
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

    def regain_quorum(self) -> None:
        """All is answered again, and every lease begins from its start."""
        self.has_quorum = True
        for number in list(self._leases):
            self.keep(number)

    def compact(self) -> None:
        """Forget all changes."""
        self.changes.clear()
        self.compacted = self.revision

    # --- what requests do when they arrive

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
        waiting, self.waiting = self.waiting, []
        for wake in waiting:
            wake()
        return Commit(CommitOutcome.COMMITTED, self.revision)

    def grant(self, ttl_s: int) -> LeaseGrant:
        number, self._next_lease = self._next_lease, self._next_lease + 1
        self._leases[number] = _Lease(ttl_s * 1_000_000)
        self.keep(number)
        return LeaseGrant(number, ttl_s)

    def keep(self, number: int) -> None:
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

    def changes_since(self, prefix: str, since: int) -> list[Changes]:
        if since < self.compacted:
            raise WatchGoneError(f"what was before revision {self.compacted} is forgotten")
        found = []
        for one in self.changes:
            records = {key: record for key, record in one.records.items() if key.startswith(prefix)}
            if one.revision > since and records:
                found.append(Changes(one.revision, records))
        return found


class _Client(Coordinator):
    """A node's connection."""

    def __init__(self, server: SimulatedCoordinator, machine: Machine) -> None:
        self._server = server
        self._machine = machine

    async def get(self, prefix: str) -> Listing:
        server = self._server

        def read() -> Listing:
            found = {key: record for key, record in server.records.items() if key.startswith(prefix)}
            return Listing(found, server.revision)

        return await self._ask(read)

    async def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str] = ()) -> Commit:
        check_sizes(guards, puts, deletes)
        try:
            return await self._ask(lambda: self._server.commit(guards, puts, deletes))
        except CoordinatorAwayError:
            self._server.unknown_count += 1
            return Commit(CommitOutcome.UNKNOWN)

    async def watch(self, prefix: str, since: int) -> AsyncIterator[Changes]:
        server = self._server
        while True:
            begin = since
            found, since = await self._ask(lambda: (server.changes_since(prefix, begin), server.revision))  # noqa: B023 - it is awaited here
            for changes in found:
                yield changes
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news(since), _SILENCE_S)

    async def grant(self, ttl_s: int) -> LeaseGrant:
        return await self._ask(lambda: self._server.grant(ttl_s))

    async def keep(self, lease: int) -> None:
        await self._ask(lambda: self._server.keep(lease))

    async def revoke(self, lease: int) -> None:
        await self._ask(lambda: self._server.revoke(lease))

    async def close(self) -> None:
        """There is no connection."""

    def _news(self, since: int) -> asyncio.Future[None]:
        """Done some time after there is a revision behind another."""
        news: asyncio.Future[None] = self._machine.loop.create_future()
        server, machine = self._server, self._machine

        def arrive() -> None:
            with machine.running():
                if not news.done():
                    news.set_result(None)

        def commit() -> None:
            server.agenda.after(server.chance.randrange(server.latency_us), arrive)

        if server.revision > since:
            commit()
        else:
            server.waiting.append(commit)
        return news

    async def _ask(self, act: Callable[[], T]) -> T:
        """What a request does at the coordinator, if it comes there and its answer comes back in time."""
        server, agenda, chance = self._server, self._server.agenda, self._server.chance
        answer: asyncio.Future[T] = self._machine.loop.create_future()

        def answered(settle: Callable[[], None]) -> None:
            with self._machine.running():
                if not answer.done():
                    settle()

        def arrive() -> None:
            if not server.has_quorum:
                if chance.random() < 0.5:  # a member has it, and proposes it again until there is a quorum
                    agenda.after(chance.randrange(1, 3_000_000), arrive)
                return
            try:
                result = act()
            except Exception as error:  # noqa: BLE001 - what it raises is the answer
                raised = error
                self._answer_later(lambda: answered(lambda: answer.set_exception(raised)))
            else:
                self._answer_later(lambda: answered(lambda: answer.set_result(result)))

        away = CoordinatorAwayError("no answer in time")
        agenda.after(_TIMEOUT_US, lambda: answered(lambda: answer.set_exception(away)))
        if chance.random() >= server.losses:
            agenda.after(chance.randrange(server.latency_us), arrive)
        return await answer

    def _answer_later(self, answer: Callable[[], None]) -> None:
        server = self._server
        if server.chance.random() >= server.losses:
            server.agenda.after(server.chance.randrange(server.latency_us), answer)
