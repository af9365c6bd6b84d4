"""The seam to durable sessions on the disk: what a durable session asks, and what it must know of commits."""

from collections.abc import Iterator

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.faults import Faults
from heliograph.broker.pending import Pending
from heliograph.broker.subscription import Subscription
from heliograph.session.barriers import CommitBarriers
from heliograph.session.cursor import Beginning
from heliograph.session.options import SessionOptions
from heliograph.session.session import Session
from heliograph.session.taken_messages import TakenMessages
from heliograph.session.will import Will


class SavedSubscription:
    """A subscription of a session that is on the disk only.

    Attributes:
        name: The filter as its client wrote it.
        made_us: When it was made, in commit time.
    """

    def __init__(
        self,
        name: str,
        mountpoint: str,
        qos: i64,
        no_local: bool,
        retain_as_published: bool,
        retain_handling: i64,
        subscription_id: i64,
        made_us: i64,
    ) -> None:
        self.name = name
        self.mountpoint = mountpoint
        self.qos = qos
        self.no_local = no_local
        self.retain_as_published = retain_as_published
        self.retain_handling = retain_handling
        self.subscription_id = subscription_id
        self.made_us = made_us


@mypyc_attr(allow_interpreted_subclasses=True)
class Durability(CommitBarriers):
    """Keeps the sessions of one node; owned by the node. Nothing here waits.

    Attributes:
        head_us: A commit time: whatever is stored up to it is committed, and was handed to its subscribers,
        head_ticket: and this is the newest ticket of that.
        knows_all: Every session on the disk is known to the table.
        touched: Sessions that have moved on since they were saved.
        taken: The QoS 2 messages that were taken from clients.
    """

    taken: TakenMessages

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
        """Read the session of a client that connects, in later turns.

        Args:
            clean_start: Whether it begins a new session, so that the messages in flight are not needed.

        Returns:
            The answer whether the session could be read; None if there is nothing to read.
        """
        raise NotImplementedError(type(self).__name__)

    def awaken(self, clientid: str) -> Session | None:
        """Read a session that lies on the disk only, and put it back into the table; None if there is none."""
        raise NotImplementedError(type(self).__name__)

    def saved_subscriptions(self, clientid: str) -> Iterator[list[SavedSubscription]]:
        """The subscriptions of a session that lies on the disk only, which stays there; a page in each step."""
        raise NotImplementedError(type(self).__name__)

    def all_saved_subscriptions(self, part: str = "") -> Iterator[list[tuple[str, SavedSubscription]]]:
        """Those of all durable sessions, with the clients that they are of; some in each step.

        Args:
            part: Those whose filters do not have this text may be left out, which costs less than to read them.
        """
        raise NotImplementedError(type(self).__name__)

    @property
    def options(self) -> SessionOptions:
        """What holds for sessions that lie on the disk only, until their clients come to a zone."""
        raise NotImplementedError(type(self).__name__)

    def begin(self, clientid: str) -> None:
        """Remove what is left on the disk of an earlier session: the client begins a new one."""
        raise NotImplementedError(type(self).__name__)

    def give_up(self, clientid: str, clean_start: bool) -> None:
        """Give up the session on the disk, if there is one: the client begins a session in memory.

        Raises:
            ProtocolError: The disk cannot be read now, and the client wants to resume what is there.
        """
        raise NotImplementedError(type(self).__name__)

    def end_asleep(self, clientid: str) -> None:
        raise NotImplementedError(type(self).__name__)

    def save_will(self, clientid: str, will: Will) -> i64:
        """Save a will under its number, and when it is due: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def forget_will(self, clientid: str, will: Will) -> None:
        """A will was taken back, or is published and stored."""
        raise NotImplementedError(type(self).__name__)

    def save(self, session: Session) -> i64:
        raise NotImplementedError(type(self).__name__)

    def save_subscription(self, session: Session, name: str, subscription: Subscription, beginning: Beginning) -> i64:
        """Save a subscription: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def forget_subscription(self, session: Session, name: str) -> i64:
        """A subscription was dropped: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def end(self, session: Session) -> i64:
        raise NotImplementedError(type(self).__name__)

    def want(self, session: Session) -> None:
        """A session is behind and takes messages: give it a turn."""
        raise NotImplementedError(type(self).__name__)

    def park(self, session: Session) -> None:
        """A session has more subscriptions to park (`park_some`) than one turn takes."""
        raise NotImplementedError(type(self).__name__)

    def recall(self, session: Session) -> None:
        """A session that was read from the disk gets its client: give it back the messages that are in flight."""
        raise NotImplementedError(type(self).__name__)
