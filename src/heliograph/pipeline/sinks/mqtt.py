"""The sink `mqtt`: rows published as MQTT messages, by this broker or another.

Spark's tasks publish, each its own partition over a connection of its own, and give back the rows that can never be
published. A batch that runs again is published again; doubles are known by a user property with the message's id.
"""

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructType

from heliograph.hocon.values import Content
from heliograph.pipeline.datasource.options import SinkOptions, parse_endpoint
from heliograph.pipeline.datasource.publisher import MqttPublisher, property_fault
from heliograph.pipeline.errors import SinkError, sentence_of
from heliograph.pipeline.sinks.arrow_rows import as_it_was, plain_columns
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.template import bytes_column, row_as_json, template_column
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, RefusedError, Text, Texts
from heliograph.settings.units import Address

_PREFIX: Final = "heliograph_"

# What a task gives back: figures of its partition, or a refused row.
_RESULT: Final = "rows bigint, bytes bigint, reconnects bigint, refused binary"


class MessageProperties(Texts):
    expected = 'an object of templates, as in { "User-Property.id" = "${id}" }'

    def convert(self, value: Content) -> Mapping[str, str]:
        properties = super().convert(value)
        for name in properties:
            if (valid := property_fault(name)) is not None:
                raise RefusedError(f"{name!r} is no property: give {valid}")
        return properties


@dataclass(frozen=True)
class MqttSink(ServerSink):
    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    topic: str = required(Text("a template of a topic"), "Template of the topic.")
    payload: str | None = optional(Text("a template"), "Template of the payload; without, the row as JSON.")
    properties: Mapping[str, str] = setting(
        MessageProperties(),
        {},
        "Templates of `Content-Type`, `Correlation-Data` (Base64), `Message-Expiry-Interval`, "
        "`Payload-Format-Indicator`, `Response-Topic`, `User-Property.<name>`.",
        is_secret=True,
    )
    qos: int = setting(Integer(0, 2), 1, "Quality of service.")
    retain: bool = setting(Boolean(), False, "Whether the broker keeps each message for later subscribers.")
    server: Address | None = optional(ServerAddress(), "The broker; without, that of `--mqtt`.")
    clientid: str | None = optional(Text("a text"), "Beginning of the client ids; without, `heliograph-QUERY`.")
    window: int = setting(
        Integer(1, 65_535),
        256,
        "Messages of a task that may wait for their acknowledgement; the broker's Receive Maximum bounds it too.",
    )
    timeout_s: float = setting(
        Duration(0.001, needs_unit=True),
        30.0,
        "How long no acknowledgement may come before the batch fails.",
        name="timeout",
    )

    @property
    def target(self) -> str:
        return f"MQTT topic {self.topic} at {self.server or 'the broker'}"

    def check(self, schema: StructType) -> None:
        list(self._columns(schema))

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        names = tuple(self.properties)
        publish = _PublishPartition(self.options(batch.query, batch.mqtt), rows.schema, self.retain, names)
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

    def options(self, query: str, mqtt: str) -> SinkOptions:
        """How the publisher connects, to the broker `mqtt` where the sink names none."""
        server = self.server or Address(*parse_endpoint("mqtt", mqtt))
        return SinkOptions(
            host=server.host,
            port=server.port,
            clientid=self.clientid or f"heliograph-{query}",
            qos=self.qos,
            username=self.username,
            password=self.password_text,
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
        for number, (name, template) in enumerate(self.properties.items()):
            yield template_column(template, schema, f"properties.{name}").alias(f"{_PREFIX}property_{number}")


@dataclass(frozen=True)
class _PublishPartition:
    """Publishes one partition, on a worker; Spark pickles it with the options, as the worker must log in."""

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
        pickled = []
        for number, reason in sorted(refused.items()):
            values = batch.slice(number - begin, 1).to_pylist()[0]
            row = {field.name: as_it_was(values[field.name], field.dataType) for field in self.schema}
            pickled.append(pickle.dumps((row, reason)))
        return _figures(batch.num_rows - len(pickled), 0, 0, pickled)


def _figures(rows: int, payload_bytes: int, reconnects: int, refused: Sequence[bytes] = ()) -> pa.RecordBatch:
    none = [0] * len(refused)
    numbers = [pa.array([value, *none], pa.int64()) for value in (rows, payload_bytes, reconnects)]
    columns = [*numbers, pa.array([None, *refused], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["rows", "bytes", "reconnects", "refused"])
