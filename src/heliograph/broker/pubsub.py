"""Publish and subscribe on one node: the one synchronous pass from a message to every local session."""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.clock import Clock
from heliograph.broker.counters import Counters
from heliograph.broker.drops import DropLedger
from heliograph.broker.durable import DurableSink
from heliograph.broker.fanout import Fanout, Fanouts, Spreader
from heliograph.broker.faults import DELIVERIES, Faults
from heliograph.broker.hooks import STOP, Hooks, Refusal
from heliograph.broker.message import Message
from heliograph.broker.pressure import Pressure
from heliograph.broker.retained import RetainedStore
from heliograph.broker.router import Route, Router
from heliograph.broker.shared import SharedGroups, SharedOptions
from heliograph.broker.subscription import FilterEntry, Subscriber, Subscription
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.topic import SYS_PREFIX

NOT_STORED: Final = 0
REFUSED: Final = -1  # what has to keep a message does not now, so it was not published; it may be later

# Subscriptions that a message is handed to in one go, 0.1 to 0.3 us each; the flusher spreads the writes they cost.
_AT_ONCE_MAX: Final = 2048
# What a message counts as whose filters take long to find.
_WIDE_WORK: Final = 8192

# Work that is not a delivery, in deliveries.
_BYTES_PER_WORK_LOG2: Final = 8
_STORE_WORK: Final = 4
_RETAIN_WORK: Final = 64
_RETAIN_BYTES_PER_WORK_LOG2: Final = 6
_SUBSCRIBE_WORK: Final = 16
_FILTER_BYTES_PER_WORK_LOG2: Final = 2  # a filter of many levels takes long to find its place

_TAKEN: Final = Refusal("", rc.SUCCESS, False)  # a callback has the message, and publishes it in its own time or never


