"""Brings changed options to the connections, sessions and shared groups of a node, some of them in each turn."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import CONNECTIONS, SESSIONS
from heliograph.channel.context import ChannelContext
from heliograph.channel.option_changes import OptionChanges
from heliograph.session.session import Session

# What is visited in one turn: each costs some microseconds, and messages that wait in a queue that is made again count
# as deliveries do.
_VISITED_AT_ONCE: Final = 128
_WORK_AT_ONCE: Final = 2048


class StandingOptions:
    """Visits what had other options, when these change; owned by the node's kernel.

    What comes while it visits has the new options already. Another change begins the visits again.
    """

    def __init__(self, context: ChannelContext) -> None:
        self._context = context
        self._changes: OptionChanges | None = None  # those that are on their way
        self._connections: list[int] = []  # that have yet to be visited
        self._groups: list[str] = []  # likewise
        self._sessions: list[Session] | None = None  # likewise; listed when no connection is left that may leave one

    @property
    def is_visiting(self) -> bool:
        return self._changes is not None

    def change(self, changes: OptionChanges) -> None:
        """Give these options to all, beginning in the next turn."""
        was_visiting = self.is_visiting
        self._changes = changes
        self._connections = self._context.channels.numbers()
        self._groups = self._context.broker.shared.keys()
        self._sessions = None
        if not was_visiting:
            self._context.defer(self._go_on)

    def stop(self) -> None:
        self._changes = None

    def _go_on(self) -> None:
        changes = self._changes
        if changes is None:
            return
        context = self._context
        context.begin_turn()
        broker, left = context.broker, i64(_VISITED_AT_ONCE)
        work_max = broker.work + _WORK_AT_ONCE
        while left > 0 and broker.work < work_max and self._visit(changes):
            left -= 1
        if left > 0 and broker.work < work_max:
            self._changes = None
        else:
            context.defer(self._go_on)

    def _visit(self, changes: OptionChanges) -> bool:
        if self._connections:
            self._visit_connection(self._connections.pop(), changes)
        elif self._groups:
            self._context.broker.shared.choose_anew(self._groups.pop())
        else:
            if self._sessions is None:
                self._sessions = self._context.sessions.all()
            if not self._sessions:
                return False
            self._visit_session(self._sessions.pop(), changes)
        return True

    def _visit_connection(self, number: int, changes: OptionChanges) -> None:
        channel = self._context.channels.get(number)
        if channel is None:  # its connection is gone
            return
        try:
            channel.change_options(changes)
        except Exception as error:  # noqa: BLE001 - the others are visited too, whatever it is
            self._context.broker.faults.contain(CONNECTIONS, error, channel.abort)

    def _visit_session(self, session: Session, changes: OptionChanges) -> None:
        if session.attached:  # its connection was visited
            return
        try:
            session.set_options(changes.for_session(session.options))
        except Exception as error:  # noqa: BLE001 - the others are visited too, whatever it is
            self._context.broker.faults.contain(SESSIONS, error)
