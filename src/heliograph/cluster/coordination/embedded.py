"""A coordinator of our own: a state database of the only core node.

It keeps the records on that node's disk. One commit is on its way at a time, and what it changes is seen when it is on
the disk. Changes are kept in memory, so a watch that is behind what is kept, or begins before a restart, reads again.
A lease that was there at a start begins from its start, since its holder may have renewed it meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import msgspec

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
from heliograph.storage.errors import StorageError
from heliograph.storage.state.awaited import AwaitedCommits
from heliograph.storage.state.interface import StateBatch, StateDatabase

_RECORDS: Final = b"r"
_LEASES: Final = b"l"
_REVISION: Final = b"v"
_NEWEST_LEASE: Final = b"n"
_CHANGES_MAX: Final = 1000  # that are kept for watches
_PAGE: Final = 1024


class _Stored(msgspec.Struct, array_like=True, frozen=True):
    """A record on the disk."""

    value: bytes
    revision: int
    lease: int


@dataclass(slots=True)
class _Lease:
    """A lease, the keys of its records, and what ends it."""

    ttl_s: int
    keys: set[str] = field(default_factory=set)
    timer: asyncio.TimerHandle | None = None

    @property
    def is_running(self) -> bool:
        return self.timer is not None and self.timer.when() > asyncio.get_running_loop().time()

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A commit that the disk may have: what is written, and what it changes here once it is."""

    written: dict[bytes, bytes | None]
    changes: Changes
    leases: dict[str, int]  # of the records, by their keys; 0 for none


