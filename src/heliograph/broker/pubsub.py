"""The kernel of one node: subscriptions, the receivers of a topic, and delivery to every local subscription.

What comes before that on a message's path (hooks, retained store, storage) is in `publishing`.
"""

from collections.abc import Sequence
from typing import Final

from mypy_extensions import i64

from heliograph.broker.clock import Clock
from heliograph.broker.counters import Counters
from heliograph.broker.delivery_times import DeliveryTimes
from heliograph.broker.drops import DropLedger
from heliograph.broker.durable_sink import NOT_STORED, DurableSink
from heliograph.broker.exclusive import ExclusiveTopics
from heliograph.broker.fanout import Fanout, Fanouts, Spreader
from heliograph.broker.faults import DELIVERIES, PUBLISHING, Faults
from heliograph.broker.hooks import Hooks
from heliograph.broker.kernel_times import KernelTimes
from heliograph.broker.message import Message
from heliograph.broker.node_rights import NodeRights
from heliograph.broker.pending import Wait
from heliograph.broker.pressure import Pressure
from heliograph.broker.retained import RetainedStore
from heliograph.broker.router import Route, Router
from heliograph.broker.shared import SharedGroups
from heliograph.broker.shared_options import SharedOptions
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.tracer import Tracer
from heliograph.broker.tracers import Tracers
from heliograph.mqtt.topic import is_brokers_own

# Subscriptions that a message is handed to in one go, 0.1 to 0.3 us each; the flusher spreads the writes they cost.
_AT_ONCE_MAX: Final = 2048
# What a message counts as whose filters take long to find.
_WIDE_WORK: Final = 8192

# Work that is not a delivery, in deliveries.
_BYTES_PER_WORK_LOG2: Final = 8
_SUBSCRIBE_WORK: Final = 16
_DURABLE_GROUP_WORK: Final = 1024  # what members of a durable group cost more
_FILTER_BYTES_PER_WORK_LOG2: Final = 2  # a filter of many levels takes long to find its place


# How long the answer of a callback is waited for where no client's options say so.
_ANSWER_US_MAX: Final = 15_000_000


