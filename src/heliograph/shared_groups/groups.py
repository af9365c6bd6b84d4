"""The durable groups of a node: joins together what they consist of, and is what node, broker and storage see of them.

`membership` knows which groups there are and who their members are, `waking` which of them are awake, `active_members`
the members at work, `registry` the leaders, `turns` when what is done. Groups without durable members know nothing of
all that.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from heliograph.broker.subscription import Subscriber
from heliograph.parts.loop import Loop
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery, GroupDispatcher
from heliograph.session.session import Session
from heliograph.shared_groups.active_members import ActiveMembers
from heliograph.shared_groups.deliveries import SessionNotes
from heliograph.shared_groups.durable_group import GroupDirectory
from heliograph.shared_groups.losses import Losses
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.membership import Declared, Membership
from heliograph.shared_groups.open_share import Entry, Waiting
from heliograph.shared_groups.protocol import (
    BorrowerId,
    Disconnect,
    GroupName,
    Saved,
    StreamOffer,
    Timers,
    ToBorrower,
    ToLeader,
    UpdateProgress,
)
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.shared_groups.rooms import Rooms
from heliograph.shared_groups.roster import Roster
from heliograph.shared_groups.stream_reader import Messages, Publishers
from heliograph.shared_groups.turns import GroupTurns
from heliograph.shared_groups.waking import GroupStreams, GroupWaking
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamId
from heliograph.storage.state.interface import StateDatabase


class GroupMessages(Messages, GroupStreams, Protocol):
    pass


class DurableGroups:
    """Every durable group of a node; owned by the node, in whose event loop it lives.

    Args:
        now_us: The wall clock of the broker's turn.
        begin_turn: Tells the broker the time; called when the loop calls.

    Attributes:
        membership: What the broker asks when clients join and leave groups.
        roster: The members that outlive their connections.
        turns: When what is done.
        waiting: How much was read and waits for clients.
        losses: What groups pass over.
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
        self.messages = messages
        self.now_us = now_us
        self.timers = timers or Timers()
        self.publishers = Publishers()
        self.waiting = Waiting()
        self.losses = Losses()
        self.roster = Roster()
        self.turns = GroupTurns(loop, begin_turn, self, self.timers.checkpoint_us / 1e6)
        rooms, self._directory = Rooms(), GroupDirectory()
        self.members = ActiveMembers(self.turns.schedule_more, rooms)
        self._state = state
        self._declared = declared
        self._registry = LeaderRegistry(state, self._find_streams, self, now_us, self.timers)
        self._registry.on_more = self.turns.schedule_more
        self._waking = GroupWaking(self._directory, messages, self.turns, self, self._registry, self.members, rooms)
        self._dispatcher = MemberDispatcher(self._directory, self.roster, self.turns, self._waking, self.members, rooms)
        self.membership = Membership(
            self._directory,
            self.roster,
            self.turns,
            self._registry,
            self._waking,
            self.members,
            self._dispatcher,
            now_us,
        )

    # --- what the node says

    def start(self, node: str, committed_us: int, knows: Callable[[str], bool]) -> None:
        """Sessions are read: take up every group where it was left. When it fails, it is to be called again.

        Args:
            committed_us: What is stored up to this commit time is committed.
        """
        self.membership.start(node, committed_us, knows, self._declared)

    @property
    def is_started(self) -> bool:
        return self.membership.is_started

    @property
    def refusal(self) -> StorageError | None:
        return self._registry.database.refusal

    def on_grown(self, streams: Sequence[StreamId]) -> None:
        self._registry.on_grown(streams)
        self._waking.on_grown(streams)
        self.turns.on_grown(streams)

    def tick(self) -> None:
        self.members.tick()
        self._waking.tick()
        self._registry.tick()

    async def close(self) -> None:
        self.members.leave_now()
        self.membership.part_now()
        self.turns.close()
        self._registry.settle_all()
        self.membership.drop_now()
        await self._state.close()

    def statistics(self) -> dict[str, int]:
        numbers = {
            "durable": len(self._directory),
            "awake": len(self._waking),
            "members": len(self.members),
            "waiting_bytes": self.waiting.size_bytes,
            "returned": self._dispatcher.returned_count,
            "damaged_places": self.losses.damaged_count,
            "refused": self.losses.refused_count,
            "woken": self._waking.woken_count,
            **self.turns.statistics(),
            **self._registry.statistics(),
        }
        return {f"shared_groups.{name}": number for name, number in numbers.items()}

    # --- what groups and members ask

    @property
    def notes(self) -> SessionNotes | None:
        return self.roster.sessions

    def claim(self, group: GroupName, entry: Entry) -> None:
        self.membership.claim(group, entry.share.share, entry.message, entry.holder)

    def await_saved(self, member: Member) -> None:
        self.members.await_saved(member)

    def await_room(self, member: Member) -> None:
        self.members.await_room(member)

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        self.turns.post(lambda: self._deliver(group, sender, message))

    def to_borrower(self, receiver: BorrowerId, message: ToBorrower) -> None:
        self.turns.post(lambda: self._hand_over(receiver, message))

    def _deliver(self, name: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        group = self._directory.find(str(name))
        if group is None or group.awake is None:
            if isinstance(message, UpdateProgress | Disconnect):  # there is nothing left that it could be missing from
                self.to_borrower(sender, Saved(message.sequence))
            return  # it may still wait for a leader, and would be granted shares when there is one again
        self._registry.on_message(name, sender, message)

    def _hand_over(self, receiver: BorrowerId, message: ToBorrower) -> None:
        member = self.members.find(receiver)
        if member is not None:
            member.on_message(message)

    def _find_streams(self, group: GroupName, start: int) -> list[StreamOffer]:
        return [StreamOffer(one.id, one.rank) for one in self.messages.get_streams(group.topic_filter, start)]

    # --- what turns tell

    def on_messages_read(self) -> None:
        self._registry.settle()

    def go_on(self) -> None:
        self._waking.go_on()
        self.members.go_on()
        self.membership.go_on()
        self._registry.go_on()

    def on_sent(self, member: Member) -> None:
        if member.session.has_room():
            member.group.offer_strays()
            self._dispatcher.on_room(member.session)

    def __repr__(self) -> str:
        return f"DurableGroups({len(self._directory)} groups, {self._waking!r}, {self._registry!r})"


class MemberDispatcher(GroupDispatcher):
    """Brings what a session says to its members and groups; owned by the node's durable groups."""

    def __init__(
        self,
        directory: GroupDirectory,
        roster: Roster,
        turns: GroupTurns,
        waking: GroupWaking,
        members: ActiveMembers,
        rooms: Rooms,
    ) -> None:
        super().__init__()
        self.returned_count = 0
        self._directory = directory
        self._roster = roster
        self._turns = turns
        self._waking = waking
        self._members = members
        self._rooms = rooms

    def on_attached(self, session: Subscriber) -> None:
        if isinstance(session, DurableSession):
            for group, subscription in self._roster.memberships(session):
                self._waking.attend(group, subscription)
        elif isinstance(session, Session):
            for subscription in session.subscriptions.values():
                found = self._directory.of(subscription) if subscription.group else None
                if found is not None:
                    self._waking.attend(found, subscription)

    def on_detached(self, session: Subscriber) -> None:
        self._members.leave_all(session)

    def on_room(self, session: Subscriber) -> None:
        if not isinstance(session, Session):
            return
        while session.has_room() and (subscription := self._rooms.next(session)) is not None:
            group = self._directory.of(subscription)
            if group is None:
                continue
            member = None if group.awake is None else group.awake.subscriptions.get(subscription)
            if member is not None:
                self._turns.want(member)
                return
            if group.awake is None and group.is_behind:
                self._waking.want(group)

    def on_done(self, session: Subscriber, delivery: GroupDelivery) -> None:
        if isinstance(delivery.entry, Entry):
            delivery.entry.settle()
            owner = delivery.entry.share.owner
            if isinstance(owner, Member) and not owner.is_ready:
                self._turns.want(owner)

    def on_returned(self, session: Subscriber, delivery: GroupDelivery) -> None:
        entry = delivery.entry
        if isinstance(entry, Entry) and not entry.done:
            self.returned_count += 1
            entry.share.put_back(entry)
            if isinstance(entry.share.owner, Member):
                entry.share.owner.feed(entry.share)
                self._turns.want(entry.share.owner)

    def __repr__(self) -> str:
        return f"MemberDispatcher({self.returned_count} returned)"
