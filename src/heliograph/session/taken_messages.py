"""The seam to the QoS 2 messages on the disk that were taken from clients and not released."""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.repetition import Repetition
from heliograph.session.session import Session


@mypyc_attr(allow_interpreted_subclasses=True)
class TakenMessages:
    """What the durable sessions of one node have taken; owned by its `Durability`. Nothing here waits."""

    def take(self, session: Session, packet_id: int, message: int, id_high: int, id_low: int) -> i64:
        """A QoS 2 message was taken, whose own commit has the ticket `message`, or 0: the ticket of this commit."""
        raise NotImplementedError(type(self).__name__)

    def release(self, session: Session, packet_id: int) -> i64:
        """The client released a message that was taken, or it was refused: the ticket of the commit."""
        raise NotImplementedError(type(self).__name__)

    def find(self, session: Session, packet_id: int) -> tuple[int, int] | None:
        """The id of the message that was taken under a packet identifier, if it is kept."""
        raise NotImplementedError(type(self).__name__)

    def claim_orphan(self, session: Session, repetition: Repetition) -> tuple[int, int] | None:
        """The id of the message that a PUBLISH repeats, if a crash stored it without identifier; each counts once."""
        raise NotImplementedError(type(self).__name__)

    def is_replaced(self, topic: str, id_high: int, id_low: int) -> bool:
        """Whether another retained message of a topic was stored after that of an id."""
        raise NotImplementedError(type(self).__name__)
