"""The one path of a message: hooks, retained store, storage, receivers.

Every message goes through `publish`: those of clients (PUBLISH and wills), delayed messages, those of rules, and the
broker's own (`$SYS`, events). All are counted in the same way, and `message.dropped` runs for all of them.
"""

from typing import Final

from mypy_extensions import i64, mypyc_attr

from heliograph.broker.durable_sink import NOT_STORED
from heliograph.broker.fanout import Spreader
from heliograph.broker.faults import PUBLISHING
from heliograph.broker.hooks import STOP, PendingChain, Refusal
from heliograph.broker.kernel_times import SAMPLED
from heliograph.broker.message import Message
from heliograph.broker.pending import Pending
from heliograph.broker.pubsub import Broker
from heliograph.broker.router import Route
from heliograph.broker.tracer import PUBLISHED
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.errors import ProtocolError

# Work that is not a delivery, in deliveries.
_BYTES_PER_WORK_LOG2: Final = 8
_STORE_WORK: Final = 4
_RETAIN_WORK: Final = 160
_RETAIN_BYTES_PER_WORK_LOG2: Final = 6

NOT_AUTHORIZED: Final = Refusal("not_authorized", rc.NOT_AUTHORIZED, False)  # a topic that is the broker's own
_FAILED: Final = Refusal("failed", rc.UNSPECIFIED_ERROR, True)  # publishing it raised: its publisher is cut
TAKEN: Final = Refusal("", rc.SUCCESS, False)  # a callback has the message, and publishes it in its own time or never


@mypyc_attr(free_list_len=1)
class Outcome:
    """What became of one message.

    Args:
        ticket: The commit after which all that is kept of it is durable; `NOT_STORED` if nothing is.
        is_joined: Whether further databases keep it too, whose refusals are its own.
        receivers: Subscriptions that it was handed to; -1 if it goes on to more of them in later turns.
        is_unheard: No subscription matches its topic, and nothing stores it.
        unkept: The reason code with which storage refuses it now, so that it was not published; 0 if it was.

    Attributes:
        pending: What it waits for, so that nothing became of it yet; None for nearly all.
    """

    def __init__(
        self, ticket: i64, is_joined: bool, receivers: i64, is_unheard: bool, refusal: Refusal | None, unkept: i64
    ) -> None:
        self.ticket = ticket
        self.is_joined = is_joined
        self.receivers = receivers
        self.is_unheard = is_unheard
        self.refusal = refusal
        self.unkept: i64 = unkept
        self.pending: PendingOutcome | None = None

    @property
    def may_repeat(self) -> bool:
        """Whether it was refused now but may be accepted later: its owner should publish it again."""
        return self.unkept != 0 or (self.refusal is not None and self.refusal.may_repeat)

    def __repr__(self) -> str:
        return f"Outcome(ticket {int(self.ticket)}, {int(self.receivers)} receivers, {self.refusal}, {self.unkept})"


# What becomes of most messages, so that none is made for each: nothing keeps them, and few receive them.
_DELIVERED: Final = tuple(Outcome(NOT_STORED, False, count, False, None, 0) for count in range(64))


def publish(
    broker: Broker,
    message: Message,
    route: Route | None = None,
    spreader: Spreader | None = None,
    may_refuse: bool = False,
    directly: bool = False,
) -> Outcome:
    """Publish a message: hooks, retained store, storage, receivers, in one synchronous pass.

    Args:
        spreader: The publisher to hold back while a large fan-out goes on; None for the broker's own messages.
        may_refuse: Whether to refuse it before delivery if storage refuses it now: its publisher repeats it.
        directly: Only store it and hand it to subscribers: no hooks, no retained store.

    Raises:
        ProtocolError: No message can be published to its topic.
    """
    if route is None:
        route = broker.route(message.topic.encode("utf-8"))
        if broker.tracer is not None:
            broker.tracer.follow(message, PUBLISHED)
        if route.is_brokers_own and broker.refuses(message, route.topic):
            return _deny(broker, message)
    published = broker.counters.messages_published + 1
    broker.counters.messages_published = published
    if published & SAMPLED == 0:
        broker.times.read_us = broker.uptime_us
    if may_refuse and broker.is_refusing:
        code = _refusal_code(broker, route, message)
        if code != rc.SUCCESS:
            return _unkept(broker, message, code)
    if route.hooked and not directly:
        if broker.tracer is not None and broker.tracer.watches_topics:  # topics that a trace is about are hooked
            broker.tracer.follow(message, PUBLISHED)
        rows = _rows_taken(broker)
        verdict, hooked = broker.hooks.message_publish.run((), message)
        if isinstance(hooked, PendingChain):
            outcome = Outcome(NOT_STORED, False, 0, False, None, 0)
            outcome.pending = PendingOutcome(broker, message, spreader, may_refuse, hooked, rows)
            return outcome
        outcome = _publish_hooked(broker, message, route, spreader, may_refuse, verdict, hooked)
        return _kept_with_rows(broker, outcome, rows)
    if route.durable or message.retain or message.is_traced:
        return _keep_and_dispatch(broker, message, route, spreader, directly)
    receivers = broker.dispatch(route, message, spreader)
    if 0 < receivers < 64:
        return _DELIVERED[receivers]
    if receivers == 0:
        broker.tell_unheard(message)
    return Outcome(NOT_STORED, False, receivers, receivers == 0, None, 0)


