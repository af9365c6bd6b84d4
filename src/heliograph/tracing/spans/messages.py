"""Spans of messages: from a PUBLISH over rights, callbacks, routes and storage to receivers and acknowledgements."""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from time import time_ns
from typing import Final

from mypy_extensions import i64

from heliograph.broker import hooks
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import TRACES
from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import FilterEntry, Subscription
from heliograph.broker.tracer import DROPPED, NO_COUNTDOWN, QUEUED, SENT, Tracer
from heliograph.channel.commits import Commits
from heliograph.config.opentelemetry import OtelTraceFilter
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.ring import Ring
from heliograph.tracing import verdicts
from heliograph.tracing.commit_watch import CommitWatch, MessageId
from heliograph.tracing.spans import span as names
from heliograph.tracing.spans.attributes import of_properties
from heliograph.tracing.spans.message_records import MessageRecords
from heliograph.tracing.spans.message_trace import RECEIVERS_MAX, MessageSpan, MessageTrace
from heliograph.tracing.spans.sampling import FollowLimit, Sampler
from heliograph.tracing.spans.span import TraceSpan, new_span_id
from heliograph.tracing.spans.trace_context import context_of, has_context, with_context, without_context

BOUNDARY: Final = "opentelemetry"  # of its faults
_FOLLOWED_MAX: Final = 4096  # messages whose further steps are recorded


