"""The sink `mqtt`: rows published as MQTT messages, by this broker or another.

A batch that runs again is published again; doubles are known by a user property with the message's id.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa

from heliograph.hocon.values import Content
from heliograph.pipeline.datasource.option_texts import parse_endpoint
from heliograph.pipeline.datasource.publisher import MqttPublisher, property_fault
from heliograph.pipeline.datasource.sink_options import UNBOUNDED, V3, V4, V5, SinkOptions
from heliograph.pipeline.errors import PublishError, SinkError
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, Written
from heliograph.pipeline.sinks.rows import PREFIX, Derived, Rows
from heliograph.pipeline.sinks.servers import ServerSink
from heliograph.pipeline.sinks.template import placeholders
from heliograph.settings.addresses import ServerAddress
from heliograph.settings.fields import optional, required, setting
from heliograph.settings.kinds import Boolean, Choice, Duration, Integer, OrTemplate, RefusedError, Text, Texts
from heliograph.settings.units import Address

_EXAMPLE: Final = "127.0.0.1:1883"
_TOPIC: Final = "topic"
_PAYLOAD: Final = "payload"
_QOS: Final = "qos"
_RETAIN: Final = "retain"
_ALL_PROPERTIES: Final = "all_properties"
_USER_PROPERTY: Final = "User-Property"
_CORRELATION: Final = "Correlation-Data"
_NUMBERS: Final = {"0": 0, "1": 1, "2": 2, "null": 0}
_FLAGS: Final = {"true": True, "1": True, "false": False, "0": False, "null": False}
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
    all_properties: str | None = optional(
        Text("a template"),
        "Template of a JSON object of properties, as rules have it in `pub_props`; `properties` stand over it.",
    )
    qos: int | str = setting(OrTemplate(Integer(0, 2), "${qos}"), 1, "Quality of service; null is 0.")
    retain: bool | str = setting(
        OrTemplate(Boolean(), "${flags.retain}"),
        False,
        "Whether the broker keeps each message for later subscribers; null is false.",
    )
    proto_ver: str = setting(
        Choice(V3, V4, V5),
        V5,
        "MQTT 3.1, 3.1.1 or 5; only with 5 there are properties, and a broker says what it refuses.",
    )
    keepalive_s: float = setting(
        Duration(1.0, 65_535.0, needs_unit=True), 30.0, "How often a silent connection is looked at.", name="keepalive"
    )
    bridge_mode: bool = setting(Boolean(), False, "Whether it connects as a bridge does; not by MQTT 5.")
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
        templates = {_QOS: self.qos, _RETAIN: self.retain, _ALL_PROPERTIES: self.all_properties}
        more = (Derived(name, text, name, is_text=True) for name, text in templates.items() if isinstance(text, str))
        topic = Derived(_TOPIC, self.topic, "topic", is_text=True)
        return (topic, Derived(_PAYLOAD, self.payload, "payload"), *made, *more)

    @property
    def form(self) -> "MessageForm":
        """What is made of a row, for a worker."""
        fixed_qos = self.qos if isinstance(self.qos, int) else None
        fixed_retain = self.retain if isinstance(self.retain, bool) else None
        return MessageForm(fixed_qos, fixed_retain, tuple(self.properties), self.all_properties is not None)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        refused = count = 0
        options = self.options(batch.query, batch.mqtt)
        with batch.connections.opened(lambda: MqttPublisher(options, keep_refused=True), stays=True) as publisher:
            sent, reconnects = publisher.payload_bytes, publisher.reconnects
            for chunk in rows.chunks(_CHUNK_ROWS):
                try:
                    reasons = publish_chunk(publisher, chunk, self.form)
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
            qos=self.qos if isinstance(self.qos, int) else 0,
            username=self.username,
            password=self.password_text,
            window=self.window,
            ack_timeout_s=self.timeout_s,
            connect_timeout_s=self.timeout_s,
            connect_attempts=self.retry.attempts,
            tls=self.tls,
            protocol=self.proto_ver,
            keepalive_s=round(self.keepalive_s),
            is_bridge=self.bridge_mode,
            # The broker beside the pipeline is no server of others.
            outbound=self.outbound if self.server is not None else UNBOUNDED,
            declared_at=self.declared_at,
            has_topic_of_row=bool(placeholders(self.topic)),
        )


@dataclass(frozen=True)
class MessageForm:
    """What is made of a row beside topic and payload.

    Attributes:
        qos: None where each row has its own, and so with `retain`.
        properties: Names of properties that each have a column.
        has_all_properties: Whether there is a column with an object of properties.
    """

    qos: int | None
    retain: bool | None
    properties: tuple[str, ...]
    has_all_properties: bool

    def messages(self, chunk: pa.RecordBatch) -> Sequence[dict[str, Any]]:
        """The rows of a chunk as a publisher takes them; what is no QoS stays a text, for the refusal."""
        made: dict[str, Sequence[Any]] = {name: _column(chunk, name) for name in (_TOPIC, _PAYLOAD)}
        made[_RETAIN] = [self.retain] * chunk.num_rows
        if self.retain is None:
            made[_RETAIN] = [_FLAGS.get(text, text) for text in _column(chunk, _RETAIN)]
        if self.qos is None:
            made[_QOS] = [_NUMBERS.get(text, text) for text in _column(chunk, _QOS)]
        if self.has_all_properties or self.properties:
            made["properties"] = self._properties(chunk)
        return [dict(zip(made, row, strict=True)) for row in zip(*made.values(), strict=True)]

    def _properties(self, chunk: pa.RecordBatch) -> Sequence[dict[str, str]]:
        found: list[dict[str, str]] = [{} for _ in range(chunk.num_rows)]
        if self.has_all_properties:
            found = list(map(_properties_in, _column(chunk, _ALL_PROPERTIES)))
        for number, name in enumerate(self.properties):
            for row, text in zip(found, _column(chunk, _property(number)), strict=True):
                row[name] = text
        return found


def publish_chunk(publisher: MqttPublisher, chunk: pa.RecordBatch, form: MessageForm) -> dict[int, str]:
    """Publish the rows of a chunk, and wait for the last acknowledgement.

    Returns:
        What is said of rows that can never be published, by their places in the chunk.

    Raises:
        PublishError: The broker did not take them.
    """
    before = publisher.count
    for message in form.messages(chunk):
        publisher.publish(message)
    # A chunk is many windows long, so that waiting for its end costs little.
    publisher.flush()
    refused = {number - before: reason for number, reason in sorted(publisher.refused.items())}
    publisher.refused.clear()
    return refused


def _column(chunk: pa.RecordBatch, derived: str) -> list[Any]:
    values: list[Any] = chunk.column(f"{PREFIX}{derived}").to_pylist()
    return values


def _properties_in(text: str) -> dict[str, str]:
    """The properties in an object of rules' `pub_props`, by the names that a publisher knows; of another text, none."""
    if not text.startswith("{"):
        return {}
    try:
        given = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(given, dict):
        return {}
    users = given.pop(_USER_PROPERTY, None)
    found = {name: str(value) for name, value in given.items() if property_fault(name) is None}
    if _CORRELATION in found:  # rules have its bytes as text, and what is no text in Base64
        given_bytes = given[_CORRELATION]
        coded = given_bytes.get("$base64") if isinstance(given_bytes, dict) else None
        found[_CORRELATION] = coded if coded is not None else base64.b64encode(str(given_bytes).encode()).decode()
    if isinstance(users, dict):
        found |= {f"{_USER_PROPERTY}.{name}": str(value) for name, value in users.items() if name}
    return found


def _property(number: int) -> str:
    return f"property_{number}"