def _publish_hooked(
    broker: Broker,
    message: Message,
    route: Route,
    spreader: Spreader | None,
    may_refuse: bool,
    verdict: str,
    accumulator: object,
) -> Outcome:
    hooked = _hooked(broker, message, verdict, accumulator)
    if isinstance(hooked, Refusal):
        # A callback may keep what it took in any database.
        ticket: i64 = broker.pending_ticket() if hooked.code == rc.SUCCESS else NOT_STORED
        return Outcome(ticket, True, 0, False, hooked, 0)
    if hooked.topic != route.topic:
        route = broker.route(hooked.topic.encode("utf-8"))
        if route.is_brokers_own and broker.refuses(hooked, route.topic):
            return _deny(broker, hooked)
        if may_refuse and broker.is_refusing:
            code = _refusal_code(broker, route, hooked)
            if code != rc.SUCCESS:
                return _unkept(broker, hooked, code)
    return _keep_and_dispatch(broker, hooked, route, spreader, False)


def _rows_taken(broker: Broker) -> i64:
    sink = broker.sink
    return 0 if sink is None else sink.rows_taken


def _kept_with_rows(broker: Broker, outcome: Outcome, rows: i64) -> Outcome:
    """What became of a message, of which the rows that its callbacks stored are kept too.

    Args:
        rows: `_rows_taken` before they were called.
    """
    sink = broker.sink
    if outcome.ticket == NOT_STORED and sink is not None and sink.rows_taken != rows:
        outcome.ticket = sink.row_ticket
    return outcome


def _keep_and_dispatch(
    broker: Broker, message: Message, route: Route, spreader: Spreader | None, directly: bool
) -> Outcome:
    ticket: i64 = NOT_STORED
    is_joined = False
    if message.retain and not directly:
        is_joined = True
        if not _retain(broker, message):
            _trace_drop(broker, message, "clears_retained")
            return Outcome(broker.pending_ticket(), True, 0, False, None, 0)
    if route.durable:
        sink = broker.sink
        if sink is not None:
            broker.work += _STORE_WORK + (len(message.publish.data) >> _BYTES_PER_WORK_LOG2)
            ticket = sink.append(message)
            if message.ticket != NOT_STORED:
                broker.newest_ticket = message.ticket
            if sink.is_joined:
                is_joined = True
    elif is_joined:
        ticket = broker.pending_ticket()
    if message.is_traced and broker.tracer is not None:
        broker.tracer.on_routed(message, route.entries, route.is_wide, ticket)
    receivers = broker.dispatch(route, message, spreader)
    is_unheard = receivers == 0 and not route.durable
    if is_unheard:
        broker.tell_unheard(message)
    elif receivers == 0 and broker.router.parked_count == 0:  # it is stored, and waits for no session
        broker.counters.messages_dropped_no_subscribers += 1
    return Outcome(ticket, is_joined, receivers, is_unheard, None, 0)


