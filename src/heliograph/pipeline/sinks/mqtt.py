"""The sink `mqtt`: rows published as MQTT messages, by this broker or another.

A batch that runs again is published again; doubles are known by a user property with the message's id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.pipeline.datasource.option_texts import parse_endpoint
from heliograph.pipeline.datasource.publisher import MqttPublisher, property_fault
from heliograph.pipeline.datasource.sink_options import UNBOUNDED, SinkOptions
from heliograph.pipeline.errors import PublishError, SinkError
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.rows import PREFIX, Derived, Rows
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.template import placeholders
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Duration, Integer, RefusedError, Text, Texts
from heliograph.settings.units import Address

_EXAMPLE: Final = "127.0.0.1:1883"
_TOPIC: Final = "topic"
_PAYLOAD: Final = "payload"
_CHUNK_ROWS: Final = 10_000


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

    @property
    def derived(self) -> Sequence[Derived]:
        made = (
            Derived(_property(number), text, f"properties.{name}", is_text=True)
            for number, (name, text) in enumerate(self.properties.items())
        )
        return (Derived(_TOPIC, self.topic, "topic", is_text=True), Derived(_PAYLOAD, self.payload, "payload"), *made)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        refused = count = 0
        options = self.options(batch.query, batch.mqtt)
        with batch.connections.opened(lambda: MqttPublisher(options, keep_refused=True)) as publisher:
            sent, reconnects = publisher.payload_bytes, publisher.reconnects
            for chunk in rows.chunks(_CHUNK_ROWS):
                names = tuple(self.properties)
                try:
                    reasons = publish_chunk(publisher, chunk, retain=self.retain, properties=names)
                except PublishError as error:
                    raise SinkError(f"{self.target}: {error}") from error
                for index, reason in reasons.items():
                    batch.refuse(rows.row(chunk, index), reason)
                count += chunk.num_rows
                refused += len(reasons)
            figures = {"bytes": publisher.payload_bytes - sent, "retries": publisher.reconnects - reconnects}
        return Written(figures={"rows": count - refused, "refused": refused, **figures})

    def options(self, query: str, mqtt: str) -> SinkOptions:
        """How the publisher connects, to the broker `mqtt` where the sink names none."""
        server = self.server or Address(*parse_endpoint("mqtt", mqtt, _EXAMPLE))
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
            # The broker beside the pipeline is no server of others.
            outbound=self.outbound if self.server is not None else UNBOUNDED,
            declared_at=self.declared_at,
            has_topic_of_row=bool(placeholders(self.topic)),
        )


def publish_chunk(
    publisher: MqttPublisher, chunk: pa.RecordBatch, *, retain: bool, properties: Sequence[str]
) -> dict[int, str]:
    """Publish the rows of a chunk, and wait for the last acknowledgement.

    Returns:
        What is said of rows that can never be published, by their places in the chunk.

    Raises:
        PublishError: The broker did not take them.
    """
    before = publisher.count
    topics, payloads = (chunk.column(f"{PREFIX}{name}").to_pylist() for name in (_TOPIC, _PAYLOAD))
    columns = [chunk.column(f"{PREFIX}{_property(number)}").to_pylist() for number in range(len(properties))]
    for index, (topic, payload) in enumerate(zip(topics, payloads, strict=True)):
        message = {"topic": topic, "payload": payload, "retain": retain}
        if columns:
            message["properties"] = dict(zip(properties, (column[index] for column in columns), strict=True))
        publisher.publish(message)
    # A chunk is many windows long, so that waiting for its end costs little.
    publisher.flush()
    refused = {number - before: reason for number, reason in sorted(publisher.refused.items())}
    publisher.refused.clear()
    return refused


def _property(number: int) -> str:
    return f"property_{number}"
