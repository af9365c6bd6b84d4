"""Shared subscriptions: groups whose members each get a part of the messages (MQTT 5 section 4.8.2).

A group stands in the routing table under its filter as one subscription, so that routing knows nothing of sharing. For
each message it chooses a member by its strategy and offers the message to it; if that member cannot take it, to those
behind it. When none can, they are asked once more, for the last time: then a member that is away may queue the message.

How a session takes an offer, and which messages it leaves behind for others, is the session's; parsing
`$share/group/filter` is `mqtt.topic`'s.
"""

from typing import Final

from mypy_extensions import i32, i64, mypyc_attr

from heliograph.broker.faults import DELIVERIES, Faults
from heliograph.broker.message import Message
from heliograph.broker.router import Router
from heliograph.broker.shared_options import (
    HASH_CLIENTID,
    HASH_TOPIC,
    LOCAL,
    RANDOM,
    ROUND_ROBIN,
    ROUND_ROBIN_PER_GROUP,
    STICKY,
    SharedOptions,
)
from heliograph.broker.shared_publishers import PUBLISHERS_MAX, PublisherBounds, PublisherTable, Turn, digest
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.broker.tracer import DROPPED, Tracer

_MASK_32: Final = 0xFFFFFFFF

# How the member is chosen that is asked first. On one node every member is local.
_ANY: Final = 0
_NEXT_OF_PUBLISHER: Final = 1
_NEXT: Final = 2
_BY_CLIENTID: Final = 3
_BY_TOPIC: Final = 4
_CHOICES: Final = {
    RANDOM: _ANY,
    LOCAL: _ANY,
    ROUND_ROBIN: _NEXT_OF_PUBLISHER,
    ROUND_ROBIN_PER_GROUP: _NEXT,
    HASH_CLIENTID: _BY_CLIENTID,
    HASH_TOPIC: _BY_TOPIC,
}


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupKeeper:
    """The seam to durable groups: their members are handed stored messages, from the disk."""

    def makes_durable(self, group: "SharedGroup", member: Subscription) -> bool:
        """True if the group of a member that joins is, or now becomes, durable."""
        raise NotImplementedError(type(self).__name__)

    def on_joined(self, group: "SharedGroup", member: Subscription) -> None:
        """A durable group has a member more."""
        raise NotImplementedError(type(self).__name__)

    def on_left(self, group: "SharedGroup", member: Subscription) -> None:
        """A durable group has a member less."""
        raise NotImplementedError(type(self).__name__)


class SharedGroup(Subscriber):
    """One group at one filter; lives while it has members, owned by the table of groups."""

    def __init__(self, groups: "SharedGroups", key: str, name: str, topic_filter: str) -> None:
        super().__init__(key)
        strategy, choice = groups.options.choice_of(name)
        self.strategy = strategy
        self.members: list[Subscription] = []
        self.subscription = Subscription(self, topic_filter, 2, False, True, 0, 0)  # the one that the router knows
        self._is_sticky: bool = strategy == STICKY
        self._choice: i64 = _CHOICES[choice]
        self._groups = groups
        self._goes_by_publisher: bool = self._is_sticky or self._choice in (_NEXT_OF_PUBLISHER, _BY_CLIENTID)
        self._publishers: PublisherTable | None = None  # made with the first message
        self._last_slot: i64 = -1  # where the member stands that took the last message
        self.is_durable = False  # stored messages come to its members another way
        self._offering: i64 = 0  # offers under way: the members are being walked through

    def choose_by(self, strategy: str, choice: str) -> None:
        """Choose members otherwise from the next message on; `choice` is for a publisher that has no member yet."""
        self.strategy = strategy
        self._is_sticky = strategy == STICKY
        self._choice = _CHOICES[choice]
        self._goes_by_publisher = self._is_sticky or self._choice in (_NEXT_OF_PUBLISHER, _BY_CLIENTID)
        if not self._goes_by_publisher:
            self._publishers = None

    def join(self, member: Subscription) -> None:
        member.slot = i32(len(self.members))
        if member.slot == 0:
            self.members = [member]  # most groups have one, and a list that was appended to has room for four
        else:
            self.members.append(member)

    def leave(self, member: Subscription) -> None:
        """Take a member out; the last one moves into its place."""
        if self._offering != 0:
            self.members = self.members.copy()
        last = self.members.pop()
        if last is not member:
            self.members[member.slot] = last
            last.slot = member.slot
        member.slot = -1

    def deliver(self, message: Message, subscription: Subscription) -> None:
        """Hand a message to one member, unless members get it once it is committed."""
        if message.ticket == 0 or not self.is_durable:
            self.hand_out(message, None)

    def hand_out(self, message: Message, leaving: Subscriber | None) -> bool:
        """Hand a message to one member that is not `leaving`; whether one took it."""
        publishers = self._publishers
        if publishers is None and self._goes_by_publisher:
            publishers = PublisherTable(self._groups.publishers)
            self._publishers = publishers
        turn = publishers.turn(message.clientid) if publishers is not None else None
        members = self.members
        slot = self._choose(message, turn, len(members))
        self._offering += 1
        taker = self._offer(message, members, slot, leaving, False)
        if taker is None:
            taker = self._offer(message, members, slot, leaving, True)
        self._offering -= 1
        if taker is None:
            self._groups.dropped_count += 1
            tracer = self._groups.tracer
            if tracer is not None and message.is_traced:
                tracer.on_delivery(self.clientid, message, self.subscription, DROPPED, "no_member_takes_it")
            return False
        if turn is None:
            self._last_slot = i64(taker.slot)
        elif turn.member is not taker:
            turn.member = taker
        return True

    def _choose(self, message: Message, turn: Turn | None, count: i64) -> i64:
        choice = self._choice
        if turn is not None:
            before = turn.member
            if before is not None and before.slot >= 0:  # it is still a member
                if self._is_sticky:
                    return i64(before.slot)
                if choice == _NEXT_OF_PUBLISHER:
                    return i64(before.slot) + 1
            if choice == _BY_CLIENTID:
                return (turn.digest * count) >> 32
        if choice == _NEXT:
            return self._last_slot + 1
        if choice == _BY_TOPIC:
            return (self._groups.topic_digest(message.publish.topic) * count) >> 32
        return self._groups.place(count)  # the first turn of a publisher begins anywhere too

    def _offer(
        self, message: Message, members: list[Subscription], slot: i64, leaving: Subscriber | None, last: bool
    ) -> Subscription | None:
        """Ask each member, beginning with the one at `slot`: the one that took the message."""
        count: i64 = len(members)
        asked: i64 = 0
        while asked < count:
            if slot >= count:
                slot = 0
            member = members[slot]
            subscriber = member.subscriber
            try:
                if subscriber is not leaving and member.slot >= 0 and subscriber.offer(message, member, last):
                    if asked != 0:
                        self._groups.refusals += asked
                    return member
            except Exception as error:  # noqa: BLE001 - another member is asked
                self._groups.faults.contain(DELIVERIES, error, subscriber.abort)
            slot += 1
            asked += 1
        self._groups.refusals += count
        return None

    def __repr__(self) -> str:
        return f"SharedGroup({self.clientid!r}, {self.strategy}, {len(self.members)} members)"


