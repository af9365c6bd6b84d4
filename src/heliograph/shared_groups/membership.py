"""Which groups are durable, and who their members are.

A group is durable from the time a durable session joins it, or because it is declared, until its last member has left.
Which members outlive their connections is the business of `roster`.
"""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from heliograph.broker.shared import GroupKeeper, SharedGroup
from heliograph.broker.subscription import Subscription
from heliograph.session.durable import DurableSession
from heliograph.session.group_delivery import GroupDispatcher
from heliograph.session.session import Session
from heliograph.shared_groups.active_members import ActiveMembers
from heliograph.shared_groups.durable_group import DurableGroup, GroupDirectory
from heliograph.shared_groups.protocol import GroupName, MessageId, Share
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.shared_groups.roster import Roster
from heliograph.shared_groups.turns import GroupTurns
from heliograph.shared_groups.waking import GroupWaking

# What one turn does of each kind of work: less than 1 ms.
_PARTED_AT_ONCE: Final = 16
_DROPPED_AT_ONCE: Final = 32
_CLOCKS_US: Final = 60_000_000  # how far the clock of commits may be behind that of the broker


class Declared:
    """A group that outlives its members; it begins with the oldest stored message, or else with its declaration."""

    def __init__(self, group: GroupName, from_earliest: bool) -> None:
        self.group = group
        self.from_earliest = from_earliest


