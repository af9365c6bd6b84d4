"""Which nodes a cluster has, and that this one is one of them.

The coordinator has three kinds of records: `names/NAME` and `numbers/NUMBER` say which site they belong to, for good,
so a node that is away keeps both, and the ids of its messages stay its own. `nodes/SITE` says that a process of that
site runs now, and ends with its lease. All three are written by one commit.

A process that starts again takes the place of the one before by a higher incarnation, at once. A copy of a data
directory does so too; then the process before finds that its record is another's, and says so.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from typing import Final

import msgspec

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
from heliograph.processes.backoff import Backoff

NUMBER_MAX: Final = 0x7FFF  # it has 15 bits in the id of a message
_AGAIN: Final = Backoff(first_s=0.2, longest_s=5.0)
_SHOWN_MAX: Final = 100
_COPY: Final = "is its data directory a copy of this one?"


class ClusterMember(msgspec.Struct, frozen=True):
    """A node that runs, as it says of itself.

    Attributes:
        site: The id of its data.
        node: Its name.
        number: In the ids of its messages, 0 to `NUMBER_MAX`.
        incarnation: Rises with each start.
        role: `core` or `replicant`.
        address: Where its links are accepted, as `host:port`.
        release: Of Heliograph.
        lease: With which its record ends. It also tells apart what a node wrote in two tries, of which one may have
            come about without an answer.
    """

    site: str
    node: str
    number: int
    incarnation: int
    role: str
    address: str
    release: str
    lease: int = 0


class _JoinWaitsError(Exception):
    """This node is no member yet; the text says what it waits for."""


class ClusterMembership:
    """This node's place in the cluster. Owned by its part.

    Args:
        coordinator: Who keeps the records.
        cluster: The name of the cluster.
        own: What this node says of itself; its number is taken if it is free.
        ttl_s: How long a node that is silent counts as a member, at least.
        on_members: Called when members come, change or go.
        on_waiting: Called with what this node waits for when it is no member, and with an empty text when it is one.
        on_unreadable: Called with the keys of records that cannot be read; with none when all can.
        on_away: Called with the reason when nothing is heard of the coordinator, and with an empty text when it is
            again. What is known of the members holds meanwhile.

    Attributes:
        own: This node with the number that it has.
        members: By their sites, this node among them.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        cluster: str,
        own: ClusterMember,
        ttl_s: int,
        *,
        on_members: Callable[[], None],
        on_waiting: Callable[[str], None],
        on_unreadable: Callable[[Collection[str]], None],
        on_away: Callable[[str], None],
    ) -> None:
        self.own = own
        self.members: dict[str, ClusterMember] = {}
        self._coordinator = coordinator
        self._prefix = f"/heliograph/{cluster}/"
        self._ttl_s = ttl_s
        self._on_members = on_members
        self._on_waiting = on_waiting
        self._on_unreadable = on_unreadable
        self._unreadable: set[str] = set()
        self._waits_for: str | None = None
        self._held: HeldLease | None = None
        self._written = 0  # the revision of this process's record
        self._replaced = asyncio.Event()
        self._mirror = Mirror(coordinator, self._prefix + "nodes/", self._on_records, on_away)

    @property
    def is_member(self) -> bool:
        """Whether the others count this node as a member now; ask before each use."""
        return self._held is not None and self._held.is_held

    @property
    def revision(self) -> int:
        """Of the members: the same members have the same revision at every node."""
        return max((record.revision for record in self._mirror.records.values()), default=0)

    async def run(self) -> None:
        """Join, stay, and join again when the lease is lost, for ever."""
        mirroring = asyncio.create_task(self._mirror.run())
        failures = 0
        try:
            while True:
                try:
                    self._held = await self._join()
                    failures = 0
                    self._say("")
                    self._say(await self._stay(self._held))
                except (_JoinWaitsError, CoordinatorError) as error:
                    self._say(str(error))
                failures += 1
                pause_s = _AGAIN.pause_s(failures)
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # nodes that failed together come apart
        finally:
            mirroring.cancel()

    async def leave(self) -> None:
        """Be no member from now on: others need not wait for the lease to end. Raises `CoordinatorError`."""
        held, self._held = self._held, None
        if held is not None:
            await self._coordinator.revoke(held.id)

    async def _stay(self, held: HeldLease) -> str:
        """Hold the lease as long as the record is this process's; returns why it is over."""
        self._replaced.clear()
        holding = asyncio.create_task(held.run())
        replaced = asyncio.create_task(self._replaced.wait())
        try:
            await asyncio.wait((holding, replaced), return_when=asyncio.FIRST_COMPLETED)
            self._held = None
            if replaced.done():
                return f"the record of the site {self.own.site} was removed, or another process has it: {_COPY}"
            return await holding
        finally:
            holding.cancel()
            replaced.cancel()

    async def _join(self) -> HeldLease:
        """Raises `_JoinWaitsError` or `CoordinatorError`."""
        listing = await self._coordinator.get(self._prefix)
        own = self._with_number(listing)
        name, number = f"{self._prefix}names/{own.node}", f"{self._prefix}numbers/{own.number}"
        place = f"{self._prefix}nodes/{own.site}"
        owner = _text(listing.records.get(name))
        if owner not in ("", own.site):
            raise _JoinWaitsError(
                f"the name {own.node!r} belongs to the site {owner[:_SHOWN_MAX]}: set another `node.name`"
            )
        before = _member(listing.records.get(place))
        if before is not None and not self._may_follow(before, listing.records[place]):
            raise _JoinWaitsError(f"the site {own.site} runs at {before.address}: {_COPY}")
        held = await take_lease(self._coordinator, self._ttl_s)
        own = msgspec.structs.replace(own, lease=held.id)
        value = msgspec.json.encode(own)
        guards = [Guard(key, _revision(listing, key)) for key in (name, number, place)]
        puts = [Put(name, own.site.encode()), Put(number, own.site.encode()), Put(place, value, held.id)]
        committed = await self._coordinator.commit(guards, puts)
        if committed.outcome is CommitOutcome.CONFLICT:
            raise _JoinWaitsError("another node joined at the same time")
        written = committed.revision
        if committed.outcome is CommitOutcome.UNKNOWN:
            found = (await self._coordinator.get(place)).records.get(place)
            if found is None or found.value != value:
                raise _JoinWaitsError("the coordinator did not answer in time")
            written = found.revision
        self.own, self._written = own, written
        return held

    def _may_follow(self, before: ClusterMember, record: Record) -> bool:
        """Whether this process may take the place of one, which may be itself."""
        return before.incarnation < self.own.incarnation or (bool(self._written) and record.revision == self._written)

    def _with_number(self, listing: Listing) -> ClusterMember:
        """This node with its number, or another where that belongs to another site."""
        start = len(self._prefix + "numbers/")
        taken = {
            key[start:]: _text(record)
            for key, record in listing.records.items()
            if key.startswith(self._prefix + "numbers/")
        }
        if taken.get(str(self.own.number), self.own.site) == self.own.site:
            return self.own
        free = [number for number in range(NUMBER_MAX + 1) if str(number) not in taken]
        if not free:
            raise _JoinWaitsError(f"all {NUMBER_MAX + 1} node numbers are taken: remove nodes that are gone for good")
        return msgspec.structs.replace(self.own, number=random.choice(free))

    def _on_records(self, keys: Collection[str]) -> None:
        for key in keys:
            site = key[len(self._prefix + "nodes/") :]
            record = self._mirror.records.get(key)
            member = _member(record)
            if member is not None and member.site == site:
                self.members[site] = member
                self._unreadable.discard(key)
            else:
                self.members.pop(site, None)
                (self._unreadable.discard if record is None else self._unreadable.add)(key)
        own = f"{self._prefix}nodes/{self.own.site}"
        if own in keys and 0 < self._written < self._mirror.revision:
            record = self._mirror.records.get(own)
            if record is None or record.revision != self._written:
                self._replaced.set()
        self._on_unreadable(sorted(self._unreadable))
        self._on_members()

    def _say(self, waits_for: str) -> None:
        if waits_for != self._waits_for:
            self._waits_for = waits_for
            self._on_waiting(waits_for)

    def __repr__(self) -> str:
        state = "member" if self.is_member else "waiting"
        return f"ClusterMembership({self.own.node!r}, {state}, {len(self.members)} members)"


def _revision(listing: Listing, key: str) -> int:
    record = listing.records.get(key)
    return 0 if record is None else record.revision


def _text(record: Record | None) -> str:
    return "" if record is None else record.value.decode("utf-8", "backslashreplace")


def _member(record: Record | None) -> ClusterMember | None:
    """None where there is no record, or none that can be read."""
    if record is None:
        return None
    try:
        member = msgspec.json.decode(record.value, type=ClusterMember)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return member if 0 <= member.number <= NUMBER_MAX else None
