"""The message queue of a session: what waits for the inflight window or for the client to come back.

When it is full, by the number of messages or by their bytes, a QoS 0 message goes first if the queue holds any (they
are stored only if `mqueue_store_qos0`), and the oldest message otherwise. Order among what stays never changes. Where
the operator gives topics priorities, there is one such queue for each priority; the limit of messages holds for each,
the limit of bytes for all of them, and the lowest priority loses first.
"""

from collections import deque
from typing import Final

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.subscription import Subscription
from heliograph.session.options import SessionOptions

WAITING: Final = 0  # in the queue
PUBLISHED: Final = 1  # PUBLISH sent, PUBACK or PUBREC awaited
RELEASED: Final = 2  # PUBREL sent, PUBCOMP awaited
DROPPED: Final = 3  # taken out of turn: the queue passes over it

# What a waiting message costs beside its packet: delivery, message, PUBLISH, and their places in queues.
DELIVERY_BYTES: Final = 512


class Delivery:
    """One message for one session, from the queue to its last acknowledgement.

    Args:
        subscription: The subscription that it matched.

    Attributes:
        since_us: When it was sent last; while it waits, since when it does, which no other that waits with it has.
    """

    def __init__(self, message: Message, qos: i64, retain: bool, subscription: Subscription) -> None:
        self.message = message
        self.qos = qos
        self.retain = retain
        self.subscription = subscription
        # As it was when the message came: a SUBSCRIBE may change it before the message leaves.
        self.subscription_id: i64 = i64(subscription.subscription_id)
        self.phase: i64 = 0
        self.since_us: i64 = 0
        self.after_us: i64 = 0  # a durable session's: the commit time behind which the message is stored,
        self.record: str | None = None  # and how it was saved last


def size_of(message: Message) -> i64:
    """What the limit of bytes counts for a message that waits."""
    return len(message.publish.data) + len(message.clientid) + DELIVERY_BYTES


def make_queue(options: SessionOptions) -> "MessageQueue":
    if options.mqueue_priorities:
        return PriorityQueue(options)
    return MessageQueue(options.max_mqueue_len, options.mqueue_store_qos0, options.max_mqueue_bytes)


def wants_same_queue(one: SessionOptions, other: SessionOptions) -> bool:
    """Whether a queue that was made for one serves the other as it is."""
    return (
        one.max_mqueue_len == other.max_mqueue_len
        and one.max_mqueue_bytes == other.max_mqueue_bytes
        and one.mqueue_store_qos0 == other.mqueue_store_qos0
        and one.mqueue_default_priority == other.mqueue_default_priority
        and one.mqueue_priorities == other.mqueue_priorities
    )


