"""The sink `mqtt`: rows published as MQTT messages, by this broker or another.

Spark's tasks publish, each its own partition over a connection of its own, and give back the rows that can never be
published. A batch that runs again is published again; a user property with the message's id lets doubles be told.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from heliograph.client_tls import ClientTls
from heliograph.pipeline.datasource.options import SinkOptions, parse_endpoint
from heliograph.pipeline.datasource.publisher import MqttPublisher, property_fault
from heliograph.pipeline.errors import OptionError, SinkError, sentence_of
from heliograph.pipeline.files.section import Section
from heliograph.pipeline.files.tls import read_tls
from heliograph.pipeline.sinks.arrow_rows import as_it_was, plain_columns
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.retry import DEFAULT_RETRY, RetryPolicy
from heliograph.pipeline.sinks.secret import Secret, read_secret
from heliograph.pipeline.sinks.template import bytes_column, row_as_json, template_column

_WINDOW: Final = 256
_WINDOW_MAX: Final = 65_535
_TIMEOUT_S: Final = 30.0
_PREFIX: Final = "heliograph_"

# What a task gives back: figures of its partition, or a refused row.
_RESULT: Final = "rows bigint, bytes bigint, reconnects bigint, refused binary"


@dataclass(frozen=True)
class MqttSink:
    """Rows are published over MQTT.

    Attributes:
        topic: Template of the topic.
        payload: Template of the payload; None is the whole row as JSON.
        properties: Templates of MQTT properties, by the names that stored messages have.
        qos: Quality of service.
        retain: Whether the broker keeps each message for later subscribers.
        server: host:port of the broker; None is the one that the driver was given.
        clientid: Beginning of the client ids; None is made of the query's name.
        username: Who connects.
        password: Its password.
        tls: How to speak TLS; None is without.
        window: Messages that may wait for their acknowledgement, for each task.
        timeout_s: Seconds without any acknowledgement after which a task fails.
        retry: How often a task tries to reach the broker.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    topic: str
    payload: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    qos: int = 1
    retain: bool = False
    server: str | None = None
    clientid: str | None = None
    username: str | None = None
    password: Secret | None = None
    tls: ClientTls | None = None
    window: int = _WINDOW
    timeout_s: float = _TIMEOUT_S
    retry: RetryPolicy = DEFAULT_RETRY

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        own = ("topic", "payload", "properties", "qos", "retain", "server", "clientid", "window", "timeout")
        section.check_keys("type", *own, "username", "password", "password_file", "ssl", "retry", *more_keys)
        return cls(
            topic=section.text("topic"),
            payload=section.optional_text("payload"),
            properties=_read_properties(section),
            qos=section.number("qos", 1, range(3)),
            retain=section.flag("retain"),
            server=_read_server(section),
            clientid=section.optional_text("clientid"),
            username=section.optional_text("username"),
            password=read_secret(section, "password"),
            tls=read_tls(section),
            window=section.number("window", _WINDOW, range(1, _WINDOW_MAX + 1)),
            timeout_s=section.duration("timeout", _TIMEOUT_S),
            retry=RetryPolicy.read(section),
        )

    @property
    def owned(self) -> tuple[str, ...]:
        """Nothing: several queries may publish."""
        return ()

    @property
    def target(self) -> str:
        """The topic and the broker."""
        return f"MQTT topic {self.topic} at {self.server or 'the broker'}"

    def check(self, schema: StructType) -> None:
        """See `ChecksRows.check`."""
        list(self._columns(schema))

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Publish the rows and wait for every acknowledgement."""
        names = tuple(name for name, _ in self.properties)
        publish = _PublishPartition(self._options(batch), rows.schema, self.retain, names)
        prepared = rows.select(*plain_columns(rows.schema), *self._columns(rows.schema))
        figures = {"rows": 0, "bytes": 0, "retries": 0, "refused": 0}
        try:
            results = prepared.mapInArrow(publish, _RESULT).collect()
        except PySparkException as error:
            raise SinkError(f"{self.target}: {sentence_of(error)}") from error
        for result in results:
            if result["refused"] is not None:
                batch.refuse(*pickle.loads(result["refused"]))
                figures["refused"] += 1
            else:
                figures["rows"] += result["rows"]
                figures["bytes"] += result["bytes"]
                figures["retries"] += result["reconnects"]
        return Written(figures=figures)

    def _options(self, batch: MicroBatch) -> SinkOptions:
        host, port = parse_endpoint("mqtt", self.server or batch.mqtt)
        return SinkOptions(
            host=host,
            port=port,
            clientid=self.clientid or f"heliograph-{batch.query}",
            qos=self.qos,
            username=self.username,
            password=self.password.reveal() if self.password is not None else None,
            window=self.window,
            ack_timeout_s=self.timeout_s,
            connect_timeout_s=self.timeout_s,
            connect_attempts=self.retry.attempts,
            tls=self.tls,
        )

    def _columns(self, schema: StructType) -> Iterator[Column]:
        payload = row_as_json(schema.fieldNames()).cast("binary")
        if self.payload is not None:
            payload = bytes_column(self.payload, schema, "payload")
        yield template_column(self.topic, schema, "topic").alias(f"{_PREFIX}topic")
        yield payload.alias(f"{_PREFIX}payload")
        for number, (name, template) in enumerate(self.properties):
            yield template_column(template, schema, f"properties.{name}").alias(f"{_PREFIX}property_{number}")


@dataclass(frozen=True)
class _PublishPartition:
    """Publishes one partition, on a worker; Spark pickles it with the options, as the worker must log in.

    Attributes:
        options: Where and how.
        schema: The rows as the sink was given them.
        retain: Whether messages are kept.
        properties: Names of the properties.
    """

    options: SinkOptions
    schema: StructType
    retain: bool = False
    properties: tuple[str, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the rows; the result is in the form of `_RESULT`."""
        publisher: MqttPublisher | None = None
        begin = 0
        try:
            for batch in batches:
                if batch.num_rows and publisher is None:
                    publisher = MqttPublisher(self.options, keep_refused=True).__enter__()
                if publisher is None:
                    continue
                for message in self._messages(batch):
                    publisher.publish(message)
                # A batch of Arrow is many windows long, so that waiting for its end costs little.
                publisher.flush()
                yield self._result(batch, begin, publisher.refused)
                publisher.refused.clear()
                begin += batch.num_rows
            if publisher is not None:
                yield _figures(0, publisher.payload_bytes, publisher.reconnects)
        finally:
            if publisher is not None:
                publisher.__exit__(None, None, None)

    def _messages(self, batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        topics = batch.column(f"{_PREFIX}topic").to_pylist()
        payloads = batch.column(f"{_PREFIX}payload").to_pylist()
        columns = [batch.column(f"{_PREFIX}property_{number}").to_pylist() for number in range(len(self.properties))]
        for index, (topic, payload) in enumerate(zip(topics, payloads, strict=True)):
            message = {"topic": topic, "payload": payload, "retain": self.retain}
            if columns:
                pairs = zip(self.properties, (column[index] for column in columns), strict=True)
                message["properties"] = dict(pairs)
            yield message

    def _result(self, batch: pa.RecordBatch, begin: int, refused: Mapping[int, str]) -> pa.RecordBatch:
        told = []
        for number, reason in sorted(refused.items()):
            values = batch.slice(number - begin, 1).to_pylist()[0]
            row = {field.name: as_it_was(values[field.name], field.dataType) for field in self.schema}
            told.append(pickle.dumps((row, reason)))
        return _figures(batch.num_rows - len(told), 0, 0, told)


def _figures(rows: int, payload_bytes: int, reconnects: int, refused: Sequence[bytes] = ()) -> pa.RecordBatch:
    none = [0] * len(refused)
    numbers = [pa.array([value, *none], pa.int64()) for value in (rows, payload_bytes, reconnects)]
    columns = [*numbers, pa.array([None, *refused], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["rows", "bytes", "reconnects", "refused"])


def _read_properties(section: Section) -> tuple[tuple[str, str], ...]:
    properties = section.texts("properties")
    for name in properties:
        valid = property_fault(name)
        if valid is not None:
            told = f"{section.path}.properties names {name!r}, but must name {valid}"
            raise section.mistake(told, section.fields["properties"])
    return tuple(properties.items())


def _read_server(section: Section) -> str | None:
    if "server" not in section.fields:
        return None
    server = section.text("server")
    try:
        parse_endpoint("server", server)
    except OptionError as error:
        raise section.mistake(f"{section.path}: {error}", section.fields["server"]) from error
    return server
