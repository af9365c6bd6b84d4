"""One durable group while it is awake: its members at work, and the readers of its streams."""

from typing import Final, Protocol

from heliograph.broker.subscription import Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.borrower import Borrower
from heliograph.shared_groups.losses import Losses
from heliograph.shared_groups.member import Member, MemberServices, MemberTurns
from heliograph.shared_groups.open_share import Entry, OpenShare
from heliograph.shared_groups.protocol import BorrowerId, GroupName, Timers
from heliograph.shared_groups.stream_reader import Messages, Publishers, StreamReader
from heliograph.storage.interface import StreamId

_STRAYS_MAX: Final = 1024


class Turns(MemberTurns, Protocol):
    """When readers and members have their turns."""

    def add_reader(self, stream: StreamId, reader: StreamReader) -> None:
        """A stream has one more reader, of one group."""

    def remove_reader(self, stream: StreamId, reader: StreamReader) -> None:
        """A reader has ended."""

    def want_read(self, reader: StreamReader) -> None:
        """There may be something to read."""

    def awaits(self, reader: StreamReader) -> bool:
        """Whether a reader waits for its turn, or does not know yet that its stream has more."""


class WorkingMembers(Protocol):
    """The members at work of all groups of a node."""

    def next_borrower(self, clientid: str) -> BorrowerId:
        """An id that no borrower had before."""

    def add(self, member: Member) -> None:
        """A member begins."""

    def remove(self, member: Member) -> None:
        """A member went for good."""


class GroupServices(MemberServices, Protocol):
    """What an awake group needs of its node."""

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
    def turns(self) -> Turns:
        """When readers and members have their turns."""

    @property
    def members(self) -> WorkingMembers:
        """All members at work."""

    @property
    def losses(self) -> Losses:
        """What groups pass over."""


class AwakeGroup:
    """Members at work, and the readers of their streams; lives while the group is awake, owned by the `DurableGroup`.

    Args:
        made_us: Messages that the broker received before then are not the group's.

    Attributes:
        is_over: It fell asleep, or is no group any more: no member starts in it.
        quiet_us: Since when nothing has happened.
    """

    __slots__ = (
        "_services",
        "_strays",
        "is_over",
        "is_stirred",
        "made_us",
        "members",
        "name",
        "quiet_us",
        "readers",
        "subscriptions",
    )

    def __init__(self, name: GroupName, services: GroupServices, made_us: int) -> None:
        self.name = name
        self.made_us = made_us
        self.is_stirred = False
        self.is_over = False
        self.quiet_us = services.now_us()
        self.subscriptions: dict[Subscription, Member] = {}
        self.members: dict[Member, None] = {}
        self.readers: dict[StreamId, StreamReader] = {}
        self._services = services
        self._strays: list[Entry] = []  # messages that wait for a member that may have them

    # --- members

    def start(self, subscription: Subscription) -> None:
        session, services = subscription.subscriber, self._services
        member = self.subscriptions.get(subscription)
        if not isinstance(session, Session):
            return
        if member is not None and not member.is_leaving:  # it came back before it was known that it was gone
            services.turns.want(member)
            return
        id_ = services.members.next_borrower(session.clientid)
        borrower = Borrower(self.name, id_, services.timers, services.now_us())
        member = Member(subscription, session, borrower, self, services)
        self.subscriptions[subscription] = member
        self.members[member] = None
        self.is_stirred = True
        services.members.add(member)
        member.post()

    def on_ended(self, member: Member, again: bool) -> None:
        subscription = member.subscription
        self._forget(member)
        if self.subscriptions.get(subscription) is member:
            del self.subscriptions[subscription]
            if again and member.session.attached:
                self.start(subscription)

    def _forget(self, member: Member) -> None:
        if member in self.members:
            del self.members[member]
            self._services.members.remove(member)

    # --- rest

    @property
    def is_quiet(self) -> bool:
        """Whether all delivered messages are done and the members' progress is saved, as far as they know."""
        return not self._strays and all(member.is_quiet for member in self.members)

    @property
    def is_at_head(self) -> bool:
        """Whether all that the shares of its members have was read and handed out."""
        turns = self._services.turns
        return not any(member.waits or member.is_starved for member in self.members) and all(
            reader.is_at_head and not turns.awaits(reader) for reader in self.readers.values()
        )

    def end(self) -> None:
        """It falls asleep."""
        self.is_over = True
        for member in list(self.members):
            member.shares.stop_reading()
            self._forget(member)
        for stream, reader in self.readers.items():
            self._services.turns.remove_reader(stream, reader)

    def stir(self) -> None:
        self.is_stirred = True

    # --- messages

    def open_share(self, share: OpenShare) -> None:
        stream, number = share.share
        reader = self.readers.get(stream)
        if reader is None:
            reader = self._read(stream)
        reader.shares[number] = share
        self._services.turns.want_read(reader)

    def _read(self, stream: StreamId) -> StreamReader:
        services = self._services
        reader = self.readers[stream] = StreamReader(
            services.messages,
            stream,
            self.name.topic_filter,
            self.made_us,
            services.publishers,
            services.waiting,
            services.losses.on_damage,
        )
        services.turns.add_reader(stream, reader)
        return reader

    def close_share(self, share: OpenShare) -> None:
        stream, number = share.share
        reader = self.readers.get(stream)
        if reader is not None and reader.shares.get(number) is share:
            del reader.shares[number]
            if not reader.shares:
                del self.readers[stream]
                self._services.turns.remove_reader(stream, reader)

    def pass_on(self, member: Member, entry: Entry) -> None:
        others = [one for one in self.members if one is not member and one.may_have(entry)]
        if any(one.take(entry) for one in others):
            return
        if others and len(self._strays) < _STRAYS_MAX:
            self._strays.append(entry)
            return
        self._services.losses.on_refused()
        entry.settle()

    def offer_strays(self) -> None:
        for _ in range(len(self._strays)):
            entry = self._strays.pop(0)
            owner = entry.share.owner
            if not entry.share.is_closed and isinstance(owner, Member):
                self.pass_on(owner, entry)

    def __repr__(self) -> str:
        return f"AwakeGroup({str(self.name)!r}, {len(self.members)} members at work, {len(self.readers)} streams read)"
