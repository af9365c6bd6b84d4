"""The sink ``heliograph``: publishes the rows of a table over MQTT and waits for every acknowledgement.

Each task publishes its own partition over its own connection. A task ends well only when the broker has acknowledged
every row of it, so what Spark has committed was taken. A task that is run again publishes its rows again: delivery is
at least once, and a receiver that must not see doubles tells them apart by a key in the payload.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from heliograph.pipeline.datasource.options import SinkOptions
from heliograph.pipeline.datasource.publisher import MqttPublisher
from heliograph.pipeline.errors import OptionError

_COLUMNS: Final = ("topic", "payload", "qos", "retain", "properties")


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
        with MqttPublisher(self.options) as publisher:
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
