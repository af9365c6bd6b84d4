"""The sink `mqtt` by Spark's tasks: each publishes its own partition, and gives back what can never be published."""

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource.publisher import MqttPublisher
from heliograph.pipeline.datasource.sink_options import SinkOptions
from heliograph.pipeline.errors import SinkError, sentence_of
from heliograph.pipeline.sinks.interface import MicroBatch, Written
from heliograph.pipeline.sinks.mqtt import MessageForm, MqttSink, publish_chunk
from heliograph.pipeline.sinks.spark.arrow_rows import as_it_was, plain_columns
from heliograph.pipeline.sinks.spark.template_columns import derived_column

# What a task gives back: figures of its partition, or a refused row.
_RESULT: Final = "rows bigint, bytes bigint, reconnects bigint, refused binary"


def publish_in_tasks(sink: MqttSink, rows: DataFrame, batch: MicroBatch) -> Written:
    """Publish a batch.

    Raises:
        SinkError: A task could not publish its part.
    """
    publish = _PublishPartition(sink.options(batch.query, batch.mqtt), rows.schema, sink.form)
    derived = [derived_column(each, rows.schema) for each in sink.derived]
    prepared = rows.select(*plain_columns(rows.schema), *derived)
    figures = {"rows": 0, "bytes": 0, "retries": 0, "refused": 0}
    try:
        results = prepared.mapInArrow(publish, _RESULT).collect()
    except PySparkException as error:
        raise SinkError(f"{sink.target}: {sentence_of(error)}") from error
    for result in results:
        if result["refused"] is not None:
            batch.refuse(*pickle.loads(result["refused"]))
            figures["refused"] += 1
        else:
            figures["rows"] += result["rows"]
            figures["bytes"] += result["bytes"]
            figures["retries"] += result["reconnects"]
    return Written(figures=figures)


@dataclass(frozen=True)
class _PublishPartition:
    """Publishes one partition, on a worker; Spark pickles it with the options, as the worker must log in."""

    options: SinkOptions
    schema: StructType
    form: MessageForm

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Publish the rows; the result is in the form of `_RESULT`."""
        publisher: MqttPublisher | None = None
        try:
            for batch in batches:
                if batch.num_rows and publisher is None:
                    publisher = MqttPublisher(self.options, keep_refused=True).__enter__()
                if publisher is None:
                    continue
                refused = publish_chunk(publisher, batch, self.form)
                pickled = [pickle.dumps((self._row(batch, index), reason)) for index, reason in refused.items()]
                yield _figures(batch.num_rows - len(pickled), 0, 0, pickled)
            if publisher is not None:
                yield _figures(0, publisher.payload_bytes, publisher.reconnects)
        finally:
            if publisher is not None:
                publisher.__exit__(None, None, None)

    def _row(self, batch: pa.RecordBatch, index: int) -> dict[str, object]:
        values = batch.slice(index, 1).to_pylist()[0]
        return {field.name: as_it_was(values[field.name], field.dataType) for field in self.schema}


def _figures(rows: int, payload_bytes: int, reconnects: int, refused: Sequence[bytes] = ()) -> pa.RecordBatch:
    none = [0] * len(refused)
    numbers = [pa.array([value, *none], pa.int64()) for value in (rows, payload_bytes, reconnects)]
    columns = [*numbers, pa.array([None, *refused], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=["rows", "bytes", "reconnects", "refused"])
