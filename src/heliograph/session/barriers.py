"""What clients may see only after a commit: barriers in their outboxes, and messages that a refused commit takes back.

Two commits matter: that of a stored message, known by its ticket from the broker's sink, and that of session state,
whose tickets are counted here.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.faults import COMMITS, Faults
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session

_REFUSED_MAX: Final = 1024


class UncommittedDelivery:
    """A message at QoS 2 in an outbox, behind a barrier until it is known whether it is stored."""

    def __init__(self, session: Session, packet_id: int, ticket: i64) -> None:
        self.session = session
        self.packet_id = packet_id
        self.ticket = ticket


@mypyc_attr(allow_interpreted_subclasses=True)
class CommitBarriers:
    """The barriers in all outboxes of one node; `Durability` is its only subclass.

    Attributes:
        committed: The newest ticket of stored messages that is answered for.
        gathering: The ticket of the commit that session state is gathered for now.
        saved: The newest ticket of session state that is durable.
    """

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.committed: i64 = 0
        self.gathering: i64 = 1
        self.saved: i64 = 0
        self._barred: list[Outbox] = []
        self._uncommitted: list[UncommittedDelivery] = []  # by their tickets
        self._refused: dict[int, None] = {}  # tickets, oldest first

    def add_barrier(self, outbox: Outbox, state: i64, message: i64) -> None:
        """Let nothing that is put into an outbox from now on leave before these commits; 0 for none."""
        if (state > self.saved or message > self.committed) and outbox.add_barrier(state, message):
            self._barred.append(outbox)

    def await_commit(self, session: Session, packet_id: int, ticket: i64) -> None:
        """A message at QoS 2 was put into an outbox behind a barrier; tell its session if this commit is refused."""
        if ticket > self.committed:
            self._uncommitted.append(UncommittedDelivery(session, packet_id, ticket))

    def is_refused(self, ticket: i64) -> bool:
        """Whether a commit was refused, not long ago: its message is not stored, and its publisher knows it."""
        return bool(self._refused) and ticket in self._refused

    def answered(self, ticket: i64, is_refused: bool) -> None:
        """The next commit of messages is done, or refused; `release` then lets go what waited for it."""
        uncommitted, self._uncommitted = self._uncommitted, []
        for one in uncommitted:
            if one.ticket > ticket:
                self._uncommitted.append(one)
            elif is_refused and one.ticket == ticket:
                try:
                    one.session.on_refused(one.packet_id, ticket)
                except Exception as error:  # noqa: BLE001 - other sessions hear of it too, whatever it is
                    self.faults.contain(COMMITS, error, one.session.abort)
        if is_refused:
            self._refused[ticket] = None
            if len(self._refused) > _REFUSED_MAX:
                del self._refused[next(iter(self._refused))]
        self.committed = ticket

    def release(self) -> None:
        """Commits are done: let go what waits behind barriers for them."""
        if self._barred:
            self._barred = [outbox for outbox in self._barred if outbox.release(self.saved, self.committed)]
