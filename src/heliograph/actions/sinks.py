"""Compiles an action and its connector to the section `sink` of a pipeline file, as plain values."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from heliograph.config.actions.aws import (
    AwsConnectorConfig,
    DynamoAction,
    DynamoConnectorConfig,
    DynamoParameters,
    EndpointConnectorConfig,
    KinesisAction,
    KinesisParameters,
    SqsAction,
    SqsParameters,
)
from heliograph.config.actions.brokers import (
    KafkaAction,
    KafkaConnectorConfig,
    KafkaParameters,
    MqttAction,
    MqttConnectorConfig,
    MqttParameters,
)
from heliograph.config.actions.databases import (
    MysqlAction,
    MysqlConnectorConfig,
    MysqlParameters,
    PgsqlAction,
    PgsqlConnectorConfig,
    RedisAction,
    RedisActionParameters,
    RedisConnectorConfig,
    SqlParameters,
)
from heliograph.config.actions.disk_log import DiskLogAction, DiskLogConnectorConfig, DiskLogParameters
from heliograph.config.actions.http import REQUESTS_MAX, HttpAction, HttpConnectorConfig, HttpParameters
from heliograph.config.actions.http_databases import (
    ClickhouseAction,
    ClickhouseConnectorConfig,
    ClickhouseParameters,
    ElasticsearchAction,
    ElasticsearchConnectorConfig,
    ElasticsearchParameters,
    InfluxdbAction,
    InfluxdbConnectorConfig,
    InfluxdbParameters,
)
from heliograph.config.actions.interface import ActionConfig, ConnectorConfig
from heliograph.config.actions.mongodb import MongodbAction, MongodbConnectorConfig, MongodbParameters
from heliograph.config.actions.queues import (
    CloudKafkaAction,
    NatsAction,
    NatsConnectorConfig,
    NatsParameters,
    RabbitmqAction,
    RabbitmqConnectorConfig,
    RabbitmqParameters,
    SwitchedTls,
)
from heliograph.config.actions.roots import action_class
from heliograph.config.actions.tables import (
    DeltaAction,
    IcebergAction,
    IcebergConnectorConfig,
    ParquetAction,
    S3Action,
    S3ConnectorConfig,
    SparkAction,
    SparkConnectorConfig,
    TableConnectorConfig,
)
from heliograph.mqtt.template import split_template
from heliograph.settings.aws import PROBED_NAME
from heliograph.settings.secrets import FILE_PREFIX, Secret
from heliograph.settings.tls import ClientTls
from heliograph.settings.units import Address

SinkSection: TypeAlias = dict[str, Any]
# What an idempotent producer of Kafka takes, and the least that librdkafka waits for a connection.
_IDEMPOTENT_REQUESTS_MAX: Final = 5
_LEAST_SETUP_MS: Final = 1000
_FILE_TYPES: Final = {"json_lines": "json", "csv": "csv", "parquet": "parquet", "orc": "orc"}
_REQUEST_ROWS_MAX: Final = 100_000
ROW: Final = "payload"
"""The column of the pipeline's rows that holds a row of a rule."""


def sink_of(connector: ConnectorConfig, action: ActionConfig) -> SinkSection:
    return _without_none(_MADE[type(action)].sink(connector, action))


def takes_whole_row_as_text(action: ActionConfig) -> bool:
    """Whether a row is a parameter of a statement: as such, bytes are no text."""
    return isinstance(action, PgsqlAction | MysqlAction) and _names_whole_row(action.parameters.sql)


def columns_of(action: ActionConfig) -> Mapping[str, str] | None:
    """The columns of the table that rows go to; None where a target takes each row as it is."""
    return getattr(getattr(action, "parameters", None), "columns", None)


def _http(connector: HttpConnectorConfig, action: HttpAction) -> SinkSection:
    given = action.parameters
    headers = {**connector.headers, **given.headers}
    return {
        "type": "http",
        "url": _joined(connector.url, of_row(given.path)),
        "method": given.method.upper(),
        "headers": {name: of_row(text) for name, text in headers.items()} or None,
        "body": of_row(given.body) if given.body else WHOLE,
        "batch_rows": given.max_records,
        "concurrency": min(connector.pool_size, action.resource_opts.inflight_window, REQUESTS_MAX),
        "timeout": _time(given.request_timeout),
        "retry": {"attempts": given.max_retries + 1},
        "ssl": _tls(connector.tls),
    }


