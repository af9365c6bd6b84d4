"""The members at work of all awake groups: they start and leave, hear the time and of commits, some in each turn."""

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Final

from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.session import Session
from heliograph.shared_groups.awake import AwakeGroup
from heliograph.shared_groups.member import Member
from heliograph.shared_groups.protocol import BorrowerId
from heliograph.shared_groups.rooms import Rooms

# What one turn does of each kind of work: less than 1 ms.
_TICKED_AT_ONCE: Final = 64
_STARTED_AT_ONCE: Final = 16
_LEAVING_AT_ONCE: Final = 16
_SAVED_AT_ONCE: Final = 32


class ActiveMembers:
    """Every member that has a borrower; owned by the node's durable groups. `on_more` asks for `go_on` later."""

    def __init__(self, on_more: Callable[[], object], rooms: Rooms) -> None:
        self._on_more = on_more
        self._rooms = rooms
        self._members: dict[BorrowerId, Member] = {}
        self._of_session: dict[Subscriber, dict[Member, None]] = {}
        self._last_borrower = 0
        self._starting: deque[tuple[AwakeGroup, list[Subscription]]] = deque()  # whose clients are there
        self._leaving: deque[Member] = deque()  # whose clients are gone
        self._unticked: deque[Member] = deque()  # that have yet to be ticked
        self._saving: dict[Member, None] = {}  # that wait for a commit of session state
        self._saved: dict[Member, None] = {}  # that are to hear of the commit of this ticket
        self._saved_ticket = 0

    def __len__(self) -> int:
        return len(self._members)

    def find(self, borrower: BorrowerId) -> Member | None:
        return self._members.get(borrower)

    # --- they come and go

    def next_borrower(self, clientid: str) -> BorrowerId:
        """An id that no borrower had before."""
        self._last_borrower += 1
        return BorrowerId(clientid, self._last_borrower)

    def start(self, awake: AwakeGroup, subscriptions: list[Subscription]) -> None:
        self._starting.append((awake, subscriptions))
        self._on_more()

    def on_left(self, awake: AwakeGroup | None, subscription: Subscription, is_there: bool) -> None:
        """A subscription has left its group: its member leaves, at once if its client `is_there`."""
        self._rooms.forget(subscription)
        member = None if awake is None else awake.subscriptions.pop(subscription, None)
        if member is not None and is_there:
            member.leave()
        elif member is not None:
            self._leave(member)

    def leave_all(self, session: Subscriber) -> None:
        self._rooms.forget_session(session)
        for member in self._of_session.get(session, ()):
            self._leave(member)

    def _leave(self, member: Member) -> None:
        self._leaving.append(member)
        self._on_more()

    def add(self, member: Member) -> None:
        self._members[member.borrower.id] = member
        self._of_session.setdefault(member.session, {})[member] = None

    def remove(self, member: Member) -> None:
        del self._members[member.borrower.id]
        of_session = self._of_session[member.session]
        del of_session[member]
        if not of_session:
            del self._of_session[member.session]

    # --- what they wait for

    def await_saved(self, member: Member) -> None:
        self._saving[member] = None

    def await_room(self, member: Member) -> None:
        if member.subscription.slot >= 0 and member.session.attached:
            self._rooms.wait(member.subscription)

    def on_sessions_saved(self, ticket: int) -> None:
        self._saved_ticket = ticket
        if self._saving:
            self._saved.update(self._saving)
            self._saving = {}
            self._on_more()

    def tick(self) -> None:
        if not self._members:
            self._members = {}  # an empty table keeps the room that it had
        if not self._unticked:
            self._unticked.extend(self._members.values())
        self._tick_some()

    # --- in turns

    def go_on(self) -> None:
        self._leave_some()
        self._settle_saved()
        self._tick_some()
        self._start_some()

    def leave_now(self) -> None:
        """All whose clients are gone leave, however many they are: it is the end."""
        while self._leaving:
            self._leave_some()

    def _start_some(self) -> None:
        left = _STARTED_AT_ONCE
        while self._starting and left > 0:
            awake, subscriptions = self._starting[0]
            if not subscriptions:
                self._starting.popleft()
                continue
            left -= 1
            subscription = subscriptions.pop()
            session = subscription.subscriber
            is_there = isinstance(session, Session) and session.attached and subscription.slot >= 0
            if is_there and not awake.is_over:
                awake.start(subscription)
        if self._starting:
            self._on_more()

    def _leave_some(self) -> None:
        for _ in range(min(_LEAVING_AT_ONCE, len(self._leaving))):
            member = self._leaving.popleft()
            is_back = member.session.attached and member.subscription.slot >= 0
            if not is_back and self._members.get(member.borrower.id) is member:
                member.leave()
        if self._leaving:
            self._on_more()

    def _tick_some(self) -> None:
        for _ in range(min(_TICKED_AT_ONCE, len(self._unticked))):
            member = self._unticked.popleft()
            if self._members.get(member.borrower.id) is member:
                member.tick()
        if self._unticked:
            self._on_more()

    def _settle_saved(self) -> None:
        for member in list(islice(self._saved, _SAVED_AT_ONCE)):
            del self._saved[member]
            if member.on_saved(self._saved_ticket):
                self._saving[member] = None
        if self._saved:
            self._on_more()

    def __repr__(self) -> str:
        return f"ActiveMembers({len(self._members)} at work, {len(self._starting)} groups start)"
