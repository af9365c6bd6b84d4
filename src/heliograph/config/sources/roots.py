"""The root `sources`: each type with its class, and what of them does not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, TypeAlias

from heliograph.config.actions.roots import ConnectorSettings
from heliograph.settings.fields import named_sections_of

if TYPE_CHECKING:
    from heliograph.config.actions.interface import ConnectorConfig
    from heliograph.config.sources.brokers import MqttSource
    from heliograph.config.sources.http import HttpIn
    from heliograph.config.sources.interface import MessageSourceConfig
    from heliograph.config.sources.queues import KafkaConsumer, NatsSource, RabbitmqSource

_BROKERS: Final = "heliograph.config.sources.brokers:"
_HTTP: Final = "heliograph.config.sources.http:"
_QUEUES: Final = "heliograph.config.sources.queues:"

Fault: TypeAlias = tuple[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class MessageSources:
    mqtt: Mapping[str, MqttSource] = named_sections_of(_BROKERS + "MqttSource", "Subscriptions at MQTT brokers.")
    kafka_consumer: Mapping[str, KafkaConsumer] = named_sections_of(
        _QUEUES + "KafkaConsumer", "Topics of Kafka, read as a consumer group."
    )
    rabbitmq: Mapping[str, RabbitmqSource] = named_sections_of(_QUEUES + "RabbitmqSource", "Queues of RabbitMQ.")
    nats: Mapping[str, NatsSource] = named_sections_of(
        _QUEUES + "NatsSource", "Subjects of NATS, with JetStream or without."
    )
    http_in: Mapping[str, HttpIn] = named_sections_of(
        _HTTP + "HttpIn", "Webhooks of others, which they send to the port of the HTTP API."
    )


#: The types of sources.
SOURCE_TYPES: Final = tuple(field.name for field in fields(MessageSources))


def all_sources(sources: MessageSources) -> Iterator[tuple[str, str, MessageSourceConfig]]:
    for kind in SOURCE_TYPES:
        named: Mapping[str, MessageSourceConfig] = getattr(sources, kind)
        yield from ((kind, name, one) for name, one in named.items())


def source_connector(connectors: ConnectorSettings, kind: str, source: MessageSourceConfig) -> ConnectorConfig | None:
    """The connector of a source; None for a type without one."""
    if not source.connector_name:
        return None
    named: Mapping[str, ConnectorConfig] = getattr(connectors, kind)
    return named[source.connector_name]


def running_sources(
    connectors: ConnectorSettings, sources: MessageSources
) -> Iterator[tuple[str, MessageSourceConfig, ConnectorConfig | None]]:
    """Those that are enabled, and whose connector is, as `mqtt:my_source`."""
    for kind, name, source in all_sources(sources):
        connector = source_connector(connectors, kind, source)
        if source.enable and (connector is None or connector.enable):
            yield f"{kind}:{name}", source, connector


def source_faults(connectors: ConnectorSettings, sources: MessageSources) -> Iterator[Fault]:
    for kind, name, source in all_sources(sources):
        if source.connector_name and source.connector_name not in (named := getattr(connectors, kind)):
            there_are = ", ".join(named) or "none"
            text = f'found "{source.connector_name}", but there is no such connector of type {kind}; there are: '
            yield ("sources", kind, name, "connector"), text + there_are