def _joined(url: str, path: str) -> str:
    """A URL with a template of a path behind it, which can never become a part of the host."""
    return f"{url}{path}" if not path or url.endswith("/") or path[0] in "/?" else f"{url}/{path}"


def _pgsql(connector: PgsqlConnectorConfig, action: PgsqlAction) -> SinkSection:
    unprepared = {"prepared_statements": False} if connector.disable_prepared_statements else {}
    return {"type": "postgresql", **_sql(connector, action), **unprepared}


def _mysql(connector: MysqlConnectorConfig, action: MysqlAction) -> SinkSection:
    return {"type": "mysql", **_sql(connector, action)}


def _sql(connector: PgsqlConnectorConfig | MysqlConnectorConfig, action: PgsqlAction | MysqlAction) -> SinkSection:
    return {
        "server": str(connector.server),
        "database": connector.database,
        "username": connector.username,
        "password": _secret(connector.password),
        "sql": of_row(action.parameters.sql),
        "batch_rows": action.resource_opts.batch_size,
        "ssl": _tls(connector.tls),
    }


def _redis(connector: RedisConnectorConfig, action: RedisAction) -> SinkSection:
    place = connector.parameters
    return {
        "type": "redis",
        "redis_type": place.redis_type.value,
        "server": None if place.address is None else str(place.address),
        "servers": None if place.several is None else list(place.several),
        "sentinel": place.sentinel,
        "sentinel_username": place.sentinel_username,
        "sentinel_password": _secret(place.sentinel_password),
        "database": place.database or None,
        "username": place.username,
        "password": _secret(place.password),
        "commands": [[of_row(text) for text in action.parameters.command_template]],
        "batch_rows": action.resource_opts.batch_size,
        "ssl": _tls(connector.tls),
    }


def _kafka(connector: KafkaConnectorConfig, action: KafkaAction) -> SinkSection:
    given, login = action.parameters, connector.authentication
    headers = {one.kafka_ext_header_key: of_row(one.kafka_ext_header_value) for one in given.kafka_ext_headers}
    return {
        "type": "kafka",
        "servers": ",".join(map(str, connector.servers)),
        "topic": of_row(given.topic),
        "key": of_row(given.message.key) or None,
        "value": of_row(given.message.value) or None,
        "headers": headers or None,
        "all_headers": of_row(given.kafka_headers) if given.kafka_headers else None,
        "header_encoding": given.kafka_header_value_encode_mode if given.kafka_headers else None,
        "timestamp": of_row(given.message.timestamp) or None,
        "partitioner": given.partition_strategy,
        "acks": given.required_acks,
        "compression": given.compression,
        "properties": _client_properties(connector, given),
        "mechanism": None if login is None else login.mechanism,
        "username": None if login is None else login.username,
        "password": None if login is None else _secret(login.password),
        "ssl": _tls(connector.tls),
    }


def _client_properties(connector: KafkaConnectorConfig, given: KafkaParameters) -> dict[str, str]:
    """What EMQX has settings for, by librdkafka's names; Java's client knows the first three."""
    in_flight = 1 if given.query_mode == "sync" else given.max_inflight
    if given.required_acks == "all":
        in_flight = min(in_flight, _IDEMPOTENT_REQUESTS_MAX)
    properties = {
        "batch.size": given.max_batch_bytes,
        "max.in.flight.requests.per.connection": in_flight,
        "linger.ms": _milliseconds(given.max_linger_time) if given.max_linger_time else None,
        "socket.connection.setup.timeout.ms": max(_LEAST_SETUP_MS, _milliseconds(connector.connect_timeout)),
        "topic.metadata.refresh.interval.ms": _milliseconds(given.partition_count_refresh_interval),
    }
    return {name: str(value) for name, value in properties.items() if value is not None}


def _clickhouse(connector: ClickhouseConnectorConfig, action: ClickhouseAction) -> SinkSection:
    return {
        "type": "clickhouse",
        "url": connector.url,
        "database": connector.database,
        "username": connector.username,
        "password": _secret(connector.password),
        "sql": of_row(action.parameters.sql),
        "batch_value_separator": action.parameters.batch_value_separator,
        "batch_rows": min(action.resource_opts.batch_size, _REQUEST_ROWS_MAX),
        "ssl": _tls(connector.tls),
    }


