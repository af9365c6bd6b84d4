"""What is known of one message in a trace, from its PUBLISH to the last acknowledgement, and of each of its spans.

A message costs its publisher what is done here: both keep references and times. `attributes` makes of them what
a collector gets, when it is fetched.
"""

from typing import Final

from mypy_extensions import i64

from heliograph.broker.client import ClientInfo
from heliograph.tracing.spans.span import new_span_id, new_trace_id
from heliograph.tracing.spans.trace_context import TraceContext

RECEIVERS_MAX: Final = 100  # of one message that have spans


class MessageTrace:
    """A message that spans are made of; owned by `MessageSpans`, and kept by its spans.

    Args:
        context: The trace that it comes with; None for one that begins here.
        payload_bytes: The size of its payload, which is not kept.
        properties: Those of its PUBLISH as JSON; empty for none.

    Attributes:
        root_id: The span of its PUBLISH, whose children the others are.
        has_id: Whether it has an id: `id_high` and `id_low`.
        marked_ns: When the last callback of `message.publish` was done.
        route_id: The span in which it is handed to receivers; 0 before.
        stored_ns: When it was given to storage; 0 if it was not.
        answer: The span of its acknowledgement while that waits for the commit; empty for none.
        answered_ns: When the acknowledgement was ready.
        queued_ns: When it began to wait, by receiver; None where it never did.
        sent: The span and the QoS at which it was sent, by receiver, while the receiver has to acknowledge it.
        receivers_count: How many receivers spans were made for.
        dropped_reason: Why it went no further; empty where it did.
    """

    def __init__(
        self,
        client: ClientInfo,
        context: TraceContext | None,
        topic: str,
        qos: i64,
        retain: bool,
        payload_bytes: i64,
        properties: str,
        now_ns: i64,
    ) -> None:
        self.client = client
        self.trace_id: int = new_trace_id() if context is None else context.trace_id
        self.parent_id: int = 0 if context is None else context.span_id
        self.state = "" if context is None else context.state
        self.topic = topic
        self.qos: i64 = qos
        self.retain = retain
        self.payload_bytes: i64 = payload_bytes
        self.properties = properties
        self.root_id: int = new_span_id()
        self.began_ns: i64 = now_ns
        self.marked_ns: i64 = now_ns
        self.has_id = False
        self.id_high: i64 = 0
        self.id_low: i64 = 0
        self.route_id: int = 0
        self.routed_ns: i64 = 0
        self.stored_ns: i64 = 0
        self.answer = ""
        self.answered_ns: i64 = 0
        self.code: i64 = 0
        self.queued_ns: dict[str, int] | None = None
        self.sent: dict[str, tuple[int, int]] | None = None
        self.receivers_count: i64 = 0
        self.error = ""
        self.dropped_reason = ""


class MessageSpan:
    """One span of a message, as it waits to be fetched.

    Args:
        subject: The client at the other end, or the callback, that it is about; empty for none.
        number: Its QoS or reason code, by its kind.
    """

    def __init__(
        self,
        trace: MessageTrace,
        name: str,
        span_id: int,
        parent_id: int,
        kind: int,
        started_ns: i64,
        ended_ns: i64,
        subject: str,
        number: i64,
        error: str,
    ) -> None:
        self.trace = trace
        self.name = name
        self.span_id = span_id
        self.parent_id = parent_id
        self.kind = kind
        self.started_ns: i64 = started_ns
        self.ended_ns: i64 = ended_ns
        self.subject = subject
        self.number: i64 = number
        self.error = error
