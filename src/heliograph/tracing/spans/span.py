"""A span as the node keeps it, and the names that EMQX has for spans."""

from random import getrandbits
from typing import Final, NamedTuple

# Which side of an exchange a span is, with the numbers of OTLP.
INTERNAL: Final = 1
SERVER: Final = 2
CLIENT: Final = 3
PRODUCER: Final = 4
CONSUMER: Final = 5

CLIENT_CONNECT: Final = "client.connect"
CLIENT_DISCONNECT: Final = "client.disconnect"
CLIENT_SUBSCRIBE: Final = "client.subscribe"
CLIENT_UNSUBSCRIBE: Final = "client.unsubscribe"
CLIENT_PUBLISH: Final = "client.publish"
CLIENT_AUTHN: Final = "client.authn"
CLIENT_AUTHN_BACKEND: Final = "client.authn_backend"
CLIENT_AUTHZ: Final = "client.authz"
CLIENT_PUBACK: Final = "client.puback"
CLIENT_PUBREC: Final = "client.pubrec"
CLIENT_PUBREL: Final = "client.pubrel"
CLIENT_PUBCOMP: Final = "client.pubcomp"
BROKER_DISCONNECT: Final = "broker.disconnect"
BROKER_SUBSCRIBE: Final = "broker.subscribe"
BROKER_UNSUBSCRIBE: Final = "broker.unsubscribe"
BROKER_PUBLISH: Final = "broker.publish"
BROKER_PUBACK: Final = "broker.puback"
BROKER_PUBREC: Final = "broker.pubrec"
BROKER_PUBREL: Final = "broker.pubrel"
BROKER_PUBCOMP: Final = "broker.pubcomp"
MESSAGE_ROUTE: Final = "message.route"
PROCESS_MESSAGE: Final = "process_message"
SEND_PUBLISHED_MESSAGE: Final = "send_published_message"
# EMQX has none of these.
MESSAGE_HOOK: Final = "message.hook"  # a callback of `message.publish`: a rule, a validation, a rewriting
MESSAGE_STORE: Final = "message.store"

Value = str | int | bool | list[str]
Attributes = dict[str, Value]


class TraceSpan(NamedTuple):
    """One step of a trace.

    Attributes:
        trace_id: 128 bits; a span's have 64.
        parent_id: The span that it is a step of; 0 for none.
        started_ns: Nanoseconds since the epoch.
        error: What went wrong; empty where nothing did.
        state: The `tracestate` of its trace; empty for none.
    """

    trace_id: int
    span_id: int
    parent_id: int
    name: str
    kind: int
    started_ns: int
    ended_ns: int
    attributes: Attributes
    error: str = ""
    state: str = ""


def new_trace_id() -> int:
    """A number by chance, which is never 0."""
    return getrandbits(128) or 1


def new_span_id() -> int:
    """A number by chance, which is never 0."""
    return getrandbits(64) or 1
