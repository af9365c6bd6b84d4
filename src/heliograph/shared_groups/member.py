"""A member of a durable group: joins a session's subscription to its borrower and to the shares that it was granted.

What counts as done, and so goes to no other member:

- QoS 0: sent. QoS 1: PUBACK. A message that has expired, is too large for the client, or that it refuses: at once.
- QoS 2 to a durable session: when the session has saved its packet identifier. With that it saves a note that the
  message is its own, which is deleted when the group's progress that counts it is saved.
- QoS 2 to a session in memory: when that progress is saved; only then is it sent.
"""

from typing import Final, Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery
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
from heliograph.shared_groups.protocol import BorrowerId, GroupName, MessageId, Progress, Share, ToBorrower, ToLeader
from heliograph.shared_groups.reading import Entry, OpenShare, Taker, Waiting
from heliograph.shared_groups.stored_message import message_of

_CLAIMS_MAX: Final = 64


class SessionNotes(Protocol):
    """What members keep beside the sessions of their clients, in the same commits."""

    def note(self, key: bytes, value: bytes | None) -> int:
        """Keep a record, or delete it, in the commit that gathers now: its ticket, which is saved some time."""


class MemberTurns(Protocol):
    """When members have their turns."""

    def want(self, member: "Member") -> None:
        """Call `pump`."""

    def want_report(self, member: "Member", soon: bool) -> None:
        """Call `report` at the end of the turn, or some time later."""


class NodeView(Protocol):
    """What a member needs of its group and its node."""

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
    def stall_us(self) -> int:
        """How long a client may take nothing."""

    def now_us(self) -> int:
        """The wall clock."""

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """Send a message."""

    def stir(self) -> None:
        """Something happens: the group is not to fall asleep yet."""

    def await_room(self, member: "Member") -> None:
        """Want a turn for the member when its client has room."""

    def open_share(self, member: "Member", share: OpenShare) -> None:
        """Begin to read a share."""

    def close_share(self, member: "Member", share: OpenShare) -> None:
        """Read it no more."""

    def pass_on(self, member: "Member", entry: Entry) -> None:
        """A message is not for the client of this member: another is to have it."""

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """A client's session has a message that its group may not count."""

    def await_saved(self, member: "Member") -> None:
        """Call `on_saved`."""

    def on_ended(self, member: "Member", again: bool) -> None:
        """It is over; another is wanted in its place, or not."""


