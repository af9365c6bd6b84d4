"""A member of a durable group: joins a session's subscription to its borrower and to the shares that it was granted."""

from typing import Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups import record
from heliograph.shared_groups.borrower import (
    ENDED,
    Borrower,
    Forgotten,
    Granted,
    Invalidated,
    Overdue,
    ProgressSaved,
    Revoking,
)
from heliograph.shared_groups.deliveries import Deliveries, SessionNotes
from heliograph.shared_groups.held_shares import HeldShares
from heliograph.shared_groups.open_share import Entry, OpenShare, ShareReaders, Taker, Waiting
from heliograph.shared_groups.protocol import BorrowerId, GroupName, Share, Timers, ToBorrower, ToLeader


class MemberTurns(Protocol):
    def want(self, member: "Member") -> None:
        """Call `pump`."""

    def want_report(self, member: "Member", soon: bool) -> None:
        """Call `report` at the end of the turn, or some time later."""


class MemberGroup(ShareReaders, Protocol):
    """What a member needs of its group."""

    name: GroupName

    def stir(self) -> None:
        """Something happens: the group is not to fall asleep yet."""

    def pass_on(self, member: "Member", entry: Entry) -> None:
        """A message is not for the client of this member: another is to have it."""

    def offer_strays(self) -> None:
        """A member has room: try again what no member took."""

    def on_ended(self, member: "Member", again: bool) -> None:
        """It is over; another is wanted in its place, or not."""


class MemberServices(Protocol):
    """What a member needs of its node."""

    @property
    def notes(self) -> SessionNotes | None:
        """Where durable sessions keep what is their own."""

    @property
    def turns(self) -> MemberTurns:
        """When members have their turns."""

    @property
    def waiting(self) -> Waiting:
        """How much waits in all groups."""

    @property
    def timers(self) -> Timers:
        """Timeouts of leaders and borrowers."""

    def now_us(self) -> int:
        """The wall clock."""

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """Send a protocol message."""

    def claim(self, group: GroupName, entry: Entry) -> None:
        """A session has a message as its own that its group may not count, and no borrower says so any more."""

    def await_saved(self, member: "Member") -> None:
        """Call `on_saved`."""

    def await_room(self, member: "Member") -> None:
        """Want a turn for the member when its client has room."""


