"""The leader of one group: which shares there are, how far each is, and which borrower has it.

A state machine: its inputs are messages, streams, the time and what is saved; it answers with messages in `outgoing`
and with progress to be saved from `take_changes`. What may be granted when:

- A share that changed hands is granted again only when the progress that it was given back with is saved.
- Of streams with the same `rank.x`, a share of a later `rank.y` is granted when those of its number before it are done.
- Borrowers whose clients take nothing keep no shares while there are others.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from heliograph.shared_groups.protocol import (
    SHARES_PER_STREAM,
    BorrowerId,
    Disconnect,
    Grant,
    GroupName,
    Invalidate,
    LeaderConnectResponse,
    LeaderWanted,
    MessageId,
    Ping,
    PingResponse,
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
from heliograph.storage.interface import Position, StreamId

GRANTING: Final = "granting"
GRANTED: Final = "granted"
REVOKING: Final = "revoking"
REVOKED: Final = "revoked"


class _Assignment:
    """A share and its borrower."""

    __slots__ = ("borrower", "due_us", "number", "share", "status")

    def __init__(self, share: Share, borrower: BorrowerId, number: int, due_us: int) -> None:
        self.share = share
        self.borrower = borrower
        self.number = number
        self.status = GRANTING
        self.due_us = due_us  # when the message that belongs to the status is sent again


class _Borrower:
    """What the leader knows of a borrower."""

    __slots__ = ("heard_us", "held_count", "ready", "sequence", "shares")

    def __init__(self, now_us: int) -> None:
        self.heard_us = now_us
        self.ready = True
        self.sequence = 0
        self.shares: dict[Share, _Assignment] = {}
        self.held_count = 0  # those of them that it is to keep


class Leader:
    """Leads one group, from the moment it owns the lease to the moment it does not; owned by the registry.

    Args:
        name: Who it is, as the lease says.
        first_number: Grants are numbered from here on; above all that earlier leaders gave.
        beginning: Where streams begin for this group that nothing is known of yet.
        progress: What earlier leaders saved.
        settles_us: Until then nothing is granted: borrowers of the leader before it may still hold shares.
    """

    __slots__ = (
        "_answers",
        "_assignments",
        "_beginning",
        "_borrowers",
        "_changed",
        "_counts",
        "_has_joined",
        "_holders_count",
        "_moving",
        "_number",
        "_open",
        "_progress",
        "_saving",
        "_settles_us",
        "_streams",
        "_timers",
        "_token",
        "_unbalanced",
        "_unready_count",
        "_unsaved",
        "group",
        "name",
        "outgoing",
    )

    def __init__(
        self,
        group: GroupName,
        name: str,
        timers: Timers,
        first_number: int,
        beginning: Position,
        progress: Mapping[Share, Progress],
        settles_us: int = 0,
    ) -> None:
        self.group = group
        self.name = name
        self.outgoing: list[tuple[BorrowerId, ToBorrower]] = []
        self._timers = timers
        self._number = first_number
        self._beginning = Progress(beginning)  # of every share that nothing is known of
        self._progress = dict(progress)
        self._settles_us = settles_us
        self._streams: dict[StreamId, StreamOffer] = {}
        self._borrowers: dict[BorrowerId, _Borrower] = {}
        self._assignments: dict[Share, _Assignment] = {}
        self._moving: dict[Share, _Assignment] = {}  # shares with a message on its way
        self._open: list[Share] | None = None  # what may be read now, where that is known
        self._changed: dict[Share, None] = {}
        self._answers: dict[BorrowerId, int] = {}  # the sequence to answer each borrower when the change is saved
        self._saving: dict[int, tuple[list[Share], dict[BorrowerId, int]]] = {}
        self._token = 0
        self._unsaved: dict[Share, int] = {}  # how many of the saves under way, and the next, a share is part of
        self._unbalanced = True
        self._has_joined = False  # a borrower came; nothing else has changed for the others
        self._holders_count = 0  # borrowers that are to keep a share
        self._unready_count = 0
        self._counts = {"granted": 0, "revoked": 0, "lost_borrowers": 0}

    # --- inputs

    def on_message(self, now_us: int, sender: BorrowerId, message: ToLeader) -> None:
        """A borrower says something."""
        known = self._borrowers.get(sender)
        if isinstance(message, LeaderWanted):
            if known is None:
                self._borrowers[sender] = _Borrower(now_us)
                self._has_joined = True
            self._send(sender, LeaderConnectResponse(self.name))
            return
        if known is None:
            if not isinstance(message, Disconnect):
                self._send(sender, Invalidate())
            return
        known.heard_us = now_us
        if isinstance(message, Ping):
            self._on_ping(known, message)
            self._send(sender, PingResponse())
        elif isinstance(message, UpdateProgress):
            self._on_progress(now_us, sender, known, message)
        elif isinstance(message, RevokeFinished):
            self._on_revoke_finished(sender, message)
        else:
            self._take(known, message.progress)
            self._let_go(sender)
            self._answer(sender, message.sequence)

    def on_streams(self, streams: Iterable[StreamOffer]) -> None:
        """All streams of the group's filter, as they are now."""
        offered = {offer.stream: offer for offer in streams}
        if offered == self._streams:
            return
        self._streams = offered
        self._open = None
        self._unbalanced = True
        for share in [share for share in self._progress if share.stream not in offered]:
            del self._progress[share]
            self._change(share)

    def claim(self, share: Share, messages: Iterable[MessageId]) -> None:
        """Messages are in the hands of a member's session, whatever the saved progress says."""
        progress = self.progress(share)
        if not progress.is_end:
            done = dict.fromkeys((*progress.done, *messages))
            self._progress[share] = Progress(progress.position, tuple(done))
            self._open = None
        self._change(share)

    def tick(self, now_us: int) -> None:
        """Send again what was not answered, give up silent borrowers, and distribute shares."""
        for sender, known in list(self._borrowers.items()):
            if known.heard_us + self._timers.borrower_timeout_us <= now_us:
                self._counts["lost_borrowers"] += 1
                self._send(sender, Invalidate())
                self._let_go(sender)
        for assignment in self._moving.values():
            if assignment.due_us <= now_us:
                self._say(now_us, assignment)
        self.balance(now_us)

    def resign(self) -> None:
        """It leads no more: all borrowers start again."""
        for borrower in self._borrowers:
            self._send(borrower, Invalidate())
        self._borrowers.clear()
        self._assignments.clear()
        self._moving.clear()
        self._holders_count = self._unready_count = 0

    # --- what is to be saved

    @property
    def has_to_settle(self) -> bool:
        """Whether there is something to say, to save, or to share out."""
        return bool(self.outgoing) or self.has_changes or self._unbalanced or self._has_joined

    @property
    def has_changes(self) -> bool:
        """Whether there is something to save, or to answer once what there was is saved."""
        return bool(self._changed or self._answers)

    def take_changes(self) -> tuple[int, dict[Share, Progress | None]]:
        """What has changed since the last call, None for a share that is no more, and a token for `on_saved`."""
        changes = {share: self._progress.get(share) for share in self._changed}
        self._token += 1
        self._saving[self._token] = (list(changes), self._answers)
        self._changed, self._answers = {}, {}
        return self._token, changes

    def on_saved(self, token: int, is_saved: bool) -> None:
        """Changes are durable, or were refused and are changes still."""
        shares, answers = self._saving.pop(token)
        for share in shares:
            if not is_saved:
                self._change(share)
            left = self._unsaved.pop(share) - 1
            if left > 0:
                self._unsaved[share] = left
            elif share not in self._assignments or self.progress(share).is_end:  # it, or the next one, waited
                self._open = None
                self._unbalanced = True
        for borrower, sequence in answers.items():
            if is_saved:
                self._send(borrower, Saved(sequence))
            else:
                self._answers[borrower] = max(sequence, self._answers.get(borrower, 0))

    # --- what it knows

    def is_quiet(self, borrowers_count: int) -> bool:
        """Whether it has so many borrowers and no others, no message is awaited, and everything is saved."""
        return len(self._borrowers) == borrowers_count and not (self._moving or self._saving or self.has_to_settle)

    def has_granted_all(self, streams: Iterable[StreamId]) -> bool:
        """Whether it knows these streams, and each share that may be read has a borrower."""
        return all(stream in self._streams for stream in streams) and all(
            share in self._assignments for share in self._open_shares()
        )

    @property
    def number(self) -> int:
        """The number of the next grant."""
        return self._number

    def progress(self, share: Share) -> Progress:
        """How far a share is."""
        return self._progress.get(share) or self._beginning

    def statistics(self) -> dict[str, int]:
        """The numbers of shares and of their borrowers."""
        return {
            "streams": len(self._streams),
            "borrowers": len(self._borrowers),
            "assigned_shares": len(self._assignments),
            **self._counts,
        }

    # --- sharing out

    def balance(self, now_us: int) -> None:
        """Grant free shares and revoke those of borrowers with too many, if anything has changed."""
        if not (self._unbalanced or self._has_joined) or now_us < self._settles_us:
            return
        open_shares = self._open_shares()
        is_spread = not self._unready_count and self._holders_count >= len(open_shares) > 0
        is_needed = self._unbalanced or not is_spread
        self._unbalanced = self._has_joined = False
        if not is_needed:  # each share has a borrower of its own: however many more come, they get nothing
            return
        if len(self._assignments) > 0:
            readable = set(open_shares)
            for share, assignment in list(self._assignments.items()):
                if share not in readable and assignment.status in (GRANTING, GRANTED):
                    self._revoke(now_us, assignment)
        targets = self._targets(len(open_shares))
        for borrower, target in targets.items():
            self._reduce(now_us, self._borrowers[borrower], target)
        self._hand_out(now_us, (share for share in open_shares if self._is_free(share)), targets)

    def _open_shares(self) -> list[Share]:
        if self._open is None:
            self._open = sorted(self._find_open())
        return self._open

    def _find_open(self) -> Iterator[Share]:
        """The shares that may be read now: per number, those of the first generation that is not done."""
        by_rank: dict[int, dict[int, list[StreamId]]] = {}
        for stream, rank in self._streams.values():
            by_rank.setdefault(rank.x, {}).setdefault(rank.y, []).append(stream)
        for generations in by_rank.values():
            for number in range(SHARES_PER_STREAM):
                for y in sorted(generations):
                    shares = [Share(stream, number) for stream in generations[y]]
                    undone = [share for share in shares if not self.progress(share).is_end]
                    if undone:
                        yield from undone
                        break
                    if any(share in self._unsaved for share in shares):
                        break

    def _targets(self, count: int) -> dict[BorrowerId, int]:
        """How many shares each borrower is to have; those that have most already get what is left over."""
        ready = [borrower for borrower, known in self._borrowers.items() if known.ready]
        takers = sorted(ready or self._borrowers, key=lambda one: self._borrowers[one].held_count, reverse=True)
        targets = dict.fromkeys(self._borrowers, 0)
        for place, borrower in enumerate(takers):
            targets[borrower] = count // len(takers) + (place < count % len(takers))
        return targets

    def _reduce(self, now_us: int, known: _Borrower, target: int) -> None:
        if known.held_count <= target:
            return
        held = [one for one in known.shares.values() if one.status in (GRANTING, GRANTED)]
        by_stream: dict[StreamId, list[_Assignment]] = {}
        for assignment in held:
            by_stream.setdefault(assignment.share.stream, []).append(assignment)
        for _ in range(len(held) - target):
            largest = max(by_stream.values(), key=len)
            self._revoke(now_us, largest.pop())

    def _hand_out(self, now_us: int, free: Iterable[Share], targets: Mapping[BorrowerId, int]) -> None:
        """Grant one share to each borrower in turn, so that each gets its part of every stream."""
        borrowers = self._borrowers
        takers = deque(one for one, target in targets.items() if borrowers[one].held_count < target)
        for share in free:
            if not takers:
                return
            taker = takers.popleft()
            self._grant(now_us, share, taker)
            if borrowers[taker].held_count < targets[taker]:
                takers.append(taker)

    def _is_free(self, share: Share) -> bool:
        return share not in self._assignments and share not in self._unsaved

    def _grant(self, now_us: int, share: Share, borrower: BorrowerId) -> None:
        assignment = _Assignment(share, borrower, self._number, now_us)
        self._number += 1
        self._counts["granted"] += 1
        self._assignments[share] = self._moving[share] = assignment
        known = self._borrowers[borrower]
        known.shares[share] = assignment
        known.held_count += 1
        self._holders_count += known.held_count == 1
        self._say(now_us, assignment)

    def _revoke(self, now_us: int, assignment: _Assignment) -> None:
        self._take_away(assignment, REVOKING)
        self._counts["revoked"] += 1
        self._say(now_us, assignment)

    def _take_away(self, assignment: _Assignment, status: str) -> None:
        if assignment.status in (GRANTING, GRANTED):
            known = self._borrowers[assignment.borrower]
            known.held_count -= 1
            self._holders_count -= known.held_count == 0
        assignment.status = status
        self._moving[assignment.share] = assignment

    def _say(self, now_us: int, assignment: _Assignment) -> None:
        """Send the message that belongs to the status of an assignment; once more, if it was sent before."""
        share, number = assignment.share, assignment.number
        assignment.due_us = now_us + self._timers.resend_us
        if assignment.status == GRANTING:
            self._send(assignment.borrower, Grant(share, number, self.progress(share)))
        elif assignment.status == REVOKING:
            self._send(assignment.borrower, Revoke(share, number))
        elif assignment.status == REVOKED:
            self._send(assignment.borrower, Revoked(share, number))

    # --- messages

    def _on_ping(self, known: _Borrower, message: Ping) -> None:
        if known.ready != message.ready:
            known.ready = message.ready
            self._unready_count += -1 if message.ready else 1
            self._unbalanced = True

    def _on_progress(self, now_us: int, sender: BorrowerId, known: _Borrower, message: UpdateProgress) -> None:
        if message.sequence <= known.sequence or not (message.is_whole or message.sequence == known.sequence + 1):
            return  # it was heard, or one before it was not: then it will be said again
        known.sequence = message.sequence
        self._take(known, message.progress)
        self._answer(sender, message.sequence)
        for share in message.final:
            assignment = known.shares.get(share)
            if assignment is not None and assignment.number == message.progress[share][0]:
                self._take_away(assignment, REVOKED)
                self._say(now_us, assignment)

    def _answer(self, borrower: BorrowerId, sequence: int) -> None:
        """Tell a borrower that what it said is saved, as soon as that is so."""
        if self._changed or self._saving:
            self._answers[borrower] = sequence
        else:
            self._send(borrower, Saved(sequence))

    def _take(self, known: _Borrower, progress: Mapping[Share, tuple[int, Progress]]) -> None:
        for share, (number, reached) in progress.items():
            assignment = known.shares.get(share)
            if assignment is None or assignment.number != number or assignment.status == REVOKED:
                continue
            if assignment.status == GRANTING:
                assignment.status = GRANTED
                del self._moving[share]
            if share.stream in self._streams and self.progress(share) != reached:
                self._progress[share] = reached
                self._change(share)
                if reached.is_end:
                    self._open = None

    def _on_revoke_finished(self, sender: BorrowerId, message: RevokeFinished) -> None:
        assignment = self._borrowers[sender].shares.get(message.share)
        if assignment is not None and assignment.number == message.number:
            self._free(assignment)

    def _let_go(self, borrower: BorrowerId) -> None:
        known = self._borrowers.pop(borrower)
        self._holders_count -= known.held_count > 0
        self._unready_count -= not known.ready
        self._unbalanced = self._unbalanced or bool(known.shares) or not known.ready
        for assignment in list(known.shares.values()):
            del self._assignments[assignment.share]
            self._moving.pop(assignment.share, None)
        self._answers.pop(borrower, None)

    def _free(self, assignment: _Assignment) -> None:
        self._take_away(assignment, REVOKED)
        del self._assignments[assignment.share], self._moving[assignment.share]
        del self._borrowers[assignment.borrower].shares[assignment.share]
        self._unbalanced = True

    def _change(self, share: Share) -> None:
        if share not in self._changed:
            self._changed[share] = None
            self._unsaved[share] = self._unsaved.get(share, 0) + 1

    def _send(self, borrower: BorrowerId, message: ToBorrower) -> None:
        self.outgoing.append((borrower, message))

    def __repr__(self) -> str:
        size = f"{len(self._borrowers)} borrowers, {len(self._assignments)} shares assigned"
        return f"Leader({str(self.group)!r}, {size})"