class Member(Taker):
    """One subscription of a client that is connected, until all is settled with the leader; owned by its group."""

    __slots__ = (
        "_around",
        "_claimed_count",
        "_claims",
        "_closing",
        "_dirty",
        "_is_durable",
        "_noted",
        "_reported",
        "_saving",
        "_sendable",
        "_shares",
        "_took_us",
        "_turn",
        "borrower",
        "group",
        "is_due",
        "is_leaving",
        "is_ready",
        "is_starved",
        "is_wanted",
        "session",
        "subscription",
    )

    def __init__(
        self, group: GroupName, session: Session, subscription: Subscription, borrower: Borrower, around: NodeView
    ) -> None:
        self.group = group
        self.session = session
        self.subscription = subscription
        self.borrower = borrower
        self.is_leaving = False
        self.is_wanted = False  # it waits for its turn
        self.is_ready = True  # its client takes messages
        self.is_starved = False  # there may be messages that were not read, as its client had no room
        self.is_due = 0  # whether a report is wanted: some time (1), soon (2)
        self._around = around
        self._is_durable = isinstance(session, DurableSession) and around.notes is not None
        self._shares: dict[Share, OpenShare] = {}
        self._turn: list[OpenShare] = []  # shares with messages that wait
        self._dirty: dict[OpenShare, None] = {}  # their progress is to be reported
        self._closing: dict[OpenShare, None] = {}  # to be finished when they are clear
        self._saving: list[tuple[int, Entry]] = []  # at QoS 2, by the ticket of their session's commit
        self._noted: list[Entry] = []  # saved with a session, and not reported yet
        self._claims: list[Entry] = []  # at QoS 2 for a session in memory, not reported yet
        self._reported: list[tuple[int, list[Entry], list[Entry]]] = []
        self._sendable: list[Entry] = []  # claims that are saved
        self._claimed_count = 0  # claims that are not sent yet
        self._took_us = around.now_us()

    # --- messages

    def pump(self, limit: int) -> int:
        """Send so many messages at the most, as far as the client takes them: how many."""
        count = 0
        session = self.session
        if self.is_starved and session.has_room():
            self.is_starved = False
            for share in self._shares.values():
                if not share.is_closed:
                    self._around.open_share(self, share)
        while count < limit and session.has_room():
            if self._sendable:
                self._send_claimed(self._sendable.pop(0))
            else:
                entry = self._next()
                if entry is None:
                    break
                self._lend(entry)
            count += 1
        if count:
            self._took_us = self._around.now_us()
        if not self.is_ready and session.has_room() and not self._has_out():
            self.is_ready = True
            self.borrower.set_ready(self._around.now_us(), True)
            self.post()
        if (self.waits or self.is_starved) and not session.has_room():
            self._around.await_room(self)
        return count

    @property
    def is_quiet(self) -> bool:
        """Whether its client has nothing that is not done, and its leader knows and has saved how far it is.

        What it has read and not reported, as there was no message in it, is reported now.
        """
        if self.is_leaving or self.is_wanted or self.is_due or not self.borrower.is_quiet:
            return False
        if self._dirty or self._closing or self._saving or self._noted or self._claims or self._reported:
            return False
        lagging = [share for share in self._shares.values() if share.lags]
        for share in lagging:
            self._note(share, True)
        return not (lagging or self._sendable) and all(share.is_quiet for share in self._shares.values())

    @property
    def shares(self) -> list[OpenShare]:
        """The shares that it has."""
        return list(self._shares.values())

    def has_room(self) -> bool:
        """See `Taker`."""
        return self.session.has_room()

    def starve(self) -> None:
        """See `Taker`."""
        self.is_starved = True
        self._around.await_room(self)

    @property
    def waits(self) -> bool:
        """Whether messages wait that its client could be sent."""
        while self._turn and self._turn[0].is_closed:
            self._turn.pop(0)
        return bool(self._turn or self._sendable) and not self.is_leaving

    def feed(self, share: OpenShare) -> None:
        """Messages of a share wait, or it has ended."""
        if share.waiting and not share.is_queued:
            share.is_queued = True
            self._turn.append(share)
        self.touch(share)

    def take(self, entry: Entry) -> bool:
        """Send a message that another member's client may not have; whether this one's may, and has room."""
        if self.is_leaving or not self.session.has_room():
            return False
        self._lend(entry)
        return True

    def may_have(self, entry: Entry) -> bool:
        """Whether its client may have a message."""
        return self.session.may_borrow(entry.stored.topic, self.subscription)

    def touch(self, share: OpenShare, soon: bool = False) -> None:
        """A share has moved on."""
        if share.is_closed or share.is_ended:
            soon = True
        self._around.stir()
        self._note(share, soon)

    def _note(self, share: OpenShare, soon: bool) -> None:
        self._dirty[share] = None
        wish = 2 if soon else 1
        if wish > self.is_due:
            self.is_due = wish
            self._around.turns.want_report(self, soon)

    def on_saved(self, ticket: int) -> bool:
        """Session state is durable up to a ticket: what was assigned at QoS 2 is the session's own.

        Returns:
            Whether it is to hear of more.
        """
        while self._saving and self._saving[0][0] <= ticket:
            entry = self._saving.pop(0)[1]
            owner = entry.share.owner
            if isinstance(owner, Member) and owner.borrower.status != ENDED:
                owner.on_noted(entry)
            else:
                self._claim(entry)
        self.settle()
        return bool(self._saving)

    def on_noted(self, entry: Entry) -> None:
        """A message of one of its shares is a session's own."""
        self._noted.append(entry)
        settle(entry, True)

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
        for share in self._shares.values():
            self._unclaim(share)
        self._sendable.clear()
        for share in self._shares.values():
            self._close(share)
        self.borrower.unsubscribe(self._around.now_us())
        self.settle()

    def settle(self) -> None:
        """Say goodbye to the leader, if all is said and done."""
        if self.is_leaving and not self._saving and all(share.is_clear for share in self._shares.values()):
            self._disconnect()

    def _disconnect(self) -> None:
        if self.borrower.status != ENDED:
            sequence = self.borrower.disconnect({share: one.progress() for share, one in self._shares.items()})
            if self._noted:
                self._reported.append((sequence, self._noted, []))
                self._noted = []
            for share in self._shares.values():
                self._around.close_share(self, share)
            self.post()
            self._shares.clear()
            self._dirty.clear()
        self._part()

    def _part(self) -> None:
        if not self._saving and not any(noted for _, noted, _ in self._reported):
            self._around.on_ended(self, False)

    # --- the borrower

    def on_message(self, message: ToBorrower) -> None:
        """The leader says something."""
        if self.borrower.status == ENDED:
            if (sequence := getattr(message, "sequence", None)) is not None:
                self._on_progress_saved(sequence)
                self._part()
            return
        self.borrower.on_message(self._around.now_us(), message)
        self._handle()

    def tick(self) -> None:
        """Time has passed."""
        now = self._around.now_us()
        waits = self.waits or self.is_starved
        if self.is_ready and waits and now - self._took_us > self._around.stall_us:
            self.is_ready = False
            self.borrower.set_ready(now, False)
        elif not waits:
            self._took_us = now
        if not self.is_ready:
            self.pump(0)
        self.borrower.tick(now)
        self._handle()

    def report(self) -> None:
        """Tell the leader how far shares are."""
        self.is_due = 0
        dirty, self._dirty = self._dirty, {}
        now = self._around.now_us()
        progress = {}
        for share in dirty:
            if share.share not in self._shares:
                continue
            if share.is_finished and not share.is_closed:
                self._closing[share] = None
                self._around.close_share(self, share)
            progress[share.share] = share.progress()
        finished = {one.share: one.progress() for one in self._closing if one.is_clear and not one.has_claims}
        if finished:
            self._closing = {one: None for one in self._closing if one.share not in finished}
            self.borrower.finish(now, finished)
        if progress or self._noted or self._claims:
            sequence = self.borrower.report(now, progress)
            if self._noted or self._claims:
                self._reported.append((sequence, self._noted, self._claims))
                self._noted, self._claims = [], []
        self.post()
        self.settle()

    def post(self) -> None:
        """Send what the borrower has to say."""
        outgoing, self.borrower.outgoing = self.borrower.outgoing, []
        for message in outgoing:
            self._around.to_leader(self.group, self.borrower.id, message)

    def _handle(self) -> None:
        events, self.borrower.events = self.borrower.events, []
        for event in events:
            if isinstance(event, Granted):
                self._on_granted(event.share, event.progress)
            elif isinstance(event, Revoking):
                self._close(self._shares[event.share])
            elif isinstance(event, Overdue):
                self._on_overdue(event.share)
            elif isinstance(event, Forgotten):
                self._shares.pop(event.share)
            elif isinstance(event, ProgressSaved):
                self._on_progress_saved(event.sequence)
            elif isinstance(event, Invalidated):
                self._on_invalidated()
        self.post()

    def _on_granted(self, share: Share, progress: Progress) -> None:
        opened = OpenShare(share, progress, self._around.waiting)
        opened.owner = self
        self._shares[share] = opened
        self._around.open_share(self, opened)

    def _on_overdue(self, share: Share | None) -> None:
        if share is None:
            if not self._saving:
                self._disconnect()
            return
        opened = self._shares[share]
        if any(entry.share is opened for _, entry in self._saving):
            return
        self._unclaim(opened)
        self._closing.pop(opened, None)
        self.borrower.finish(self._around.now_us(), {share: opened.progress()})

    def _on_progress_saved(self, sequence: int) -> None:
        notes = self._around.notes
        while self._reported and self._reported[0][0] <= sequence:
            _, noted, claims = self._reported.pop(0)
            for entry in noted:
                if notes is not None:
                    notes.note(record.borrowed_key(entry.holder, entry.message), None)
            self._sendable.extend(entry for entry in claims if entry.is_claimed)
        if self._sendable:
            self._around.turns.want(self)

    def _on_invalidated(self) -> None:
        for share in self._shares.values():
            share.close()
            self._around.close_share(self, share)
        for entry in [*(one for _, noted, _ in self._reported for one in noted), *self._noted]:
            self._claim(entry)
        self._reported.clear()
        self._noted = []
        self._sendable.clear()
        self._shares.clear()
        wants_again = not self.is_leaving
        self.is_leaving = True
        self._around.on_ended(self, wants_again)

    # --- inside

    def _next(self) -> Entry | None:
        while self._turn:
            share = self._turn[0]
            entry = None if share.is_closed or self._claimed_count >= _CLAIMS_MAX else share.take()
            if entry is not None:
                self._turn.append(self._turn.pop(0))
                return entry
            if self._claimed_count >= _CLAIMS_MAX:
                return None
            self._turn.pop(0).is_queued = False
            if not share.is_closed:
                self._around.open_share(self, share)  # there is room for more
        return None

    def _lend(self, entry: Entry) -> None:
        session, stored = self.session, entry.stored
        if not self.may_have(entry):
            self._around.pass_on(self, entry)
            return
        qos = int(self.subscription.qos)
        if stored.qos < qos and not session.options.upgrade_qos:  # [MQTT-4.8.2-3]
            qos = stored.qos
        if qos == 2 and not self._is_durable:
            entry.is_claimed = True
            self._claims.append(entry)
            self._claimed_count += 1
            settle(entry, True)
        else:
            self._send(entry, qos)

    def _send(self, entry: Entry, qos: int) -> None:
        stored, subscription = entry.stored, self.subscription
        retain = stored.retain and subscription.retain_as_published
        delivery = GroupDelivery(message_of(stored), qos, retain, subscription, stored.stored_at - 1, entry)
        if not self.session.borrow(delivery):
            settle(entry)
        elif qos == 2 and self._is_durable:
            notes = self._around.notes
            assert notes is not None
            entry.holder = self.session.clientid
            key = record.borrowed_key(entry.holder, entry.message)
            self._saving.append((notes.note(key, record.encode_borrowed(self.group, entry.share.share)), entry))
            self._around.await_saved(self)

    def _close(self, share: OpenShare) -> None:
        share.close()
        self._around.close_share(self, share)
        self._closing[share] = None
        self.touch(share)

    def _send_claimed(self, entry: Entry) -> None:
        if entry.is_claimed:
            entry.is_claimed = False
            self._claimed_count -= 1
            self._send(entry, 2)
            _touch(entry)

    def _unclaim(self, share: OpenShare) -> None:
        """What was claimed and not sent is not the client's."""
        self._claimed_count -= share.unclaim()

    def _claim(self, entry: Entry) -> None:
        """Have the group know what a session has, now that no borrower says it."""
        self._around.claim(self.group, entry.share.share, entry.message, entry.holder)

    def _has_out(self) -> bool:
        return any(not share.is_clear for share in self._shares.values())

    def __repr__(self) -> str:
        status = f"{self.borrower.status}, {len(self._shares)} shares"
        return f"Member({str(self.group)!r}, {self.session.clientid!r}, {status})"


def settle(entry: Entry, soon: bool = False) -> None:
    """A message is done with."""
    if not entry.done:
        entry.done = True
        _touch(entry, soon)


def _touch(entry: Entry, soon: bool = False) -> None:
    owner = entry.share.owner
    if isinstance(owner, Member):
        owner.touch(entry.share, soon)