def _influxdb(connector: InfluxdbConnectorConfig, action: InfluxdbAction) -> SinkSection:
    place = connector.parameters
    return {
        "type": "influxdb",
        "server": str(connector.server),
        "influxdb_type": place.influxdb_type,
        "database": place.database,
        "username": place.username,
        "password": _secret(place.password),
        "org": place.org,
        "bucket": place.bucket,
        "token": _secret(place.token),
        "write_syntax": of_row(action.parameters.write_syntax),
        "precision": action.parameters.precision,
        "batch_rows": min(action.resource_opts.batch_size, _REQUEST_ROWS_MAX),
        "ssl": _tls(connector.tls),
    }


def _elasticsearch(connector: ElasticsearchConnectorConfig, action: ElasticsearchAction) -> SinkSection:
    given, login = action.parameters, connector.authentication
    return {
        "type": "elasticsearch",
        "server": str(connector.server),
        "username": None if login is None else login.username,
        "password": None if login is None else _secret(login.password),
        "action": given.action,
        "index": of_row(given.index),
        "id": None if given.id is None else of_row(given.id),
        "doc": of_row(given.doc) if given.doc else WHOLE,
        "routing": None if given.routing is None else of_row(given.routing),
        "overwrite": given.overwrite,
        "doc_as_upsert": given.doc_as_upsert,
        "require_alias": given.require_alias,
        "batch_rows": min(action.resource_opts.batch_size, _REQUEST_ROWS_MAX),
        "retry": {"attempts": given.max_retries + 1},
        "ssl": _tls(connector.tls),
    }


def _mongodb(connector: MongodbConnectorConfig, action: MongodbAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "mongodb",
        "mongo_type": connector.parameters.mongo_type,
        "servers": list(map(str, connector.servers)),
        "replica_set_name": connector.parameters.replica_set_name,
        "srv_record": connector.srv_record,
        "database": connector.database,
        "username": connector.username,
        "password": _secret(connector.password),
        "auth_source": connector.auth_source,
        "collection": of_row(given.collection),
        "payload_template": of_row(given.payload_template) if given.payload_template else WHOLE,
        "batch_rows": min(action.resource_opts.batch_size, _REQUEST_ROWS_MAX),
        "ssl": _tls(connector.tls),
    }


def _disk_log(connector: DiskLogConnectorConfig, action: DiskLogAction) -> SinkSection:
    return {
        "type": "disk_log",
        "path": connector.filepath,
        "max_file_size": connector.max_file_size,
        "max_file_number": connector.max_file_number,
        "template": of_row(action.parameters.template),
    }


def _mqtt(connector: MqttConnectorConfig, action: MqttAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "mqtt",
        "server": str(connector.server),
        "clientid": connector.clientid_prefix or None,
        "username": connector.username,
        "password": _secret(connector.password),
        "topic": of_row(given.topic),
        "payload": of_row(given.payload) if given.payload else WHOLE,
        "qos": of_row(given.qos) if isinstance(given.qos, str) else given.qos,
        "retain": of_row(given.retain) if isinstance(given.retain, str) else given.retain,
        "all_properties": of_row("${pub_props}") if connector.proto_ver == "v5" else None,
        "proto_ver": connector.proto_ver,
        "keepalive": _time(connector.keepalive),
        "bridge_mode": connector.bridge_mode or None,
        "window": min(connector.max_inflight, action.resource_opts.inflight_window),
        "ssl": _tls(connector.tls),
    }


def _rabbitmq(connector: RabbitmqConnectorConfig, action: RabbitmqAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "rabbitmq",
        "server": str(Address(connector.server.strip("[]"), connector.port)),
        "virtual_host": connector.virtual_host,
        "username": connector.username,
        "password": _secret(connector.password),
        "heartbeat": _time(connector.heartbeat),
        "exchange": of_row(given.exchange),
        "routing_key": of_row(given.routing_key),
        "payload": of_row(given.payload_template) if given.payload_template else WHOLE,
        "delivery_mode": given.delivery_mode,
        "timeout": _time(given.publish_confirmation_timeout),
        "ssl": _tls(connector.tls),
    }