class Broker:
    """The kernel of one node: routing table, hooks, counters, and the seams to storage and retainer.

    Owned by the node, which connects it with the other packages; lives as long as the node.

    Args:
        seed: What chance begins with, where a strategy leaves the choice to it.
    """

    def __init__(
        self, router: Router, hooks: Hooks, shared_options: SharedOptions | None = None, seed: i64 = 1
    ) -> None:
        self.router = router
        self.hooks = hooks
        self.rights = NodeRights(hooks)
        router.set_publish_hook(hooks.message_publish)
        self.faults = Faults()
        self.shared = SharedGroups(router, shared_options or SharedOptions(), self.faults, seed)
        self.fanouts = Fanouts(router, self.shared, self.faults)
        self.at_once_max: i64 = _AT_ONCE_MAX  # subscriptions that a message is handed to in one go
        self.fanouts.on_unheard = self.tell_unheard
        self.counters = Counters()
        self.drops = DropLedger()
        self.times = KernelTimes()
        self.delivery_times: DeliveryTimes | None = None  # while slow subscriptions are looked for
        self.pressure = Pressure()
        self.tracer: Tracers | None = None  # while a trace is on; see `join_tracer`
        self._tracers = Tracers()
        self._traced_points: dict[str, list[Tracer]] = {}  # those that follow verdicts at hook points
        self.sink: DurableSink | None = None
        self.retained: RetainedStore | None = None
        # Whether retained messages are held back whose publishers lost the right to publish them.
        self.checks_retained_source = True
        # Whether something refuses to keep messages, and why, for acknowledgements; kept up to date by the node.
        self.is_refusing = False
        self.refusal_reason = ""
        self.protects_sys = False  # whether only the broker itself publishes below `$SYS/` and `$events/`
        self.exclusive = ExclusiveTopics()
        self.clock = Clock()
        self.now_us: i64 = 0  # the time of this turn in microseconds since the epoch; never falls
        self.uptime_us: i64 = 0  # the time of this turn on the monotonic clock; what times out runs on it
        self.newest_ticket: i64 = NOT_STORED  # of the last message that sessions can replay
        self._split_after: i64 = -1  # how many messages were published before the turn was split
        self._waits: list[Wait] = []  # messages that wait for the answer of a callback
        self.work: i64 = 0  # what was done so far, in deliveries (30 to 60 ns); channels yield their turn by it

    def add_wait(self, wait: Wait) -> None:
        wait.due_us = self.uptime_us + _ANSWER_US_MAX
        self._waits.append(wait)

    def expire_waits(self, uptime_us: i64) -> None:
        """Do without the answers that have not come in time."""
        if not self._waits:
            return
        waits, self._waits = self._waits, []
        for wait in waits:
            if wait.is_late(uptime_us):
                self.faults.run(PUBLISHING, wait.expire)
            if not wait.is_resolved and not wait.is_cancelled:
                self._waits.append(wait)

    def begin_turn(self, uptime_us: i64) -> None:
        """Set the time of this turn on the monotonic clock."""
        self.uptime_us = uptime_us
        self.router.dispatching = 0  # one that failed did not come to its end
        now = self.clock.at(uptime_us)
        if now < self.now_us:  # one that fell, or stood, would make message ids twice
            now = self.now_us + 1
        self.now_us = now

    def split_turn(self) -> i64:
        """The time up to which everything was received that was published so far; what is received now is later."""
        published = self.counters.messages_published
        if published != self._split_after:
            self._split_after = published
            self.now_us += 1
        return self.now_us - 1

    def set_sink(self, sink: DurableSink | None) -> None:
        self.sink = sink
        self.router.set_sink(sink)

    def join_tracer(self, tracer: Tracer, is_on: bool, points: Sequence[str] = ()) -> None:
        """Begin or end to tell a tracer what becomes of messages, and the verdicts at some hook points.

        Called again when what it wants has changed.
        """
        tracers = self._tracers
        tracers.sync()
        if tracer in tracers.members:
            tracers.members.remove(tracer)
        if is_on:
            tracers.members.append(tracer)
        tracers.renew()
        self.tracer = tracers if tracers.members else None
        self.shared.tracer = self.tracer
        for name in points:
            tracing = self._traced_points.setdefault(name, [])
            if tracer in tracing:
                tracing.remove(tracer)
            if is_on:
                tracing.append(tracer)
            self.hooks.point(name).tracer = tracers if tracing else None

    def route(self, name: bytes) -> Route:
        """The route of a topic name as it stood in a packet."""
        visited = self.router.visited
        route = self.router.route(name)
        self.work += self.router.visited - visited
        return route

    def refuses(self, message: Message, topic: str) -> bool:
        """Whether a message may not go to a topic because that is the broker's own: a client or a rule made it."""
        return self.protects_sys and is_brokers_own(topic) and message.clientid != ""

    def pending_ticket(self) -> i64:
        """The ticket of the commit after which whatever became of the message handled now is durable."""
        sink = self.sink
        return NOT_STORED if sink is None else sink.pending_ticket()

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
        router.dispatching += 1  # a callback may remove subscriptions meanwhile
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

    def tell_unheard(self, message: Message) -> None:
        """No subscription matched a message, and nothing stores it: count it, and run the callbacks."""
        self.counters.messages_dropped_no_subscribers += 1
        if message.is_traced and self.tracer is not None:
            self.tracer.on_dropped(message, "no_subscribers")
        if self.hooks.message_dropped.callbacks:
            self.hooks.message_dropped.run((message, "no_subscribers"))

    def subscribe(self, subscription: Subscription) -> None:
        """Route messages to a subscription from now on, alone or as a member of its shared group."""
        self.work += _SUBSCRIBE_WORK + (len(subscription.topic_filter) >> _FILTER_BYTES_PER_WORK_LOG2)
        subscription.made_after = self.fanouts.spread_count
        if not subscription.group:
            self.router.add(subscription)
        elif self.shared.join(subscription):
            self.work += _DURABLE_GROUP_WORK

    def unsubscribe(self, subscription: Subscription) -> None:
        if not subscription.group:
            self.router.remove(subscription)
        elif self.shared.leave(subscription):
            self.work += _DURABLE_GROUP_WORK

    def statistics(self) -> dict[str, int]:
        numbers = self.router.statistics()
        numbers.update(self.shared.statistics())
        numbers.update(self.fanouts.statistics())
        numbers.update(self.faults.statistics())
        # The router counts a group as one subscription; for people it is as many as it has members.
        numbers["subscriptions.count"] += self.shared.members_count - len(self.shared)
        return numbers
