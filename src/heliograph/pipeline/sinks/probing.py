"""Whether the target of a sink can be reached and lets us in, and what rows would change in its table's definition.

`heliograph pipeline probe` and the test of a connection ask it, without a row.
"""

import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from heliograph.pipeline.datasource.publisher import MqttPublisher
from heliograph.pipeline.errors import PipelineError, SinkError, sentence_of
from heliograph.pipeline.sinks.aws import AwsSink
from heliograph.pipeline.sinks.disk_log import DiskLogSink
from heliograph.pipeline.sinks.http import HttpSink
from heliograph.pipeline.sinks.http_database import HttpDatabaseSink
from heliograph.pipeline.sinks.interface import INSTALL, AltersTable, Sink, TableSink
from heliograph.pipeline.sinks.kafka import KafkaSink
from heliograph.pipeline.sinks.libraries import library_fault
from heliograph.pipeline.sinks.mongodb import MongodbSink
from heliograph.pipeline.sinks.mqtt import MqttSink
from heliograph.pipeline.sinks.mysql import MysqlSink
from heliograph.pipeline.sinks.nats import NatsLink, NatsSink
from heliograph.pipeline.sinks.postgresql import PostgresqlSink
from heliograph.pipeline.sinks.rabbitmq import RabbitmqLink, RabbitmqSink
from heliograph.pipeline.sinks.redis import RedisSink
from heliograph.pipeline.sinks.retry import TransientError
from heliograph.pipeline.sinks.rows import RowField
from heliograph.pipeline.sinks.template import placeholders
from heliograph.pipeline.tls import tls_context
from heliograph.settings.redis import RedisType
from heliograph.settings.units import Address

_PORTS: Final = {"http": 80, "https": 443}
_QUERY: Final = "probe"
_KAFKA_S: Final = 10.0


def target_fault(sink: Sink, mqtt: str) -> str | None:
    """Why the target of a sink cannot be used; None where it can, or where its kind has no test."""
    fault = library_fault(sink)
    if fault is not None:
        return fault
    probe = next((probe for kind, probe in _PROBES.items() if isinstance(sink, kind)), None)
    if probe is None:
        return None
    try:
        probe(sink, mqtt)
    except (PipelineError, TransientError) as error:
        return str(error)
    except OSError as error:
        return f"{sink.target}: {error}"
    return None


def table_changes(sink: Sink, fields: Sequence[RowField], output: Path) -> tuple[Sequence[str], str | None]:
    """What rows with these columns would change in the definition of a sink's table, and why it cannot take them."""
    if not isinstance(sink, AltersTable):
        return (), None
    try:
        return sink.changes(fields, output), None
    except (PipelineError, TransientError) as error:
        return (), str(error)


def _http(sink: HttpSink, mqtt: str) -> None:
    parts = urlsplit(sink.url)
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    with sink.dial(Address(host, port), sink.timeout_s) as connection:
        if parts.scheme == "https":
            context = tls_context(sink.tls, SinkError) if sink.tls is not None else ssl.create_default_context()
            context.wrap_socket(connection, server_hostname=host).close()


def _postgresql(sink: PostgresqlSink, mqtt: str) -> None:
    with sink.connected(_QUERY) as connection:
        connection.execute("SELECT 1")


def _mysql(sink: MysqlSink, mqtt: str) -> None:
    with sink.connected() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _redis(sink: RedisSink, mqtt: str) -> None:
    is_cluster = sink.redis_type is RedisType.CLUSTER
    opened = sink.connected(sink.target, sink.addresses[0]) if is_cluster else sink.primary(sink.target)
    with opened as connection:
        connection.send_command("PING")
        connection.read_response()


def _kafka(sink: KafkaSink, mqtt: str) -> None:
    try:
        from confluent_kafka import KafkaException, Producer
    except ImportError as error:
        raise SinkError(f"the test of Kafka needs the package confluent-kafka: {INSTALL}") from error
    try:
        sink.check_servers()
        brokers = Producer(sink.producer_settings()).list_topics(timeout=_KAFKA_S).brokers
        for broker in brokers.values():
            sink.deny_or_leave(Address(broker.host, broker.port))
    except KafkaException as error:
        raise SinkError(f"{sink.target}: {sentence_of(error)}") from error


def _mqtt(sink: MqttSink, mqtt: str) -> None:
    with MqttPublisher(sink.options(_QUERY, mqtt)):
        pass


def _rabbitmq(sink: RabbitmqSink, mqtt: str) -> None:
    with RabbitmqLink(sink) as link:
        if sink.exchange and not placeholders(sink.exchange):
            link.check_exchange(sink.exchange)


def _http_database(sink: HttpDatabaseSink, mqtt: str) -> None:
    sink.check_server()


def _mongodb(sink: MongodbSink, mqtt: str) -> None:
    with sink.connected():
        pass


def _disk_log(sink: DiskLogSink, mqtt: str) -> None:
    if Path(sink.path).is_absolute() and (fault := sink.fault()):
        raise SinkError(fault)


def _nats(sink: NatsSink, mqtt: str) -> None:
    with NatsLink(sink):
        pass


def _aws(sink: AwsSink, mqtt: str) -> None:
    with sink.connected():
        pass


def _table(sink: TableSink, mqtt: str) -> None:
    sink.check_place()


_PROBES: Final[Mapping[type[Any], Callable[[Any, str], None]]] = {
    HttpSink: _http,
    PostgresqlSink: _postgresql,
    MysqlSink: _mysql,
    RedisSink: _redis,
    KafkaSink: _kafka,
    MqttSink: _mqtt,
    RabbitmqSink: _rabbitmq,
    NatsSink: _nats,
    AwsSink: _aws,
    TableSink: _table,
    HttpDatabaseSink: _http_database,
    MongodbSink: _mongodb,
    DiskLogSink: _disk_log,
}
