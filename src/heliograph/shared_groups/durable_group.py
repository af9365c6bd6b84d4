"""A durable group as its node keeps it always, asleep or awake; and all those of a node."""

from collections.abc import Iterator

from heliograph.broker.shared import SharedGroup
from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.awake import AwakeGroup
from heliograph.shared_groups.protocol import GroupName
from heliograph.storage.interface import StreamId


class DurableGroup:
    """Lives while the group has a durable member, or is declared; owned by the node's directory of groups.

    Most groups have nothing to do at any time. Such a group is asleep: how far it is lies on the disk, and here is only
    what it takes to wake it when one of its streams grows or a client comes. Each client may have thousands of them.

    Attributes:
        members: Its members, whose clients may be there or not; None where it has none.
        is_declared: It outlives its members.
        is_behind: It is asleep, and there may be messages for it.
        has_progress: It was awake some time, so that the disk may have progress of it.
        streams: While it is asleep and not behind: those whose growth wakes it.
        awake: What it is made of while it is awake.
    """

    __slots__ = ("awake", "clients_count", "has_progress", "is_behind", "is_declared", "key", "members", "streams")

    def __init__(self, key: str, is_behind: bool) -> None:
        self.key = key
        self.members: SharedGroup | None = None
        self.clients_count = 0
        self.is_declared = False
        self.is_behind = is_behind
        self.has_progress = is_behind
        self.streams: tuple[StreamId, ...] = ()
        self.awake: AwakeGroup | None = None

    @property
    def name(self) -> GroupName:
        return GroupName.parse(self.key)

    @property
    def is_empty(self) -> bool:
        return not self.is_declared and not self.clients_count and self.members is None

    @property
    def subscriptions(self) -> list[Subscription]:
        return [] if self.members is None else list(self.members.members)

    @property
    def is_attended(self) -> bool:
        return any(isinstance(one.subscriber, Session) and one.subscriber.attached for one in self.subscriptions)

    @property
    def has_room(self) -> bool:
        """Whether a member's client takes a message."""
        return any(isinstance(one.subscriber, Session) and one.subscriber.has_room() for one in self.subscriptions)

    def __repr__(self) -> str:
        state = "behind" if self.is_behind else "asleep" if self.awake is None else repr(self.awake)
        return f"DurableGroup({self.key!r}, {len(self.subscriptions)} members, {state})"


class GroupDirectory:
    """Every durable group of a node by its name and filter; owned by the node's durable groups."""

    def __init__(self) -> None:
        self._groups: dict[str, DurableGroup] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[DurableGroup]:
        return iter(self._groups.values())

    def find(self, key: str) -> DurableGroup | None:
        return self._groups.get(key)

    def of(self, subscription: Subscription) -> DurableGroup | None:
        return self._groups.get(f"{subscription.group}/{subscription.topic_filter}")

    def obtain(self, key: str, is_behind: bool) -> DurableGroup:
        """The group of a name and filter; if there is none, a new one, which `is_behind` if it may have messages."""
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = DurableGroup(key, is_behind)
        return group

    def holds(self, group: DurableGroup) -> bool:
        """Whether a group is still one; another may have its name by now."""
        return self._groups.get(group.key) is group

    def remove(self, group: DurableGroup) -> None:
        del self._groups[group.key]

    def __repr__(self) -> str:
        return f"GroupDirectory({len(self)} groups)"
