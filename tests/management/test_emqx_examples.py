"""Connectors and actions in the forms of the examples of EMQX's API document are made, and shown as they were sent.

Names and forms of settings are theirs. A password is one; theirs are stars, which stand for what is there already.
"""

from typing import Any, Final

from support.management import Served

_RESOURCE_OPTS: Final = {
    "batch_size": 1,
    "batch_time": "0ms",
    "health_check_interval": "15s",
    "inflight_window": 100,
    "max_buffer_bytes": "256MB",
    "query_mode": "async",
    "request_ttl": "45s",
    "start_after_created": True,
    "start_timeout": "5s",
    "worker_pool_size": 16,
}
_INSERT: Final = (
    "insert into t_mqtt_msg(msgid, topic, qos, payload, arrived) values (${id}, ${topic}, ${qos}, ${payload}, %s)"
)
_LOGIN: Final = {"username": "root", "password": "public"}

CONNECTORS: Final[dict[str, dict[str, Any]]] = {
    "http": {
        "enable": True,
        "url": "http://localhost:8080/api/v1",
        "headers": {"content-type": "application/json"},
        "connect_timeout": "15s",
        "pool_type": "hash",
        "pool_size": 1,
        "enable_pipelining": 100,
    },
    "kafka_producer": {
        "enable": True,
        "authentication": {"mechanism": "plain", "username": "username", "password": "public"},
        "bootstrap_hosts": "localhost:9092",
        "connect_timeout": "5s",
        "metadata_request_timeout": "4s",
        "min_metadata_refresh_interval": "3s",
        "socket_opts": {"sndbuf": "1024KB", "recbuf": "1024KB", "nodelay": True, "tcp_keepalive": "none"},
    },
    "pgsql": {
        "enable": True,
        "server": "127.0.0.1:5432",
        "database": "mqtt",
        "pool_size": 8,
        **_LOGIN,
        "ssl": {"enable": False},
        "disable_prepared_statements": False,
    },
    "mysql": {
        "enable": True,
        "server": "127.0.0.1:3306",
        "database": "test",
        "pool_size": 8,
        **_LOGIN,
        "resource_opts": {"health_check_interval": "20s"},
    },
    "redis": {
        "enable": True,
        "description": "My redis single connector",
        "parameters": {
            "redis_type": "single",
            "server": "127.0.0.1:6379",
            "pool_size": 8,
            "database": 1,
            "username": "test",
            "password": "public",
        },
        "ssl": {"enable": False},
    },
    "mqtt": {
        "enable": True,
        "server": "127.0.0.1:1883",
        "clientid_prefix": "bridge",
        "proto_ver": "v4",
        "bridge_mode": False,
        **_LOGIN,
        "clean_start": True,
        "keepalive": "300s",
        "retry_interval": "15s",
        "max_inflight": 32,
        "pool_size": 8,
        "ssl": {"enable": False},
        "static_clientids": [],
        "resource_opts": {"health_check_interval": "15s", "start_after_created": True, "start_timeout": "5s"},
    },
}

#: Of the same types, beside those above.
MORE_CONNECTORS: Final[list[dict[str, Any]]] = [
    {
        "type": "redis",
        "name": "cluster",
        "parameters": {
            "redis_type": "cluster",
            "servers": "127.0.0.1:6379,127.0.0.2:6379",
            "pool_size": 8,
            "username": "test",
            "password": "public",
        },
        "ssl": {"enable": False},
    },
    {
        "type": "redis",
        "name": "sentinel",
        "parameters": {
            "redis_type": "sentinel",
            "servers": "127.0.0.1:6379,127.0.0.2:6379",
            "sentinel": "myredismaster",
            "pool_size": 8,
            "database": 1,
            "username": "test",
            "password": "public",
        },
        "ssl": {"enable": False},
    },
]