def _nats(connector: NatsConnectorConfig, action: NatsAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "nats",
        "server": str(connector.server),
        "username": connector.username,
        "password": _secret(connector.password),
        "token": _secret(connector.token),
        "connect_timeout": _time(connector.connect_timeout),
        "subject": of_row(given.subject),
        "payload": of_row(given.payload) if given.payload else WHOLE,
        "headers": {name: of_row(text) for name, text in given.headers.items()} or None,
        "jetstream": given.jetstream,
        "timeout": _time(given.ack_timeout),
        "ssl": _tls(connector.tls),
    }


def _kinesis(connector: EndpointConnectorConfig, action: KinesisAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "kinesis",
        **_aws(connector),
        "stream_name": given.stream_name,
        "partition_key": of_row(given.partition_key),
        "payload": of_row(given.payload_template) if given.payload_template else WHOLE,
        "retry": {"attempts": connector.max_retries + 1},
    }


def _dynamo(connector: DynamoConnectorConfig, action: DynamoAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "dynamo",
        **_aws(connector),
        "table": given.table,
        "hash_key": given.hash_key,
        "range_key": given.range_key,
        "template": of_row(given.template) if given.template else WHOLE,
    }


def _sqs(connector: EndpointConnectorConfig, action: SqsAction) -> SinkSection:
    given = action.parameters
    group, identity = given.message_group_id, given.message_deduplication_id
    return {
        "type": "sqs",
        **_aws(connector),
        "queue_url": given.queue_url,
        "message_body": of_row(given.message_body) if given.message_body else WHOLE,
        "message_group_id": None if group is None else of_row(group),
        "message_deduplication_id": None if identity is None else of_row(identity),
        "delay_seconds": given.delay_seconds,
        "retry": {"attempts": connector.max_retries + 1},
    }


def _aws(connector: AwsConnectorConfig) -> SinkSection:
    return {
        "endpoint": connector.base_url,
        "region": connector.region,
        "access_key_id": connector.aws_access_key_id,
        "secret_access_key": _secret(connector.aws_secret_access_key),
        "ssl": _tls(connector.tls),
    }


def _parquet(connector: TableConnectorConfig, action: ParquetAction) -> SinkSection:
    given = action.parameters
    return {"type": "parquet", **_table(connector, given.path, given.partition_by), "compression": given.compression}


def _delta(connector: TableConnectorConfig, action: DeltaAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "delta",
        **_table(connector, given.path, given.partition_by),
        "merge_schema": given.merge_schema,
        "key": list(given.key) or None,
        "newest_by": list(given.newest_by) or None,
    }


def _table(connector: TableConnectorConfig, path: str, partition_by: tuple[str, ...]) -> SinkSection:
    return {
        "path": f"{connector.place}/{path}" if connector.place else path,
        "partition_by": list(partition_by) or None,
        "storage_options": dict(connector.storage_options) or None,
    }


def _iceberg(connector: IcebergConnectorConfig, action: IcebergAction) -> SinkSection:
    given = action.parameters
    return {
        "type": "iceberg",
        "table": given.table,
        "partition_by": list(given.partition_by) or None,
        "catalog": dict(connector.catalog) or None,
    }


def _s3(connector: S3ConnectorConfig, action: S3Action) -> SinkSection:
    given, transport = action.parameters, connector.transport_options
    options = {
        "access_key": connector.access_key_id.reveal(),
        "secret_key": connector.secret_access_key.reveal(),
        "endpoint_override": f"{connector.host}:{connector.port}",
        "scheme": "https" if transport.use_tls else "http",
    }
    return {
        "type": _FILE_TYPES[given.container.type],
        "path": f"s3://{given.bucket}/{given.key}",
        "compression": given.container.compression,
        "partition_by": list(given.partition_by) or None,
        "storage_options": options | ({"region": transport.region} if transport.region else {}),
    }


def _spark(connector: SparkConnectorConfig, action: SparkAction) -> SinkSection:
    # Spark takes names of options in any case.
    given = {name.lower() for name in action.parameters.options}
    options = {name: value for name, value in connector.options.items() if name.lower() not in given}
    return {
        "type": "spark",
        "format": connector.format,
        "options": {**options, **action.parameters.options} or None,
    }


@dataclass(frozen=True, slots=True)
class _Made:
    """What the actions of a class become.

    Attributes:
        sink: Makes the section of a connector and an action.
        sample: Parameters for the test of a connector without an action; None where there is no such test.
    """

    sink: Callable[[Any, Any], SinkSection]
    sample: Callable[[], object] | None = None


