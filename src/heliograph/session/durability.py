"""The seam to whoever keeps sessions: what a durable session asks, and what it must know of commits.

Two commits matter: that of a stored message, known by its ticket from the broker's sink, and that of session state,
whose tickets are counted here. What a client may see only after them is held in its outbox.
"""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.subscription import Subscription
from heliograph.mqtt.packets import Publish
from heliograph.session.outbox import Outbox
from heliograph.session.session import Session


@mypyc_attr(allow_interpreted_subclasses=True)
class Durability:
    """Keeps the sessions of one node; owned by the node. Nothing here waits.

    Attributes:
        committed: The newest ticket of stored messages that is answered for.
        head_us: A commit time: whatever is stored up to it is committed, and was handed to its subscribers.
        gathering: The ticket of the commit that session state is gathered for now.
        saved: The newest ticket of session state that is durable.
        touched: Sessions that have moved on since they were saved.
    """

    def __init__(self) -> None:
        self.committed: i64 = 0
        self.head_us: i64 = 0
        self.gathering: i64 = 1
        self.saved: i64 = 0
        self.touched: list[Session] = []
        self._held: list[Outbox] = []

    def hold(self, outbox: Outbox, state: i64, message: i64) -> None:
        """Let nothing that is put into an outbox from now on leave before these commits; 0 for none."""
        if (state > self.saved or message > self.committed) and outbox.hold(state, message):
            self._held.append(outbox)

    def release(self) -> None:
        """Commits are done: let go what was held for them."""
        if self._held:
            self._held = [outbox for outbox in self._held if outbox.release(self.saved, self.committed)]

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

    def claim_orphan(self, session: Session, publish: Publish) -> bool:
        """Whether a PUBLISH repeats a message that a crash stored without its identifier; each counts once."""
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

    def recall(self, session: Session) -> None:
        """A session that was read from the disk gets its client: give it back the messages that are in flight."""
        raise NotImplementedError(type(self).__name__)