class Member(Taker):
    """One subscription of a client that is connected, until all is settled with the leader; owned by its group.

    Attributes:
        is_starved: There may be messages that were not read, as its client had no room.
        is_due: Whether a report is wanted: some time (1), soon (2).
    """

    __slots__ = (
        "_services",
        "_took_us",
        "borrower",
        "deliveries",
        "group",
        "is_due",
        "is_leaving",
        "is_ready",
        "is_starved",
        "is_wanted",
        "session",
        "shares",
        "subscription",
    )

    def __init__(
        self,
        subscription: Subscription,
        session: Session,
        borrower: Borrower,
        group: MemberGroup,
        services: MemberServices,
    ) -> None:
        self.session = session
        self.subscription = subscription
        self.borrower = borrower
        self.deliveries = Deliveries(group.name, subscription, session, group, services.notes)
        self.is_leaving = False
        self.is_wanted = False
        self.is_ready = True
        self.is_starved = False
        self.is_due = 0
        self.group = group
        self._services = services
        self.shares = HeldShares(borrower, group, services.waiting)
        self._took_us = services.now_us()

    # --- messages

    def pump(self, limit: int) -> int:
        """Send so many messages at the most, as far as the client takes them: how many."""
        count = 0
        session, deliveries = self.session, self.deliveries
        if self.is_starved and session.has_room():
            self.is_starved = False
            self.shares.reopen()
        while count < limit and session.has_room():
            if not deliveries.send_claimed():
                entry = deliveries.next()
                if entry is None:
                    break
                self._lend(entry)
            count += 1
        if count:
            self._took_us = self._services.now_us()
        if not self.is_ready and session.has_room() and self.shares.is_clear:
            self.is_ready = True
            self.borrower.set_ready(self._services.now_us(), True)
            self.post()
        if (self.waits or self.is_starved) and not session.has_room():
            self._services.await_room(self)
        return count

    def _lend(self, entry: Entry) -> None:
        if not self.deliveries.may_have(entry):
            self.group.pass_on(self, entry)
        elif self.deliveries.lend(entry):
            self._services.await_saved(self)

    def take(self, entry: Entry) -> bool:
        """Send a message that another member's client may not have; whether this one's may, and has room."""
        if self.is_leaving or not self.session.has_room():
            return False
        self._lend(entry)
        return True

    def may_have(self, entry: Entry) -> bool:
        return not self.is_leaving and self.deliveries.may_have(entry)

    @property
    def waits(self) -> bool:
        return self.deliveries.waits and not self.is_leaving

    def takes(self) -> bool:
        if self.session.has_room():
            return True
        self.is_starved = True
        self._services.await_room(self)
        return False

    def feed(self, share: OpenShare) -> None:
        self.deliveries.queue(share)
        self.touch(share)

    def touch(self, share: OpenShare, soon: bool = False) -> None:
        self.group.stir()
        self._want_report(share, soon or share.is_closed or share.is_ended)

    def _want_report(self, share: OpenShare, soon: bool) -> None:
        self.shares.touch(share)
        wish = 2 if soon else 1
        if wish > self.is_due:
            self.is_due = wish
            self._services.turns.want_report(self, soon)

    @property
    def is_quiet(self) -> bool:
        """Whether its client has nothing that is not done, and its leader knows and has saved how far it is.

        What it has read and not reported, as there was no message in it, is reported now.
        """
        if self.is_leaving or self.is_wanted or self.is_due:
            return False
        if not (self.deliveries.is_idle and self.shares.is_settled):
            return False
        lagging = self.shares.lagging
        for share in lagging:
            self._want_report(share, True)
        return not lagging and self.shares.is_quiet

    def on_saved(self, ticket: int) -> bool:
        """Session state is durable up to a ticket: what was assigned at QoS 2 is the session's own.

        Returns:
            Whether it is to hear of more.
        """
        for entry in self.deliveries.take_saved(ticket):
            owner = entry.share.owner
            if isinstance(owner, Member) and owner.borrower.status != ENDED:
                owner.shares.note(entry)
            else:
                self._services.claim(self.group.name, entry)
        self.settle()
        return self.deliveries.is_saving

    # --- the end

    def leave(self) -> None:
        """The client is gone, or has unsubscribed: nothing more is taken."""
        if self.is_leaving:
            self.settle()
            return
        self.is_leaving = True
        if self.borrower.status == ENDED:
            self._part()
            return
        self.deliveries.forget_sendable()
        for share in self.shares.all:
            self.deliveries.unclaim(share)
            self.shares.close(share)
            self.touch(share)
        self.borrower.unsubscribe(self._services.now_us())
        self.settle()

    def settle(self) -> None:
        """Say goodbye to the leader, if all is said and done."""
        if self.is_leaving and not self.deliveries.is_saving and self.shares.is_clear:
            self._disconnect()

    def _disconnect(self) -> None:
        self.shares.disconnect()
        self.post()
        self._part()

    def _part(self) -> None:
        if not self.deliveries.is_saving and not self.shares.has_unsaved_notes:
            self.group.on_ended(self, False)

    # --- the borrower

    def on_message(self, message: ToBorrower) -> None:
        if self.borrower.status == ENDED:
            if (sequence := getattr(message, "sequence", None)) is not None:
                self._on_progress_saved(sequence)
                self._part()
            return
        self.borrower.on_message(self._services.now_us(), message)
        self._handle()

    def tick(self) -> None:
        now = self._services.now_us()
        waits = self.waits or self.is_starved
        if self.is_ready and waits and now - self._took_us > self._services.timers.stall_us:
            self.is_ready = False
            self.borrower.set_ready(now, False)
        elif not waits:
            self._took_us = now
        if not self.is_ready:
            self.pump(0)
        self.borrower.tick(now)
        self._handle()

    def report(self) -> None:
        self.is_due = 0
        self.shares.report(self._services.now_us(), self.deliveries.take_claims())
        self.post()
        self.settle()

    def post(self) -> None:
        outgoing, self.borrower.outgoing = self.borrower.outgoing, []
        for message in outgoing:
            self._services.to_leader(self.group.name, self.borrower.id, message)

    def _handle(self) -> None:
        events, self.borrower.events = self.borrower.events, []
        for event in events:
            if isinstance(event, Granted):
                self.shares.grant(event.share, event.progress, self)
            elif isinstance(event, Revoking):
                share = self.shares.find(event.share)
                self.shares.close(share)
                self.touch(share)
            elif isinstance(event, Overdue):
                self._on_overdue(event.share)
            elif isinstance(event, Forgotten):
                self.shares.forget(event.share)
            elif isinstance(event, ProgressSaved):
                self._on_progress_saved(event.sequence)
            elif isinstance(event, Invalidated):
                self._on_invalidated()
        self.post()

    def _on_overdue(self, share: Share | None) -> None:
        if share is None:
            if not self.deliveries.is_saving:
                self._disconnect()
            return
        opened = self.shares.find(share)
        if not self.deliveries.saves_of(opened):
            self.deliveries.unclaim(opened)
            self.shares.finish(self._services.now_us(), opened)

    def _on_progress_saved(self, sequence: int) -> None:
        noted, claims = self.shares.take_saved(sequence)
        notes = self._services.notes
        for entry in noted:
            if notes is not None:
                notes.note(record.borrowed_key(entry.holder, entry.message), None)
        if self.deliveries.allow(claims):
            self._services.turns.want(self)

    def _on_invalidated(self) -> None:
        for entry in self.shares.abandon():
            self._services.claim(self.group.name, entry)
        self.deliveries.forget_sendable()
        wants_again = not self.is_leaving
        self.is_leaving = True
        self.group.on_ended(self, wants_again)

    def __repr__(self) -> str:
        status = f"{self.borrower.status}, {len(self.shares)} shares"
        return f"Member({str(self.group.name)!r}, {self.session.clientid!r}, {status})"