class Membership(GroupKeeper):
    """The durable groups of a node and their members; owned by the node's durable groups.

    It is given to the broker before sessions are read. A subscription to a shared filter before `start` may join a
    durable group, which is not known yet: so all groups that are joined then are durable.
    """

    def __init__(
        self,
        directory: GroupDirectory,
        roster: Roster,
        turns: GroupTurns,
        registry: LeaderRegistry,
        waking: GroupWaking,
        members: ActiveMembers,
        dispatcher: GroupDispatcher,
        now_us: Callable[[], int],
    ) -> None:
        super().__init__()
        self.is_started = False
        self._directory = directory
        self._roster = roster
        self._turns = turns
        self._registry = registry
        self._waking = waking
        self._members = members
        self._dispatcher = dispatcher
        self._now_us = now_us
        self._begins: dict[str, tuple[int, int]] = {}  # of groups that were joined before the start
        self._dropped: dict[str, bool] = {}  # groups to be forgotten, and whether the disk may have progress of them
        self._left: dict[str, list[Subscription]] = {}  # those that are no members any more, by group

    # --- the start

    def start(self, node: str, committed_us: int, knows: Callable[[str], bool], declared: Sequence[Declared]) -> None:
        known = dict(self._registry.database.groups())
        members, borrowed = self._roster.read()  # nothing fails from here on
        self._registry.node = node
        self._turns.committed_us = max(self._turns.committed_us, committed_us)
        self._take_up_declared(declared, committed_us)
        for name, clientid, made_us in self._roster.members(members, knows):
            self._take_up(str(name), clientid, made_us)
        self.is_started = True
        self._waking.begin()
        for one, clientid in self._roster.borrowed(borrowed, lambda name: self._directory.find(str(name)) is not None):
            self.claim(one.group, one.share, one.message, clientid)
        for name in known:
            if self._directory.find(str(name)) is None and self._roster.sessions is not None:
                self._registry.drop(name)  # without sessions its members are not known
        for group in self._directory:
            self._join_all(group)
            if not known.get(group.name):
                self._registry.enter(group.name, *self._begins.get(group.key, (committed_us, self._now_us())))
            if group.is_attended:
                self._waking.want(group)
        self._begins = {}
        self._turns.schedule()

    def _take_up_declared(self, declared: Sequence[Declared], committed_us: int) -> None:
        for one in declared:
            begins = (0, 0) if one.from_earliest else (committed_us, self._now_us())
            key = str(one.group)
            self._begins[key] = min(begins, self._begins.get(key, begins))
            self._directory.obtain(key, True).is_declared = True

    def _take_up(self, key: str, clientid: str, made_us: int) -> None:
        """A durable session has been a member of a group since a time, on the clock of the broker."""
        self._roster.add(self._directory.obtain(key, True), clientid)
        # A group whose own record a crash took begins with its first member; its clock need not be storage's.
        before = self._begins.get(key, (made_us, made_us))
        self._begins[key] = min(before, (max(0, made_us - _CLOCKS_US), made_us))

    def _join_all(self, group: DurableGroup) -> None:
        for subscription in group.subscriptions:
            if isinstance(subscription.subscriber, DurableSession):
                self._roster.join(group, subscription, self._now_us())

    # --- the broker's members

    def makes_durable(self, group: SharedGroup, member: Subscription) -> bool:
        key = group.clientid
        before = self._directory.find(key)
        if before is not None and before.members is None and key in self._left:  # this is another group of its name
            self._part_from(key, len(self._left[key]))
        if self._directory.find(key) is not None:
            return True
        if not self.is_started:  # it may have durable members that are not known yet
            self._directory.obtain(key, True)
            self._begins[key] = max(0, self._now_us() - _CLOCKS_US), self._now_us()
            return True
        if self._roster.sessions is None or not isinstance(member.subscriber, DurableSession):
            return False
        if key in self._dropped:
            self._registry.drop(GroupName.parse(key), self._dropped.pop(key))
        begun = self._directory.obtain(key, False)
        self._registry.enter(begun.name, self._turns.committed_us, self._now_us())
        self._waking.add(begun)
        return True

    def on_joined(self, group: SharedGroup, member: Subscription) -> None:
        session, joined = member.subscriber, self._directory.find(group.clientid)
        if not isinstance(session, Session) or joined is None:
            return
        joined.members = group
        session.dispatcher = self._dispatcher
        if self.is_started and isinstance(session, DurableSession):  # else it was one before, and is noted
            self._roster.join(joined, member, self._now_us())
        if session.attached:
            self._waking.attend(joined, member)

    def on_left(self, group: SharedGroup, member: Subscription) -> None:
        left, session = self._directory.find(group.clientid), member.subscriber
        if left is None:
            return
        if not group.members:
            left.members = None
        is_there = isinstance(session, Session) and session.attached
        self._members.on_left(left.awake, member, is_there)
        self._left.setdefault(left.key, []).append(member)
        if is_there:
            self._part_from(left.key, 1)
        else:  # its session ends, and may have thousands of groups
            self._turns.schedule_more()

    def on_session_ended(self, clientid: str, _: object = None) -> None:
        """A session ended that lay on the disk only; another one has left its groups."""
        for group in self._roster.unknown_groups(clientid):
            self._roster.remove(group, clientid)
            self._drop_if_empty(group)

    def claim(self, name: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """A client's session has a message that its group may not count."""
        group = self._directory.find(str(name))
        if group is None:  # there is nothing left that it could be missing from
            self._roster.forget_borrowed(clientid, message)
            return
        self._registry.claim(name, share, message, lambda: self._roster.forget_borrowed(clientid, message))
        if group.awake is None:
            self._waking.want(group)

    # --- in turns

    def go_on(self) -> None:
        self._part_some()
        self._drop_some(_DROPPED_AT_ONCE)

    def part_now(self) -> None:
        while self._left:
            self._part_some()

    def drop_now(self) -> None:
        self._drop_some(len(self._dropped))

    def _part_some(self) -> None:
        for key in list(islice(self._left, _PARTED_AT_ONCE)):
            self._part_from(key, _PARTED_AT_ONCE)
        if self._left:
            self._turns.schedule_more()

    def _part_from(self, key: str, count: int) -> None:
        """So many that have left a group are no members of it any more."""
        members = self._left[key]
        for _ in range(min(count, len(members))):
            member, group = members.pop(), self._directory.find(key)
            if group is not None:
                self._roster.leave(group, member)
                self._drop_if_empty(group)
        if not members:
            del self._left[key]

    def _drop_if_empty(self, group: DurableGroup) -> None:
        if not group.is_empty or not self._directory.holds(group):
            return
        self._directory.remove(group)
        if self._waking.remove(group):
            self._registry.drop(group.name)
        elif self.is_started:  # else it may have members that are not known yet
            self._dropped[group.key] = group.has_progress
            self._turns.schedule_more()

    def _drop_some(self, count: int) -> None:
        for key in list(islice(self._dropped, count)):
            self._registry.drop(GroupName.parse(key), self._dropped.pop(key))
        if self._dropped:
            self._turns.schedule_more()

    def __repr__(self) -> str:
        return f"Membership({len(self._directory)} groups, {self._roster!r})"
