"""Clients and their messages as the API shows them: objects with EMQX's keys."""

import base64
from typing import Any, Final

from heliograph.control.proto_v1.client_pages import (
    ClientColumns,
    ClientDrops,
    ClientLife,
    ClientSizes,
    ClientTraffic,
    ConnectionColumns,
    QueuedMessage,
)
from heliograph.management.web.times import rfc3339

_NO_LIMIT: Final = 0x7FFFFFFF
_NO_TRAFFIC: Final = ClientTraffic(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
_NO_DROPS: Final = ClientDrops(0, 0, 0, 0, 0)
_NO_CONNECTION: Final = ConnectionColumns(None, "", 0, "MQTT", 0, 0, False, 0, "", "", "", True, -1, False, None)
_NO_SIZES: Final = ClientSizes(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def client_object(row: ClientColumns, node: str) -> dict[str, Any]:
    """A client with every key that EMQX has of it."""
    life, connection, drops = row.life, row.connection or _NO_CONNECTION, row.dropped or _NO_DROPS
    is_connected = row.connection is not None
    found: dict[str, Any] = {
        "clientid": row.clientid,
        "username": connection.username,
        "node": node,
        "connected": is_connected,
        "created_at": None if life.created_at is None else rfc3339(life.created_at),
        "connected_at": rfc3339(connection.connected_at) if is_connected else None,
        "ip_address": connection.ip_address or None,
        "port": connection.port or None,
        "proto_name": connection.proto_name,
        "proto_ver": connection.proto_ver or None,
        "keepalive": connection.keepalive,
        "clean_start": connection.clean_start,
        "expiry_interval": life.expiry_interval,
        "is_bridge": False,
        "is_persistent": life.durable,
        "durable": life.durable,
        "is_expired": False,
        "listener": connection.listener or None,
        "zone": connection.zone or None,
        "mountpoint": connection.mountpoint,
        "enable_authn": connection.enable_authn,
        "is_superuser": connection.is_superuser,
        "client_attrs": connection.client_attrs or {},
        "subscriptions_max": _bounded(connection.subscriptions_max),
        "mqueue_dropped": drops.expired + drops.queue_full + drops.too_large + drops.qos0_msg + drops.not_authorized,
        "send_msg.dropped.expired": drops.expired,
        "send_msg.dropped.queue_full": drops.queue_full,
        "send_msg.dropped.too_large": drops.too_large,
        "asleep": life.asleep,  # ours, as the next one
        "behind_since": None if life.behind_since is None else rfc3339(life.behind_since),
        "mailbox_len": 0,  # an Erlang process has a mailbox and counts reductions; a session here has neither
        "reductions": 0,
    }
    found["send_msg.dropped"] = found["mqueue_dropped"]
    if not is_connected:
        found["disconnected_at"] = None if life.disconnected_at is None else rfc3339(life.disconnected_at)
    _add_sizes(found, row.sizes or _NO_SIZES)
    _add_traffic(found, row.traffic or _NO_TRAFFIC)
    return found


def _bounded(number: int) -> int | str:
    return number if 0 <= number < _NO_LIMIT else "infinity"


def _add_sizes(found: dict[str, Any], sizes: ClientSizes) -> None:
    found["subscriptions_cnt"] = sizes.subscriptions_cnt
    found["inflight_cnt"] = sizes.inflight_cnt or 0
    found["inflight_max"] = sizes.inflight_max
    found["mqueue_len"] = sizes.mqueue_len
    found["mqueue_max"] = sizes.mqueue_max or "infinity"
    found["awaiting_rel_cnt"] = sizes.awaiting_rel_cnt
    found["awaiting_rel_max"] = sizes.awaiting_rel_max or "infinity"
    found["heap_size"] = sizes.mqueue_bytes
    found["recv_msg.dropped"] = sizes.await_rel_given_up
    found["recv_msg.dropped.await_pubrel_timeout"] = sizes.await_rel_given_up


def _add_traffic(found: dict[str, Any], traffic: ClientTraffic) -> None:
    found["recv_oct"] = traffic.recv_oct
    found["recv_cnt"] = traffic.recv_cnt
    found["recv_pkt"] = traffic.recv_pkt
    found["recv_msg"] = traffic.recv_qos0 + traffic.recv_qos1 + traffic.recv_qos2
    found["recv_msg.qos0"] = traffic.recv_qos0
    found["recv_msg.qos1"] = traffic.recv_qos1
    found["recv_msg.qos2"] = traffic.recv_qos2
    found["send_oct"] = traffic.send_oct
    found["send_cnt"] = traffic.send_cnt
    found["send_pkt"] = traffic.send_pkt
    found["send_msg"] = traffic.send_qos0 + traffic.send_qos1 + traffic.send_qos2
    found["send_msg.qos0"] = traffic.send_qos0
    found["send_msg.qos1"] = traffic.send_qos1
    found["send_msg.qos2"] = traffic.send_qos2


def message_object(row: QueuedMessage, payload: str, is_inflight: bool) -> dict[str, Any]:
    """A message of a client's queue.

    Args:
        payload: How its payload is shown: `base64`, `plain` or `none`.
    """
    found: dict[str, Any] = {
        "msgid": row.msgid.upper(),
        "topic": row.topic,
        "qos": row.qos,
        "publish_at": row.publish_at // 1000,
        "from_clientid": row.from_clientid,
        "from_username": row.from_username or "",
        "inserted_at": str(row.inserted_at * 1000),
        "payload_bytes": row.payload_bytes,
    }
    if payload == "base64":
        found["payload"] = base64.b64encode(row.payload).decode()
    elif payload == "plain":
        found["payload"] = row.payload.decode("utf-8", "replace")
    if not is_inflight:
        found["mqueue_priority"] = row.priority
    return found


KEYS: Final = frozenset(client_object(ClientColumns(0, "", ClientLife(0, None, None, False, False)), ""))