class Broker:
    """The kernel of one node: routing table, hooks, counters, and the seams to storage and retainer.

    Owned by the node, which joins the rooms; lives as long as it.

    Args:
        shared_options: How shared groups choose their members.
        seed: What chance begins with, where a strategy leaves the choice to it.
    """

    def __init__(
        self, router: Router, hooks: Hooks, shared_options: SharedOptions | None = None, seed: i64 = 1
    ) -> None:
        self.router = router
        self.hooks = hooks
        router.set_publish_hook(hooks.message_publish)
        self.faults = Faults()
        self.shared = SharedGroups(router, shared_options or SharedOptions(), self.faults, seed)
        self.fanouts = Fanouts(router, self.shared, self.faults)
        self.at_once_max: i64 = _AT_ONCE_MAX  # subscriptions that a message is handed to in one go
        self.fanouts.on_unheard = self._on_unheard
        self.counters = Counters()
        self.drops = DropLedger()
        self.pressure = Pressure()
        self.sink: DurableSink | None = None
        self.retained: RetainedStore | None = None
        # Whether retained messages are held back whose publishers lost the right to publish them.
        self.checks_retained_source = True
        # Whether something refuses to keep messages, and why, for acknowledgements; kept up to date by the node.
        self.is_refusing = False
        self.refusal_reason = ""
        self.protects_sys = False  # whether only the broker itself publishes below `$SYS/`
        self.exclusive: dict[str, Subscriber] = {}  # exclusive filters, and who holds them
        self.clock = Clock()
        self.now_us: i64 = 0  # the time of this turn in microseconds since the epoch; never falls
        self.uptime_us: i64 = 0  # the time of this turn on a clock that nobody sets; what times out runs on it
        self.newest_ticket: i64 = NOT_STORED  # of the last message that sessions can replay
        self.is_joined = False  # whether further databases keep what `publish` published last, and their refusals count
        self.work: i64 = 0  # what was done so far, in deliveries (30 to 60 ns); channels yield their turn by it

    def begin_turn(self, uptime_us: i64) -> None:
        """Say what time it is, on the clock that nobody sets."""
        self.uptime_us = uptime_us
        self.router.dispatching = 0  # one that failed did not come to its end
        now = self.clock.at(uptime_us)
        if now < self.now_us:  # one that fell, or stood, would make message ids twice
            now = self.now_us + 1
        self.now_us = now

    def set_sink(self, sink: DurableSink | None) -> None:
        """Say who stores messages."""
        self.sink = sink
        self.router.set_sink(sink)

    def hooked(self, message: Message) -> Message | Refusal:
        """Run the `message.publish` chain: the message to publish, or how a callback stopped it.

        A callback may change the message; one that gives it a topic that may not be published to has failed, and the
        message goes on as it was: neither the client nor whoever publishes is to blame.
        """
        verdict, outcome = self.hooks.message_publish.run((), message)
        if not isinstance(outcome, Message):
            if verdict != STOP:
                return message
            if not isinstance(outcome, Refusal):
                return _TAKEN
            if outcome.reason and self.hooks.message_dropped.callbacks:
                self.hooks.message_dropped.run((message, outcome.reason))
            return outcome
        return outcome if outcome.topic == message.topic or self._has_route(outcome) else message

    def shaped(self, message: Message) -> Message | None:
        """What `hooked` made of a message that was published before; None if it was dropped. Nobody is told of it."""
        outcome = self.hooks.message_publish.shaped(message)
        if outcome is None or outcome.topic == message.topic or self._has_route(outcome):
            return outcome
        return message

    def _has_route(self, message: Message) -> bool:
        try:
            self.router.route(message.topic.encode("utf-8"))
        except (ProtocolError, ValueError) as error:
            self.hooks.message_publish.report(error)
            return False
        return True

    def route(self, name: bytes) -> Route:
        """The route of a topic name as it stood in a packet.

        Raises:
            ProtocolError: It is no valid topic name.
        """
        visited = self.router.visited
        route = self.router.route(name)
        self.work += self.router.visited - visited
        return route

    def refuses(self, message: Message, topic: str) -> bool:
        """Whether a message may not go to a topic because that is the broker's own: a client has caused it.

        What a rule makes counts as the broker's: it publishes below `$SYS/` only where its topic says so.
        """
        return self.protects_sys and topic.startswith(SYS_PREFIX) and message.clientid != "" and not message.made_by

    def store(self, route: Route, message: Message) -> i64:
        """Hand a message to storage: the ticket of its commit, or `NOT_STORED` if its topic is not stored."""
        if not route.durable:
            return NOT_STORED
        sink = self.sink
        if sink is None:
            return NOT_STORED
        self.work += _STORE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
        ticket: i64 = sink.append(message)
        if message.ticket != NOT_STORED:
            self.newest_ticket = message.ticket
        return ticket

    def refusal(self, route: Route, retain: bool) -> int:
        """The reason code with which a message is refused because what has to keep it does not, 0 if it may go on."""
        sink, retained = self.sink, self.retained
        code = retained.refusal_code() if retain and retained is not None else 0
        if code != 0:
            return code
        return sink.refusal(route.topic) if route.durable and sink is not None else 0

    def settle(self) -> i64:
        """The ticket of the commit after which a message that was retained and is not stored may be acknowledged."""
        sink = self.sink
        return NOT_STORED if sink is None else sink.settle()

    def retain(self, message: Message) -> bool:
        """Keep a message for subscriptions to come, if it says so and there is a retainer.

        Returns:
            Whether the message goes on to storage and subscribers.
        """
        retained = self.retained
        if not message.retain or retained is None:  # [MQTT-3.3.1-8] 3.1.1 [MQTT-3.3.1-12]
            return True
        self.work += _RETAIN_WORK + (len(message.publish.data) >> _RETAIN_BYTES_PER_WORK_LOG2)
        return retained.retain(message)  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-7]

    def dispatch(self, route: Route, message: Message, spreader: Spreader | None = None) -> i64:
        """Hand a message to every local subscription of its route.

        Returns:
            How many there were; -1 if there are so many, or earlier messages of its topic had so many, that it goes on
            in later turns (`fanout`).
        """
        fanouts = self.fanouts
        if route.is_wide or (fanouts.count != 0 and fanouts.has_lane(message.topic)):
            return self._spread(route, route.entries, message, 0, 0, spreader)
        router, entries = self.router, route.entries
        refusals = self.shared.refusals
        count: i64 = 0
        at: i64 = 0
        router.dispatching += 1  # a callback may unsubscribe somebody meanwhile
        # [MQTT-3.3.4-2] [MQTT-4.5.0-1] [MQTT-4.6.0-5] [MQTT-4.6.0-6] 3.1.1 [MQTT-3.3.5-1] 3.1.1 [MQTT-4.5.0-1]
        # 3.1.1 [MQTT-4.6.0-5] 3.1.1 [MQTT-4.6.0-6]
        for entry in entries:
            only = entry.only
            if only is not None:
                try:
                    only.subscriber.deliver(message, only)
                except Exception as error:  # noqa: BLE001 - publisher and other receivers do not notice
                    self.faults.contain(DELIVERIES, error, only.subscriber.abort)
                count += 1
                at += 1
                continue
            many = entry.many
            if many is not None:
                if len(many) + count > self.at_once_max:
                    break
                for subscription in many:
                    try:
                        subscription.subscriber.deliver(message, subscription)
                    except Exception as error:  # noqa: BLE001 - as above
                        self.faults.contain(DELIVERIES, error, subscription.subscriber.abort)
                    count += 1
            at += 1
        router.dispatching -= 1
        # Bytes count too: what a turn puts into outboxes is in memory until its end.
        self.work += count * (1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)) + self.shared.refusals - refusals
        return count if at == len(entries) else self._spread(route, entries, message, at, count, spreader)

    def _spread(
        self, route: Route, entries: list[FilterEntry], message: Message, at: i64, count: i64, spreader: Spreader | None
    ) -> i64:
        """Let a message go on in later turns; it counts as done already, so that its publisher waits for it."""
        size: i64 = _WIDE_WORK
        if not route.is_wide:
            size = 1
            for entry in entries:
                size += len(entry.subscriptions)
        self.work += size * (1 + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2))
        found = None if route.is_wide else entries
        self.fanouts.add(Fanout(self.faults, message, route, found, at, count, size, spreader))
        return -1

    def _on_unheard(self, message: Message) -> None:
        self.counters.messages_dropped_no_subscribers += 1
        if self.hooks.message_dropped.callbacks:
            self.hooks.message_dropped.run((message, "no_subscribers"))

    def publish(self, message: Message) -> i64:
        """Publish a message of the broker's own (a will): hooks, retain, storage, subscribers.

        Returns:
            The ticket of the commit after which all of it is durable, or `NOT_STORED`; `REFUSED` if it was not
            published and may be later.

        Raises:
            ProtocolError: Its topic is no valid topic name.
        """
        route = self.route(message.topic.encode("utf-8"))
        if route.is_sys and self.refuses(message, route.topic):
            self.counters.messages_not_authorized += 1
            return NOT_STORED
        outcome: Message | Refusal = message
        if route.hooked:
            outcome = self.hooked(message)
        if isinstance(outcome, Refusal):
            self.is_joined = True  # nobody knows where a callback keeps it
            if outcome.may_repeat:
                return REFUSED
            return self.settle() if outcome.code == rc.SUCCESS else NOT_STORED
        if outcome.topic != route.topic:
            route = self.route(outcome.topic.encode("utf-8"))
            if route.is_sys and self.refuses(outcome, route.topic):
                self.counters.messages_not_authorized += 1
                return NOT_STORED
        if not self.retain(outcome):
            self.is_joined = True
            return self.settle()
        ticket = self.store(route, outcome)
        sink = self.sink
        is_joined = outcome.retain or (route.durable and sink is not None and sink.is_joined)
        if outcome.retain and not route.durable:
            ticket = self.settle()
        self.dispatch(route, outcome)
        self.is_joined = is_joined  # callbacks of the dispatch may have published, too
        return ticket

    def subscribe(self, subscription: Subscription) -> None:
        """Route messages to a subscription from now on, alone or as a member of its shared group."""
        self.work += _SUBSCRIBE_WORK + (len(subscription.topic_filter) >> _FILTER_BYTES_PER_WORK_LOG2)
        if subscription.group:
            self.shared.join(subscription)
        else:
            self.router.add(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        """Stop routing messages to a subscription."""
        if subscription.group:
            self.shared.leave(subscription)
        else:
            self.router.remove(subscription)

    def statistics(self) -> dict[str, int]:
        """Counts of filters, subscriptions, shared groups and of what the route cache does."""
        numbers = self.router.statistics()
        numbers.update(self.shared.statistics())
        numbers.update(self.fanouts.statistics())
        numbers.update(self.faults.statistics())
        # The router counts a group as one subscription; for people it is as many as it has members.
        numbers["subscriptions.count"] += self.shared.members_count - len(self.shared)
        return numbers
