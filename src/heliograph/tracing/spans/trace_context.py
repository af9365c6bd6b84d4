"""The context of a trace as messages carry it: W3C Trace Context, in user properties of MQTT 5.

`traceparent` is `00-<trace id>-<span id>-<flags>` in lower-case hexadecimal digits; what is not well-formed counts as
none (https://www.w3.org/TR/trace-context-1, https://w3c.github.io/trace-context-mqtt).
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from mypy_extensions import i64

from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt.encode import encode_publish
from heliograph.mqtt.errors import ProtocolError
from heliograph.mqtt.properties import encode_string, properties_from_wire

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"

_MARK: Final = TRACEPARENT.encode()
_HEADER: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]*)?")
_NAMED: Final = bytes([props.USER_PROPERTY]) + encode_string(TRACEPARENT)
_SAMPLED: Final = 0x01
_STATE_MAX: Final = 512


class TraceContext(NamedTuple):
    """Which span of which trace a message comes from.

    Attributes:
        is_sampled: Whether its sender records the trace.
        state: What else tracers know of it: `tracestate`.
    """

    trace_id: int
    span_id: int
    is_sampled: bool
    state: str


def has_context(property_bytes: bytes) -> bool:
    """Whether properties seem to hold a context, well-formed or not."""
    return _MARK in property_bytes


def context_of(property_bytes: bytes) -> TraceContext | None:
    """The context that the properties of a PUBLISH carry; None if they carry none that is well-formed."""
    if _MARK not in property_bytes:
        return None
    try:
        user = properties_from_wire(property_bytes, props.ALLOWED_PUBLISH_TO_CLIENT | props.ALLOWED_PUBLISH).user
    except ProtocolError:
        return None
    return parsed(user)


def parsed(user: Sequence[tuple[str, str]]) -> TraceContext | None:
    found = [value for name, value in user if name == TRACEPARENT]
    match = _HEADER.fullmatch(found[0]) if len(found) == 1 else None
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    if not trace_id or not span_id:
        return None
    state = ",".join(value for name, value in user if name == TRACESTATE)
    return TraceContext(trace_id, span_id, int(match[4], 16) & _SAMPLED != 0, state if len(state) <= _STATE_MAX else "")


def header(trace_id: int, span_id: int) -> str:
    return f"00-{trace_id:032x}-{span_id:016x}-01"


def with_context(publish: p.Publish, trace_id: int, span_id: int) -> p.Publish:
    """The same PUBLISH with a context, in the form of MQTT 5, the only one that has room for it."""
    return _with_properties(publish, publish.property_bytes + _property(trace_id, span_id))


def without_context(message: Message, trace_id: int, span_id: int) -> Message:
    """A message without the context that `with_context` gave it; itself if it has none of that."""
    property_bytes = message.property_bytes
    left = property_bytes.replace(_property(trace_id, span_id), b"", 1)
    if left == property_bytes:
        return message
    publish = _with_properties(message.publish, left)
    high, low, expiry_s = message.id_high, message.id_low, message.expiry_s
    bare = Message(high, low, message.topic, publish, message.clientid, message.username, expiry_s)
    bare.is_traced, bare.ticket, bare.made_by = message.is_traced, message.ticket, message.made_by
    return bare


def _property(trace_id: int, span_id: int) -> bytes:
    return _NAMED + encode_string(header(trace_id, span_id))


def _with_properties(publish: p.Publish, property_bytes: bytes) -> p.Publish:
    qos, packet_id, payload, topic = publish.qos, publish.packet_id, publish.payload, publish.topic
    data = encode_publish(p.V5, topic, payload, qos, publish.retain, publish.dup, packet_id, property_bytes)
    payload_at: i64 = len(data) - len(payload)
    properties_at: i64 = payload_at - len(property_bytes)
    return p.Publish(data, p.V5, qos, publish.retain, publish.dup, topic, packet_id, properties_at, payload_at)
