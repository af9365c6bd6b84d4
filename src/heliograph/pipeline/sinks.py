"""What each kind of sink does with one micro-batch.

`batch_writer` turns the description of a sink into the function that Spark calls with each micro-batch and its number.
The Parquet sinks write each batch exactly once (see `heliograph.pipeline.parquet`); MQTT and the console at least once.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)

from heliograph.pipeline.definition import ConsoleSink, MqttSink, OutputMode, ParquetSink, Sink
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.options import parse_endpoint
from heliograph.pipeline.parquet import ParquetAppend, ParquetTable
from heliograph.pipeline.source import FORMAT

#: Takes the rows of a micro-batch and its number; returns the rows that the sink holds in total, if it knows.
BatchWriter = Callable[[DataFrame, int], int | None]

_PLACEHOLDER: Final = re.compile(r"\$\{([^}]*)\}")


def batch_writer(name: str, sink: Sink, mode: OutputMode, *, output: Path, mqtt: str, owner: str) -> BatchWriter:
    """Return the function that brings micro-batches to a sink.

    Args:
        name: Name of the query, shown on the console and used in client ids.
        sink: The sink.
        mode: Which rows of a result a batch brings.
        output: Directory of all Parquet tables.
        mqtt: host:port of the broker for MQTT sinks that name none.
        owner: Identity of the query's checkpoint.
    """
    if isinstance(sink, ParquetSink):
        if mode is OutputMode.APPEND:
            return ParquetAppend(output, sink.path, owner, sink.partition_by).write
        key = sink.key if mode is OutputMode.UPDATE else ()
        return ParquetTable(output, sink.path, owner, key).write
    if isinstance(sink, MqttSink):
        return lambda rows, batch: _publish(name, sink, mqtt, rows)
    return lambda rows, batch: _print(name, sink, rows)


def template_column(template: str, columns: list[str], where: str) -> Column:
    """Return the text of a template for each row, as a Spark column: ``${name}`` becomes the text of that column.

    Raises:
        SinkError: The template names a column that the rows do not have.
    """
    parts: list[Column] = []
    done = 0
    for placeholder in _PLACEHOLDER.finditer(template):
        name = placeholder[1]
        if name not in columns:
            raise SinkError(f"{where} is {template!r}, but the rows have no column {name!r}: {', '.join(columns)}")
        parts.append(F.lit(template[done : placeholder.start()]))
        parts.append(F.coalesce(F.col(_quoted(name)).cast("string"), F.lit("null")))
        done = placeholder.end()
    return F.concat(*parts, F.lit(template[done:]))


def row_as_json(columns: list[str]) -> Column:
    """Return each row as a JSON object, as a Spark column; columns that are null are written as null."""
    return F.to_json(F.struct(*(F.col(_quoted(name)) for name in columns)), {"ignoreNullFields": "false"})


def _publish(name: str, sink: MqttSink, mqtt: str, rows: DataFrame) -> None:
    payload = (
        row_as_json(rows.columns) if sink.payload is None else template_column(sink.payload, rows.columns, "payload")
    )
    host, port = parse_endpoint("mqtt", sink.server or mqtt)
    rows.select(
        template_column(sink.topic, rows.columns, "topic").alias("topic"),
        payload.alias("payload"),
        F.lit(sink.retain).alias("retain"),
    ).write.format(FORMAT).mode("append").options(
        host=host, port=str(port), qos=str(sink.qos), clientid=f"heliograph-{name}"
    ).save()


def _print(name: str, sink: ConsoleSink, rows: DataFrame) -> None:
    lines = [row[0] for row in rows.select(row_as_json(rows.columns)).take(sink.rows + 1)]
    for line in lines[: sink.rows]:
        sys.stdout.write(f"{name}: {line}\n")
    if len(lines) > sink.rows:
        sys.stdout.write(f"{name}: ... and more rows of this batch\n")
    sys.stdout.flush()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
