"""The durable groups of a node: which groups are kept, who their members are, and which of them are awake.

A group is kept from the time a durable session joins it, or because it is declared, until its last member has left.
Then stored messages come to all its members from here. Groups without durable members know nothing of it. When what
is done is the business of `turns`; which members outlive their connections, of `roster`; what wakes a group, of
`sleepers` and `rooms`.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, Protocol

from heliograph.broker.shared import GroupKeeper, SharedGroup
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery, GroupDispatcher
from heliograph.session.session import Session
from heliograph.shared_groups.durable_group import AwakeGroup, DurableGroup
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
from heliograph.shared_groups.reading import Entry, Messages, Publishers, Waiting
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.shared_groups.rooms import Rooms
from heliograph.shared_groups.roster import Roster
from heliograph.shared_groups.sleepers import Sleepers
from heliograph.shared_groups.turns import GroupTurns, Loop
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import Stream, StreamId
from heliograph.storage.state.interface import StateDatabase

_log = logging.getLogger(__name__)

# What one turn does of each kind of work: less than 1 ms.
_TICKED_AT_ONCE: Final = 64  # members
_STARTED_AT_ONCE: Final = 16
_LEAVING_AT_ONCE: Final = 16
_SAVED_AT_ONCE: Final = 32
_WOKEN_AT_ONCE: Final = 8  # groups
_RESTED_AT_ONCE: Final = 16
_PARTED_AT_ONCE: Final = 16
_DROPPED_AT_ONCE: Final = 32
_AWAKE_MAX: Final = 1024  # groups beyond which those that have nothing to do fall asleep at once
_RESTING_MEMBERS_MAX: Final = 256  # a group at which more are at work does not fall asleep: that would take long
_CLOCKS_US: Final = 60_000_000  # how far the clock of commits may be behind that of the broker
_DAMAGES_MAX: Final = 10_000  # places that were reported; beyond that, they are counted each time


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

    It is given to the broker before sessions are read, and started when they are. A subscription to a shared filter
    before that may join a durable group, which is not known yet: so all groups that are joined then are durable.

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
        self.waiting = Waiting()
        self.roster = Roster()
        self.turns = GroupTurns(loop, begin_turn, self, self.timers.checkpoint_us / 1e6)
        self.now_us = now_us
        self.dispatcher = _Dispatcher(self)
        self._state = state
        self._declared = declared
        self._registry = LeaderRegistry(state, self._find_streams, self, now_us, self.timers)
        self._registry.on_more = self.turns.schedule_more
        self._groups: dict[str, DurableGroup] = {}
        self._begins: dict[str, tuple[int, int]] = {}  # of groups that were joined before the start
        self._dropped: dict[str, bool] = {}  # groups to be forgotten, and whether the disk may have progress of them
        self._left: dict[str, list[Subscription]] = {}  # those that are no members any more, by group
        self._sleepers = Sleepers(self._growing_streams, self._groups.values, self._on_behind, self.turns.schedule_more)
        self._rooms = Rooms()
        self._waking: dict[DurableGroup, None] = {}
        self._unwoken: dict[DurableGroup, None] = {}  # those that could not be woken
        self._awake: dict[DurableGroup, None] = {}
        self._starting: deque[tuple[AwakeGroup, list[Subscription]]] = deque()  # members whose clients are there
        self._leaving: deque[Member] = deque()  # members whose clients are gone
        self._unticked: deque[Member] = deque()  # members that have yet to be ticked,
        self._unrested: deque[DurableGroup] = deque()  # and groups that may fall asleep
        self._members: dict[BorrowerId, Member] = {}
        self._of_session: dict[Subscriber, dict[Member, None]] = {}
        self._last_borrower = 0
        self._saving: dict[Member, None] = {}
        self._saved: dict[Member, None] = {}  # those that are to hear of the commit of this ticket
        self._saved_ticket = 0
        self._damages: set[tuple[StreamId, int]] = set()  # places that were reported
        self._is_started = False
        self._counts = {"returned": 0, "damaged_places": 0, "refused": 0, "woken": 0}

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
        known = dict(self._registry.database.groups())
        members, borrowed = self.roster.read()  # nothing fails from here on
        self._registry.node = node
        self.turns.committed_us = max(self.turns.committed_us, committed_us)
        begins = self._begins
        for wanted in self._declared:
            declared = (0, 0) if wanted.from_earliest else (committed_us, self.now_us())
            key = str(wanted.group)
            begins[key] = min(declared, begins.get(key, declared))
            self._keep(key, True).is_declared = True
        for group, clientid, made_us in self.roster.members(members, knows):
            key = str(group)
            self.roster.add(self._keep(key, True), clientid)
            # A group whose own record a crash took begins with its first member; its clock need not be storage's.
            begins[key] = min(begins.get(key, (made_us, made_us)), (max(0, made_us - _CLOCKS_US), made_us))
        self._is_started = True
        for one, clientid in self.roster.borrowed(borrowed, lambda group: str(group) in self._groups):
            self.claim(one.group, one.share, one.message, clientid)
        for group in known:
            if str(group) not in self._groups and self.roster.sessions is not None:  # else its members are not known
                self._registry.drop(group)
        for key, kept in self._groups.items():
            for subscription in kept.subscriptions:
                if isinstance(subscription.subscriber, DurableSession):
                    self.roster.join(kept, subscription, self.now_us())
            if not known.get(kept.name):
                self._registry.enter(kept.name, *begins.get(key, (committed_us, self.now_us())))
            if kept.is_attended:
                self._want_awake(kept)
        self._begins = {}
        self.turns.schedule()

    @property
    def is_started(self) -> bool:
        """Whether every group was taken up; until then durable groups deliver nothing."""
        return self._is_started

    @property
    def refusal(self) -> StorageError | None:
        """Why their database refuses what is read or saved, while it does."""
        return self._registry.database.refusal

    async def close(self) -> None:
        """Save the progress of all groups, and close the database; clients are gone already."""
        while self._leaving or self._left:
            self._leave_some()
            self._part_some()
        self.turns.close()
        self._registry.settle_all()
        self._drop_some(len(self._dropped))
        await self._state.close()

    # --- the broker's members

    def makes_durable(self, group: SharedGroup, member: Subscription) -> bool:
        """See `GroupKeeper`."""
        key = group.clientid
        before = self._groups.get(key)
        if before is not None and before.members is None and key in self._left:  # this is another group of its name
            self._part_from(key, len(self._left[key]))
        if key in self._groups:
            return True
        if not self._is_started:  # it may have durable members that are not known yet
            self._keep(key, True)
            self._begins[key] = max(0, self.now_us() - _CLOCKS_US), self.now_us()
            return True
        if self.roster.sessions is None or not isinstance(member.subscriber, DurableSession):
            return False
        if key in self._dropped:
            self._registry.drop(GroupName.parse(key), self._dropped.pop(key))
        kept = self._keep(key, False)
        self._registry.enter(kept.name, self.turns.committed_us, self.now_us())
        self._sleepers.add(kept)
        return True

    def on_joined(self, group: SharedGroup, member: Subscription) -> None:
        """See `GroupKeeper`."""
        session = member.subscriber
        if not isinstance(session, Session):
            return
        kept = self._groups[group.clientid]
        kept.members = group
        session.dispatcher = self.dispatcher
        if self._is_started and isinstance(session, DurableSession):  # else it was one before, and is noted
            self.roster.join(kept, member, self.now_us())
        if session.attached:
            self._attend(kept, member)

    def on_left(self, group: SharedGroup, member: Subscription) -> None:
        """See `GroupKeeper`."""
        kept, session = self._groups.get(group.clientid), member.subscriber
        if kept is None:
            return
        if not group.members:
            kept.members = None
        self._rooms.forget(member)
        is_there = isinstance(session, Session) and session.attached
        one = None if kept.awake is None else kept.awake.subscriptions.pop(member, None)
        if one is not None and is_there:
            one.leave()
        elif one is not None:
            self._want_leave(one)
        self._left.setdefault(kept.key, []).append(member)
        if is_there:
            self._part_from(kept.key, 1)
        else:  # its session ends, and may have thousands of groups
            self.turns.schedule_more()

    def on_session_ended(self, clientid: str, _: object = None) -> None:
        """A session ended that lay on the disk only; another one has left its groups."""
        for kept in self.roster.unknown_groups(clientid):
            self.roster.remove(kept, clientid)
            self._drop_if_empty(kept)

    def _part_some(self) -> None:
        for key in list(islice(self._left, _PARTED_AT_ONCE)):
            self._part_from(key, _PARTED_AT_ONCE)
        if self._left:
            self.turns.schedule_more()

    def _part_from(self, key: str, count: int) -> None:
        """So many that have left a group are no members of it any more."""
        members = self._left[key]
        for _ in range(min(count, len(members))):
            member, kept = members.pop(), self._groups.get(key)
            if kept is not None:
                self.roster.leave(kept, member)
                self._drop_if_empty(kept)
        if not members:
            del self._left[key]

    def _keep(self, key: str, is_behind: bool) -> DurableGroup:
        kept = self._groups.get(key)
        if kept is None:
            kept = self._groups[key] = DurableGroup(key, is_behind)
        return kept

    def _find(self, subscription: Subscription) -> DurableGroup | None:
        return self._groups.get(f"{subscription.group}/{subscription.topic_filter}")

    def _drop_if_empty(self, kept: DurableGroup) -> None:
        if not kept.is_empty or self._groups.get(kept.key) is not kept:
            return
        del self._groups[kept.key]
        self._sleepers.remove(kept)
        if kept.awake is not None:
            del self._awake[kept]
            self._registry.drop(kept.name)
        elif self._is_started:  # else it may have members that are not known yet
            self._dropped[kept.key] = kept.has_progress
            self.turns.schedule_more()

    def _drop_some(self, count: int) -> None:
        for key in list(islice(self._dropped, count)):
            self._registry.drop(GroupName.parse(key), self._dropped.pop(key))
        if self._dropped:
            self.turns.schedule_more()

    # --- sessions

    def attach(self, session: Session) -> None:
        """A client is there."""
        if isinstance(session, DurableSession):
            for kept, subscription in self.roster.memberships(session):
                self._attend(kept, subscription)
            return
        for subscription in session.subscriptions.values():
            found = self._find(subscription) if subscription.group else None
            if found is not None:
                self._attend(found, subscription)

    def detach(self, session: Subscriber) -> None:
        """A client is gone."""
        self._rooms.forget_session(session)
        for member in self._of_session.get(session, ()):
            self._want_leave(member)

    def on_room(self, session: Session) -> None:
        """A client may be sent more: one of those that wait for it has its turn."""
        while session.has_room() and (subscription := self._rooms.next(session)) is not None:
            kept = self._find(subscription)
            if kept is None:
                continue
            member = None if kept.awake is None else kept.awake.subscriptions.get(subscription)
            if member is not None:
                self.turns.want(member)
                return
            if kept.awake is None and kept.is_behind:
                self._want_awake(kept)

    def on_returned(self, delivery: GroupDelivery) -> None:
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
        self._saved_ticket = ticket
        if self._saving:
            self._saved.update(self._saving)
            self._saving = {}
            self.turns.schedule_more()

    def _attend(self, kept: DurableGroup, subscription: Subscription) -> None:
        """The client of a member is there."""
        if kept.awake is not None:
            self._starting.append((kept.awake, [subscription]))
            self.turns.schedule_more()
        elif kept.is_behind:
            self._want_awake(kept)

    def _want_leave(self, member: Member) -> None:
        self._leaving.append(member)
        self.turns.schedule_more()

    # --- groups that wake and fall asleep

    def _on_behind(self, kept: DurableGroup) -> None:
        """A group that is asleep may have messages: wake it as soon as a member takes them."""
        if self._groups.get(kept.key) is not kept:
            return
        self._sleepers.remove(kept)
        kept.is_behind = True
        if kept.has_room:
            self._want_awake(kept)
        else:
            self._await_rooms(kept)

    def _await_rooms(self, kept: DurableGroup) -> None:
        for subscription in kept.subscriptions:
            if isinstance(subscription.subscriber, Session) and subscription.subscriber.attached:
                self._rooms.wait(subscription)

    def _want_awake(self, kept: DurableGroup) -> None:
        if self._is_started:
            self._waking[kept] = None
            self.turns.schedule_more()

    def _wake_some(self) -> None:
        for kept in list(islice(self._waking, _WOKEN_AT_ONCE)):
            del self._waking[kept]
            if self._groups.get(kept.key) is kept and kept.awake is None:
                self._wake(kept)
        if self._waking:
            self.turns.schedule_more()

    def _wake(self, kept: DurableGroup) -> None:
        name = kept.name
        if not kept.has_room and not self._registry.has_claims(name):  # many have been woken for the same room
            self._await_rooms(kept)
            return
        made_us = self._registry.open(name, self.turns.committed_us, self.now_us())
        if made_us is None:
            self._unwoken[kept] = None
            return
        self._counts["woken"] += 1
        self._sleepers.remove(kept)
        kept.is_behind = False
        kept.has_progress = True
        kept.awake = AwakeGroup(name, self, made_us)
        self._awake[kept] = None
        self._starting.append((kept.awake, kept.subscriptions))

    def _start_some(self) -> None:
        left = _STARTED_AT_ONCE
        while self._starting and left > 0:
            awake, subscriptions = self._starting[0]
            if not subscriptions:
                self._starting.popleft()
                continue
            left -= 1
            subscription = subscriptions.pop()
            session, kept = subscription.subscriber, self._groups.get(str(awake.name))
            is_there = isinstance(session, Session) and session.attached and subscription.slot >= 0
            if kept is not None and kept.awake is awake and is_there:
                awake.start(subscription)
        if self._starting:
            self.turns.schedule_more()

    def _leave_some(self) -> None:
        for _ in range(min(_LEAVING_AT_ONCE, len(self._leaving))):
            member = self._leaving.popleft()
            is_back = member.session.attached and member.subscription.slot >= 0
            if not is_back and self._members.get(member.borrower.id) is member:
                member.leave()
        if self._leaving:
            self.turns.schedule_more()

    def _rest_some(self) -> None:
        for _ in range(min(_RESTED_AT_ONCE, len(self._unrested))):
            kept = self._unrested.popleft()
            if kept.awake is not None and kept in self._awake:
                self._rest(kept, kept.awake)
        if self._unrested:
            self.turns.schedule_more()

    def _rest(self, kept: DurableGroup, awake: AwakeGroup) -> None:
        """Let a group fall asleep that has had nothing to do for a while."""
        now = self.now_us()
        if awake.is_stirred:
            awake.is_stirred = False
            awake.quiet_us = now
        if now - awake.quiet_us < self.timers.rest_us and len(self._awake) <= _AWAKE_MAX:
            return
        if len(awake.members) > _RESTING_MEMBERS_MAX:
            return
        if not awake.is_quiet or not self._registry.is_quiet(awake.name, len(awake.members)):
            return
        try:
            streams = self._sleepers.streams(awake.name.topic_filter)
        except StorageError:
            return
        is_done = awake.is_at_head and self._registry.has_granted_all(awake.name, streams)
        if not is_done and kept.has_room:
            return
        awake.end()
        self._registry.close(awake.name)
        del self._awake[kept]
        kept.awake = None
        kept.is_behind = not is_done
        if is_done:
            self._sleepers.add(kept)
        else:
            self._await_rooms(kept)

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
        if is_there:
            self._members[member.borrower.id] = member
            self._of_session.setdefault(member.session, {})[member] = None
            return
        del self._members[member.borrower.id]
        of_session = self._of_session[member.session]
        del of_session[member]
        if not of_session:
            del self._of_session[member.session]

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """See `kept.Node`."""
        kept = self._groups.get(str(group))
        if kept is None:  # there is nothing left that it could be missing from
            self.roster.forget_borrowed(clientid, message)
            return
        self._registry.claim(group, share, message, lambda: self.roster.forget_borrowed(clientid, message))
        if kept.awake is None:
            self._want_awake(kept)

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """See `Messenger`."""
        self.turns.post(lambda: self._deliver(group, sender, message))

    def to_borrower(self, receiver: BorrowerId, message: ToBorrower) -> None:
        """See `Messenger`."""
        self.turns.post(lambda: self._hand_over(receiver, message))

    def await_saved(self, member: Member) -> None:
        """See `kept.Node`."""
        self._saving[member] = None

    def await_room(self, member: Member) -> None:
        """See `kept.Node`."""
        if member.subscription.slot >= 0 and member.session.attached:
            self._rooms.wait(member.subscription)

    def on_refused(self) -> None:
        """See `kept.Node`."""
        self._counts["refused"] += 1

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
        self._sleepers.on_grown(streams)
        self.turns.on_grown(streams)

    def tick(self) -> None:
        """Time has passed."""
        self._sleepers.renew()
        self._waking.update(self._unwoken)
        self._unwoken = {}
        if not self._unticked:
            self._unticked.extend(self._members.values())
        if not self._unrested:
            self._unrested.extend(self._awake)
        if not (self._awake or self._members or self._waking):  # empty tables keep the room that they had
            self._awake, self._members, self._waking = {}, {}, {}
        self._tick_members()
        self._wake_some()
        self._rest_some()
        self._registry.tick()

    def _tick_members(self) -> None:
        for _ in range(min(_TICKED_AT_ONCE, len(self._unticked))):
            member = self._unticked.popleft()
            if self._members.get(member.borrower.id) is member:
                member.tick()
        if self._unticked:
            self.turns.schedule_more()

    def _settle_saved(self) -> None:
        for member in list(islice(self._saved, _SAVED_AT_ONCE)):
            del self._saved[member]
            if member.on_saved(self._saved_ticket):
                self._saving[member] = None
        if self._saved:
            self.turns.schedule_more()

    def statistics(self) -> dict[str, int]:
        """How many groups, members and shares there are, and what became of messages."""
        numbers = {
            "durable": len(self._groups),
            "awake": len(self._awake),
            "members": len(self._members),
            "waiting_bytes": self.waiting.size_bytes,
            **self._counts,
            **self.turns.statistics(),
            **self._registry.statistics(),
        }
        return {f"shared_groups.{name}": number for name, number in numbers.items()}

    # --- what turns tell

    def on_messages_read(self) -> None:
        """See `Work`."""
        self._registry.settle()

    def go_on(self) -> None:
        """See `Work`."""
        self._leave_some()
        self._settle_saved()
        self._tick_members()
        self._sleepers.go_on()
        self._wake_some()
        self._start_some()
        self._rest_some()
        self._part_some()
        self._drop_some(_DROPPED_AT_ONCE)
        self._registry.go_on()

    def on_sent(self, member: Member) -> None:
        """See `Work`."""
        if not member.session.has_room():
            return
        kept = self._groups.get(str(member.group))
        if kept is not None and kept.awake is not None and kept.awake.has_strays:
            kept.awake.offer_strays()
        self.on_room(member.session)

    def _deliver(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        kept = self._groups.get(str(group))
        if kept is None or kept.awake is None:
            if isinstance(message, UpdateProgress | Disconnect):  # there is nothing left that it could be missing from
                self.to_borrower(sender, Saved(message.sequence))
            return  # it may still wait for a leader, and would be granted shares when there is one again
        self._registry.on_message(group, sender, message)

    def _hand_over(self, receiver: BorrowerId, message: ToBorrower) -> None:
        member = self._members.get(receiver)
        if member is not None:
            member.on_message(message)

    def _find_streams(self, group: GroupName, start: int) -> list[StreamOffer]:
        return [StreamOffer(one.id, one.rank) for one in self.messages.get_streams(group.topic_filter, start)]

    def _growing_streams(self, topic_filter: str) -> list[StreamId]:
        streams = self.messages.get_streams(topic_filter, self.turns.committed_us)
        return [one.id for one in streams if not one.sealed]

    def __repr__(self) -> str:
        return f"DurableGroups({len(self._groups)} groups, {len(self._awake)} awake, {self._registry!r})"


class _Dispatcher(GroupDispatcher):
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
        if isinstance(session, Session):
            self._groups.on_room(session)

    def on_done(self, session: Subscriber, delivery: GroupDelivery) -> None:
        if isinstance(delivery.entry, Entry):
            settle(delivery.entry)
            owner = delivery.entry.share.owner
            if isinstance(owner, Member) and not owner.is_ready:
                self._groups.turns.want(owner)

    def on_returned(self, session: Subscriber, delivery: GroupDelivery) -> None:
        self._groups.on_returned(delivery)
