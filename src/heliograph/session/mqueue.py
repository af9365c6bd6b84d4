"""The message queue of a session: what waits for the inflight window or for the client to come back.

When it is full, a QoS 0 message goes first if the queue holds any (they are stored only if `mqueue_store_qos0`), and
the oldest message otherwise. Order among what stays never changes. Where the operator gives topics priorities, there
is one such queue for each priority, and the limit holds for each.
"""

from collections import deque

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.session.options import SessionOptions

WAITING: i64 = 0  # in the queue
PUBLISHED: i64 = 1  # PUBLISH sent, PUBACK or PUBREC awaited
RELEASED: i64 = 2  # PUBREL sent, PUBCOMP awaited
DROPPED: i64 = 3  # taken out of turn: the queue passes over it


class Delivery:
    """One message for one session, from the queue to its last acknowledgement.

    Args:
        qos: The QoS that it is sent at.
        retain: The retain flag that it is sent with.
        subscription: The subscription that it matched.
    """

    def __init__(self, message: Message, qos: i64, retain: bool, subscription: Subscription) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.subscription = subscription
        # As it was when the message came: a SUBSCRIBE may change it before the message leaves.
        self.subscription_id: i64 = subscription.subscription_id
        self.phase: i64 = 0
        self.sent_at_us: i64 = 0
        self.after_us: i64 = 0  # a durable session's: the commit time behind which the message is stored,
        self.record: str | None = None  # and how it was saved last


def make_queue(options: SessionOptions) -> "MessageQueue":
    """The message queue that the operator wants."""
    if options.mqueue_priorities:
        return PriorityQueue(options)
    return MessageQueue(options.max_mqueue_len, options.mqueue_store_qos0)


class MessageQueue:
    """A bounded queue of deliveries; owned by its session.

    Args:
        len_max: How many wait at the most; 0 for no limit.
        store_qos0: Whether QoS 0 messages may wait.
    """

    def __init__(self, len_max: i64, store_qos0: bool) -> None:
        self._len_max = len_max
        self._store_qos0 = store_qos0
        # Dropping from the middle only marks a delivery, so that both queues stay plain deques.
        self._waiting: deque[Delivery] = deque()
        self._qos0: deque[Delivery] = deque()
        self.count: i64 = 0

    def push(self, delivery: Delivery) -> Delivery | None:
        """Let a delivery wait; the one that had to be dropped for it (perhaps itself), or None."""
        if delivery.qos == 0 and not self._store_qos0:
            return delivery
        dropped: Delivery | None = None
        if self._len_max != 0 and self.count >= self._len_max:
            dropped = self._victim(delivery)
            if dropped is delivery:
                return dropped
        self._waiting.append(delivery)
        if delivery.qos == 0:
            self._qos0.append(delivery)
        self.count += 1
        return dropped

    def pop(self) -> Delivery | None:
        """The delivery that has waited longest, or None."""
        while self._waiting:
            delivery = self._waiting.popleft()
            if delivery.phase != DROPPED:
                self._forget_qos0(delivery)
                self.count -= 1
                return delivery
        return None

    def pop_qos0(self) -> Delivery | None:
        """The QoS 0 delivery that has waited longest, or None."""
        while self._qos0:
            oldest = self._qos0.popleft()
            if oldest.phase == WAITING:
                oldest.phase = DROPPED
                self.count -= 1
                self._compact()
                return oldest
        return None

    def holds_qos0(self) -> bool:
        """Whether a QoS 0 delivery waits."""
        return len(self._qos0) > 0

    def is_full(self, topic: str) -> bool:
        """Whether something must be dropped for a message of that topic to wait."""
        return self._len_max != 0 and self.count >= self._len_max

    def _victim(self, delivery: Delivery) -> Delivery:
        oldest = self.pop_qos0()
        if oldest is not None:
            return oldest
        if delivery.qos == 0:
            return delivery
        popped = self.pop()
        return delivery if popped is None else popped

    def _forget_qos0(self, delivery: Delivery) -> None:
        if delivery.qos == 0 and self._qos0 and self._qos0[0] is delivery:
            self._qos0.popleft()

    def _compact(self) -> None:
        # Marked deliveries behind the head would gather without bound while nothing is popped.
        if len(self._waiting) > 2 * self.count + 16:
            self._waiting = deque([waiting for waiting in self._waiting if waiting.phase != DROPPED])


class PriorityQueue(MessageQueue):
    """A message queue for each priority; the highest that holds something is emptied first."""

    def __init__(self, options: SessionOptions) -> None:
        super().__init__(options.max_mqueue_len, options.mqueue_store_qos0)
        self._options = options
        self._lanes: dict[int, MessageQueue] = {}
        self._order: list[int] = []  # priorities, highest first

    def push(self, delivery: Delivery) -> Delivery | None:
        """Let a delivery wait in the queue of its topic's priority."""
        lane = self._lane(delivery.message.topic)
        before = lane.count
        dropped = lane.push(delivery)
        self.count += lane.count - before
        return dropped

    def pop(self) -> Delivery | None:
        """The delivery of the highest priority that has waited longest, or None."""
        for priority in self._order:
            delivery = self._lanes[priority].pop()
            if delivery is not None:
                self.count -= 1
                return delivery
        return None

    def pop_qos0(self) -> Delivery | None:
        """The QoS 0 delivery of the highest priority that has waited longest, or None."""
        for priority in self._order:
            delivery = self._lanes[priority].pop_qos0()
            if delivery is not None:
                self.count -= 1
                return delivery
        return None

    def holds_qos0(self) -> bool:
        """Whether a QoS 0 delivery waits in any of them."""
        return any(lane.holds_qos0() for lane in self._lanes.values())

    def is_full(self, topic: str) -> bool:
        """Whether the queue of that topic's priority is full."""
        return self._lane(topic).is_full(topic)

    def _lane(self, topic: str) -> MessageQueue:
        priority = self._options.mqueue_priorities.get(topic, self._options.mqueue_default_priority)
        lane = self._lanes.get(priority)
        if lane is None:
            lane = MessageQueue(self._len_max, self._store_qos0)
            self._lanes[priority] = lane
            self._order = sorted(self._lanes, reverse=True)
        return lane
