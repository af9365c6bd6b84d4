"""The leader of one group: which shares there are, how far each is, and which borrower has it.

A state machine: its inputs are messages, streams, the time and what is saved; it answers with messages in `outgoing`
and with progress to be saved from `take_changes`. What may be granted when:

- A share that changed hands is granted again only when the progress that it was given back with is saved.
- Of streams with the same `rank.x`, a share of a later `rank.y` is granted when those of its number before it are done.
- Borrowers whose clients take nothing keep no shares while there are others.
"""

from collections.abc import Iterable, Iterator, Mapping

from heliograph.shared_groups import protocol as p
from heliograph.shared_groups.assignments import (
    GRANTING,
    REVOKED,
    REVOKING,
    Assignments,
    KnownBorrower,
    ShareAssignment,
)
from heliograph.shared_groups.progress_ledger import ProgressLedger
from heliograph.shared_groups.protocol import (
    SHARES_PER_STREAM,
    BorrowerId,
    GroupName,
    MessageId,
    Progress,
    Share,
    StreamOffer,
    Timers,
    ToBorrower,
    ToLeader,
)
from heliograph.storage.interface import Position, StreamId


class Leader:
    """Leads one group, from the moment it owns the lease to the moment it does not; owned by the registry.

    Args:
        name: Who it is, as the lease says.
        first_number: Grants are numbered from here on; above all that earlier leaders gave.
        beginning: Where streams begin for this group that nothing is known of yet.
    """

    __slots__ = (
        "_assignments",
        "_has_joined",
        "_ledger",
        "_lost_count",
        "_open",
        "_streams",
        "_timers",
        "_unbalanced",
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
    ) -> None:
        self.group = group
        self.name = name
        self.outgoing: list[tuple[BorrowerId, ToBorrower]] = []
        self._timers = timers
        self._streams: dict[StreamId, StreamOffer] = {}
        self._open: list[Share] | None = None  # what may be read now, where that is known
        self._ledger = ProgressLedger(beginning, progress)
        self._assignments = Assignments(first_number)
        self._unbalanced = True
        self._has_joined = False  # a borrower came; nothing else has changed for the others
        self._lost_count = 0  # borrowers that were silent

    # --- inputs

    def on_message(self, now_us: int, sender: BorrowerId, message: ToLeader) -> None:
        known = self._assignments.borrowers.get(sender)
        if isinstance(message, p.LeaderWanted):
            if known is None:
                self._assignments.add(sender, now_us)
                self._has_joined = True
            self._send(sender, p.LeaderConnectResponse(self.name))
            return
        if known is None:
            if not isinstance(message, p.Disconnect):
                self._send(sender, p.Invalidate())
            return
        known.heard_us = now_us
        if isinstance(message, p.Ping):
            self._unbalanced = self._assignments.set_ready(sender, message.ready) or self._unbalanced
            self._send(sender, p.PingResponse())
        elif isinstance(message, p.UpdateProgress):
            self._on_progress(now_us, sender, known, message)
        elif isinstance(message, p.RevokeFinished):
            self._on_revoke_finished(known, message)
        else:
            self._take(known, message.progress)
            self._let_go(sender)
            self._answer(sender, message.sequence)

    def on_streams(self, streams: Iterable[StreamOffer]) -> None:
        offered = {offer.stream: offer for offer in streams}
        if offered == self._streams:
            return
        self._streams = offered
        self._open = None
        self._unbalanced = True
        self._ledger.retain(offered)

    def claim(self, share: Share, messages: Iterable[MessageId]) -> None:
        """Messages are in the hands of a member's session, whatever the saved progress says."""
        self._ledger.claim(share, messages)
        self._open = None

    def tick(self, now_us: int) -> None:
        for sender, known in list(self._assignments.borrowers.items()):
            if known.heard_us + self._timers.borrower_timeout_us <= now_us:
                self._lost_count += 1
                self._send(sender, p.Invalidate())
                self._let_go(sender)
        for assignment in self._assignments.moving.values():
            if assignment.due_us <= now_us:
                self._say(now_us, assignment)
        self.balance(now_us)

    def resign(self) -> None:
        for borrower in self._assignments.borrowers:
            self._send(borrower, p.Invalidate())
        self._assignments.clear()

    # --- what is to be saved

    @property
    def has_to_settle(self) -> bool:
        return bool(self.outgoing) or self.has_changes or self._unbalanced or self._has_joined

    @property
    def has_changes(self) -> bool:
        """Whether there is something to save, or to answer once what there was is saved."""
        return self._ledger.has_changes

    def take_changes(self) -> tuple[int, dict[Share, Progress | None]]:
        """What has changed since the last call, None for a share that no longer exists, and a token for `on_saved`."""
        return self._ledger.take_changes()

    def on_saved(self, token: int, is_saved: bool) -> None:
        """Changes are durable, or were refused and are changes still."""
        settled, answers = self._ledger.on_saved(token, is_saved)
        for share in settled:
            if share not in self._assignments or self._ledger.progress(share).is_end:  # it, or the next one, waited
                self._open = None
                self._unbalanced = True
        for borrower, sequence in answers.items():
            self._send(borrower, p.Saved(sequence))

    # --- what it knows

    def is_quiet(self, borrowers_count: int) -> bool:
        """Whether it has so many borrowers and no others, none waits for a message, and everything is saved."""
        is_settled = not (self._assignments.moving or self._ledger.is_saving or self.has_to_settle)
        return is_settled and len(self._assignments.borrowers) == borrowers_count

    def has_granted_all(self, streams: Iterable[StreamId]) -> bool:
        """Whether it knows these streams, and each share that may be read has a borrower."""
        return all(stream in self._streams for stream in streams) and all(
            share in self._assignments for share in self._open_shares()
        )

    def statistics(self) -> dict[str, int]:
        counts = self._assignments.statistics()
        return {"streams": len(self._streams), "lost_borrowers": self._lost_count, **counts}

    # --- sharing out

    def balance(self, now_us: int) -> None:
        """Grant the shares that no borrower has and revoke what one has too much of, if anything has changed."""
        if not (self._unbalanced or self._has_joined):
            return
        open_shares = self._open_shares()
        is_needed = self._unbalanced or not self._assignments.is_spread(len(open_shares))
        self._unbalanced = self._has_joined = False
        if is_needed:
            for assignment in self._assignments.spread(open_shares, lambda share: not self._ledger.is_unsaved(share)):
                self._say(now_us, assignment)

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
                    undone = [share for share in shares if not self._ledger.progress(share).is_end]
                    if undone:
                        yield from undone
                        break
                    if any(self._ledger.is_unsaved(share) for share in shares):
                        break

    # --- messages

    def _say(self, now_us: int, assignment: ShareAssignment) -> None:
        """Send the message that belongs to the status of an assignment; once more, if it was sent before."""
        share, number = assignment.share, assignment.number
        assignment.due_us = now_us + self._timers.resend_us
        if assignment.status == GRANTING:
            self._send(assignment.borrower, p.Grant(share, number, self._ledger.progress(share)))
        elif assignment.status == REVOKING:
            self._send(assignment.borrower, p.Revoke(share, number))
        elif assignment.status == REVOKED:
            self._send(assignment.borrower, p.Revoked(share, number))

    def _on_progress(self, now_us: int, sender: BorrowerId, known: KnownBorrower, message: p.UpdateProgress) -> None:
        if message.sequence <= known.sequence or not (message.is_whole or message.sequence == known.sequence + 1):
            return  # it was heard, or one before it was not: then it will be said again
        known.sequence = message.sequence
        self._take(known, message.progress)
        self._answer(sender, message.sequence)
        for share in message.final:
            assignment = known.shares.get(share)
            if assignment is not None and assignment.number == message.progress[share][0]:
                self._assignments.give_back(assignment)
                self._say(now_us, assignment)

    def _answer(self, borrower: BorrowerId, sequence: int) -> None:
        if not self._ledger.answers_later(borrower, sequence):
            self._send(borrower, p.Saved(sequence))

    def _take(self, known: KnownBorrower, progress: Mapping[Share, tuple[int, Progress]]) -> None:
        for share, (number, reached) in progress.items():
            assignment = known.shares.get(share)
            if assignment is None or assignment.number != number or assignment.status == REVOKED:
                continue
            if assignment.status == GRANTING:
                self._assignments.on_granted(assignment)
            if share.stream in self._streams:
                self._ledger.move(share, reached)
                if reached.is_end:
                    self._open = None

    def _on_revoke_finished(self, known: KnownBorrower, message: p.RevokeFinished) -> None:
        assignment = known.shares.get(message.share)
        if assignment is not None and assignment.number == message.number:
            self._assignments.free(assignment)
            self._unbalanced = True

    def _let_go(self, borrower: BorrowerId) -> None:
        self._unbalanced = self._assignments.remove(borrower) or self._unbalanced
        self._ledger.forget_borrower(borrower)

    def _send(self, borrower: BorrowerId, message: ToBorrower) -> None:
        self.outgoing.append((borrower, message))

    def __repr__(self) -> str:
        return f"Leader({str(self.group)!r}, {self._assignments!r})"
