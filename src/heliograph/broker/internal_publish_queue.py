"""Messages that the broker makes in the middle of other work, published in a later turn: those of rules.

One may be made in the middle of a delivery or of a packet, where nothing can be published: a session that
is being delivered to would get the new message between two of its steps.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from heliograph.broker.faults import PUBLISHING
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message, make_message
from heliograph.broker.publishing import publish
from heliograph.broker.pubsub import Broker
from heliograph.mqtt.errors import ProtocolError

# What one turn publishes, in deliveries: about a millisecond.
_WORK_PER_TURN: Final = 8192

# A few of the largest messages, or hundreds of thousands of usual ones.
_WAITING_BYTES_MAX: Final = 256 << 20


class PublishCounters:
    """What became of the messages of one maker: published, dropped for lack of room, or failed by their topic."""

    def __init__(self) -> None:
        self.published: i64 = 0
        self.dropped: i64 = 0
        self.failed: i64 = 0


class PendingPublish:
    """A message that waits for a callback of `message.publish`; it counts as waiting until then."""

    def __init__(self, queue: "InternalPublishQueue", size: i64, counters: PublishCounters) -> None:
        self._queue = queue
        self._size: i64 = size
        self._counters = counters

    def on_published(self, _: bool) -> None:
        self._queue.settle(self._size, self._counters)


class InternalPublishQueue:
    """The messages of one node that wait; bounded in number and in bytes; owned by its producer.

    Args:
        defer: Calls what it is given in a later turn of the event loop.
        waiting_max: Messages that may wait; beyond it new ones are dropped.
        on_failure: Called with the message and the error where nothing can be published to its topic.
    """

    def __init__(
        self,
        broker: Broker,
        ids: IdSource,
        defer: Callable[[Callable[[], None]], object],
        clock: Callable[[], int],
        waiting_max: int,
        on_failure: Callable[[Message, Exception], object],
    ) -> None:
        self.broker = broker
        self.ids = ids
        self._defer = defer
        self._clock = clock
        self._waiting_max: i64 = waiting_max
        self._on_failure = on_failure
        self._waiting: list[tuple[Message, bool, PublishCounters]] = []
        # With those that the present turn has taken out and not published yet, and those that wait for a callback.
        self._count: i64 = 0
        self._bytes: i64 = 0
        self._is_deferred = False

    def limit(self, waiting_max: int) -> None:
        """Let so many messages wait from now on; those that wait already stay."""
        self._waiting_max = waiting_max

    def __len__(self) -> int:
        return self._count

    def put(self, message: Message, directly: bool, counters: PublishCounters) -> None:
        """Publish a message in a later turn, or drop and count it; `directly` is without hooks and retainer."""
        size: i64 = len(message.payload)
        if self._count >= self._waiting_max or (self._count > 0 and self._bytes + size > _WAITING_BYTES_MAX):
            counters.dropped += 1
            return
        self._count += 1
        self._bytes += size
        self._waiting.append((message, directly, counters))
        if not self._is_deferred:
            self._is_deferred = True
            self._defer(self._go_on)

    def flush(self) -> None:
        """Publish all that waits now, and what that causes, up to as many messages as may wait."""
        left: i64 = self._waiting_max
        while self._waiting and left > 0:
            waiting = self._waiting
            self._waiting = []
            left -= len(waiting)
            for message, directly, counters in waiting:
                self._publish(message, directly, counters)

    def _go_on(self) -> None:
        self._is_deferred = False
        broker = self.broker
        broker.begin_turn(self._clock())
        end: i64 = broker.work + _WORK_PER_TURN
        waiting = self._waiting
        self._waiting = []
        at: i64 = 0
        try:
            while at < len(waiting) and broker.work <= end and broker.fanouts.has_room():
                message, directly, counters = waiting[at]
                at += 1
                self._publish(message, directly, counters)
        finally:
            if at < len(waiting):
                self._waiting = waiting[at:] + self._waiting
            if self._waiting and not self._is_deferred:
                self._is_deferred = True
                self._defer(self._go_on)

    def _publish(self, message: Message, directly: bool, counters: PublishCounters) -> None:
        broker = self.broker
        size: i64 = len(message.payload)
        self._count -= 1
        self._bytes -= size
        try:
            pending = publish(broker, message, None, None, False, directly).pending
        except ProtocolError as error:
            counters.failed += 1
            self._on_failure(message, error)
        except Exception as fault:  # noqa: BLE001 - what waits behind it is published
            counters.failed += 1
            broker.faults.contain(PUBLISHING, fault)
        else:
            if pending is None:
                counters.published += 1
            else:
                self._count += 1
                self._bytes += size
                pending.then(PendingPublish(self, size, counters).on_published)

    def settle(self, size: i64, counters: PublishCounters) -> None:
        self._count -= 1
        self._bytes -= size
        counters.published += 1


class MessageTemplate:
    """Makes messages that differ in their payloads only, and has them published.

    Args:
        made_by: The rules that make them.
    """

    def __init__(
        self,
        out: InternalPublishQueue,
        topic: str,
        qos: i64,
        retain: bool,
        clientid: str,
        directly: bool,
        counters: PublishCounters,
    ) -> None:
        self._out = out
        self._topic = topic
        self._qos = qos
        self._retain = retain
        self._clientid = clientid
        self._made_by = (clientid,)
        self._directly = directly
        self._counters = counters

    def put(self, payload: bytes) -> None:
        out = self._out
        low = out.ids.next_low()
        message = make_message(
            out.broker.now_us, low, self._topic, payload, self._qos, self._retain, b"", self._clientid, None
        )
        message.made_by = self._made_by
        out.put(message, self._directly, self._counters)
