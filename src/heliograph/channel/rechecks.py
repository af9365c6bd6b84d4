"""When rights change: what connected clients are subscribed to is checked again, some of them in each turn.

Clients pay nothing while rights stay: a check begins when the node's rights say that what was decided does not hold any
more, when one client is asked about, or when it authenticates again. Where rights may change and nothing says so, those
that were sent anything since their last check are checked again from time to time.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import SESSIONS
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.walkable import Listed, ListWalk
from heliograph.channel.authorization import Authorizer
from heliograph.channel.subscription_check import SubscriptionCheck, drop_denied
from heliograph.mqtt.encode import PINGRESP
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.table import SessionTable

# Clients that are visited in one turn, and what they may cost together, in deliveries.
_VISITED_AT_ONCE: Final = 128
_WORK_AT_ONCE: Final = 2048
# Clients for which answers are awaited at a time.
_WAITING_MAX: Final = 64
_NEVER_US: Final = -(1 << 62)  # longer ago than any period


class Recheck:
    """One client's subscriptions, checked again; owned by `Rechecks` until it is done.

    It asks for itself: what the client asks for meanwhile has answers of its own.

    Attributes:
        dropped: The subscriptions that the client may not have any more, when it is done.
        failed: Those about which nothing could be said; they stay.
        awaited: What it waits for; None if that is nothing.
        done: Resolved when it is done.
    """

    def __init__(self, broker: Broker, checked: Authorizer, session: Session, outbox: Outbox) -> None:
        self.dropped: list[str] = []
        self.failed: list[str] = []
        self.needs_turn = False
        self.awaited: Pending[bool] | None = None
        self.done: Pending[Recheck] = Pending()
        self._checked = checked
        self._check = SubscriptionCheck(broker, checked.renewed(), checked.due_us())
        self._session = session
        self._outbox = outbox

    def advance(self, work_max: i64) -> bool:
        self.awaited = None
        if self._session.sender.outbox is not self._outbox:  # the client is gone, or has another connection
            self._check.cancel()
            return True
        awaited = self._check.advance(self._session, work_max)
        self.needs_turn = self._check.turn is not None
        if awaited is None:
            self.failed = self._check.failed
            if self._check.is_unsure:
                self._checked.checked_bytes = -1  # what could not be asked is asked again, whatever the client is sent
            self.dropped = drop_denied(self._session, self._check.denied)
            return True
        if not self.needs_turn:
            self.awaited = awaited
        return False


class WaitingRecheck:
    """A check whose answers are not there yet."""

    def __init__(self, rechecks: "Rechecks", recheck: Recheck, awaited: Pending[bool]) -> None:
        self.awaited = awaited
        self.recheck = recheck
        self._rechecks = rechecks

    def on_answer(self, _: bool) -> None:
        self._rechecks.on_answer(self)


class Rechecks:
    """The checks that are to be made in a node; owned by its context.

    Attributes:
        period_us: How long a client that is sent messages may go without a check where rights may change unseen.
    """

    def __init__(
        self,
        broker: Broker,
        sessions: SessionTable,
        clock: Callable[[], int],
        defer: Callable[[Callable[[], None]], object],
    ) -> None:
        self.period_us: i64 = 60_000_000
        self._broker = broker
        self._sessions = sessions
        self._clock = clock
        self._defer = defer
        self._walk: ListWalk[Listed] | None = None  # through the sessions that are to be visited
        self._is_for_active = False  # only those that were sent anything
        self._began_us: i64 = _NEVER_US  # when the last walk began by itself
        self._due: list[Recheck] = []  # begun; they need another turn
        self._waiting: list[WaitingRecheck] = []
        self._is_deferred = False

    @property
    def is_running(self) -> bool:
        return self._walk is not None or len(self._due) > 0 or len(self._waiting) > 0

    def check_all(self) -> None:
        """Check every client, beginning in the next turn; a walk that is under way begins again."""
        self._begin_walk(False)

    def check(self, clientid: str, is_another: bool = False) -> Recheck | None:
        """Let a client rely on nothing that was decided before, and check it now, as far as this turn allows.

        Args:
            is_another: Whether the client may be another user since: then rules that were fetched for it do not hold
                where a source cannot be asked now; else they hold on.

        Returns:
            The check, whose `done` is resolved in this call or later; None if the client is not connected.
        """
        self._broker.begin_turn(self._clock())
        session = self._sessions.held(clientid)
        authorizer = None if session is None else session.sender.access_check
        if isinstance(authorizer, Authorizer):
            if is_another:
                authorizer.forget_rights()
            else:
                authorizer.forget_answers()
                authorizer.renew_rights()
        recheck = None if session is None else self._begin(session)
        if recheck is not None:
            self._advance(recheck, self._broker.work + _WORK_AT_ONCE)
        return recheck

    def tick(self, uptime_us: i64) -> None:
        """Do without the answers that have not come in time; begin the checks that time asks for."""
        if uptime_us - self._began_us >= self.period_us and self._broker.rights.may_change_unseen:
            self._began_us = uptime_us
            if self._walk is None:
                self._begin_walk(True)
        for waiting in list(self._waiting):
            if waiting.awaited.is_late(uptime_us):
                self._broker.faults.run(SESSIONS, waiting.awaited.expire)

    def on_answer(self, waiting: WaitingRecheck) -> None:
        """The answers that a check waited for are there."""
        self._waiting.remove(waiting)
        self._due.append(waiting.recheck)
        self._wake()

    def _begin_walk(self, is_for_active: bool) -> None:
        self._is_for_active = is_for_active
        self._walk = self._sessions.walk()
        self._wake()

    def _begin(self, session: Session, is_for_active: bool = False) -> Recheck | None:
        """Begin the check of a session, if its client is connected, and was sent anything since the last one."""
        authorizer, outbox = session.sender.access_check, session.sender.outbox
        if outbox is None or not isinstance(authorizer, Authorizer):
            return None
        sent_bytes = outbox.sent_bytes - len(PINGRESP) * outbox.pings_count
        if is_for_active and sent_bytes == authorizer.checked_bytes:
            return None
        authorizer.checked_bytes = sent_bytes
        if is_for_active:
            authorizer.renew_rights()
        authorizer.drop_cached()
        return Recheck(self._broker, authorizer, session, outbox)

    def _wake(self) -> None:
        if not self._is_deferred and (self._due or (self._walk is not None and len(self._waiting) < _WAITING_MAX)):
            self._is_deferred = True
            self._defer(self._go_on)

    def _go_on(self) -> None:
        self._is_deferred = False
        self._broker.begin_turn(self._clock())
        broker, left = self._broker, i64(_VISITED_AT_ONCE)
        work_max = broker.work + _WORK_AT_ONCE
        while left > 0 and broker.work < work_max:
            left -= 1
            if self._due:
                self._advance(self._due.pop(), work_max)
            elif self._walk is None or len(self._waiting) >= _WAITING_MAX:
                break
            else:
                self._visit(self._walk, work_max)
        self._wake()

    def _visit(self, walk: ListWalk[Listed], work_max: i64) -> None:
        """Check the next session of a walk."""
        found = walk.take(1)
        if not found:
            self._walk = None
            return
        session = found[0]
        if isinstance(session, Session) and session.sender.outbox is not None and session.subscriptions:
            recheck = self._begin(session, self._is_for_active)
            if recheck is not None:
                self._advance(recheck, work_max)

    def _advance(self, recheck: Recheck, work_max: i64) -> None:
        try:
            is_done = recheck.advance(work_max)
        except Exception as error:  # noqa: BLE001 - the others are checked too, whatever it is
            self._broker.faults.contain(SESSIONS, error)
            is_done = True
        awaited = recheck.awaited
        if is_done:
            recheck.done.resolve(recheck)
        elif awaited is None:
            self._due.append(recheck)
            self._wake()
        else:
            waiting = WaitingRecheck(self, recheck, awaited)
            self._waiting.append(waiting)
            awaited.then(waiting.on_answer)