class MessageSpans(Tracer):
    """The tracer that makes spans of messages; owned by `NodeSpans`, and joined to the broker while they are traced."""

    def __init__(
        self,
        broker: Broker,
        commits: Commits,
        options: OtelTraceFilter,
        sampler: Sampler,
        ring: Ring[TraceSpan | MessageSpan],
    ) -> None:
        super().__init__()
        e2e = options.e2e_tracing_options
        self._broker = broker
        self._sampler = sampler
        self._is_legacy = options.trace_mode == "legacy"
        self._traces_all = options.trace_all
        self._level: i64 = -1 if self._is_legacy else e2e.msg_trace_level
        self._follows = self._is_legacy or e2e.follow_traceparent
        self._allowance = FollowLimit(e2e.follow_rate, int(broker.uptime_us))
        self._records = MessageRecords(broker, self._is_legacy, self._level, ring)
        self._commits = CommitWatch(commits, self._on_committed)
        self._all_commits = commits
        self._followed: OrderedDict[MessageId, MessageTrace] = OrderedDict()
        self._released: OrderedDict[tuple[str, int], MessageTrace] = OrderedDict()
        self._current: MessageTrace | None = None
        self._tells_verdicts = False  # only while the PUBLISH that is handled now is traced
        self.wants_contexts = self._follows
        self.countdown = self._next_countdown()
        self.watches_topics = bool(sampler.topic_filters) and not self._is_legacy

    def contain(self, error: Exception) -> None:
        self._broker.faults.contain(BOUNDARY, error)

    def is_about_client(self, clientid: str) -> bool:
        return clientid in self._sampler.clientids

    # --- the PUBLISH that is handled now

    def begin(self, client: ClientInfo, publish: p.Publish, topic: str) -> p.Publish:
        """Begin a trace if it is to be traced: the same PUBLISH with the context of the trace, if it has none."""
        is_picked = self.countdown < 0
        if is_picked:
            self.countdown = self._next_countdown()
        try:
            return self._begin(client, publish, topic, is_picked)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)
            return publish

    def _begin(self, client: ClientInfo, publish: p.Publish, topic: str, is_picked: bool) -> p.Publish:
        property_bytes = publish.property_bytes
        context = context_of(property_bytes) if self._follows and property_bytes else None
        if self._is_legacy:
            is_traced = self._traces_all if context is None else context.is_sampled
        else:
            is_traced = context is not None and context.is_sampled and self._allowance.take(self._broker.uptime_us)
            is_traced = is_traced or is_picked or self._sampler.lists(client.clientid, topic)
        if not is_traced:
            return publish
        payload_bytes: i64 = len(publish.data) - publish.payload_at
        property_text = of_properties(property_bytes) if property_bytes else ""
        trace = MessageTrace(
            client, context, topic, publish.qos, publish.retain, payload_bytes, property_text, time_ns()
        )
        self.enter(trace)
        if property_bytes and has_context(property_bytes):
            return publish  # which receivers get as it is [MQTT-3.3.2-17]
        return with_context(publish, trace.trace_id, trace.root_id)

    def _next_countdown(self) -> int:
        if self._is_legacy:
            return 0 if self._traces_all else NO_COUNTDOWN
        return self._sampler.next_countdown()

    def end(self) -> None:
        trace = self._current
        try:
            self.leave()
            if trace is not None:
                self._records.add_publish(trace)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def leave(self) -> object:
        trace, self._current, self.is_current = self._current, None, False
        if self._tells_verdicts:
            self._broker.hooks.message_publish.tracer = None
        return trace

    def enter(self, state: object) -> None:
        if isinstance(state, MessageTrace):
            self._current, self.is_current = state, True
            point = self._broker.hooks.message_publish
            self._tells_verdicts = point.tracer is None and not self._is_legacy
            if self._tells_verdicts:
                point.tracer = self

    def without_context(self, message: Message) -> Message:
        trace = self._trace_of(message)
        if trace is None:
            return message
        try:
            return without_context(message, trace.trace_id, trace.root_id)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)
            return message

    def on_answer(self, ack: bytes, ticket: i64) -> None:
        trace = self._current
        if trace is None:
            return
        try:
            self._answer(trace, ack, ticket)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def _answer(self, trace: MessageTrace, ack: bytes, ticket: i64) -> None:
        is_received = ack[0] >> 4 == p.PUBREC
        level: i64 = 2 if is_received else 1
        if level > self._level:
            return
        name = names.BROKER_PUBREC if is_received else names.BROKER_PUBACK
        now_ns: i64 = time_ns()
        code: i64 = ack[4] if len(ack) > 4 else rc.SUCCESS
        if trace.has_id and self._all_commits.is_pending(ticket):
            trace.answer, trace.answered_ns, trace.code = name, now_ns, code
            self._commits.wait(int(ticket), _id_of(trace))
        else:
            self._records.add_answer(trace, name, now_ns, now_ns, code)
        if is_received:
            self._released[(trace.client.clientid, (ack[2] << 8) | ack[3])] = trace
            if len(self._released) > _FOLLOWED_MAX:
                self._released.popitem(last=False)

    def on_released(self, clientid: str, packet_id: int) -> None:
        trace = self._released.pop((clientid, packet_id), None) if self._released else None
        if trace is not None:
            for name in (names.CLIENT_PUBREL, names.BROKER_PUBCOMP):
                self._records.add_moment(trace, name, clientid, trace.root_id)

    # --- its way through the broker

    def follow(self, message: Message, origin: str) -> None:
        trace = self._current
        if trace is None or trace.has_id:
            message.is_traced = message.is_traced or _key(message) in self._followed
            return
        trace.has_id, trace.id_high, trace.id_low = True, message.id_high, message.id_low
        message.is_traced = True
        try:
            self._remember(_key(message), trace)
            self._records.add_authorization(trace, True)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def is_about(self, point: str, arguments: tuple[object, ...]) -> bool:
        return point == hooks.MESSAGE_PUBLISH and self.is_current and not self._is_legacy

    def on_verdict(
        self, point: str, callback: Callable[..., object], arguments: tuple[object, ...], verdict: object
    ) -> None:
        trace = self._current
        if trace is None or point != hooks.MESSAGE_PUBLISH:
            return
        try:
            priority = self._broker.hooks.point(point).priority_of(callback)
            if priority != TRACES:
                now_ns: i64 = time_ns()
                name = verdicts.name_of(callback, priority)
                error = type(verdict).__name__ if isinstance(verdict, Exception) else ""
                self._records.add(trace, names.MESSAGE_HOOK, 0, 0, trace.marked_ns, now_ns, name, 0, error)
                trace.marked_ns = now_ns
        except Exception as fault:  # noqa: BLE001 - the client is to notice nothing
            self.contain(fault)

    def on_changed(self, before: Message, after: Message) -> None:
        trace = self._trace_of(before)
        if trace is not None:
            after.is_traced = True
            self._remember(_key(after), trace)

    def on_routed(self, message: Message, entries: Sequence[FilterEntry], is_wide: bool, ticket: i64) -> None:
        trace = self._trace_of(message)
        if trace is None:
            return
        try:
            trace.route_id, trace.routed_ns = new_span_id(), time_ns()
            if trace is not self._current:  # it was delayed
                self._records.add(trace, names.MESSAGE_ROUTE, trace.route_id, 0, trace.routed_ns, trace.routed_ns)
            if ticket and not self._is_legacy:
                trace.stored_ns = trace.routed_ns
                self._commits.wait(int(ticket), _key(message))
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def _on_committed(self, ticket: int, code: int, messages: Sequence[MessageId]) -> None:
        now_ns: i64 = time_ns()
        error = rc.name_of(code) if code else ""
        for key in dict.fromkeys(messages):
            trace = self._followed.get(key)
            if trace is None:
                continue
            if trace.stored_ns:
                self._records.add(trace, names.MESSAGE_STORE, 0, 0, trace.stored_ns, now_ns, "", 0, error)
                trace.stored_ns = 0
            if trace.answer:
                self._records.add_answer(trace, trace.answer, trace.answered_ns, now_ns, code or trace.code)
                trace.answer = ""

    def on_dropped(self, message: Message, reason: str) -> None:
        trace = self._current
        try:
            if trace is not None and not trace.has_id and reason == "not_authorized":
                self._records.add_authorization(trace, False)
                trace.error = reason
                return
            trace = self._trace_of(message)
            if trace is not None:
                trace.dropped_reason = reason
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    # --- its receivers

    def on_delivery(
        self, clientid: str, message: Message, subscription: Subscription, outcome: str, reason: str
    ) -> None:
        trace = self._trace_of(message)
        if trace is None:
            return
        try:
            if outcome == QUEUED:
                _note_queued(trace, clientid)
            elif outcome in (SENT, DROPPED) and trace.receivers_count < RECEIVERS_MAX:
                trace.receivers_count += 1
                self._records.add_delivery(trace, clientid, message, subscription, reason)
        except Exception as error:  # noqa: BLE001 - the client is to notice nothing
            self.contain(error)

    def on_received(self, clientid: str, message: Message) -> None:
        trace = self._trace_of(message)
        if trace is not None and trace.sent is not None and clientid in trace.sent:
            for name in (names.CLIENT_PUBREC, names.BROKER_PUBREL):
                self._records.add_moment(trace, name, clientid, trace.sent[clientid][0])

    def on_completed(self, clientid: str, message: Message) -> None:
        trace = self._trace_of(message)
        if trace is not None and trace.sent is not None and clientid in trace.sent:
            span_id, qos = trace.sent.pop(clientid)
            name = names.CLIENT_PUBACK if qos == 1 else names.CLIENT_PUBCOMP
            self._records.add_moment(trace, name, clientid, span_id)

    # --- inside

    def _trace_of(self, message: Message) -> MessageTrace | None:
        return self._followed.get(_key(message)) if message.is_traced else None

    def _remember(self, key: MessageId, trace: MessageTrace) -> None:
        self._followed[key] = trace
        if len(self._followed) > _FOLLOWED_MAX:
            self._followed.popitem(last=False)


def _key(message: Message) -> MessageId:
    return int(message.id_high), int(message.id_low)


def _id_of(trace: MessageTrace) -> MessageId:
    return int(trace.id_high), int(trace.id_low)


def _note_queued(trace: MessageTrace, clientid: str) -> None:
    queued_ns = trace.queued_ns
    if queued_ns is None:
        queued_ns = {}
        trace.queued_ns = queued_ns
    if len(queued_ns) < RECEIVERS_MAX:
        queued_ns[clientid] = time_ns()
