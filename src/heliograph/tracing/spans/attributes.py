"""What spans say of clients, packets and messages, under the names that EMQX has; no passwords, and no payloads.

The attributes of messages are made when spans are fetched, and not while the message is handled.
"""

import json
from collections.abc import Sequence

from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.properties import Properties, properties_from_wire
from heliograph.tracing.packet_fields import short, shown_properties
from heliograph.tracing.spans import span as names
from heliograph.tracing.spans.message_trace import MessageSpan, MessageTrace
from heliograph.tracing.spans.span import Attributes, TraceSpan

_NAMES_MAX = 50


def of_client(client: ClientInfo) -> Attributes:
    attributes: Attributes = {
        "client.clientid": short(client.clientid),
        "client.peername": client.peername,
        "client.sockname": client.sockname,
        "client.proto_name": client.proto_name,
        "client.proto_ver": int(client.version),
    }
    if client.username is not None:
        attributes["client.username"] = short(client.username)
    return attributes


def of_connect(client: ClientInfo, connect: p.Connect) -> Attributes:
    attributes = of_client(client) | {
        "client.keepalive": int(connect.keepalive_s),
        "client.is_bridge": False,
        "client.clean_start": connect.clean_start,
        "client.conn_props": text_of(connect.properties),
        "client.will_flag": connect.will is not None,
    }
    will = connect.will
    if will is not None:
        attributes |= {
            "client.will_topic": short(will.topic),
            "client.will_qos": int(will.qos),
            "client.will_retain": will.retain,
            "client.will_props": text_of(will.properties),
        }
    return attributes


def of_properties(property_bytes: bytes) -> str:
    """The properties of a PUBLISH as JSON; empty if it has none."""
    if not property_bytes:
        return ""
    return text_of(properties_from_wire(property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT | props.ALLOWED_PUBLISH))


def of_filters(packet: p.Packet) -> Attributes:
    if isinstance(packet, p.Subscribe):
        entries = packet.entries[:_NAMES_MAX]
        options = [
            {"qos": one.qos, "nl": int(one.no_local), "rap": int(one.retain_as_published), "rh": one.retain_handling}
            for one in entries
        ]
        return {
            "client.subscribe.topics": [short(one.topic_filter) for one in entries],
            "client.subscribe.sub_opts": json.dumps(options),
        }
    if isinstance(packet, p.Unsubscribe):
        return {"client.unsubscribe.topics": [short(name) for name in packet.topic_filters[:_NAMES_MAX]]}
    return {}


def of_codes(codes: Sequence[int]) -> str:
    return json.dumps(list(codes[:_NAMES_MAX]))


def text_of(properties: Properties | None) -> str:
    """Properties as JSON, without authentication data."""
    return "{}" if properties is None else json.dumps(shown_properties(properties))


def span_of(one: MessageSpan) -> TraceSpan:
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
