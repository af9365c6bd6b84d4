"""Writes the spans of messages down, by their kinds."""

from time import time_ns

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.broker.pubsub import Broker
from heliograph.broker.subscription import Subscription
from heliograph.mqtt import reason_codes as rc
from heliograph.observe.ring import Ring
from heliograph.tracing.spans import span as names
from heliograph.tracing.spans.message_trace import RECEIVERS_MAX, MessageSpan, MessageTrace
from heliograph.tracing.spans.span import TraceSpan, new_span_id


class MessageRecords:
    """Makes spans of what `MessageSpans` saw; owned by it."""

    def __init__(self, broker: Broker, is_legacy: bool, level: int, ring: Ring[TraceSpan | MessageSpan]) -> None:
        self._broker = broker
        self._is_legacy = is_legacy
        self._level: i64 = level
        self._ring = ring

    def add_publish(self, trace: MessageTrace) -> None:
        now_ns: i64 = time_ns()
        name = names.CLIENT_PUBLISH
        if self._is_legacy:
            name = names.PROCESS_MESSAGE
        elif trace.route_id:
            self.add(trace, names.MESSAGE_ROUTE, trace.route_id, 0, trace.routed_ns, now_ns)
        ended_ns = now_ns if now_ns > trace.began_ns else trace.began_ns
        clientid, error = trace.client.clientid, trace.error
        root, parent, began_ns = trace.root_id, trace.parent_id, trace.began_ns
        self._ring.put(MessageSpan(trace, name, root, parent, names.CONSUMER, began_ns, ended_ns, clientid, 0, error))

    def add_authorization(self, trace: MessageTrace, is_allowed: bool) -> None:
        trace.marked_ns = time_ns()
        if self._is_legacy or not self._broker.rights.is_checked:
            return
        error = "" if is_allowed else "not_authorized"
        self.add(trace, names.CLIENT_AUTHZ, 0, 0, trace.began_ns, trace.marked_ns, "", 0, error)

    def add_answer(self, trace: MessageTrace, name: str, began_ns: i64, ended_ns: i64, code: i64) -> None:
        error = rc.name_of(int(code)) if code >= rc.UNSPECIFIED_ERROR else ""
        self.add(trace, name, 0, 0, began_ns, ended_ns, trace.client.clientid, code, error)

    def add_moment(self, trace: MessageTrace, name: str, clientid: str, parent_id: int) -> None:
        """Record a packet, which takes no time."""
        now_ns: i64 = time_ns()
        self.add(trace, name, 0, parent_id, now_ns, now_ns, clientid)

    def add(
        self,
        trace: MessageTrace,
        name: str,
        span_id: int,
        parent_id: int,
        began_ns: i64,
        ended_ns: i64,
        subject: str = "",
        number: i64 = 0,
        error: str = "",
        kind: int = names.INTERNAL,
    ) -> None:
        """Record a span other than that of the PUBLISH.

        Args:
            span_id: 0 for one that no other span is a part of.
            parent_id: 0 for that of the PUBLISH.
        """
        if ended_ns < began_ns:
            ended_ns = began_ns
        own, parent = span_id or new_span_id(), parent_id or trace.root_id
        self._ring.put(MessageSpan(trace, name, own, parent, kind, began_ns, ended_ns, subject, number, error))

    def add_delivery(
        self, trace: MessageTrace, clientid: str, message: Message, subscription: Subscription, reason: str
    ) -> None:
        now_ns: i64 = time_ns()
        began_ns: i64 = trace.routed_ns if trace.routed_ns else now_ns
        if trace.queued_ns is not None:
            queued_ns = trace.queued_ns.pop(clientid, None)
            if queued_ns is not None:
                began_ns = queued_ns
        qos: i64 = message.qos if message.qos < subscription.qos else subscription.qos
        name, parent_id = names.BROKER_PUBLISH, trace.route_id
        if self._is_legacy:
            name, parent_id = names.SEND_PUBLISHED_MESSAGE, trace.root_id
        span_id = new_span_id()
        self.add(trace, name, span_id, parent_id, began_ns, now_ns, clientid, qos, reason, names.PRODUCER)
        if qos and not reason and qos <= self._level:
            sent = trace.sent
            if sent is None:
                sent = {}
                trace.sent = sent
            if len(sent) < RECEIVERS_MAX:
                sent[clientid] = span_id, int(qos)
