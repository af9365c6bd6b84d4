"""One durable group on this node: its members, and the readers of its streams."""

from typing import Final, Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.borrower import Borrower
from heliograph.shared_groups.member import Member, MemberTurns, SessionNotes, settle
from heliograph.shared_groups.protocol import BorrowerId, GroupName, MessageId, Share, Timers, ToLeader
from heliograph.shared_groups.reading import Entry, Messages, OpenShare, Publishers, StreamReader
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
        """How long who waits for what."""

    @property
    def publishers(self) -> Publishers:
        """Which share each publisher belongs to."""

    @property
    def turns(self) -> Turns:
        """When readers and members have their turns."""

    def now_us(self) -> int:
        """The wall clock."""

    def to_leader(self, group: GroupName, sender: BorrowerId, letter: ToLeader) -> None:
        """Send a letter."""

    def next_borrower(self, clientid: str) -> BorrowerId:
        """An id that no borrower had before."""

    def on_member(self, member: Member, is_there: bool) -> None:
        """A member came, or went for good."""

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """A client's session has a message that its group may not count."""

    def on_damage(self, damage: Damage) -> None:
        """Some of a stream cannot be read; told each time that a reader comes across it."""

    def await_saved(self, member: Member) -> None:
        """A member is to hear when session state is durable."""


class KeptGroup:
    """Lives while the group has a durable member, or is declared; owned by the node's durable groups.

    Attributes:
        clients: The durable sessions that are members, whether their clients are there or not.
        is_declared: It outlives its members.
        refused_count: Messages that no member's client was allowed to have.
    """

    __slots__ = (
        "_node",
        "_strays",
        "clients",
        "is_declared",
        "made_us",
        "members",
        "name",
        "readers",
        "refused_count",
        "subscriptions",
    )

    def __init__(self, name: GroupName, node: Node, is_declared: bool, made_us: int) -> None:
        self.name = name
        self.is_declared = is_declared
        self.made_us = made_us
        self.clients: set[str] = set()
        self.subscriptions: dict[Subscription, Member | None] = {}
        self.members: dict[Member, None] = {}  # those that are leaving are among them
        self.readers: dict[StreamId, StreamReader] = {}
        self.refused_count = 0
        self._node = node
        self._strays: list[Entry] = []  # messages that wait for a member that may have them

    @property
    def is_empty(self) -> bool:
        """Whether nobody needs it any more."""
        return not self.is_declared and not self.clients and not self.subscriptions

    # --- members

    def start(self, subscription: Subscription) -> None:
        """The client of a subscription is there."""
        session = subscription.subscriber
        member = self.subscriptions.get(subscription)
        if not isinstance(session, Session) or (member is not None and not member.is_leaving):
            return
        borrower = Borrower(
            self.name, self._node.next_borrower(session.clientid), self._node.timers, self._node.now_us()
        )
        member = Member(self.name, session, subscription, borrower, self)
        self.subscriptions[subscription] = member
        self.members[member] = None
        self._node.on_member(member, True)
        member.post()

    def on_ended(self, member: Member, again: bool) -> None:
        """See `NodeView`."""
        subscription = member.subscription
        if member in self.members:
            del self.members[member]
            self._node.on_member(member, False)
        if self.subscriptions.get(subscription) is member:
            self.subscriptions[subscription] = None
            if again and member.session.attached:
                self.start(subscription)

    # --- messages

    def open_share(self, member: Member, share: OpenShare) -> None:
        """See `NodeView`."""
        stream, number = share.share
        reader = self.readers.get(stream)
        if reader is None:
            node = self._node
            reader = StreamReader(
                node.messages, stream, self.name.topic_filter, self.made_us, node.publishers, node.on_damage
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
        self.refused_count += 1
        settle(entry)

    def offer_strays(self) -> None:
        """Somebody has room: try again what nobody had."""
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
    def stall_us(self) -> int:
        """See `NodeView`."""
        return self._node.timers.stall_us

    def now_us(self) -> int:
        """See `NodeView`."""
        return self._node.now_us()

    def to_leader(self, group: GroupName, sender: BorrowerId, letter: ToLeader) -> None:
        """See `NodeView`."""
        self._node.to_leader(group, sender, letter)

    def claim(self, group: GroupName, share: Share, message: MessageId, clientid: str) -> None:
        """See `NodeView`."""
        self._node.claim(group, share, message, clientid)

    def await_saved(self, member: Member) -> None:
        """See `NodeView`."""
        self._node.await_saved(member)

    def __repr__(self) -> str:
        size = f"{len(self.subscriptions)} members, {len(self.clients)} of them durable"
        return f"KeptGroup({str(self.name)!r}, {size}, {len(self.readers)} streams read)"