class EmbeddedCoordinator(Coordinator):
    """Records in a state database. Owned by the core node, which opens the database before and closes it behind it.

    Args:
        state: Nothing else writes into it.
    """

    def __init__(self, state: StateDatabase) -> None:
        self._state = state
        self._commits = AwaitedCommits(state)
        self._one_at_a_time = asyncio.Lock()
        self._records: dict[str, Record] = {}
        self._revision = 1
        self._changes: deque[Changes] = deque(maxlen=_CHANGES_MAX)
        self._news = asyncio.Event()
        self._leases: dict[int, _Lease] = {}
        self._newest_lease = 0
        self._under_way: _UnderWay | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._read_all()
        self._forgotten = self._revision  # what was before is kept for no watch

    # --- records

    async def get(self, prefix: str) -> Listing:
        async with self._settled():
            found = {key: record for key, record in self._records.items() if key.startswith(prefix)}
            return Listing(found, self._revision)

    async def commit(self, guards: Collection[Guard], puts: Collection[Put], deletes: Collection[str] = ()) -> Commit:
        check_sizes(guards, puts, deletes)
        async with self._settled():
            for guard in guards:
                record = self._records.get(guard.key)
                if guard.revision != (0 if record is None else record.revision):
                    return Commit(CommitOutcome.CONFLICT)
            for put in puts:
                self._lease(put.lease)
            return await self._write(puts, deletes)

    async def watch(self, prefix: str, since: int) -> AsyncIterator[Changes]:
        yield Changes(since, {})
        while True:
            if since < self._forgotten:
                raise WatchGoneError(f"changes before revision {self._forgotten} are not kept")
            behind = [changes for changes in self._changes if changes.revision > since]
            since = self._revision
            for changes in behind:
                records = {key: record for key, record in changes.records.items() if key.startswith(prefix)}
                if records:
                    yield Changes(changes.revision, records)
            if self._revision == since:
                await self._news.wait()

    async def _write(self, puts: Collection[Put], deletes: Collection[str]) -> Commit:
        revision = self._revision + 1
        changed: dict[str, Record | None] = {}
        written: dict[bytes, bytes | None] = {_REVISION: _number(revision)}
        for key in deletes:
            if key in self._records:
                changed[key] = written[_RECORDS + key.encode()] = None
        for put in puts:
            changed[put.key] = Record(put.key, put.value, revision)
            stored = _Stored(put.value, revision, put.lease)
            written[_RECORDS + put.key.encode()] = msgspec.msgpack.encode(stored)
        self._under_way = _UnderWay(written, Changes(revision, changed), {put.key: put.lease for put in puts})
        try:
            await self._bring_about()
        except CoordinatorAwayError:
            return Commit(CommitOutcome.UNKNOWN)
        return Commit(CommitOutcome.COMMITTED, revision)

    @asynccontextmanager
    async def _settled(self) -> AsyncIterator[None]:
        """One at a time, when it is known what the disk has. Raises `CoordinatorAwayError`."""
        async with self._one_at_a_time:
            await self._bring_about()
            yield

    async def _bring_about(self) -> None:
        """Write what is under way, the first time or again."""
        if (commit := self._under_way) is None:
            return
        await self._save(commit.written)
        self._under_way = None
        self._take(commit.changes, commit.leases)

    async def _save(self, written: dict[bytes, bytes | None]) -> None:
        batch = StateBatch()
        for key, value in written.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            await self._commits.commit(batch)
        except StorageError as error:
            raise CoordinatorAwayError(f"the coordinator's database cannot be written: {error}") from error

    def _take(self, changes: Changes, leases: dict[str, int]) -> None:
        self._revision = changes.revision
        for key, record in changes.records.items():
            for lease in self._leases.values():
                lease.keys.discard(key)
            if record is None:
                del self._records[key]
            else:
                self._records[key] = record
                if leases[key] in self._leases:
                    self._leases[leases[key]].keys.add(key)
        if len(self._changes) == _CHANGES_MAX:
            self._forgotten = self._changes[0].revision
        self._changes.append(changes)
        self._news.set()
        self._news = asyncio.Event()

    def _read_all(self) -> None:
        self._revision = max(1, int.from_bytes(self._state.get(_REVISION) or b"", "big"))
        self._newest_lease = int.from_bytes(self._state.get(_NEWEST_LEASE) or b"", "big")
        for key, value in _all(self._state, _LEASES):
            number = int.from_bytes(key[1:], "big")
            self._leases[number] = _Lease(int.from_bytes(value, "big"))
        for key, value in _all(self._state, _RECORDS):
            name, stored = key[1:].decode(), msgspec.msgpack.decode(value, type=_Stored)
            self._records[name] = Record(name, stored.value, stored.revision)
            if stored.lease in self._leases:
                self._leases[stored.lease].keys.add(name)
        for number in list(self._leases):
            self._begin(number)

    # --- leases

    async def grant(self, ttl_s: int) -> LeaseGrant:
        async with self._settled():
            number = self._newest_lease = self._newest_lease + 1  # also where it fails: a number is given once
            await self._save({_LEASES + _number(number): _number(ttl_s), _NEWEST_LEASE: _number(number)})
            self._leases[number] = _Lease(ttl_s)
            self._begin(number)
        return LeaseGrant(number, ttl_s)

    async def keep(self, lease: int, timeout_s: float) -> None:
        self._lease(lease)
        self._begin(lease)

    async def revoke(self, lease: int) -> None:
        async with self._settled():
            await self._end(lease)

    async def close(self) -> None:
        for lease in self._leases.values():
            lease.stop()
        for task in list(self._ending):
            task.cancel()

    def _lease(self, number: int) -> None:
        """Raises `LeaseGoneError` if there is no such lease; 0 stands for no lease."""
        if number and number not in self._leases:
            raise LeaseGoneError(f"the lease {number:x} has ended")

    def _begin(self, number: int) -> None:
        """Start the time of a lease, or start it again."""
        lease = self._leases[number]
        lease.stop()
        lease.timer = asyncio.get_running_loop().call_later(lease.ttl_s, self._expire, number)

    def _expire(self, number: int) -> None:
        task = asyncio.get_running_loop().create_task(self._end_expired(number))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end_expired(self, number: int) -> None:
        try:
            async with self._settled():
                lease = self._leases.get(number)
                if lease is not None and not lease.is_running:  # it was not renewed while this waited
                    await self._end(number)
        except CoordinatorAwayError:
            if number in self._leases:
                self._begin(number)  # an end may be late

    async def _end(self, number: int) -> None:
        lease = self._leases.get(number)
        if lease is None:
            return
        if lease.keys and (await self._write((), sorted(lease.keys))).outcome is not CommitOutcome.COMMITTED:
            raise CoordinatorAwayError("the records of a lease cannot be removed")
        await self._save({_LEASES + _number(number): None})
        lease.stop()
        del self._leases[number]

    def __repr__(self) -> str:
        return (
            f"EmbeddedCoordinator({len(self._records)} records, revision {self._revision}, {len(self._leases)} leases)"
        )


def _number(value: int) -> bytes:
    return value.to_bytes(8, "big")


def _all(state: StateDatabase, prefix: bytes) -> list[tuple[bytes, bytes]]:
    found: list[tuple[bytes, bytes]] = []
    while page := state.scan(prefix, found[-1][0] if found else b"", _PAGE):
        found += page
        if len(page) < _PAGE:
            break
    return found
