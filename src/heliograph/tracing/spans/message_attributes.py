"""The attributes of a message's spans: made when they are fetched, and not while the message is handled."""

from heliograph.tracing.packet_fields import short
from heliograph.tracing.spans import span as names
from heliograph.tracing.spans.attributes import of_client
from heliograph.tracing.spans.message_trace import MessageSpan, MessageTrace
from heliograph.tracing.spans.span import Attributes, TraceSpan


def span_of(one: MessageSpan) -> TraceSpan:
    """A span with all that it says."""
    trace = one.trace
    ids = trace.trace_id, one.span_id, one.parent_id
    times = int(one.started_ns), int(one.ended_ns)
    return TraceSpan(*ids, one.name, one.kind, *times, _attributes(one), one.error, trace.state)


def _attributes(one: MessageSpan) -> Attributes:
    trace = one.trace
    if one.name == names.CLIENT_PUBLISH:
        return _of_publish(trace)
    if one.name == names.CLIENT_AUTHZ:
        return {
            "client.clientid": short(trace.client.clientid),
            "authz.action_type": "publish",
            "authz.publish.topic": short(trace.topic),
            "authz.publish.result": "deny" if one.error else "allow",
        }
    if one.name in (names.PROCESS_MESSAGE, names.SEND_PUBLISHED_MESSAGE):
        return {"messaging.client_id": short(one.subject), "messaging.destination.name": short(trace.topic)}
    attributes = _of_message(trace)
    if one.name == names.MESSAGE_HOOK:
        attributes["hook.callback"] = one.subject
    elif one.name not in (names.MESSAGE_ROUTE, names.MESSAGE_STORE):
        attributes["client.clientid"] = short(one.subject)
    if one.name == names.BROKER_PUBLISH:
        attributes["message.qos"] = int(one.number)
    elif one.name in (names.BROKER_PUBACK, names.BROKER_PUBREC):
        attributes["message.reason_code"] = int(one.number)
    return attributes


def _of_message(trace: MessageTrace) -> Attributes:
    attributes: Attributes = {
        "message.from": short(trace.client.clientid),
        "message.topic": short(trace.topic),
        "message.qos": int(trace.qos),
    }
    if trace.has_id:
        guid = int(trace.id_high).to_bytes(8, "big") + int(trace.id_low).to_bytes(8, "big")
        attributes["message.msgid"] = guid.hex()
    return attributes


def _of_publish(trace: MessageTrace) -> Attributes:
    attributes = of_client(trace.client) | _of_message(trace)
    attributes["message.retain"] = trace.retain
    attributes["message.payload_size"] = int(trace.payload_bytes)
    if trace.properties:
        attributes["message.pub_props"] = trace.properties
    if trace.dropped_reason:
        attributes["message.dropped_reason"] = trace.dropped_reason
    return attributes