_MADE: Final[Mapping[type[ActionConfig], _Made]] = {
    HttpAction: _Made(_http, HttpParameters),
    PgsqlAction: _Made(_pgsql, lambda: SqlParameters(sql="SELECT ${x}")),
    MysqlAction: _Made(_mysql, lambda: MysqlParameters(sql="SELECT ${x}")),
    RedisAction: _Made(_redis, lambda: RedisActionParameters(command_template=("PING",))),
    ClickhouseAction: _Made(_clickhouse, lambda: ClickhouseParameters(sql="INSERT INTO t VALUES (${x})")),
    InfluxdbAction: _Made(_influxdb, lambda: InfluxdbParameters(write_syntax="m x=${x}")),
    ElasticsearchAction: _Made(_elasticsearch, lambda: ElasticsearchParameters(action="create", index="probe")),
    MongodbAction: _Made(_mongodb, MongodbParameters),
    DiskLogAction: _Made(_disk_log, DiskLogParameters),
    KafkaAction: _Made(_kafka, lambda: KafkaParameters(topic="probe")),
    CloudKafkaAction: _Made(_kafka, lambda: KafkaParameters(topic="probe")),
    MqttAction: _Made(_mqtt, lambda: MqttParameters(topic="probe")),
    RabbitmqAction: _Made(_rabbitmq, lambda: RabbitmqParameters(exchange="", routing_key="probe")),
    NatsAction: _Made(_nats, lambda: NatsParameters(subject="probe", jetstream=False)),
    KinesisAction: _Made(_kinesis, lambda: KinesisParameters(stream_name=PROBED_NAME, partition_key="probe")),
    DynamoAction: _Made(_dynamo, lambda: DynamoParameters(table=PROBED_NAME, hash_key="probe")),
    SqsAction: _Made(_sqs, lambda: SqsParameters(queue_url=f"https://queues/0/{PROBED_NAME}")),
    ParquetAction: _Made(_parquet),
    DeltaAction: _Made(_delta),
    IcebergAction: _Made(_iceberg),
    S3Action: _Made(_s3),
    SparkAction: _Made(_spark),
}


#: Connectors of sources alone: the actions whose connectors are the same.
_LIKE: Final = {"kafka_consumer": "kafka_producer"}


def sample_action(kind: str) -> ActionConfig | None:
    """An action of a type by which a connector is tested alone; None where that needs one of the operator's."""
    actions: Any = action_class(_LIKE.get(kind, kind))
    sample = _MADE[actions].sample
    made: ActionConfig | None = None if sample is None else actions(connector="", parameters=sample())
    return made


def _secret(secret: Secret | None) -> str | None:
    """The text for the file, or the file that the pipeline reads itself whenever it is used."""
    if secret is None:
        return None
    return secret.text if secret.file is None else f"{FILE_PREFIX}{secret.file.absolute()}"


def _tls(tls: ClientTls | None) -> SinkSection | None:
    if tls is None or (isinstance(tls, SwitchedTls) and not tls.enable):
        return None
    files = {"cacertfile": tls.cacertfile, "certfile": tls.certfile, "keyfile": tls.keyfile}
    return {**files, "verify": "verify_peer" if tls.verify else "verify_none"}


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _time(seconds: float) -> str:
    return f"{_milliseconds(seconds)}ms"


def _without_none(sink: SinkSection) -> SinkSection:
    return {name: value for name, value in sink.items() if value is not None}


WHOLE: Final = f"${{{ROW}}}"
"""The template of the whole row."""

_INDEX: Final = re.compile(r"\[(\d+)\]")


def of_row(template: str) -> str:
    """A template over the column: `${a.b}`, or `${.a.b}` as EMQX has it too, is `${payload.a.b}`; `${.}` is the row."""
    return "".join(text + ("" if name is None else _placeholder(name)) for text, name in _parts(template))


def _names_whole_row(template: str) -> bool:
    return any(name is not None and not _path(name) for _, name in _parts(template))


def _parts(template: str) -> list[tuple[str, str | None]]:
    return split_template(template, lambda name: True)


def _placeholder(name: str) -> str:
    path = _path(name)
    return f"${{{ROW}.{path}}}" if path else WHOLE


def _path(name: str) -> str:
    return _INDEX.sub(r".\1", name.strip()).strip(".")
