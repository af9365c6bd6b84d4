"""Columns with sample values, so that a rule can be tried where no message and no event is at hand."""

from collections.abc import Mapping
from typing import Final

from heliograph.mqtt.topic import has_wildcard
from heliograph.rules.events import COMMON_COLUMNS, Event
from heliograph.rules.values import Value

_TIME_MS: Final = 1_767_225_600_000
_PAYLOAD: Final = '{"msg": "hello"}'
_PROPERTIES: Final[Value] = {
    "User-Property": {"foo": "bar"},
    "User-Property-Pairs": [{"key": "foo", "value": "bar"}],
}

SAMPLES: Final[Mapping[str, Value]] = {
    "action": "publish",
    "activated_at": _TIME_MS * 1000,
    "app_id": "plant",
    "authz_source": "built_in_database",
    "clean_start": True,
    "client_attrs": {"team": "demo"},
    "clientid": "rule-test",
    "conn_props": {},
    "connected_at": _TIME_MS,
    "content_encoding": "utf-8",
    "content_type": "application/json",
    "correlation_id": "c1",
    "deactivated_at": _TIME_MS * 1000 + 5_000_000,
    "delivery_mode": 2,
    "details": {"usage": "71.2%"},
    "disconn_props": {},
    "disconnected_at": _TIME_MS + 5_000,
    "dup": False,
    "event": "message.publish",
    "exchange": "amq.topic",
    "expiration": "60000",
    "expiry_interval": 3600,
    "flags": {"dup": False, "retain": False},
    "from_clientid": "publisher",
    "from_username": "publisher",
    "headers": {},
    "id": "000647511C3C00000000000000000000",
    "is_anonymous": False,
    "is_bridge": False,
    "is_superuser": False,
    "keepalive": 60,
    "key": "k1",
    "message": "the memory is nearly used up",
    "message_id": "m1",
    "message_received_at": _TIME_MS,
    "metadata": {"rule_id": "rule_test"},
    "mountpoint": "",
    "name": "high_system_memory_usage",
    "node": "heliograph@127.0.0.1",
    "offset": 1200,
    "payload": _PAYLOAD,
    "peerhost": "127.0.0.1",
    "peername": "127.0.0.1:50891",
    "priority": 0,
    "proto_name": "MQTT",
    "proto_ver": 5,
    "pub_props": _PROPERTIES,
    "puback_props": {},
    "publish_received_at": _TIME_MS,
    "qos": 1,
    "queue": "readings",
    "reason": "normal",
    "reason_code": "success",
    "reply_to": "",
    "result": "allow",
    "retain": False,
    "routing_key": "t.a",
    "sequence": 1200,
    "server": "127.0.0.1:1883",
    "sockname": "127.0.0.1:1883",
    "stream": "READINGS",
    "sub_props": {},
    "subject": "t.a",
    "timestamp": _TIME_MS,
    "topic": "t/a",
    "transformation": "my_transformation",
    "ts": _TIME_MS,
    "ts_type": "create",
    "type": "reading",
    "unsub_props": {},
    "user_id": "guest",
    "username": "user",
    "validation": "my_validation",
    "value": _PAYLOAD,
}
"""A value for every column that a message or an event has."""

_MESSAGE_COLUMNS: Final = (
    *("id", "clientid", "username", "payload", "peerhost", "peername", "topic", "qos", "flags", "headers", "pub_props"),
    *("timestamp", "publish_received_at", "node", "client_attrs", "event", "metadata"),
)
_BY_EVENT: Final[Mapping[str, dict[str, Value]]] = {
    "message.dropped": {"reason": "no_subscribers"},
    "delivery.dropped": {"reason": "queue_full"},
}


def sample_columns(event: Event | None) -> dict[str, Value]:
    if event is None:
        return {name: SAMPLES[name] for name in _MESSAGE_COLUMNS}
    columns = {name: SAMPLES[name] for name in (*event.columns, *COMMON_COLUMNS)}
    columns["event"] = event.name
    return columns | _BY_EVENT.get(event.name, {})


def sample_topic(topic_filter: str) -> str:
    if not has_wildcard(topic_filter):
        return topic_filter
    levels = {"+": "a", "#": "a"}
    return "/".join(levels.get(level, level) for level in topic_filter.split("/"))
