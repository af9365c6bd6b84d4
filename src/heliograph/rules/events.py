"""Events that rules can read: their topics, names and columns.

An event has a topic of its own in FROM, most of them two (`$events/client_connected` and `$events/client/connected`),
which mean the same; those of a source begin with `$bridges/` or `$sources/`. All have `event`, `node`, `timestamp` and
`metadata` beside the columns listed here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heliograph.mqtt.topic import topic_matches

PREFIX: Final = "$events/"
SOURCE_PREFIXES: Final = ("$bridges/", "$sources/")
"""Before the id of a source, `TYPE:NAME`; both mean the same."""
NOT_PUBLISHED: Final = (PREFIX, *SOURCE_PREFIXES)
"""What topics of FROM begin with that no published message has."""
COMMON_COLUMNS: Final = ("event", "node", "timestamp", "metadata")

_CLIENT: Final = ("clientid", "username", "peername", "sockname", "proto_name", "proto_ver")
_SESSION: Final = ("clientid", "username", "peerhost", "peername", "topic", "qos")
_MESSAGE: Final = ("clientid", "username", "payload", "peerhost", "peername", "topic", "qos", "flags", "pub_props")
_DELIVERY: Final = ("id", "from_clientid", "from_username", *_MESSAGE, "publish_received_at")


_SOURCE: Final = ("id", "server", "payload", "topic", "qos", "dup", "retain", "pub_props", "message_received_at")
_OF_SOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    "kafka_consumer": ("key", "value", "offset", "ts", "ts_type", "headers"),
    "rabbitmq": (
        *("queue", "exchange", "routing_key", "headers", "content_type", "content_encoding", "delivery_mode"),
        *("priority", "correlation_id", "reply_to", "expiration", "message_id", "type", "user_id", "app_id"),
    ),
    "nats": ("subject", "headers", "reply_to", "stream", "sequence"),
}


@dataclass(frozen=True, slots=True)
class Event:
    """One kind of event."""

    name: str
    topics: tuple[str, ...]
    columns: tuple[str, ...]

    def matches(self, topic_filter: str) -> bool:
        return any(topic_matches(topic, topic_filter) for topic in self.topics)


def _event(name: str, old: str | None, new: str, *columns: str) -> Event:
    topics = tuple(PREFIX + topic for topic in (old, new) if topic is not None)
    return Event(name, topics, columns)


EVENTS: Final = (
    _event(
        "client.connected",
        "client_connected",
        "client/connected",
        *("mountpoint", *_CLIENT, "keepalive", "clean_start", "expiry_interval", "is_bridge", "conn_props"),
        *("connected_at", "client_attrs"),
    ),
    _event(
        "client.disconnected",
        "client_disconnected",
        "client/disconnected",
        *("reason", *_CLIENT, "disconn_props", "connected_at", "disconnected_at", "client_attrs"),
    ),
    _event(
        "client.connack",
        "client_connack",
        "client/connack",
        *("reason_code", *_CLIENT, "keepalive", "clean_start", "expiry_interval", "connected_at", "conn_props"),
    ),
    _event(
        "client.check_authn_complete",
        "client_check_authn_complete",
        "auth/check_authn_complete",
        *("clientid", "username", "peername", "reason_code", "is_superuser", "is_anonymous", "client_attrs"),
    ),
    _event(
        "client.check_authz_complete",
        "client_check_authz_complete",
        "auth/check_authz_complete",
        *("clientid", "username", "peerhost", "peername", "topic", "action", "authz_source", "result", "client_attrs"),
    ),
    _event("session.subscribed", "session_subscribed", "session/subscribed", *_SESSION, "sub_props", "client_attrs"),
    _event(
        "session.unsubscribed", "session_unsubscribed", "session/unsubscribed", *_SESSION, "unsub_props", "client_attrs"
    ),
    _event("message.delivered", "message_delivered", "message/delivered", *_DELIVERY),
    _event("message.acked", "message_acked", "message/acked", *_DELIVERY, "puback_props"),
    _event("message.dropped", "message_dropped", "message/dropped", "id", "reason", *_MESSAGE, "publish_received_at"),
    _event("delivery.dropped", "delivery_dropped", "message/delivery_dropped", "reason", *_DELIVERY),
    _event(
        "schema.validation_failed",
        "schema_validation_failed",
        "schema_validation/failed",
        *("validation", "id", *_MESSAGE, "publish_received_at"),
    ),
    _event(
        "message.transformation_failed",
        "message_transformation_failed",
        "message_transformation/failed",
        *("transformation", "id", "clientid", "username", "payload", "peername", "topic", "qos", "flags", "pub_props"),
        "publish_received_at",
    ),
    _event("alarm.activated", None, "sys/alarm_activated", "name", "details", "message", "activated_at"),
    _event(
        "alarm.deactivated",
        None,
        "sys/alarm_deactivated",
        *("name", "details", "message", "activated_at", "deactivated_at"),
    ),
)

_BY_TOPIC: Final[Mapping[str, Event]] = {topic: event for event in EVENTS for topic in event.topics}
_BY_NAME: Final[Mapping[str, Event]] = {event.name: event for event in EVENTS}


def find_event(text: str) -> Event | None:
    for prefix in SOURCE_PREFIXES:
        if text.startswith(prefix):
            return source_event(text.removeprefix(prefix))
    return _BY_TOPIC.get(text) or _BY_NAME.get(text)


def source_event(source_id: str) -> Event:
    """A message that came in from elsewhere, by a source of this id; it is no published one."""
    topics = tuple(prefix + source_id for prefix in SOURCE_PREFIXES)
    return Event(topics[0], topics, (*_SOURCE, *_OF_SOURCES.get(source_id.partition(":")[0], ())))
