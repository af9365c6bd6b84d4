"""What the process of sources is given of each source: the settings of its type and of its connector, with secrets."""

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from heliograph.config.settings import Config
from heliograph.config.sources.roots import all_sources, running_sources

if TYPE_CHECKING:
    from heliograph.config.actions.brokers import KafkaConnectorConfig, MqttConnectorConfig
    from heliograph.config.actions.interface import ConnectorConfig
    from heliograph.config.actions.queues import NatsConnectorConfig, RabbitmqConnectorConfig
    from heliograph.config.sources.brokers import MqttSource
    from heliograph.config.sources.interface import MessageSourceConfig
    from heliograph.config.sources.queues import KafkaConsumer, NatsSource, RabbitmqSource

_NO_NAME: Final = re.compile(r"[\s.*>/\\]")
"""What names of consumers of JetStream have not."""


def sources_document(config: Config, socket: str, site: str) -> dict[str, Any]:
    """The file of the process, as `heliograph.sources.settings` reads it; it may have no sources.

    Args:
        socket: The path of the control socket.
        site: What tells this node from others that connect to the same servers.

    Raises:
        SecretError: The file of a secret cannot be read.
    """
    running = {
        source_id: {
            "kind": kind,
            "settings": _WRITTEN[kind](source, connector, f"{site}-{source_id.partition(':')[2]}"),
        }
        for source_id, source, connector in running_sources(config.connectors, config.sources)
        if (kind := source_id.partition(":")[0]) in _WRITTEN
    }
    known = (f"{kind}:{name}" for kind, name, _ in all_sources(config.sources) if kind in _WRITTEN)
    return {
        "socket": socket,
        "outbound": asdict(config.outbound),
        "sources": running,
        "paused": [one for one in known if one not in running],
    }


def needs_process(kind: str) -> bool:
    """Whether sources of a type run in the process of sources."""
    return kind in _WRITTEN


def document_of_one(
    config: Config, kind: str, source: "MessageSourceConfig", connector: "ConnectorConfig | None"
) -> dict[str, Any] | None:
    """The file for the test of one source, of which nothing is kept; None for a type that needs no process.

    Raises:
        SecretError: The file of a secret cannot be read.
    """
    if kind not in _WRITTEN:
        return None
    settings = _WRITTEN[kind](source, connector, f"test-{secrets.token_hex(4)}")
    one = {"kind": kind, "settings": settings}
    return {"socket": "", "outbound": asdict(config.outbound), "sources": {f"{kind}:tested": one}}


def _mqtt(source: "MqttSource", connector: "MqttConnectorConfig", name: str) -> dict[str, Any]:
    parameters = source.parameters
    return {
        "host": connector.server.host,
        "port": connector.server.port,
        "clientid": f"{connector.clientid_prefix or 'heliograph-'}{name}",
        "topic": parameters.topic,
        "qos": parameters.qos,
        "no_local": parameters.no_local,
        "session_expiry": int(parameters.session_expiry_interval),
        "version": connector.proto_ver,
        "keepalive": min(65_535, max(1, int(connector.keepalive))),
        "window": connector.max_inflight,
        "timeout": source.resource_opts.start_timeout,
        **_login(connector),
    }


def _kafka(source: "KafkaConsumer", connector: "KafkaConnectorConfig", name: str) -> dict[str, Any]:
    parameters, login = source.parameters, connector.authentication
    return {
        "servers": [(one.host, one.port) for one in connector.servers],
        "topic": parameters.topic,
        "group": parameters.group_id or f"heliograph-{name}",
        "reset": parameters.offset_reset_policy,
        "key_encoding": parameters.key_encoding_mode,
        "value_encoding": parameters.value_encoding_mode,
        "fetch_bytes": parameters.max_batch_bytes,
        "fetch_wait": parameters.max_wait_time,
        "commit_interval": parameters.offset_commit_interval_seconds,
        "timeout": max(connector.connect_timeout, source.resource_opts.start_timeout),
        "mechanism": "PLAIN" if login is None else login.mechanism,
        "username": None if login is None else login.username,
        "password": None if login is None else login.password.reveal(),
        "tls": None if connector.tls is None else asdict(connector.tls),
    }


def _rabbitmq(source: "RabbitmqSource", connector: "RabbitmqConnectorConfig", name: str) -> dict[str, Any]:
    ((host, port),) = connector.addresses()
    return {
        "host": host.strip("[]"),
        "port": port,
        "virtual_host": connector.virtual_host,
        "queue": source.parameters.queue,
        "prefetch": source.parameters.prefetch_count,
        "heartbeat": connector.heartbeat,
        "timeout": source.resource_opts.start_timeout,
        **_login(connector),
    }


def _nats(source: "NatsSource", connector: "NatsConnectorConfig", name: str) -> dict[str, Any]:
    parameters = source.parameters
    return {
        "host": connector.server.host,
        "port": connector.server.port,
        "subject": parameters.subject,
        "jetstream": parameters.jetstream,
        "queue_group": parameters.queue_group or "",
        "stream": parameters.stream,
        "durable": parameters.durable or _NO_NAME.sub("_", f"heliograph-{name}"),
        "is_own": parameters.durable is None,
        "deliver_policy": parameters.deliver_policy,
        "ack_wait": parameters.ack_wait,
        "timeout": max(connector.connect_timeout, source.resource_opts.start_timeout),
        "token": None if connector.token is None else connector.token.reveal(),
        **_login(connector),
    }


def _login(connector: "MqttConnectorConfig | NatsConnectorConfig | RabbitmqConnectorConfig") -> dict[str, Any]:
    return {
        "username": connector.username,
        "password": None if connector.password is None else connector.password.reveal(),
        "tls": None if connector.tls is None else asdict(connector.tls),
    }


#: By type: how a source is written. A type that is not here needs no process.
_WRITTEN: Final[Mapping[str, Callable[[Any, Any, str], dict[str, Any]]]] = {
    "mqtt": _mqtt,
    "kafka_consumer": _kafka,
    "rabbitmq": _rabbitmq,
    "nats": _nats,
}
