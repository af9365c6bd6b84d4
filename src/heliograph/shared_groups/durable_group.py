"""One durable group on this node: what is kept of it always, and its members and readers while it is awake."""

from typing import Final, Protocol

from heliograph.broker.shared import SharedGroup
from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.borrower import Borrower
from heliograph.shared_groups.member import Member, MemberTurns, SessionNotes, settle
from heliograph.shared_groups.protocol import BorrowerId, GroupName, MessageId, Share, Timers, ToLeader
from heliograph.shared_groups.reading import Entry, Messages, OpenShare, Publishers, StreamReader, Waiting
from heliograph.storage.columnar.salvage import Damage
from heliograph.storage.interface import StreamId

_STRAYS_MAX: Final = 1024


class Turns(MemberTurns, Protocol):
    """When readers and members have their turns."""

    def add_reader(self, stream: StreamId, reader: StreamReader) -> None:
        """A stream has one more reader, of one group."""

    def remove_reader(self, stream: StreamId, reader: StreamReader) -> None:
        """A reader reads no more."""

    def want_read(self, reader: StreamReader) -> None:
        """There may be something to read."""

    def awaits(self, reader: StreamReader) -> bool:
        """Whether a reader waits for its turn, or does not know yet that its stream has more."""


class Node(Protocol):
    """What a group needs of its node."""

    @property
    def notes(self) -> SessionNotes | None:
        """Where durable sessions keep what is their own."""

    @property
    def messages(self) -> Messages:
        """The database of messages."""

    @property
    def timers(self) -> Timers:
        """Timeouts of leaders and borrowers."""

    @property
    def publishers(self) -> Publishers:
        """Which share each publisher belongs to."""

    @property
    def waiting(self) -> Waiting:
        """How much waits in all groups."""

    @property
    def turns(self) -> Turns:
        """When readers and members have their turns."""

    def now_us(self) -> int:
        """The wall clock."""

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """Send a message."""

    def next_borrower(self, clientid: str) -> BorrowerId:
        """An id that no borrower had before."""

    def on_member(self, member: Member, is_there: bool) -> None:
        """A member came, or went for good."""

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """A client's session has a message that its group may not count."""

    def on_damage(self, damage: Damage) -> None:
        """Some of a stream cannot be read; called each time that a reader comes across it."""

    def await_saved(self, member: Member) -> None:
        """A member is to hear when session state is durable."""

    def await_room(self, member: Member) -> None:
        """A member is to have a turn when its client has room."""

    def on_refused(self) -> None:
        """A message was passed over that no member's client was allowed to have."""


class DurableGroup:
    """Lives while the group has a durable member, or is declared; owned by the node's durable groups.

    Most groups have nothing to do at any time. Such a group is asleep: how far it is lies on the disk, and here is only
    what it takes to wake it when one of its streams grows or a client comes. Each client may have thousands of them.

    Attributes:
        key: Its name and filter, as text.
        members: Its members, whose clients may be there or not; None where it has none.
        clients_count: How many durable sessions are members.
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
        """Its name and filter."""
        return GroupName.parse(self.key)

    @property
    def is_empty(self) -> bool:
        """Whether it is not needed any more."""
        return not self.is_declared and not self.clients_count and self.members is None

    @property
    def subscriptions(self) -> list[Subscription]:
        """Those of its members."""
        return [] if self.members is None else list(self.members.members)

    @property
    def is_attended(self) -> bool:
        """Whether the client of a member is there."""
        return any(isinstance(one.subscriber, Session) and one.subscriber.attached for one in self.subscriptions)

    @property
    def has_room(self) -> bool:
        """Whether a member's client takes a message."""
        return any(isinstance(one.subscriber, Session) and one.subscriber.has_room() for one in self.subscriptions)

    def __repr__(self) -> str:
        state = "behind" if self.is_behind else "asleep" if self.awake is None else repr(self.awake)
        return f"DurableGroup({self.key!r}, {len(self.subscriptions)} members, {state})"


