"""The interface of a sender to what its client missed: messages that are stored, and that a replay brings."""

from mypy_extensions import i64

from heliograph.session.mqueue import Delivery
from heliograph.session.outbox import Outbox


class Backlog:
    """What a sender asks where messages wait elsewhere than in its queue. Nothing here waits.

    Attributes:
        behind: Older messages wait there, which new ones must not overtake.
        catching: The last of them are being replayed, and new messages wait for that.
    """

    def __init__(self) -> None:
        self.behind = False
        self.catching = False

    def catches(self, delivery: Delivery) -> bool:
        """Keep a message that comes while it is `catching`, or answer False so that it is sent."""
        raise NotImplementedError(type(self).__name__)

    def leaves(self, delivery: Delivery) -> bool:
        """Leave to a replay a message that cannot be sent now, or answer False so that it is queued."""
        raise NotImplementedError(type(self).__name__)

    def before_sending(self, outbox: Outbox, delivery: Delivery) -> bool:
        """A message is about to be sent for the first time; whether it may be."""
        raise NotImplementedError(type(self).__name__)

    def after_sending(self, packet_id: i64, delivery: Delivery) -> None:
        """A message was sent, or the client cannot have it."""
        raise NotImplementedError(type(self).__name__)
