"""The seam to durable sessions on the disk: what a durable session asks, and what it must know of commits."""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.faults import Faults
from heliograph.broker.pending import Pending
from heliograph.broker.repetition import Repetition
from heliograph.broker.subscription import Subscription
from heliograph.session.barriers import CommitBarriers
from heliograph.session.session import Session
from heliograph.session.will import Will


@mypyc_attr(allow_interpreted_subclasses=True)
class Durability(CommitBarriers):
    """Keeps the sessions of one node; owned by the node. Nothing here waits.

    Attributes:
        head_us: A commit time: whatever is stored up to it is committed, and was handed to its subscribers,
        head_ticket: and this is the newest ticket of that.
        knows_all: Every session on the disk is known to the table.
        touched: Sessions that have moved on since they were saved.
    """

    def __init__(self, faults: Faults) -> None:
        super().__init__(faults)
        self.head_us: i64 = 0
        self.head_ticket: i64 = 0
        self.knows_all = False
        self.touched: list[Session] = []

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