class MessageQueue:
    """A bounded queue of deliveries; owned by its session.

    Args:
        len_max: How many wait at the most; 0 for no limit.
        store_qos0: Whether QoS 0 messages may wait.
        bytes_max: How many bytes of them at the most, as `size_of` counts; 0 for no limit. One message may always wait.

    Attributes:
        count: How many wait.
        size_bytes: What they count for `bytes_max`.
    """

    def __init__(self, len_max: i64, store_qos0: bool, bytes_max: i64 = 0) -> None:
        self._len_max = len_max
        self._bytes_max = bytes_max
        self._store_qos0 = store_qos0
        # Dropping from the middle only marks a delivery, so that both queues stay plain deques.
        self._waiting: deque[Delivery] = deque()
        self._qos0: deque[Delivery] = deque()
        self.count: i64 = 0
        self.size_bytes: i64 = 0
        self._last_us: i64 = 0  # since when the last one waits

    def stamp(self, delivery: Delivery, uptime_us: i64) -> None:
        """Say since when a delivery waits; one moment later than the last, if both came at once."""
        self._last_us = max(self._last_us + 1, uptime_us)
        delivery.since_us = self._last_us

    def waiting_after(self, since_us: i64, count_max: i64) -> list[Delivery]:
        waiting = self._waiting
        low: i64 = 0
        high: i64 = len(waiting)
        while low < high:
            middle = (low + high) >> 1
            if waiting[int(middle)].since_us <= since_us:
                low = middle + 1
            else:
                high = middle
        found: list[Delivery] = []
        while low < len(waiting) and count_max > 0:
            delivery = waiting[int(low)]
            low += 1
            if delivery.phase != DROPPED:
                found.append(delivery)
                count_max -= 1
        return found

    def lanes(self) -> "list[tuple[int, MessageQueue]]":
        """The queues in the order in which they are emptied, each with its priority."""
        return [(0, self)]

    def push(self, delivery: Delivery) -> Delivery | None:
        """Let a delivery wait; the first one that had to be dropped for it (perhaps itself), or None.

        Then `shed` has to be called until it answers None: several small messages may have to go for a large one.
        """
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
        self.size_bytes += size_of(delivery.message)
        return dropped if dropped is not None else self.shed()

    def shed(self) -> Delivery | None:
        """The next delivery that has to go because the bytes are too many, or None."""
        if self._bytes_max == 0 or self.size_bytes <= self._bytes_max or self.count <= 1:
            return None
        dropped = self.pop_qos0()
        return self.pop() if dropped is None else dropped

    def pop(self) -> Delivery | None:
        while self._waiting:
            delivery = self._waiting.popleft()
            if delivery.phase != DROPPED:
                self._forget_qos0(delivery)
                self.count -= 1
                self.size_bytes -= size_of(delivery.message)
                return delivery
        return None

    def pop_qos0(self) -> Delivery | None:
        while self._qos0:
            oldest = self._qos0.popleft()
            if oldest.phase == WAITING:
                oldest.phase = DROPPED
                self.count -= 1
                self.size_bytes -= size_of(oldest.message)
                self._compact()
                return oldest
        return None

    def holds_qos0(self) -> bool:
        return len(self._qos0) > 0

    def is_full(self, message: Message) -> bool:
        if self._len_max != 0 and self.count >= self._len_max:
            return True
        return self._bytes_max != 0 and self.count > 0 and self.size_bytes + size_of(message) > self._bytes_max

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
        super().__init__(options.max_mqueue_len, options.mqueue_store_qos0, options.max_mqueue_bytes)
        self._options = options
        self._lanes: dict[int, MessageQueue] = {}
        self._order: list[int] = []  # priorities, highest first

    def push(self, delivery: Delivery) -> Delivery | None:
        lane = self._lane(delivery.message.topic)
        before, bytes_before = lane.count, lane.size_bytes
        dropped = lane.push(delivery)
        self.count += lane.count - before
        self.size_bytes += lane.size_bytes - bytes_before
        return dropped if dropped is not None else self.shed()

    def lanes(self) -> list[tuple[int, MessageQueue]]:
        return [(priority, self._lanes[priority]) for priority in self._order]

    def shed(self) -> Delivery | None:
        if self._bytes_max == 0 or self.size_bytes <= self._bytes_max or self.count <= 1:
            return None
        for priority in reversed(self._order):
            lane = self._lanes[priority]
            dropped = lane.pop_qos0()
            if dropped is None:
                dropped = lane.pop()
            if dropped is not None:
                return self._gone(dropped)
        return None

    def pop(self) -> Delivery | None:
        for priority in self._order:
            delivery = self._lanes[priority].pop()
            if delivery is not None:
                return self._gone(delivery)
        return None

    def pop_qos0(self) -> Delivery | None:
        for priority in self._order:
            delivery = self._lanes[priority].pop_qos0()
            if delivery is not None:
                return self._gone(delivery)
        return None

    def holds_qos0(self) -> bool:
        return any(lane.holds_qos0() for lane in self._lanes.values())

    def is_full(self, message: Message) -> bool:
        if self._lane(message.topic).is_full(message):
            return True
        return self._bytes_max != 0 and self.count > 0 and self.size_bytes + size_of(message) > self._bytes_max

    def _gone(self, delivery: Delivery) -> Delivery:
        self.count -= 1
        self.size_bytes -= size_of(delivery.message)
        return delivery

    def _lane(self, topic: str) -> MessageQueue:
        priority = self._options.mqueue_priorities.get(topic, self._options.mqueue_default_priority)
        lane = self._lanes.get(priority)
        if lane is None:
            lane = MessageQueue(self._len_max, self._store_qos0)
            self._lanes[priority] = lane
            self._order = sorted(self._lanes, reverse=True)
        return lane
