"""The interface of durable shared groups to sessions: delivered messages, and what becomes of them.

A session that takes part in such a group asks for its messages when it has room, so they never wait in its queue. What
it has not acknowledged at QoS 1 when its client leaves goes back at once; what was sent at QoS 2 stays its own
[MQTT-4.8.2-5].
"""

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscriber, Subscription
from heliograph.session.mqueue import Delivery


class GroupDelivery(Delivery):
    """A message that a session has borrowed from a durable group.

    Args:
        after_us: A commit time behind which the message is stored.
    """

    def __init__(
        self, message: Message, qos: i64, retain: bool, subscription: Subscription, after_us: i64, entry: object
    ) -> None:
        super().__init__(message, qos, retain, subscription)
        self.stored_after_us = after_us
        self.entry = entry


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupDispatcher:
    """Gives messages of durable groups to the sessions of one node; owned by the node. Nothing here waits or raises."""

    def on_attached(self, session: Subscriber) -> None:
        """A client is there: its session takes messages."""
        raise NotImplementedError(type(self).__name__)

    def on_detached(self, session: Subscriber) -> None:
        """The client is gone; what it had at QoS 1 and did not acknowledge is not its session's any more."""
        raise NotImplementedError(type(self).__name__)

    def on_room(self, session: Subscriber) -> None:
        """The session takes more; called often."""
        raise NotImplementedError(type(self).__name__)

    def on_done(self, session: Subscriber, delivery: GroupDelivery) -> None:
        """The client has acknowledged a message."""
        raise NotImplementedError(type(self).__name__)

    def on_returned(self, session: Subscriber, delivery: GroupDelivery) -> None:
        """The client left without acknowledging a message at QoS 1."""
        raise NotImplementedError(type(self).__name__)
