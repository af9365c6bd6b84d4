"""The durable groups of a node: which groups are kept, and who their members are.

A group is kept from the time a durable session joins it, or because it is declared, until its last member has left.
Then stored messages come to all its members from here. Groups without durable members know nothing of it. When what
is done is the business of `turns`; which members outlive their connections, of `roster`.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from heliograph.broker.shared import GroupKeeper
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.durable import DurableSession
from heliograph.session.lending import Lender, LentDelivery
from heliograph.session.session import Session
from heliograph.shared_groups import record
from heliograph.shared_groups.kept import KeptGroup
from heliograph.shared_groups.member import Member, SessionNotes, settle
from heliograph.shared_groups.protocol import (
    BorrowerId,
    Disconnect,
    GroupName,
    MessageId,
    Saved,
    Share,
    StreamOffer,
    Timers,
    ToBorrower,
    ToLeader,
    UpdateProgress,
)
from heliograph.shared_groups.reading import Entry, Messages, Publishers
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.shared_groups.roster import Roster
from heliograph.shared_groups.turns import GroupTurns, Loop
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import Stream, StreamId
from heliograph.storage.state.interface import StateDatabase

_log = logging.getLogger(__name__)

_TICKED_AT_ONCE: Final = 64  # members, 1 ms
_CLOCKS_US: Final = 60_000_000  # how far the clock of commits may be behind that of the broker
_DAMAGES_MAX: Final = 10_000  # places that were told; beyond that, they are counted each time


class GroupMessages(Messages, Protocol):
    """What is asked of the database of messages."""

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """The streams that can hold messages of a filter."""


class Declared:
    """A group that outlives its members.

    Args:
        from_earliest: Whether it begins with the oldest stored message, rather than with its declaration.
    """

    def __init__(self, group: GroupName, from_earliest: bool) -> None:
        self.group = group
        self.from_earliest = from_earliest


class DurableGroups(GroupKeeper):
    """Every durable group of a node; owned by the node, in whose event loop it lives.

    It is given to the broker before sessions are read, and started when they are. Whoever subscribes to a shared filter
    before that may join a group that is kept, and nobody knows: so all groups that are joined then are kept.

    Args:
        messages: The database of messages.
        state: The database `shared_groups`.
        now_us: The wall clock of the broker's turn.
        begin_turn: Tells the broker the time; called when the loop calls.
    """

    def __init__(
        self,
        messages: GroupMessages,
        state: StateDatabase,
        loop: Loop,
        now_us: Callable[[], int],
        begin_turn: Callable[[], object],
        timers: Timers | None = None,
        declared: Sequence[Declared] = (),
    ) -> None:
        super().__init__()
        self.messages = messages
        self.timers = timers or Timers()
        self.publishers = Publishers()
        self.roster = Roster()
        self.turns = GroupTurns(loop, begin_turn, self, self.timers.checkpoint_us / 1e6)
        self.now_us = now_us
        self.lending = _Lending(self)
        self._state = state
        self._declared = declared
        self._registry = LeaderRegistry(state, self._find_streams, self, now_us, self.timers)
        self._registry.on_more = self.turns.schedule_more
        self._unticked: deque[Member] = deque()  # members that have yet to be told the time
        self._groups: dict[GroupName, KeptGroup] = {}
        self._members: dict[BorrowerId, Member] = {}
        self._of_session: dict[Subscriber, list[Member]] = {}
        self._last_borrower = 0
        self._saving: dict[Member, None] = {}
        self._damages: set[tuple[StreamId, int]] = set()  # places that were told
        self._is_started = False
        self._counts = {"returned": 0, "damaged_places": 0}

    # --- the start and the end

    def start(self, node: str, committed_us: int, knows: Callable[[str], bool]) -> None:
        """Sessions are read: take up every group where it was left. When it fails, it is to be called again.

        Args:
            node: The node's permanent name.
            committed_us: What is stored up to this commit time is committed.
            knows: Whether a client has a session.

        Raises:
            StorageError: A database cannot be read.
        """
        database = self._registry.database
        known = {group: database.find(group) for group in database.groups()}
        members, borrowed = self.roster.read()  # nothing fails from here on
        self._registry.node = node
        self.turns.committed_us = max(self.turns.committed_us, committed_us)
        begins = {group: (max(0, kept.made_us - _CLOCKS_US), kept.made_us) for group, kept in self._groups.items()}
        for wanted in self._declared:
            declared = (0, 0) if wanted.from_earliest else (committed_us, self.now_us())
            begins[wanted.group] = min(declared, begins.get(wanted.group, declared))
            self._keep(wanted.group, True).is_declared = True
        for group, clientid, made_us in self.roster.members(members, knows):
            self.roster.add(self._keep(group, False), clientid)
            # A group whose own record a crash took begins with its first member; its clock need not be storage's.
            begins[group] = min(begins.get(group, (made_us, made_us)), (max(0, made_us - _CLOCKS_US), made_us))
        for one, clientid in self.roster.borrowed(borrowed, self._groups.__contains__):
            self.claim(one.group, one.share, one.message, clientid)
        self._is_started = True
        for group in known:
            if group not in self._groups and self.roster.sessions is not None:  # else its members are not known
                self._registry.drop(group)
        for group, kept in self._groups.items():
            for subscription in kept.subscriptions:
                if isinstance(subscription.subscriber, DurableSession):
                    self.roster.join(kept, subscription.subscriber.clientid, self.now_us())
            self._open(kept, known.get(group), *begins.get(group, (committed_us, self.now_us())))
        self.turns.schedule()

    @property
    def is_started(self) -> bool:
        """Whether every group was taken up; until then nobody gets anything of a group that is kept."""
        return self._is_started

    async def close(self) -> None:
        """Save how far everybody is, and close the database; clients are gone already."""
        self.turns.close()
        await self._state.close()

    # --- the broker's members

    def keeps(self, member: Subscription) -> bool:
        """See `GroupKeeper`."""
        group = GroupName(member.group, member.topic_filter)
        if group in self._groups:
            return True
        if not self._is_started:  # it may have durable members that nobody knows yet
            self._keep(group, False)
            return True
        if self.roster.sessions is None or not isinstance(member.subscriber, DurableSession):
            return False
        self._open(self._keep(group, False), self._find(group), self.turns.committed_us, self.now_us())
        return True

    def on_joined(self, member: Subscription) -> None:
        """See `GroupKeeper`."""
        session = member.subscriber
        if not isinstance(session, Session):
            return
        group = GroupName(member.group, member.topic_filter)
        kept = self._groups[group]
        kept.subscriptions[member] = None
        session.lender = self.lending
        if self._is_started and isinstance(session, DurableSession):  # else it was one before, and is noted
            self.roster.join(kept, session.clientid, self.now_us())
        if session.attached:
            kept.start(member)

    def on_left(self, member: Subscription) -> None:
        """See `GroupKeeper`."""
        group = GroupName(member.group, member.topic_filter)
        kept = self._groups.get(group)
        if kept is None:
            return
        one = kept.subscriptions.pop(member, None)
        if one is not None:
            one.leave()
        clientid = member.subscriber.clientid
        if clientid in kept.clients and not any(one.subscriber.clientid == clientid for one in kept.subscriptions):
            self.roster.remove(kept, clientid)
        self._drop_if_empty(kept)

    def on_session_ended(self, clientid: str, _: object = None) -> None:
        """A session ended, which may have lain on the disk only."""
        for kept in self.roster.groups_of(clientid):
            self.roster.remove(kept, clientid)
            self._drop_if_empty(kept)

    def _keep(self, group: GroupName, is_declared: bool) -> KeptGroup:
        kept = self._groups.get(group)
        if kept is None:
            kept = self._groups[group] = KeptGroup(group, self, is_declared, self.now_us())
        return kept

    def _find(self, group: GroupName) -> record.GroupRecord | None:
        try:
            return self._registry.database.find(group)
        except StorageError as error:
            _log.error("shared group %.200r cannot be read [%s]: %s", str(group), error.code, error)
            return None

    def _open(self, kept: KeptGroup, before: record.GroupRecord | None, since_us: int, made_us: int) -> None:
        kept.made_us = made_us if before is None else before.made_us
        self._registry.open(kept.name, since_us, made_us)

    def _drop_if_empty(self, kept: KeptGroup) -> None:
        if kept.is_empty and self._groups.get(kept.name) is kept:
            del self._groups[kept.name]
            if self._is_started:  # else it may have members that nobody knows yet
                self._registry.drop(kept.name)

    # --- sessions

    def attach(self, session: Session) -> None:
        """A client is there."""
        for subscription in session.subscriptions.values():
            if subscription.group:
                kept = self._groups.get(GroupName(subscription.group, subscription.topic_filter))
                if kept is not None and subscription in kept.subscriptions:
                    kept.start(subscription)

    def detach(self, session: Subscriber) -> None:
        """A client is gone."""
        for member in list(self._of_session.get(session, ())):
            member.leave()

    def on_room(self, session: Subscriber) -> None:
        """A client may be sent more."""
        for member in self._of_session.get(session, ()):
            if member.waits or not member.is_ready:
                self.turns.want(member)

    def on_returned(self, delivery: LentDelivery) -> None:
        """A client left without acknowledging a message."""
        entry = delivery.entry
        if isinstance(entry, Entry) and not entry.done:
            self._counts["returned"] += 1
            entry.share.put_back(entry)
            if isinstance(entry.share.owner, Member):
                entry.share.owner.feed(entry.share)
                self.turns.want(entry.share.owner)

    def on_sessions_saved(self, ticket: int) -> None:
        """Session state is durable up to a ticket."""
        for member in list(self._saving):
            if not member.on_saved(ticket):
                del self._saving[member]

    # --- what groups ask

    @property
    def notes(self) -> SessionNotes | None:
        """See `kept.Node`."""
        return self.roster.sessions

    def next_borrower(self, clientid: str) -> BorrowerId:
        """See `kept.Node`."""
        self._last_borrower += 1
        return BorrowerId(clientid, self._last_borrower)

    def on_member(self, member: Member, is_there: bool) -> None:
        """See `kept.Node`."""
        of_session = self._of_session.setdefault(member.session, [])
        if is_there:
            self._members[member.borrower.id] = member
            of_session.append(member)
            return
        del self._members[member.borrower.id]
        of_session.remove(member)
        if not of_session:
            del self._of_session[member.session]

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """See `kept.Node`."""
        self._registry.claim(group, share, message, lambda: self.roster.forget_borrowed(clientid, message))

    def to_leader(self, group: GroupName, sender: BorrowerId, letter: ToLeader) -> None:
        """See `Mail`."""
        self.turns.post(lambda: self._deliver(group, sender, letter))

    def to_borrower(self, receiver: BorrowerId, letter: ToBorrower) -> None:
        """See `Mail`."""
        self.turns.post(lambda: self._hand_over(receiver, letter))

    def await_saved(self, member: Member) -> None:
        """See `kept.Node`."""
        self._saving[member] = None

    def on_damage(self, damage: Damage) -> None:
        """See `kept.Node`."""
        place = damage.stream, damage.since
        if place in self._damages:
            return
        if len(self._damages) < _DAMAGES_MAX:
            self._damages.add(place)
        self._counts["damaged_places"] += 1
        count = "some messages" if damage.messages is None else f"{damage.messages} messages"
        _log.error("shared groups pass over %s of stream %s: %s", count, damage.stream, damage.problem)

    # --- what the node says

    def on_grown(self, streams: Sequence[StreamId]) -> None:
        """A commit added to these streams, or closed them; called once it is durable."""
        self._registry.on_grown(streams)
        self.turns.on_grown(streams)

    def tick(self) -> None:
        """Time has passed."""
        if not self._unticked:
            self._unticked.extend(self._members.values())
        self._tick_members()
        self._registry.tick()

    def _tick_members(self) -> None:
        for _ in range(min(_TICKED_AT_ONCE, len(self._unticked))):
            member = self._unticked.popleft()
            if self._members.get(member.borrower.id) is member:
                member.tick()
        if self._unticked:
            self.turns.schedule_more()

    def statistics(self) -> dict[str, int]:
        """How many groups, members and shares there are, and what became of messages."""
        numbers = {
            "kept": len(self._groups),
            "members": len(self._members),
            "refused": sum(kept.refused_count for kept in self._groups.values()),
            **self._counts,
            **self.turns.statistics(),
            **self._registry.statistics(),
        }
        return {f"shared_groups.{name}": number for name, number in numbers.items()}

    # --- what turns tell

    def on_letters_read(self) -> None:
        """See `Work`."""
        self._registry.settle()

    def go_on(self) -> None:
        """See `Work`."""
        self._tick_members()
        self._registry.go_on()

    def on_sent(self, member: Member) -> None:
        """See `Work`."""
        kept = self._groups.get(member.group)
        if kept is not None and kept.has_strays and member.session.has_room():
            kept.offer_strays()

    def _deliver(self, group: GroupName, sender: BorrowerId, letter: ToLeader) -> None:
        if group not in self._groups and isinstance(letter, UpdateProgress | Disconnect):
            self.to_borrower(sender, Saved(letter.sequence))  # there is nothing left that it could be missing from
            if isinstance(letter, UpdateProgress):
                return  # else it may still wait for a leader, and would be granted shares when there is one again
        self._registry.on_letter(group, sender, letter)

    def _hand_over(self, receiver: BorrowerId, letter: ToBorrower) -> None:
        member = self._members.get(receiver)
        if member is not None:
            member.on_letter(letter)

    def _find_streams(self, group: GroupName, start: int) -> list[StreamOffer]:
        return [StreamOffer(one.id, one.rank) for one in self.messages.get_streams(group.topic_filter, start)]

    def __repr__(self) -> str:
        return f"DurableGroups({len(self._groups)} groups, {len(self._members)} members, {self._registry!r})"


class _Lending(Lender):
    """What sessions say to the groups."""

    def __init__(self, groups: DurableGroups) -> None:
        super().__init__()
        self._groups = groups

    def on_attached(self, session: Subscriber) -> None:
        if isinstance(session, Session):
            self._groups.attach(session)

    def on_detached(self, session: Subscriber) -> None:
        self._groups.detach(session)

    def on_room(self, session: Subscriber) -> None:
        self._groups.on_room(session)

    def on_done(self, session: Subscriber, delivery: LentDelivery) -> None:
        if isinstance(delivery.entry, Entry):
            settle(delivery.entry)

    def on_returned(self, session: Subscriber, delivery: LentDelivery) -> None:
        self._groups.on_returned(delivery)
