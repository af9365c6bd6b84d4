"""Which durable groups are awake: those wake that may have messages for a client, and fall asleep when all is done.

A group that sleeps is behind when there may be messages for it. What wakes it then is a client that takes some. Streams
that grow are the business of `sleepers`, clients that take nothing now that of `rooms`.
"""

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final, Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.active_members import ActiveMembers
from heliograph.shared_groups.awake import AwakeGroup, GroupServices
from heliograph.shared_groups.durable_group import DurableGroup, GroupDirectory
from heliograph.shared_groups.registry import LeaderRegistry
from heliograph.shared_groups.rooms import Rooms
from heliograph.shared_groups.sleepers import Sleepers
from heliograph.shared_groups.turns import GroupTurns
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import Stream, StreamId

# What one turn does, in groups: less than 1 ms.
_WOKEN_AT_ONCE: Final = 8
_RESTED_AT_ONCE: Final = 16
_AWAKE_MAX: Final = 1024  # groups beyond which those that have nothing to do fall asleep at once
_RESTING_MEMBERS_MAX: Final = 256  # a group at which more are at work does not fall asleep: that would take long


class GroupStreams(Protocol):
    """What is asked of the database of messages."""

    def get_streams(self, topic_filter_text: str, start: int | None = None, end: int | None = None) -> Sequence[Stream]:
        """The streams that can hold messages of a filter."""


class GroupWaking:
    """Wakes groups and lets them fall asleep; owned by the node's durable groups."""

    def __init__(
        self,
        directory: GroupDirectory,
        streams: GroupStreams,
        turns: GroupTurns,
        services: GroupServices,
        registry: LeaderRegistry,
        members: ActiveMembers,
        rooms: Rooms,
    ) -> None:
        self.woken_count = 0
        self._directory = directory
        self._streams = streams
        self._turns = turns
        self._services = services
        self._registry = registry
        self._members = members
        self._rooms = rooms
        self._sleepers = Sleepers(self._growing_streams, lambda: directory, self._on_behind, turns.schedule_more)
        self._has_begun = False
        self._waking: dict[DurableGroup, None] = {}
        self._unwoken: dict[DurableGroup, None] = {}  # those that could not be woken
        self._awake: dict[DurableGroup, None] = {}
        self._unrested: deque[DurableGroup] = deque()  # groups that may fall asleep

    def __len__(self) -> int:
        return len(self._awake)

    def begin(self) -> None:
        self._has_begun = True

    # --- what wakes a group

    def want(self, group: DurableGroup) -> None:
        if self._has_begun:
            self._waking[group] = None
            self._turns.schedule_more()

    def attend(self, group: DurableGroup, subscription: Subscription) -> None:
        if group.awake is not None:
            self._members.start(group.awake, [subscription])
        elif group.is_behind:
            self.want(group)

    def add(self, group: DurableGroup) -> None:
        self._sleepers.add(group)

    def remove(self, group: DurableGroup) -> bool:
        """A group has ended; return whether it was awake."""
        self._sleepers.remove(group)
        if group.awake is None:
            return False
        group.awake.is_over = True
        del self._awake[group]
        return True

    def on_grown(self, streams: Sequence[StreamId]) -> None:
        self._sleepers.on_grown(streams)

    def _on_behind(self, group: DurableGroup) -> None:
        """A group that is asleep may have messages: wake it as soon as a member takes them."""
        if not self._directory.holds(group):
            return
        self._sleepers.remove(group)
        group.is_behind = True
        if group.has_room:
            self.want(group)
        else:
            self._await_rooms(group)

    def _await_rooms(self, group: DurableGroup) -> None:
        for subscription in group.subscriptions:
            if isinstance(subscription.subscriber, Session) and subscription.subscriber.attached:
                self._rooms.wait(subscription)

    def _growing_streams(self, topic_filter: str) -> list[StreamId]:
        streams = self._streams.get_streams(topic_filter, self._turns.committed_us)
        return [one.id for one in streams if not one.sealed]

    # --- in turns

    def tick(self) -> None:
        self._sleepers.renew()
        self._waking.update(self._unwoken)
        self._unwoken = {}
        if not self._unrested:
            self._unrested.extend(self._awake)
        if not (self._awake or self._waking):
            self._awake, self._waking = {}, {}  # empty tables keep the room that they had
        self._wake_some()
        self._rest_some()

    def go_on(self) -> None:
        self._sleepers.go_on()
        self._wake_some()
        self._rest_some()

    def _wake_some(self) -> None:
        for group in list(islice(self._waking, _WOKEN_AT_ONCE)):
            del self._waking[group]
            if self._directory.holds(group) and group.awake is None:
                self._wake(group)
        if self._waking:
            self._turns.schedule_more()

    def _wake(self, group: DurableGroup) -> None:
        name = group.name
        if not group.has_room and name not in self._registry.claims:  # many have been woken for the same room
            self._await_rooms(group)
            return
        made_us = self._registry.open(name, self._turns.committed_us, self._services.now_us())
        if made_us is None:
            self._unwoken[group] = None
            return
        self.woken_count += 1
        self._sleepers.remove(group)
        group.is_behind = False
        group.has_progress = True
        group.awake = AwakeGroup(name, self._services, made_us)
        self._awake[group] = None
        self._members.start(group.awake, group.subscriptions)

    def _rest_some(self) -> None:
        for _ in range(min(_RESTED_AT_ONCE, len(self._unrested))):
            group = self._unrested.popleft()
            if group.awake is not None and group in self._awake and self._may_rest(group.awake):
                self._rest(group, group.awake)
        if self._unrested:
            self._turns.schedule_more()

    def _may_rest(self, awake: AwakeGroup) -> bool:
        """Whether a group has had nothing to do for a while, and all that it did is saved."""
        now = self._services.now_us()
        if awake.is_stirred:
            awake.is_stirred = False
            awake.quiet_us = now
        if now - awake.quiet_us < self._services.timers.rest_us and len(self._awake) <= _AWAKE_MAX:
            return False
        if len(awake.members) > _RESTING_MEMBERS_MAX:
            return False
        return awake.is_quiet and self._registry.is_quiet(awake.name, len(awake.members))

    def _rest(self, group: DurableGroup, awake: AwakeGroup) -> None:
        """Let a group fall asleep: until its streams grow, or until a member takes what it still has."""
        try:
            streams = self._sleepers.streams(awake.name.topic_filter)
        except StorageError:
            return
        is_done = awake.is_at_head and self._registry.has_granted_all(awake.name, streams)
        if not is_done and group.has_room:
            return
        awake.end()
        self._registry.close(awake.name)
        del self._awake[group]
        group.awake = None
        group.is_behind = not is_done
        if is_done:
            self._sleepers.add(group)
        else:
            self._await_rooms(group)

    def __repr__(self) -> str:
        return f"GroupWaking({len(self._awake)} awake, {len(self._waking)} wake)"
