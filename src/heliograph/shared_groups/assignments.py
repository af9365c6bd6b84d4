"""Which borrower of a group has which share, and how shares are spread evenly among them.

What one change costs goes by the shares, not by the borrowers: of ten thousand at one stream all but sixteen have none.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from heliograph.shared_groups.protocol import BorrowerId, Share
from heliograph.storage.interface import StreamId

GRANTING: Final = "granting"
GRANTED: Final = "granted"
REVOKING: Final = "revoking"
REVOKED: Final = "revoked"


class ShareAssignment:
    __slots__ = ("borrower", "due_us", "number", "share", "status")

    def __init__(self, share: Share, borrower: BorrowerId, number: int) -> None:
        self.share = share
        self.borrower = borrower
        self.number = number
        self.status = GRANTING
        self.due_us = 0


class KnownBorrower:
    __slots__ = ("heard_us", "held_count", "ready", "sequence", "shares")

    def __init__(self, now_us: int) -> None:
        self.heard_us = now_us
        self.ready = True
        self.sequence = 0
        self.shares: dict[Share, ShareAssignment] = {}
        self.held_count = 0


class Assignments:
    """The borrowers of one group and their shares; owned by the group's leader.

    A borrower stands in one of three tables: those that are to keep a share, others that are ready for one, and others
    whose clients take nothing. A message is on its way about each assignment in `moving`.
    """

    __slots__ = (
        "_borrowers",
        "_counts",
        "_holders",
        "_idle",
        "_shares",
        "_unready",
        "_unready_count",
        "moving",
        "number",
    )

    def __init__(self, first_number: int) -> None:
        self.number = first_number
        self.moving: dict[Share, ShareAssignment] = {}
        self._shares: dict[Share, ShareAssignment] = {}
        self._borrowers: dict[BorrowerId, KnownBorrower] = {}
        self._holders: dict[BorrowerId, KnownBorrower] = {}
        self._idle: dict[BorrowerId, KnownBorrower] = {}
        self._unready: dict[BorrowerId, KnownBorrower] = {}
        self._unready_count = 0  # with those that are to keep a share
        self._counts = {"granted": 0, "revoked": 0}

    def __contains__(self, share: Share) -> bool:
        return share in self._shares

    # --- borrowers

    @property
    def borrowers(self) -> Mapping[BorrowerId, KnownBorrower]:
        return self._borrowers

    def add(self, borrower: BorrowerId, now_us: int) -> None:
        known = self._borrowers[borrower] = KnownBorrower(now_us)
        self._idle[borrower] = known

    def remove(self, borrower: BorrowerId) -> bool:
        """A borrower goes, with its shares; whether others may get something by that."""
        known = self._borrowers.pop(borrower)
        self._table(known).pop(borrower)
        self._unready_count -= not known.ready
        for share in known.shares:
            del self._shares[share]
            self.moving.pop(share, None)
        return bool(known.shares) or not known.ready

    def set_ready(self, borrower: BorrowerId, ready: bool) -> bool:
        """Whether the client of a borrower takes messages; whether that is new."""
        known = self._borrowers[borrower]
        if known.ready == ready:
            return False
        del self._table(known)[borrower]
        known.ready = ready
        self._table(known)[borrower] = known
        self._unready_count += -1 if ready else 1
        return True

    def clear(self) -> None:
        for table in (self._borrowers, self._holders, self._idle, self._unready):
            table.clear()
        self._shares.clear()
        self.moving.clear()
        self._unready_count = 0

    def _table(self, known: KnownBorrower) -> dict[BorrowerId, KnownBorrower]:
        if known.held_count:
            return self._holders
        return self._idle if known.ready else self._unready

    def _hold(self, borrower: BorrowerId, change: int) -> None:
        known = self._borrowers[borrower]
        before = self._table(known)
        known.held_count += change
        after = self._table(known)
        if after is not before:
            del before[borrower]
            after[borrower] = known

    # --- shares

    def is_spread(self, count: int) -> bool:
        """Whether each of so many shares has a borrower of its own that is ready: no other can get one of them."""
        return not self._unready_count and len(self._holders) >= count > 0

    def spread(self, open_shares: Sequence[Share], is_free: Callable[[Share], bool]) -> Iterator[ShareAssignment]:
        """Revoke what a borrower has too much of, and grant what none has: each assignment that is new or revoked."""
        if self._shares:
            readable = set(open_shares)
            for share, assignment in list(self._shares.items()):
                if share not in readable and assignment.status in (GRANTING, GRANTED):
                    yield self._revoke(assignment)
        targets = self._targets(len(open_shares))
        for borrower, target in targets.items():
            yield from self._reduce(self._borrowers[borrower], target)
        yield from self._hand_out((one for one in open_shares if one not in self._shares and is_free(one)), targets)

    def _targets(self, count: int) -> dict[BorrowerId, int]:
        """How many shares each borrower is to have that has one or gets one; those that have most get what is left."""
        held, idle = [one for one, known in self._holders.items() if known.ready], self._idle
        if not held and not idle:
            held, idle = list(self._holders), self._unready
        targets = dict.fromkeys(self._holders, 0)
        takers_count = len(held) + len(idle)
        if not takers_count:
            return targets
        held.sort(key=lambda one: self._holders[one].held_count, reverse=True)
        each, more = divmod(count, takers_count)
        takers = chain(held, idle)
        for place, borrower in enumerate(takers if each else islice(takers, more)):
            targets[borrower] = each + (place < more)
        return targets

    def _reduce(self, known: KnownBorrower, target: int) -> Iterator[ShareAssignment]:
        if known.held_count <= target:
            return
        held = [one for one in known.shares.values() if one.status in (GRANTING, GRANTED)]
        by_stream: dict[StreamId, list[ShareAssignment]] = {}
        for assignment in held:
            by_stream.setdefault(assignment.share.stream, []).append(assignment)
        for _ in range(len(held) - target):
            largest = max(by_stream.values(), key=len)
            yield self._revoke(largest.pop())

    def _hand_out(self, free: Iterable[Share], targets: Mapping[BorrowerId, int]) -> Iterator[ShareAssignment]:
        """Grant one share to each borrower in turn, so that each gets its part of every stream."""
        borrowers = self._borrowers
        takers = deque(one for one, target in targets.items() if borrowers[one].held_count < target)
        for share in free:
            if not takers:
                return
            taker = takers.popleft()
            yield self._grant(share, taker)
            if borrowers[taker].held_count < targets[taker]:
                takers.append(taker)

    def _grant(self, share: Share, borrower: BorrowerId) -> ShareAssignment:
        assignment = ShareAssignment(share, borrower, self.number)
        self.number += 1
        self._counts["granted"] += 1
        self._shares[share] = self.moving[share] = self._borrowers[borrower].shares[share] = assignment
        self._hold(borrower, 1)
        return assignment

    def _revoke(self, assignment: ShareAssignment) -> ShareAssignment:
        self._counts["revoked"] += 1
        self._move(assignment, REVOKING)
        return assignment

    def on_granted(self, assignment: ShareAssignment) -> None:
        assignment.status = GRANTED
        del self.moving[assignment.share]

    def give_back(self, assignment: ShareAssignment) -> None:
        """The borrower is done with a share, and has yet to forget it."""
        self._move(assignment, REVOKED)

    def free(self, assignment: ShareAssignment) -> None:
        """The borrower has forgotten a share, which no borrower has now."""
        self._move(assignment, REVOKED)
        del self._shares[assignment.share], self.moving[assignment.share]
        del self._borrowers[assignment.borrower].shares[assignment.share]

    def _move(self, assignment: ShareAssignment, status: str) -> None:
        if assignment.status in (GRANTING, GRANTED):
            self._hold(assignment.borrower, -1)
        assignment.status = status
        self.moving[assignment.share] = assignment

    def statistics(self) -> dict[str, int]:
        return {"borrowers": len(self._borrowers), "assigned_shares": len(self._shares), **self._counts}

    def __repr__(self) -> str:
        return f"{len(self._borrowers)} borrowers, {len(self._shares)} shares assigned"
