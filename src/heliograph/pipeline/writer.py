"""The sink ``heliograph``: publishes the rows of a table over MQTT and waits for every acknowledgement.

Each task publishes its own partition over its own connection. A task ends well only when the broker has acknowledged
every row of it, so what Spark has committed was taken. A task that is run again publishes its rows again: delivery is
at least once, and a receiver that must not see doubles tells them apart by a key in the payload.
"""

import base64
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import pyarrow as pa
from paho.mqtt import MQTTException
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from heliograph.pipeline.errors import OptionError, PublishError
from heliograph.pipeline.options import SinkOptions

_COLUMNS: Final = ("topic", "payload", "qos", "retain", "properties")

# Properties as stored messages carry them: name, paho's name, and how its value is made of the text.
_PROPERTIES: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "Content-Type": ("ContentType", str),
    "Correlation-Data": ("CorrelationData", base64.b64decode),
    "Message-Expiry-Interval": ("MessageExpiryInterval", int),
    "Payload-Format-Indicator": ("PayloadFormatIndicator", int),
    "Response-Topic": ("ResponseTopic", str),
}
_USER_PROPERTY: Final = "User-Property."


@dataclass(frozen=True)
class PublishedRows(WriterCommitMessage):
    """What a task says when it ends: how many rows the broker acknowledged."""

    rows: int


class _MqttWriter:
    """What both writers share: publishing one partition, on a worker."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        _check_columns(schema)
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PublishedRows:
        """Publish the rows of one partition. Called once for each, on a worker; it blocks until all is acknowledged."""
        rows = 0
        with Publisher(self.options) as publisher:
            for batch in iterator:
                for row in batch.to_pylist():
                    publisher.publish(row)
                rows += batch.num_rows
            publisher.flush()
        return PublishedRows(rows)


class MqttBatchWriter(_MqttWriter, DataSourceArrowWriter):
    """Publishes the rows of a table; Spark pickles it to the workers."""


class MqttStreamWriter(_MqttWriter, DataSourceStreamArrowWriter):
    """Publishes the rows of each micro-batch; Spark pickles it to the workers."""


class Publisher:
    """One MQTT 5 connection that publishes with a bounded number of messages under way.

    Used in a ``with`` block by one thread. A connection that is lost is made again, and what was not acknowledged is
    sent again. When nothing is acknowledged for `SinkOptions.ack_timeout_s`, or the broker refuses, `PublishError` is
    raised.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._changed = threading.Condition()
        self._under_way = 0
        self._acknowledged = 0
        self._is_connected = False
        self._fault: str | None = None
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=f"{options.clientid}-{uuid.uuid4().hex[:12]}",
            protocol=MQTTProtocolVersion.MQTTv5,
        )
        self._client.max_inflight_messages_set(options.window)
        self._client.reconnect_delay_set(1, 5)
        if options.username is not None:
            self._client.username_pw_set(options.username, options.password)
        self._client.on_connect = self._on_connect
        self._client.on_disconnect = self._on_disconnect
        self._client.on_publish = self._on_publish

    def __enter__(self) -> Self:
        try:
            self._client.connect_timeout = self._options.connect_timeout_s
            self._client.connect(self._options.host, self._options.port, keepalive=30)
        except (OSError, ssl.SSLError) as error:
            raise PublishError(f"{self._where()} cannot be reached: {error}") from error
        self._client.loop_start()
        try:
            self._wait(lambda: self._is_connected, self._options.connect_timeout_s, "did not accept the connection")
        except PublishError:
            self._client.loop_stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def publish(self, row: Mapping[str, Any]) -> None:
        """Publish one row; blocks while the window is full."""
        self._wait(lambda: self._under_way < self._options.window, self._options.ack_timeout_s, "acknowledged nothing")
        qos = row.get("qos")
        with self._changed:
            self._under_way += 1
        try:
            self._client.publish(
                row["topic"],
                row["payload"],
                qos=self._options.qos if qos is None else qos,
                retain=bool(row.get("retain")),
                properties=_properties(row.get("properties")),
            )
        except (ValueError, TypeError) as error:
            raise PublishError(f"topic {row['topic']!r} cannot be published to: {error}") from error

    def flush(self) -> None:
        """Wait until everything published was acknowledged."""
        self._wait(lambda: not self._under_way, self._options.ack_timeout_s, "acknowledged nothing")

    def _wait(self, is_done: Any, deadline_s: float, complaint: str) -> None:
        with self._changed:
            while not is_done():
                before = self._acknowledged
                if self._fault is None and not self._changed.wait(deadline_s) and before == self._acknowledged:
                    raise PublishError(f"{self._where()} {complaint} for {deadline_s:.0f} s")
                if self._fault is not None:
                    raise PublishError(f"{self._where()} {self._fault}")

    def _where(self) -> str:
        return f"the MQTT broker at {self._options.host}:{self._options.port}"

    def _on_connect(self, client: object, data: object, flags: object, reason: ReasonCode, _: object) -> None:
        with self._changed:
            if reason.is_failure:
                self._fault = f"refused the connection: {reason}"
            self._is_connected = not reason.is_failure
            self._changed.notify_all()

    def _on_disconnect(self, client: object, data: object, flags: object, reason: ReasonCode, _: object) -> None:
        with self._changed:
            self._is_connected = False

    def _on_publish(self, client: object, data: object, mid: int, reason: ReasonCode, _: object) -> None:
        with self._changed:
            if reason.is_failure:
                self._fault = f"refused a message: {reason}"
            self._under_way -= 1
            self._acknowledged += 1
            self._changed.notify_all()


def _check_columns(schema: StructType) -> None:
    valid = f"some of {', '.join(_COLUMNS)}, among them topic and payload"
    for name in schema.fieldNames():
        if name not in _COLUMNS:
            raise OptionError("columns", name, valid)
    for name, kinds in (("topic", (StringType,)), ("payload", (StringType, BinaryType))):
        if name not in schema.fieldNames():
            raise OptionError("columns", ", ".join(schema.fieldNames()), valid)
        if not isinstance(schema[name].dataType, kinds):
            raise OptionError(f"columns.{name}", schema[name].dataType.simpleString(), "a string")


def _properties(row: list[tuple[str, str]] | Mapping[str, str] | None) -> Properties | None:
    # Arrow gives a map as a list of pairs.
    pairs = dict(row) if row else {}
    if not pairs:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
    users = [
        (name.removeprefix(_USER_PROPERTY), pairs.pop(name)) for name in list(pairs) if name.startswith(_USER_PROPERTY)
    ]
    if users:
        properties.UserProperty = users
    for name, value in pairs.items():
        if name not in _PROPERTIES:
            raise OptionError("properties", name, f"one of {', '.join(_PROPERTIES)} or {_USER_PROPERTY}<name>")
        attribute, make = _PROPERTIES[name]
        try:
            setattr(properties, attribute, make(value))
        except (ValueError, MQTTException) as error:
            raise OptionError(f"properties.{name}", value, f"a value that MQTT allows ({error})") from error
    return properties
