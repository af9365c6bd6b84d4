"""Retained messages on their way to one client: those that its new subscriptions match.

They are delivered as the client takes them. A subscription may match a million, so they are read one at a time:
delivery ends with the turn's work and goes on in another; it stops while the client is behind and goes on when its
acknowledgements or its reading have caught up. So they neither fill the outbox nor push anything out of the message
queue, and what a client is sent is what is retained at that moment.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from heliograph.broker.allowance import Allowance
from heliograph.broker.retained import RetainedMatches
from heliograph.broker.subscription import UNLISTED, Subscription
from heliograph.channel.context import ChannelContext
from heliograph.session.session import Session

# In deliveries (`Broker.work`): each is encoded for its receiver alone.
_DELIVER_WORK: Final = 16
_BYTES_PER_WORK_LOG2: Final = 8
# More entries than the client has subscriptions may wait, before those that are out of date are looked for.
_SPARE_ENTRIES: Final = 16


class RetainedDelivery:
    """What one client has yet to get; a view of its connection, owned by its channel.

    Messages that are not delivered when the connection ends are not delivered at all. Whether the client may have a
    message is for its session to ask, as for any other.
    """

    def __init__(self, context: ChannelContext, session: Session) -> None:
        self._context = context
        self._broker = context.broker
        self._session = session
        self._waiting: deque[tuple[Subscription, RetainedMatches]] = deque()
        self._allowance: Allowance | None = None
        store = context.broker.retained
        if store is not None and store.delivery_rate is not None:
            self._allowance = Allowance(store.delivery_rate[0], store.delivery_rate[1])

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, subscription: Subscription) -> None:
        """Deliver what a subscription matches, behind what is to be delivered already."""
        store = self._broker.retained
        if store is None:
            return
        self._waiting.append((subscription, store.match(subscription.topic_filter)))
        if len(self._waiting) > 2 * len(self._session.subscriptions) + _SPARE_ENTRIES:
            self._tidy()

    def is_done(self) -> bool:
        """Whether nothing is left, neither to deliver nor to remember."""
        allowance = self._allowance
        return not self._waiting and (allowance is None or allowance.is_whole(self._broker.uptime_us))

    def deliver(self) -> bool:
        """Deliver as much as the client takes and this turn allows.

        Returns:
            Whether another turn is needed to go on. Otherwise it is done, or the client is behind or has had its share
            for now: then it is to be called when the client has caught up, and when time has passed.
        """
        broker = self._broker
        work_max = self._context.turns.work_max
        batch: i64 = 0 if broker.retained is None else broker.retained.batch_deliver_number
        count: i64 = 0
        while self._waiting and not self._session.sender.is_behind() and not self._has_had_share():
            if self._deliver_next():
                count += 1
            if (batch != 0 and count >= batch) or broker.work > work_max:
                return len(self._waiting) > 0
        return False

    def _deliver_next(self) -> bool:
        subscription, matches = self._waiting[0]
        message = matches.next() if _is_held(subscription) else None
        if message is None:
            if matches.is_done() or not _is_held(subscription):
                self._waiting.popleft()
            return False
        self._broker.work += _DELIVER_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        if self._allowance is not None:
            self._allowance.take(self._broker.uptime_us)
        self._session.deliver_retained(message, subscription)  # 3.1.1 [MQTT-3.3.1-6]
        return True

    def _tidy(self) -> None:
        # A client that does not take what it was sent may subscribe and unsubscribe as often as it likes.
        newest = {entry[0]: entry for entry in self._waiting}
        self._waiting = deque([entry for entry in newest.values() if _is_held(entry[0])])

    def _has_had_share(self) -> bool:
        return self._allowance is not None and self._allowance.is_spent(self._broker.uptime_us)


def _is_held(subscription: Subscription) -> bool:
    return subscription.slot != UNLISTED
