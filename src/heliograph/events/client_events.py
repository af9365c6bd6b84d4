"""A client as JSON in an event: the fields of EMQX's `$SYS` and `$events` payloads."""

from collections.abc import Mapping
from typing import Final

import orjson

from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p

_PROTOCOL_NAMES: Final = {3: "MQIsdp"}


def connected(client: ClientInfo, connect: p.Connect, now_ms: int) -> dict[str, object]:
    return {
        **_common(client, now_ms),
        "keepalive": client.keepalive_s,
        "clean_start": client.clean_start,
        "expiry_interval": client.expiry_interval_s,
    }


def disconnected(client: ClientInfo, reason: str, now_ms: int) -> dict[str, object]:
    return {**_common(client, now_ms), "reason": reason, "disconnected_at": now_ms}


def subscribed(
    clientid: str, client: ClientInfo | None, topic_filter: str, qos: int | None, now_ms: int
) -> dict[str, object]:
    """A session has one subscription more, or one less (then `qos` is None)."""
    fields: dict[str, object] = {
        "clientid": clientid,
        "username": None if client is None else client.username,
        "protocol": "mqtt",
        "topic": topic_filter,
        "ts": now_ms,
    }
    if qos is not None:
        fields["subopts"] = {"qos": qos}
    return fields


def encode(fields: Mapping[str, object]) -> bytes:
    return orjson.dumps(fields)


def _common(client: ClientInfo, now_ms: int) -> dict[str, object]:
    _, _, port = client.sockname.rpartition(":")
    return {
        "clientid": client.clientid,
        "username": client.username,
        "ipaddress": client.peerhost,
        "sockport": int(port) if port.isdigit() else None,
        "protocol": "mqtt",
        "proto_name": _PROTOCOL_NAMES.get(client.version, "MQTT"),
        "proto_ver": client.version,
        "connected_at": client.connected_at_us // 1000,
        "ts": now_ms,
    }
