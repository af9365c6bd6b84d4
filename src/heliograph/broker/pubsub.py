"""Publish and subscribe on one node: the one synchronous pass from a message to every local session."""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.counters import Counters
from heliograph.broker.durable import DurableSink
from heliograph.broker.hooks import STOP, Hooks
from heliograph.broker.message import Message
from heliograph.broker.router import Route, Router
from heliograph.broker.subscription import Subscription
from heliograph.mqtt.errors import ProtocolError

NOT_STORED: Final = 0

# Work that is not a delivery, in deliveries.
_BYTES_PER_WORK_LOG2: Final = 8
_STORE_WORK: Final = 4
_RETAIN_WORK: Final = 64
_SUBSCRIBE_WORK: Final = 16


@mypyc_attr(allow_interpreted_subclasses=True)
class RetainedStore:
    """The seam to the retainer: it takes every message that carries the retain flag."""

    def retain(self, message: Message) -> None:
        """Keep `message` for its topic, or forget the topic's message if its payload is empty. Must not block."""
        raise NotImplementedError(type(self).__name__)

    def match(self, topic_filter: str) -> list[Message]:
        """The retained messages whose topics a filter matches, as they are now."""
        raise NotImplementedError(type(self).__name__)

    def holds(self, message: Message) -> bool:
        """Whether `message` is still the one of its topic."""
        raise NotImplementedError(type(self).__name__)


class Broker:
    """The kernel of one node: routing table, hooks, counters, and the seams to storage and retainer.

    Owned by the node, which joins the rooms; lives as long as it.
    """

    def __init__(self, router: Router, hooks: Hooks) -> None:
        self.router = router
        self.hooks = hooks
        self.counters = Counters()
        self.sink: DurableSink | None = None
        self.retained: RetainedStore | None = None
        self.now_us: i64 = 0  # the time of this turn on the wall clock, in microseconds since the epoch; never falls
        self.uptime_us: i64 = 0  # the time of this turn on a clock that nobody sets; what times out runs on it
        self.wall_offset_us: i64 = 0  # how far the wall clock is ahead of that clock; kept up to date by the node
        self.work: i64 = 0  # what was done so far, in deliveries (30 to 60 ns); channels yield their turn by it

    def begin_turn(self, uptime_us: i64) -> None:
        """Say what time it is, on the clock that nobody sets."""
        self.uptime_us = uptime_us
        now = uptime_us + self.wall_offset_us
        if now < self.now_us:  # a wall clock that was set back would make message ids twice
            now = self.now_us + 1
        self.now_us = now

    def set_sink(self, sink: DurableSink | None) -> None:
        """Say who stores messages."""
        self.sink = sink
        self.router.set_sink(sink)

    def hooked(self, message: Message) -> Message | None:
        """Run the `message.publish` chain: the message to publish, or None if a callback answered `(STOP, None)`.

        A callback may change the message; one that gives it a topic that may not be published to has failed, and the
        message goes on as it was: neither the client nor whoever publishes is to blame.
        """
        verdict, outcome = self.hooks.message_publish.run((), message)
        if not isinstance(outcome, Message):
            return None if verdict == STOP else message
        if outcome.topic != message.topic:
            try:
                self.router.route(outcome.topic.encode("utf-8"))
            except (ProtocolError, ValueError) as error:
                self.hooks.message_publish.report(error)
                return message
        return outcome

    def route(self, name: bytes) -> Route:
        """The route of a topic name as it stood in a packet.

        Raises:
            ProtocolError: It is no valid topic name.
        """
        visited = self.router.visited
        route = self.router.route(name)
        self.work += self.router.visited - visited
        return route

    def store(self, route: Route, message: Message) -> i64:
        """Hand a message to storage: the ticket of its commit, or `NOT_STORED` if its topic is not stored."""
        if not route.durable:
            return NOT_STORED
        sink = self.sink
        if sink is None:
            return NOT_STORED
        self.work += _STORE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        return sink.append(message)

    def retain(self, message: Message) -> None:
        """Keep a message for subscriptions to come, if it says so and there is a retainer."""
        if message.retain and self.retained is not None:
            self.work += _RETAIN_WORK + len(message.publish.topic)  # deep topics take long to keep
            self.retained.retain(message)

    def dispatch(self, route: Route, message: Message) -> i64:
        """Hand a message to every local subscription of its route; how many there were."""
        count: i64 = 0
        for entry in route.entries:
            for subscription in entry.subscriptions:
                subscription.subscriber.deliver(message, subscription)
                count += 1
        # Bytes count too: what a turn puts into outboxes is in memory until its end.
        self.work += count * (1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2))
        return count

    def publish(self, message: Message) -> i64:
        """Publish a message of the broker's own (a will): hooks, retain, storage, subscribers.

        Returns:
            The storage ticket, or `NOT_STORED`.

        Raises:
            ProtocolError: Its topic is no valid topic name.
        """
        outcome = self.hooked(message) if self.hooks.message_publish.callbacks else message
        if outcome is None:
            return NOT_STORED
        route = self.route(outcome.topic.encode("utf-8"))
        self.retain(outcome)
        ticket = self.store(route, outcome)
        self.dispatch(route, outcome)
        return ticket

    def subscribe(self, subscription: Subscription) -> None:
        """Route messages to a subscription from now on."""
        self.work += _SUBSCRIBE_WORK
        self.router.add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop routing messages to a subscription."""
        self.router.remove(subscription)
