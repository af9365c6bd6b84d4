"""Where the rows of a pipeline go: one module for each kind of sink, `interface` says what a sink is.

`read_sink` makes a sink of its section in a pipeline file.
"""

import difflib
from dataclasses import fields
from importlib import import_module
from typing import Any, Final, cast

from heliograph.pipeline.files.section import FileSection
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, OutputMode, Sink, Written
from heliograph.settings.outbound import OutboundConfig

__all__ = ["KINDS", "Guarantee", "MicroBatch", "OutputMode", "Sink", "Written", "read_sink"]

#: The module and class of each `type`.
KINDS: Final = {
    "clickhouse": ("clickhouse", "ClickhouseSink"),
    "console": ("console", "ConsoleSink"),
    "csv": ("files", "CsvSink"),
    "delta": ("delta", "DeltaSink"),
    "disk_log": ("disk_log", "DiskLogSink"),
    "dynamo": ("dynamo", "DynamoSink"),
    "elasticsearch": ("elasticsearch", "ElasticsearchSink"),
    "iceberg": ("iceberg", "IcebergSink"),
    "influxdb": ("influxdb", "InfluxdbSink"),
    "json": ("files", "JsonSink"),
    "http": ("http", "HttpSink"),
    "kafka": ("kafka", "KafkaSink"),
    "kinesis": ("kinesis", "KinesisSink"),
    "mariadb": ("mysql", "MysqlSink"),
    "mongodb": ("mongodb", "MongodbSink"),
    "mqtt": ("mqtt", "MqttSink"),
    "mysql": ("mysql", "MysqlSink"),
    "nats": ("nats", "NatsSink"),
    "orc": ("files", "OrcSink"),
    "parquet": ("parquet", "ParquetSink"),
    "postgresql": ("postgresql", "PostgresqlSink"),
    "rabbitmq": ("rabbitmq", "RabbitmqSink"),
    "redis": ("redis", "RedisSink"),
    "spark": ("spark_format", "SparkFormatSink"),
    "sqs": ("sqs", "SqsSink"),
    "webhook": ("http", "HttpSink"),
}


def read_sink(section: FileSection, mode: OutputMode, *more_keys: str, outbound: OutboundConfig | None = None) -> Sink:
    found = section.fields.get("type")
    kind = str(found.value) if found is not None else ""
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, KINDS, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        text = f"found {kind!r}, expected one of {', '.join(sorted(KINDS))}{hint}"
        raise section.mistake(text if kind else f"is missing, {text.partition(', ')[2]}", "type")
    sink = sink_class(kind)
    if mode not in sink.modes:
        raise section.mistake(
            f"{kind} takes mode {' or '.join(sink.modes)} only: a result that changes (mode update or complete) goes "
            "to parquet, delta or iceberg",
            "type",
        )
    names = {field.name for field in fields(cast(Any, sink))}
    if "newest_by" in section.fields and "newest_by" not in names:
        raise section.mistake(
            f"{kind} cannot tell whether a row is newer than the one that is there: that is for delta, mysql, mariadb "
            "and postgresql",
            "newest_by",
        )
    given: dict[str, Any] = {"mode": mode, "outbound": outbound or OutboundConfig(), "declared_at": section.path}
    return section.read(sink, {name: value for name, value in given.items() if name in names}, ("type", *more_keys))


def sink_class(kind: str) -> type[Sink]:
    module, name = KINDS[kind]
    found: type[Sink] = getattr(import_module(f"{__name__}.{module}"), name)
    return found