class AwakeGroup:
    """Members at work, and the readers of their streams; lives while the group is awake, owned by the `DurableGroup`.

    Args:
        made_us: Messages that the broker received before then are not the group's.

    Attributes:
        is_stirred: Something has happened since the last look.
        quiet_us: Since when nothing has happened.
    """

    __slots__ = ("_node", "_strays", "is_stirred", "made_us", "members", "name", "quiet_us", "readers", "subscriptions")

    def __init__(self, name: GroupName, node: Node, made_us: int) -> None:
        self.name = name
        self.made_us = made_us
        self.is_stirred = False
        self.quiet_us = node.now_us()
        self.subscriptions: dict[Subscription, Member] = {}  # the members that are not leaving
        self.members: dict[Member, None] = {}
        self.readers: dict[StreamId, StreamReader] = {}
        self._node = node
        self._strays: list[Entry] = []  # messages that wait for a member that may have them

    # --- members

    def start(self, subscription: Subscription) -> None:
        """The client of a subscription is there."""
        session = subscription.subscriber
        member = self.subscriptions.get(subscription)
        if not isinstance(session, Session):
            return
        if member is not None and not member.is_leaving:  # it came back before it was known that it was gone
            self._node.turns.want(member)
            return
        borrower = Borrower(
            self.name, self._node.next_borrower(session.clientid), self._node.timers, self._node.now_us()
        )
        member = Member(self.name, session, subscription, borrower, self)
        self.subscriptions[subscription] = member
        self.members[member] = None
        self.is_stirred = True
        self._node.on_member(member, True)
        member.post()

    def on_ended(self, member: Member, again: bool) -> None:
        """See `NodeView`."""
        subscription = member.subscription
        self._forget(member)
        if self.subscriptions.get(subscription) is member:
            del self.subscriptions[subscription]
            if again and member.session.attached:
                self.start(subscription)

    def _forget(self, member: Member) -> None:
        if member in self.members:
            del self.members[member]
            self._node.on_member(member, False)

    # --- rest

    @property
    def is_quiet(self) -> bool:
        """Whether all delivered messages are done and the members' progress is saved, as far as they know."""
        return not self._strays and all(member.is_quiet for member in self.members)

    @property
    def is_at_head(self) -> bool:
        """Whether all that the shares of its members have was read and handed out."""
        turns = self._node.turns
        return not any(member.waits or member.is_starved for member in self.members) and all(
            reader.is_at_head and not turns.awaits(reader) for reader in self.readers.values()
        )

    def end(self) -> None:
        """It falls asleep, or has no members any more."""
        for member in list(self.members):
            for share in member.shares:
                share.close()
            self._forget(member)
        for stream, reader in self.readers.items():
            self._node.turns.remove_reader(stream, reader)

    def stir(self) -> None:
        """See `NodeView`."""
        self.is_stirred = True

    def await_room(self, member: Member) -> None:
        """See `NodeView`."""
        self._node.await_room(member)

    # --- messages

    def open_share(self, member: Member, share: OpenShare) -> None:
        """See `NodeView`."""
        stream, number = share.share
        reader = self.readers.get(stream)
        if reader is None:
            node = self._node
            reader = StreamReader(
                node.messages,
                stream,
                self.name.topic_filter,
                self.made_us,
                node.publishers,
                node.waiting,
                node.on_damage,
            )
            self.readers[stream] = reader
            node.turns.add_reader(stream, reader)
        reader.shares[number] = share
        self._node.turns.want_read(reader)

    def close_share(self, member: Member, share: OpenShare) -> None:
        """See `NodeView`."""
        stream, number = share.share
        reader = self.readers.get(stream)
        if reader is not None and reader.shares.get(number) is share:
            del reader.shares[number]
            if not reader.shares:
                del self.readers[stream]
                self._node.turns.remove_reader(stream, reader)

    def pass_on(self, member: Member, entry: Entry) -> None:
        """See `NodeView`."""
        others = [one for one in self.members if one is not member and not one.is_leaving and one.may_have(entry)]
        if any(one.take(entry) for one in others):
            return
        if others and len(self._strays) < _STRAYS_MAX:
            self._strays.append(entry)
            return
        self._node.on_refused()
        settle(entry)

    def offer_strays(self) -> None:
        """A member has room: try again what no member took."""
        for _ in range(len(self._strays)):
            entry = self._strays.pop(0)
            owner = entry.share.owner
            if not entry.share.is_closed and isinstance(owner, Member):
                self.pass_on(owner, entry)

    @property
    def has_strays(self) -> bool:
        """Whether messages wait for a member that may have them."""
        return bool(self._strays)

    # --- passed on to the node

    @property
    def notes(self) -> SessionNotes | None:
        """See `NodeView`."""
        return self._node.notes

    @property
    def turns(self) -> Turns:
        """See `NodeView`."""
        return self._node.turns

    @property
    def waiting(self) -> Waiting:
        """See `NodeView`."""
        return self._node.waiting

    @property
    def stall_us(self) -> int:
        """See `NodeView`."""
        return self._node.timers.stall_us

    def now_us(self) -> int:
        """See `NodeView`."""
        return self._node.now_us()

    def to_leader(self, group: GroupName, sender: BorrowerId, message: ToLeader) -> None:
        """See `NodeView`."""
        self._node.to_leader(group, sender, message)

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """See `NodeView`."""
        self._node.claim(group, share, message, clientid)

    def await_saved(self, member: Member) -> None:
        """See `NodeView`."""
        self._node.await_saved(member)

    def __repr__(self) -> str:
        return f"AwakeGroup({str(self.name)!r}, {len(self.members)} members at work, {len(self.readers)} streams read)"