class SharedGroups:
    """Every shared group of a node; owned by the broker.

    Args:
        publishers_max: How many publishers a group remembers, where its strategy goes by publisher.
    """

    def __init__(
        self,
        router: Router,
        options: SharedOptions,
        faults: Faults,
        seed: i64 = 1,
        publishers_max: i64 = PUBLISHERS_MAX,
    ) -> None:
        self.faults = faults
        self.options = options
        self.tracer: Tracer | None = None
        self.keeper: GroupKeeper | None = None  # set before the first member joins
        self.publishers = PublisherBounds(publishers_max)
        self.refusals: i64 = 0  # offers that were not taken; they cost time as deliveries do
        self.dropped_count: i64 = 0  # messages that no member could take
        self.members_count: i64 = 0
        self._router = router
        self._groups: dict[str, SharedGroup] = {}
        self._chance: i64 = (seed & _MASK_32) or 1
        self._topic = b""  # that of the last message
        self._topic_digest: i64 = digest(b"")

    def __len__(self) -> int:
        return len(self._groups)

    def join(self, member: Subscription) -> bool:
        """Make a subscription a member of its group; whether that is durable, which takes long."""
        key = _key(member)
        group = self._groups.get(key)
        if group is None:
            group = SharedGroup(self, key, member.group, member.topic_filter)
            self._groups[key] = group
            self.publishers.divide(len(self._groups))
            self._router.add(group.subscription)
        group.join(member)
        self.members_count += 1
        keeper = self.keeper
        if keeper is None:
            return False
        if group.is_durable:
            keeper.on_joined(group, member)
        elif keeper.makes_durable(group, member):
            group.is_durable = True
            for one in group.members:
                keeper.on_joined(group, one)
        return group.is_durable

    def leave(self, member: Subscription) -> bool:
        """Take a member out of its group; the last one ends the group.

        Returns:
            Whether the group is durable, which takes long.
        """
        key = _key(member)
        if member.slot < 0:
            raise KeyError(key)
        group = self._groups[key]
        group.leave(member)
        self.members_count -= 1
        if group.is_durable and self.keeper is not None:
            self.keeper.on_left(group, member)
        if not group.members:
            del self._groups[key]
            self.publishers.divide(len(self._groups))
            self._router.remove(group.subscription)
        return group.is_durable

    def keys(self) -> list[str]:
        return list(self._groups)

    def choose_anew(self, key: str) -> None:
        """Make one group choose by the options as they are now, if it is there."""
        group = self._groups.get(key)
        if group is not None:
            group.choose_by(*self.options.choice_of(key.partition("/")[0]))

    def redispatch(self, message: Message, member: Subscription) -> bool:
        """Hand a message that a member leaves behind to another one; whether one took it.

        It never goes back to the subscriber that leaves it, whether that is still a member or not.

        Args:
            member: The one that was chosen first.
        """
        group = self._groups.get(_key(member))
        if group is None:
            self.dropped_count += 1
            return False
        return group.hand_out(message, member.subscriber)

    def place(self, count: i64) -> i64:
        """A place among `count`, by chance (Marsaglia's xorshift, 32 bits)."""
        chance = self._chance
        chance ^= (chance << 13) & _MASK_32
        chance ^= chance >> 17
        chance ^= (chance << 5) & _MASK_32
        self._chance = chance
        return (chance * count) >> 32

    def topic_digest(self, topic: bytes) -> i64:
        """The digest of a topic name; publishers send more than one message to a topic."""
        if topic != self._topic:
            self._topic = topic
            self._topic_digest = digest(topic)
        return self._topic_digest

    def statistics(self) -> dict[str, int]:
        """How many groups and members there are, and what they could not take or remember."""
        return {
            "subscriptions.shared.count": self.members_count,
            "shared_groups.count": len(self._groups),
            "shared_groups.dropped": self.dropped_count,
            "shared_groups.publishers_forgotten": self.publishers.forgotten_count,
        }


def _key(member: Subscription) -> str:
    return f"{member.group}/{member.topic_filter}"  # no group's name holds a slash [MQTT-4.8.2-2]