class PendingOutcome(Pending[bool]):
    """A message that waits for a callback of `message.publish`; resolved when `outcome` is set.

    Nothing of it is kept or delivered before. The publisher's client waits, or the message does where none can.
    """

    def __init__(
        self,
        broker: Broker,
        message: Message,
        spreader: Spreader | None,
        may_refuse: bool,
        chain: PendingChain,
        rows: i64,
    ) -> None:
        super().__init__()
        self.outcome: Outcome | None = None
        self._broker = broker
        self._message = message
        self._spreader = spreader
        self._may_refuse = may_refuse
        self._chain = chain
        self._rows = rows
        broker.add_wait(self)
        chain.then(self._on_answer)

    def expire(self) -> None:
        self._chain.expire()

    def cancel(self) -> None:
        super().cancel()
        self._chain.cancel()

    def _on_answer(self, answer: tuple[str, object]) -> None:
        broker, message = self._broker, self._message
        try:
            route = broker.route(message.topic.encode("utf-8"))  # filters may have come and gone
            spreader, may_refuse = self._spreader, self._may_refuse
            verdict, accumulator = answer
            outcome = _publish_hooked(broker, message, route, spreader, may_refuse, verdict, accumulator)
            self.outcome = _kept_with_rows(broker, outcome, self._rows)
        except Exception as error:  # noqa: BLE001 - what gave the answer is to know nothing of it
            broker.faults.contain(PUBLISHING, error)
            self.outcome = Outcome(NOT_STORED, False, 0, False, _FAILED, 0)
        self.resolve(True)


def retain_again(broker: Broker, message: Message) -> i64:
    """Retain a message that an earlier process published: a crash may have taken its place among the retained ones.

    Returns:
        The ticket of the commit after which that is durable, or `NOT_STORED`.
    """
    _retain(broker, message)
    return broker.pending_ticket()


def run_hooks(broker: Broker, message: Message) -> Message | Refusal:
    """Run the `message.publish` chain: the message to publish, or how a callback stopped it.

    A callback may change the message; one that gives it a topic that may not be published to has failed, and the
    message goes on as it was: its publisher is not to blame.
    """
    verdict, outcome = broker.hooks.message_publish.run((), message)
    return _hooked(broker, message, verdict, outcome)


def _hooked(broker: Broker, message: Message, verdict: str, outcome: object) -> Message | Refusal:
    if not isinstance(outcome, Message):
        if verdict != STOP:
            return message
        if not isinstance(outcome, Refusal):
            return TAKEN
        if outcome.reason:
            _trace_drop(broker, message, outcome.reason)
        if outcome.reason and broker.hooks.message_dropped.callbacks:
            broker.hooks.message_dropped.run((message, outcome.reason))
        return outcome
    if outcome.topic != message.topic and not _has_route(broker, outcome):
        return message
    if outcome is not message and broker.tracer is not None:
        broker.tracer.on_changed(message, outcome)
    return outcome


def reshape(broker: Broker, message: Message) -> Message | None:
    """What `run_hooks` made of a message that was published before; None if it was dropped. No callback is called."""
    outcome = broker.hooks.message_publish.rewritten(message)
    if outcome is None or outcome.topic == message.topic or _has_route(broker, outcome):
        return outcome
    return message


def _has_route(broker: Broker, message: Message) -> bool:
    try:
        broker.router.route(message.topic.encode("utf-8"))
    except (ProtocolError, ValueError) as error:
        broker.hooks.message_publish.report(error)
        return False
    return True


def _retain(broker: Broker, message: Message) -> bool:
    """Keep a message for subscriptions to come, or clear its topic; whether it goes on to storage and receivers."""
    retained = broker.retained
    if retained is None:  # [MQTT-3.3.1-8] 3.1.1 [MQTT-3.3.1-12]
        return True
    broker.work += _RETAIN_WORK + (len(message.publish.data) >> _RETAIN_BYTES_PER_WORK_LOG2)
    return retained.retain(message)  # [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-5] 3.1.1 [MQTT-3.3.1-7]


def _refusal_code(broker: Broker, route: Route, message: Message) -> int:
    """The reason code with which what has to keep a message refuses it now, 0 if it takes it."""
    sink, retained = broker.sink, broker.retained
    code = retained.refusal_code() if message.retain and retained is not None else 0
    if code != 0:
        return code
    return sink.refusal(route.topic) if route.durable and sink is not None else 0


def _unkept(broker: Broker, message: Message, code: int) -> Outcome:
    broker.counters.messages_refused += 1
    _trace_drop(broker, message, rc.name_of(code))
    return Outcome(NOT_STORED, False, 0, False, None, code)


def _deny(broker: Broker, message: Message) -> Outcome:
    """A client has caused a message to a topic that is the broker's own."""
    broker.counters.messages_not_authorized += 1
    _trace_drop(broker, message, NOT_AUTHORIZED.reason)
    if broker.hooks.message_dropped.callbacks:
        broker.hooks.message_dropped.run((message, NOT_AUTHORIZED.reason))
    return Outcome(NOT_STORED, False, 0, False, NOT_AUTHORIZED, 0)


def _trace_drop(broker: Broker, message: Message, reason: str) -> None:
    if broker.tracer is not None:
        broker.tracer.on_dropped(message, reason)
