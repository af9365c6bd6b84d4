"""The roots `connectors` and `actions`: each type with its class, and what of them does not go together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, TypeAlias

from heliograph.settings.fields import Named, named_sections_of, setting, settings_of
from heliograph.settings.kinds import Choice

if TYPE_CHECKING:
    from heliograph.config.actions.disk_log import DiskLogConnectorConfig
    from heliograph.config.actions.interface import ActionConfig, ConnectorConfig

_AWS: Final = "heliograph.config.actions.aws:"
_BROKERS: Final = "heliograph.config.actions.brokers:"
_DATABASES: Final = "heliograph.config.actions.databases:"
_DISK_LOG: Final = "heliograph.config.actions.disk_log:"
_HTTP: Final = "heliograph.config.actions.http:"
_QUEUES: Final = "heliograph.config.actions.queues:"
_HTTP_DATABASES: Final = "heliograph.config.actions.http_databases:"
_MONGODB: Final = "heliograph.config.actions.mongodb:"
_TABLES: Final = "heliograph.config.actions.tables:"

Fault: TypeAlias = tuple[tuple[str, ...], str]


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    http: Mapping[str, ConnectorConfig] = named_sections_of(_HTTP + "HttpConnectorConfig", "Web services.")
    kafka_producer: Mapping[str, ConnectorConfig] = named_sections_of(
        _BROKERS + "KafkaConnectorConfig", "Kafka clusters."
    )
    kafka_consumer: Mapping[str, ConnectorConfig] = named_sections_of(
        _BROKERS + "KafkaConnectorConfig", "Kafka clusters, for sources."
    )
    pgsql: Mapping[str, ConnectorConfig] = named_sections_of(_DATABASES + "PgsqlConnectorConfig", "PostgreSQL.")
    timescale: Mapping[str, ConnectorConfig] = named_sections_of(_DATABASES + "PgsqlConnectorConfig", "TimescaleDB.")
    alloydb: Mapping[str, ConnectorConfig] = named_sections_of(_DATABASES + "PgsqlConnectorConfig", "AlloyDB.")
    cockroachdb: Mapping[str, ConnectorConfig] = named_sections_of(
        _DATABASES + "CockroachdbConnectorConfig", "CockroachDB."
    )
    mysql: Mapping[str, ConnectorConfig] = named_sections_of(_DATABASES + "MysqlConnectorConfig", "MySQL and MariaDB.")
    redis: Mapping[str, ConnectorConfig] = named_sections_of(_DATABASES + "RedisConnectorConfig", "Redis.")
    clickhouse: Mapping[str, ConnectorConfig] = named_sections_of(
        _HTTP_DATABASES + "ClickhouseConnectorConfig", "ClickHouse."
    )
    influxdb: Mapping[str, ConnectorConfig] = named_sections_of(
        _HTTP_DATABASES + "InfluxdbConnectorConfig", "InfluxDB."
    )
    elasticsearch: Mapping[str, ConnectorConfig] = named_sections_of(
        _HTTP_DATABASES + "ElasticsearchConnectorConfig", "Elasticsearch."
    )
    mongodb: Mapping[str, ConnectorConfig] = named_sections_of(_MONGODB + "MongodbConnectorConfig", "MongoDB.")
    mqtt: Mapping[str, ConnectorConfig] = named_sections_of(_BROKERS + "MqttConnectorConfig", "MQTT brokers.")
    confluent_producer: Mapping[str, ConnectorConfig] = named_sections_of(
        _QUEUES + "ConfluentConnectorConfig", "Clusters of Confluent Cloud."
    )
    azure_event_hub_producer: Mapping[str, ConnectorConfig] = named_sections_of(
        _QUEUES + "EventHubConnectorConfig", "Namespaces of Azure Event Hubs."
    )
    rabbitmq: Mapping[str, ConnectorConfig] = named_sections_of(_QUEUES + "RabbitmqConnectorConfig", "RabbitMQ.")
    disk_log: Mapping[str, DiskLogConnectorConfig] = named_sections_of(
        _DISK_LOG + "DiskLogConnectorConfig", "Files of lines."
    )
    nats: Mapping[str, ConnectorConfig] = named_sections_of(_QUEUES + "NatsConnectorConfig", "NATS.")
    kinesis: Mapping[str, ConnectorConfig] = named_sections_of(_AWS + "EndpointConnectorConfig", "Amazon Kinesis.")
    dynamo: Mapping[str, ConnectorConfig] = named_sections_of(_AWS + "DynamoConnectorConfig", "Amazon DynamoDB.")
    sqs: Mapping[str, ConnectorConfig] = named_sections_of(_AWS + "EndpointConnectorConfig", "Amazon SQS.")
    parquet: Mapping[str, ConnectorConfig] = named_sections_of(
        _TABLES + "TableConnectorConfig", "Places of Parquet tables."
    )
    delta: Mapping[str, ConnectorConfig] = named_sections_of(
        _TABLES + "TableConnectorConfig", "Places of Delta Lake tables."
    )
    iceberg: Mapping[str, ConnectorConfig] = named_sections_of(
        _TABLES + "IcebergConnectorConfig", "Catalogs of Apache Iceberg."
    )
    s3: Mapping[str, ConnectorConfig] = named_sections_of(_TABLES + "S3ConnectorConfig", "Stores that speak S3.")
    spark: Mapping[str, ConnectorConfig] = named_sections_of(
        _TABLES + "SparkConnectorConfig", "What Spark writes by the name of a format."
    )


#: Who brings rows to their targets: `auto` is the local engine where the type of the action lets it.
AUTO: Final = "auto"
LOCAL: Final = "local"
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class ActionSettings:
    engine: str = setting(
        Choice(AUTO, LOCAL, SPARK),
        AUTO,
        "Who brings rows to their targets: `spark` the pipeline, `local` a small process of the node without Java "
        "([engines](actions.md#engines)), `auto` the local one where the type lets it, and Spark for tables.",
    )
    http: Mapping[str, ActionConfig] = named_sections_of(_HTTP + "HttpAction", "Requests to web services.")
    kafka_producer: Mapping[str, ActionConfig] = named_sections_of(_BROKERS + "KafkaAction", "Messages in Kafka.")
    pgsql: Mapping[str, ActionConfig] = named_sections_of(_DATABASES + "PgsqlAction", "Statements in PostgreSQL.")
    timescale: Mapping[str, ActionConfig] = named_sections_of(_DATABASES + "PgsqlAction", "Statements in TimescaleDB.")
    alloydb: Mapping[str, ActionConfig] = named_sections_of(_DATABASES + "PgsqlAction", "Statements in AlloyDB.")
    cockroachdb: Mapping[str, ActionConfig] = named_sections_of(
        _DATABASES + "PgsqlAction", "Statements in CockroachDB."
    )
    mysql: Mapping[str, ActionConfig] = named_sections_of(
        _DATABASES + "MysqlAction", "Statements in MySQL and MariaDB."
    )
    redis: Mapping[str, ActionConfig] = named_sections_of(_DATABASES + "RedisAction", "Commands of Redis.")
    clickhouse: Mapping[str, ActionConfig] = named_sections_of(
        _HTTP_DATABASES + "ClickhouseAction", "Rows in ClickHouse."
    )
    influxdb: Mapping[str, ActionConfig] = named_sections_of(_HTTP_DATABASES + "InfluxdbAction", "Points in InfluxDB.")
    elasticsearch: Mapping[str, ActionConfig] = named_sections_of(
        _HTTP_DATABASES + "ElasticsearchAction", "Documents in Elasticsearch."
    )
    mongodb: Mapping[str, ActionConfig] = named_sections_of(_MONGODB + "MongodbAction", "Documents in MongoDB.")
    mqtt: Mapping[str, ActionConfig] = named_sections_of(_BROKERS + "MqttAction", "Messages in MQTT.")
    confluent_producer: Mapping[str, ActionConfig] = named_sections_of(
        _QUEUES + "CloudKafkaAction", "Messages in Confluent Cloud."
    )
    azure_event_hub_producer: Mapping[str, ActionConfig] = named_sections_of(
        _QUEUES + "CloudKafkaAction", "Messages in Azure Event Hubs."
    )
    rabbitmq: Mapping[str, ActionConfig] = named_sections_of(_QUEUES + "RabbitmqAction", "Messages in RabbitMQ.")
    disk_log: Mapping[str, ActionConfig] = named_sections_of(_DISK_LOG + "DiskLogAction", "Lines in files.")
    nats: Mapping[str, ActionConfig] = named_sections_of(_QUEUES + "NatsAction", "Messages in NATS.")
    kinesis: Mapping[str, ActionConfig] = named_sections_of(_AWS + "KinesisAction", "Records in Amazon Kinesis.")
    dynamo: Mapping[str, ActionConfig] = named_sections_of(_AWS + "DynamoAction", "Items in Amazon DynamoDB.")
    sqs: Mapping[str, ActionConfig] = named_sections_of(_AWS + "SqsAction", "Messages in Amazon SQS.")
    parquet: Mapping[str, ActionConfig] = named_sections_of(_TABLES + "ParquetAction", "Parquet tables.")
    delta: Mapping[str, ActionConfig] = named_sections_of(_TABLES + "DeltaAction", "Delta Lake tables.")
    iceberg: Mapping[str, ActionConfig] = named_sections_of(_TABLES + "IcebergAction", "Apache Iceberg tables.")
    s3: Mapping[str, ActionConfig] = named_sections_of(_TABLES + "S3Action", "Files in buckets.")
    spark: Mapping[str, ActionConfig] = named_sections_of(_TABLES + "SparkAction", "Rows in a format of Spark.")


#: The types of connectors.
CONNECTOR_TYPES: Final = tuple(field.name for field in fields(ConnectorSettings))

#: The types of actions, each of which is one of connectors too.
ACTION_TYPES: Final = tuple(field.name for field in fields(ActionSettings) if field.name in CONNECTOR_TYPES)

#: Types whose targets only the tasks of Spark write.
OF_SPARK: Final = frozenset({"parquet", "delta", "iceberg", "s3", "spark"})


def action_class(kind: str) -> type[ActionConfig]:
    """The class of the actions of a type; several types may have one."""
    declared = settings_of(ActionSettings)[kind].kind
    assert isinstance(declared, Named)
    return declared.model


def all_connectors(connectors: ConnectorSettings) -> Iterator[tuple[str, str, ConnectorConfig]]:
    for kind in CONNECTOR_TYPES:
        named: Mapping[str, ConnectorConfig] = getattr(connectors, kind)
        yield from ((kind, name, one) for name, one in named.items())


def all_actions(actions: ActionSettings) -> Iterator[tuple[str, str, ActionConfig]]:
    for kind in ACTION_TYPES:
        named: Mapping[str, ActionConfig] = getattr(actions, kind)
        yield from ((kind, name, one) for name, one in named.items())


def connector_of(connectors: ConnectorSettings, kind: str, action: ActionConfig) -> ConnectorConfig:
    named: Mapping[str, ConnectorConfig] = getattr(connectors, kind)
    return named[action.connector]


def engine_of(engine: str, kind: str) -> str:
    """Which engine runs the actions of a type, `LOCAL` or `SPARK`, by the setting `actions.engine`."""
    if engine == AUTO:
        return SPARK if kind in OF_SPARK else LOCAL
    return engine


def action_faults(connectors: ConnectorSettings, actions: ActionSettings) -> Iterator[Fault]:
    used: dict[str, str] = {}
    for name, connector in connectors.disk_log.items():
        path = connector.filepath
        if path in used:
            text = f'found "{path}", which {used[path]} has too: two connectors would write over each other\'s files'
            yield ("connectors", "disk_log", name, "filepath"), text
        used[path] = name
    for kind, name, action in all_actions(actions):
        named: Mapping[str, ConnectorConfig] = getattr(connectors, kind)
        if action.connector not in named:
            there_are = ", ".join(named) or "none"
            text = f'found "{action.connector}", but there is no such connector of type {kind}; there are: {there_are}'
            yield ("actions", kind, name, "connector"), text
        if actions.engine == LOCAL and kind in OF_SPARK:
            text = f"found {LOCAL}, but only Spark writes the target of {kind}:{name}: set {AUTO}, or {SPARK}"
            yield ("actions", "engine"), text


def running_actions(connectors: ConnectorSettings, actions: ActionSettings) -> set[str]:
    """Those that are enabled, and whose connector is, as `http:my_action`."""
    return {
        f"{kind}:{name}"
        for kind, name, one in all_actions(actions)
        if one.enable and connector_of(connectors, kind, one).enable
    }
