"""The sink `mqtt`: rows published as MQTT messages, by this broker or another."""

from dataclasses import dataclass
from typing import ClassVar, Self

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.options import parse_endpoint
from heliograph.pipeline.section import Section
from heliograph.pipeline.sinks.interface import Batch, Guarantee, OutputMode, Written
from heliograph.pipeline.sinks.template import row_as_json, template_column
from heliograph.pipeline.source import FORMAT


@dataclass(frozen=True)
class MqttSink:
    """Rows are published over MQTT.

    Attributes:
        topic: Topic, in which ``${name}`` stands for the text of a column.
        payload: Payload, likewise; None is the whole row as JSON.
        qos: Quality of service.
        retain: Whether the broker keeps each message for later subscribers.
        server: host:port of the broker; None is the one that the driver was given.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.AT_LEAST_ONCE

    topic: str
    payload: str | None = None
    qos: int = 1
    retain: bool = False
    server: str | None = None

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        section.check_keys("type", "topic", "payload", "qos", "retain", "server", *more_keys)
        server = section.text("server") if "server" in section.fields else None
        if server is not None:
            try:
                parse_endpoint("server", server)
            except OptionError as error:
                raise section.mistake(f"{section.path}: {error}", section.fields["server"]) from error
        return cls(
            topic=section.text("topic"),
            payload=section.text("payload") if "payload" in section.fields else None,
            qos=section.number("qos", 1, range(3)),
            retain=section.flag("retain"),
            server=server,
        )

    @property
    def owned(self) -> tuple[str, ...]:
        """Nothing: several queries may publish."""
        return ()

    @property
    def target(self) -> str:
        """The topic and the broker."""
        return f"MQTT topic {self.topic} at {self.server or 'the broker'}"

    def write(self, rows: DataFrame, batch: Batch) -> Written:
        """Publish the rows and wait for every acknowledgement."""
        payload = (
            row_as_json(rows.columns)
            if self.payload is None
            else template_column(self.payload, rows.columns, "payload")
        )
        host, port = parse_endpoint("mqtt", self.server or batch.mqtt)
        rows.select(
            template_column(self.topic, rows.columns, "topic").alias("topic"),
            payload.alias("payload"),
            F.lit(self.retain).alias("retain"),
        ).write.format(FORMAT).mode("append").options(
            host=host, port=str(port), qos=str(self.qos), clientid=f"heliograph-{batch.query}"
        ).save()
        return Written()
