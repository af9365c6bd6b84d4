"""Brings a micro-batch of Spark to a sink, whichever form it has."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from heliograph.pipeline.sinks.interface import MicroBatch, RowSink, Sink, TableSink, Written
from heliograph.pipeline.sinks.kafka import KafkaSink
from heliograph.pipeline.sinks.mqtt import MqttSink
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows, fields_of
from heliograph.pipeline.sinks.spark.kafka import write_by_spark
from heliograph.pipeline.sinks.spark.mqtt import publish_in_tasks
from heliograph.pipeline.sinks.spark.template_columns import column_at, derived_column

# What Spark does better than one connection of the driver; None where it cannot.
_OWN_WAYS: Final[Mapping[type[Sink], Callable[[Any, DataFrame, MicroBatch], Written | None]]] = {
    KafkaSink: write_by_spark,
    MqttSink: publish_in_tasks,
}


def write_batch(sink: Sink, rows: DataFrame, batch: MicroBatch) -> Written:
    """Bring a batch to its target.

    Raises:
        SinkError: The target did not take it.
    """
    if isinstance(sink, RowSink):
        own_way = _OWN_WAYS.get(type(sink))
        written = own_way(sink, rows, batch) if own_way is not None else None
        if written is not None:
            return written
        return sink.write(ArrowRows.of(rows, sink), batch)
    table: TableSink = sink  # type: ignore[assignment]  # there are two forms
    return table.write(rows, batch)


def check_rows(sink: Sink, schema: StructType) -> None:
    """Look whether rows have the columns that a sink names.

    Raises:
        SinkError: They lack one.
    """
    sink.check_fields(fields_of(schema))
    if isinstance(sink, RowSink):
        for derived in sink.derived:
            derived_column(derived, schema)
        for path in sink.paths:
            column_at(path, schema, f"the statement takes ${{{path}}}")
