"""Retained messages on their way to one client: those that its new subscriptions match.

They are delivered as the client takes them. A subscription may match a million, so delivery ends with the turn's work
and goes on in another; it stops while the client is behind and goes on when its acknowledgements or its reading have
caught up. So they neither fill the outbox nor push anything out of the message queue.
"""

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.channel.context import ChannelContext
from heliograph.session.session import Session


class RetainedDelivery:
    """What one client has yet to get; a view of its connection, owned by its channel.

    Messages that are not delivered when the connection ends are not delivered at all.
    """

    def __init__(self, context: ChannelContext, session: Session) -> None:
        self._context = context
        self._broker = context.broker
        self._session = session
        self._subscriptions: list[Subscription] = []
        self._next_subscription: i64 = 0
        self._subscription: Subscription | None = None  # whose messages are being delivered
        self._messages: list[Message] = []
        self._next_message: i64 = 0

    def add(self, subscription: Subscription) -> None:
        """Deliver what a subscription matches, behind what is to be delivered already."""
        self._subscriptions.append(subscription)

    def is_done(self) -> bool:
        """Whether nothing is left to deliver."""
        return self._subscription is None and self._next_subscription >= len(self._subscriptions)

    def deliver(self) -> bool:
        """Deliver as much as the client takes and this turn allows; whether another turn is needed to go on."""
        broker = self._broker
        turns = self._context.turns
        while not self._session.is_behind():
            if not self._has_message():
                return False
            self._deliver_one()
            if broker.work > turns.work_max:
                return not self.is_done()
        return False

    def _has_message(self) -> bool:
        """Go to the next message, of the next subscription if need be; False when there is none."""
        while self._next_message >= len(self._messages):
            self._subscription = None
            if self._next_subscription >= len(self._subscriptions):
                self._messages = []
                return False
            at: i64 = self._next_subscription
            self._next_subscription += 1
            self._begin(self._subscriptions[at])
        return True

    def _begin(self, subscription: Subscription) -> None:
        self._messages = []
        self._next_message = 0
        retained = self._broker.retained
        if retained is not None and self._holds(subscription):
            self._subscription = subscription
            self._messages = retained.match(subscription.topic_filter)
            # Finding a message costs more than delivering it.
            self._broker.work += 16 * (1 + len(self._messages))

    def _deliver_one(self) -> None:
        message = self._messages[self._next_message]
        self._next_message += 1
        subscription, retained = self._subscription, self._broker.retained
        if subscription is None or retained is None or not self._holds(subscription):
            self._next_message = len(self._messages)
        elif retained.holds(message):  # what replaced it since was delivered as it came
            self._broker.work += 16 + (len(message.publish.data) >> 8)
            self._session.deliver_retained(message, subscription)

    def _holds(self, subscription: Subscription) -> bool:
        return self._session.subscriptions.get(subscription.topic_filter) is subscription
