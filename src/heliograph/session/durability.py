"""The seam to whoever keeps sessions: what a durable session asks, and what it must know of commits.

Two commits matter: that of a stored message, known by its ticket from the broker's sink, and that of session state,
whose tickets are counted here. What a client may see only after them is held in its outbox.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.faults import COMMITS, Faults
from heliograph.broker.pending import Pending
from heliograph.broker.repetition import Repetition
from heliograph.broker.subscription import Subscription
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session
from heliograph.session.will import Will

_REFUSED_MAX: Final = 1024


class Unsure:
    """A message at QoS 2 in an outbox, of which nobody knows yet whether it is stored."""

    def __init__(self, session: Session, packet_id: int, ticket: i64) -> None:
        self.session = session
        self.packet_id = packet_id
        self.ticket = ticket


@mypyc_attr(allow_interpreted_subclasses=True)
class Durability:
    """Keeps the sessions of one node; owned by the node. Nothing here waits.

    Args:
        faults: Where sessions that raise are contained.

    Attributes:
        committed: The newest ticket of stored messages that is answered for.
        head_us: A commit time: whatever is stored up to it is committed, and was handed to its subscribers,
        head_ticket: and this is the newest ticket of that.
        gathering: The ticket of the commit that session state is gathered for now.
        saved: The newest ticket of session state that is durable.
        knows_all: Every session on the disk is known to the table.
        touched: Sessions that have moved on since they were saved.
    """

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.committed: i64 = 0
        self.head_us: i64 = 0
        self.head_ticket: i64 = 0
        self.gathering: i64 = 1
        self.saved: i64 = 0
        self.knows_all = False
        self.touched: list[Session] = []
        self._held: list[Outbox] = []
        self._unsure: list[Unsure] = []  # by their tickets
        self._refused: dict[int, None] = {}  # tickets, oldest first

    def hold(self, outbox: Outbox, state: i64, message: i64) -> None:
        """Let nothing that is put into an outbox from now on leave before these commits; 0 for none."""
        if (state > self.saved or message > self.committed) and outbox.hold(state, message):
            self._held.append(outbox)

    def await_commit(self, session: Session, packet_id: int, ticket: i64) -> None:
        """A message at QoS 2 was put into an outbox, held until this commit; hear of it if that is refused."""
        if ticket > self.committed:
            self._unsure.append(Unsure(session, packet_id, ticket))

    def is_refused(self, ticket: i64) -> bool:
        """Whether a commit was refused, not long ago: its message is not stored and its publisher was told so."""
        return bool(self._refused) and ticket in self._refused

    def answered(self, ticket: i64, is_refused: bool) -> None:
        """The next commit of messages is done, or refused; `release` then lets go what was held for it."""
        unsure, self._unsure = self._unsure, []
        for one in unsure:
            if one.ticket > ticket:
                self._unsure.append(one)
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
        """Commits are done: let go what was held for them."""
        if self._held:
            self._held = [outbox for outbox in self._held if outbox.release(self.saved, self.committed)]

    def covers(self, topic_filter: str) -> bool:
        """Whether every message that a filter matches can be replayed."""
        raise NotImplementedError(type(self).__name__)

    def look_up(self, clientid: str, clean_start: bool) -> Pending[bool] | None:
        """Read what a client that comes needs of the disk, in later turns; None if there is nothing to read.

        Args:
            clean_start: Whether it begins a new session, and does not need what is in flight.

        Returns:
            Whether that was read; not if it cannot be read now.
        """
        raise NotImplementedError(type(self).__name__)

    def awaken(self, clientid: str) -> Session | None:
        """Read a session that lies on the disk only, and put it back into the table; None if there is none.

        Raises:
            ProtocolError: It cannot be read now.
        """
        raise NotImplementedError(type(self).__name__)

    def begin(self, clientid: str) -> None:
        """A session begins: nothing of an earlier one is to be left with it.

        Raises:
            ProtocolError: That cannot be seen to now.
        """
        raise NotImplementedError(type(self).__name__)

    def give_up(self, clientid: str, clean_start: bool) -> None:
        """A session in memory begins, of a client that may have another on the disk that nobody can read now.

        Raises:
            ProtocolError: It wants that other one if there is one.
        """
        raise NotImplementedError(type(self).__name__)

    def end_asleep(self, clientid: str) -> None:
        """A session that lies on the disk only is over; nothing of it is to be left some time."""
        raise NotImplementedError(type(self).__name__)

    def save_will(self, clientid: str, will: Will) -> i64:
        """Save a will under its number, and when it is due: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def forget_will(self, clientid: str, will: Will) -> None:
        """A will was taken back, or is published and stored."""
        raise NotImplementedError(type(self).__name__)

    def save(self, session: Session) -> i64:
        """Save a session as it is at the end of this turn: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def save_subscription(self, session: Session, name: str, subscription: Subscription, made_us: int) -> i64:
        """Save a subscription: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def forget_subscription(self, session: Session, name: str) -> i64:
        """A subscription was dropped: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def take(self, session: Session, packet_id: int, message: int, id_high: int, id_low: int) -> i64:
        """A QoS 2 message from the client was taken: the ticket of the commit.

        Args:
            message: The ticket of the message's own commit, 0 if it is not stored.
        """
        raise NotImplementedError(type(self).__name__)

    def taken_id(self, session: Session, packet_id: int) -> tuple[int, int] | None:
        """The id of the message that was taken under a packet identifier, if it is kept.

        Raises:
            ProtocolError: That cannot be seen now.
        """
        raise NotImplementedError(type(self).__name__)

    def claim_orphan(self, session: Session, repetition: Repetition) -> tuple[int, int] | None:
        """The id of the message that a PUBLISH repeats, if a crash stored it without its identifier; each counts once.

        Raises:
            ProtocolError: That cannot be seen now.
        """
        raise NotImplementedError(type(self).__name__)

    def is_replaced(self, topic: str, id_high: int, id_low: int) -> bool:
        """Whether another retained message of a topic was stored after that of an id.

        Raises:
            ProtocolError: That cannot be seen now.
        """
        raise NotImplementedError(type(self).__name__)

    def release_taken(self, session: Session, packet_id: int) -> i64:
        """The client released a message that was taken, or it was refused: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def end(self, session: Session) -> i64:
        """A session ended: the ticket of the commit after which nothing of it is left."""
        raise NotImplementedError(type(self).__name__)

    def want(self, session: Session) -> None:
        """A session is behind and takes messages: give it a turn."""
        raise NotImplementedError(type(self).__name__)

    def park(self, session: Session) -> None:
        """A session has more subscriptions to park (`park_some`) than one turn takes."""
        raise NotImplementedError(type(self).__name__)

    def recall(self, session: Session) -> None:
        """A session that was read from the disk gets its client: give it back the messages that are in flight.

        Raises:
            ProtocolError: They cannot be read now.
        """
        raise NotImplementedError(type(self).__name__)