ACTIONS: Final[dict[str, dict[str, Any]]] = {
    "http": {
        "enable": True,
        "parameters": {"path": "/room/${room_no}", "method": "post", "headers": {}, "body": "${.}"},
        "resource_opts": {"worker_pool_size": 16, "health_check_interval": "15s", "query_mode": "async"},
    },
    "kafka_producer": {
        "enable": True,
        "parameters": {
            "topic": "kafka-topic",
            "message": {"key": "${.clientid}", "value": "${.}", "timestamp": "${.timestamp}"},
            "max_linger_time": "5ms",
            "max_linger_bytes": "10MB",
            "max_batch_bytes": "896KB",
            "compression": "no_compression",
            "partition_strategy": "random",
            "required_acks": "all_isr",
            "partition_count_refresh_interval": "60s",
            "kafka_headers": "${pub_props}",
            "kafka_ext_headers": [
                {"kafka_ext_header_key": "clientid", "kafka_ext_header_value": "${clientid}"},
                {"kafka_ext_header_key": "topic", "kafka_ext_header_value": "${topic}"},
            ],
            "kafka_header_value_encode_mode": "none",
            "max_inflight": 10,
            "partitions_limit": "all_partitions",
            "buffer": {
                "mode": "hybrid",
                "per_partition_limit": "2GB",
                "segment_bytes": "10MB",
                "memory_overload_protection": True,
            },
        },
        "resource_opts": {"health_check_interval": "32s"},
    },
    "pgsql": {
        "enable": True,
        "parameters": {
            "sql": "INSERT INTO client_events(clientid, event, created_at) VALUES (\n  ${clientid},\n  ${event},\n"
            "  TO_TIMESTAMP((${timestamp} :: bigint))\n)"
        },
        "resource_opts": _RESOURCE_OPTS,
    },
    "mysql": {
        "enable": True,
        "description": "My example mysql action",
        "parameters": {"sql": _INSERT % "FROM_UNIXTIME(${timestamp}/1000)"},
        "resource_opts": _RESOURCE_OPTS,
    },
    "redis": {
        "enable": True,
        "description": "My action",
        "parameters": {"command_template": ["LPUSH", "MSGS", "${payload}"]},
        "resource_opts": {"batch_size": 1},
    },
    "mqtt": {
        "enable": True,
        "description": "forward",
        "parameters": {"topic": "forward/${topic}", "qos": 1, "retain": False, "payload": "${payload}"},
        "resource_opts": _RESOURCE_OPTS,
    },
}


def test_the_examples_are_made_and_shown_as_they_were_sent(managed: Served) -> None:
    connectors = [{"type": kind, "name": "example", **one} for kind, one in CONNECTORS.items()]
    actions = [{"type": kind, "name": "example", "connector": "example", **one} for kind, one in ACTIONS.items()]
    for path, bodies in (("/connectors", [*connectors, *MORE_CONNECTORS]), ("/actions", actions)):
        for body in bodies:
            made = managed.api.post(path, json=body)
            assert made.status_code == 201, (body, made.text)
            shown = managed.api.get(f"{path}/{body['type']}:{body['name']}").json()
            assert _differences(body, shown) == [], body
    named = {**connectors[5], "name": "named", "static_clientids": [{"node": "a@b", "ids": ["one"]}]}
    refused = managed.api.post("/connectors", json=named)
    assert (refused.status_code, "clientid_prefix" in refused.text) == (400, True)
    for body in [*connectors, *MORE_CONNECTORS]:
        gone = managed.api.delete(
            f"/connectors/{body['type']}:{body['name']}", params={"also_delete_dep_actions": True}
        )
        assert gone.status_code == 204
    assert managed.api.get("/actions").json() == managed.api.get("/connectors").json() == []


def _differences(sent: Any, shown: Any, at: str = "") -> list[str]:
    """Where what is shown differs from what was sent, beside what it has more; stars stand for secrets."""
    if isinstance(sent, dict) and isinstance(shown, dict):
        return [each for name in sent for each in _differences(sent[name], shown.get(name), f"{at}.{name}")]
    if shown in (sent, "******", [sent]):
        return []
    return [f"{at}: sent {sent!r}, shown {shown!r}"]
