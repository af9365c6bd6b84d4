"""What sessions say to the durable groups that their clients are members of."""

from heliograph.broker.subscription import Subscriber
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDelivery, GroupDispatcher
from heliograph.session.session import Session
from heliograph.shared_groups.active_members import ActiveMembers
from heliograph.shared_groups.durable_group import GroupDirectory
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.open_share import Entry
from heliograph.shared_groups.rooms import Rooms
from heliograph.shared_groups.roster import Roster
from heliograph.shared_groups.turns import GroupTurns
from heliograph.shared_groups.waking import GroupWaking


class MemberDispatcher(GroupDispatcher):
    """Brings what a session says to its members and groups; owned by the node's durable groups.

    Attributes:
        returned_count: Messages that clients left without acknowledging them.
    """

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
        """See `GroupDispatcher`."""
        if isinstance(session, DurableSession):
            for group, subscription in self._roster.memberships(session):
                self._waking.attend(group, subscription)
        elif isinstance(session, Session):
            for subscription in session.subscriptions.values():
                found = self._directory.of(subscription) if subscription.group else None
                if found is not None:
                    self._waking.attend(found, subscription)

    def on_detached(self, session: Subscriber) -> None:
        """See `GroupDispatcher`."""
        self._members.leave_all(session)

    def on_room(self, session: Subscriber) -> None:
        """A client may be sent more: one of those that wait for it has its turn."""
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
        """See `GroupDispatcher`."""
        if isinstance(delivery.entry, Entry):
            delivery.entry.settle()
            owner = delivery.entry.share.owner
            if isinstance(owner, Member) and not owner.is_ready:
                self._turns.want(owner)

    def on_returned(self, session: Subscriber, delivery: GroupDelivery) -> None:
        """See `GroupDispatcher`."""
        entry = delivery.entry
        if isinstance(entry, Entry) and not entry.done:
            self.returned_count += 1
            entry.share.put_back(entry)
            if isinstance(entry.share.owner, Member):
                entry.share.owner.feed(entry.share)
                self._turns.want(entry.share.owner)

    def __repr__(self) -> str:
        return f"MemberDispatcher({self.returned_count} returned)"
