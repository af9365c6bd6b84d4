"""The rows of a micro-batch on the driver, as Arrow: what one connection writes in one transaction passes through here.

A batch of a few partitions is fetched in one Spark job and held; a larger one comes partition after partition, each a
job of its own, so that the driver holds two partitions of it at most (the second is computed meanwhile).
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StructType, VariantType, VariantVal

from heliograph.pipeline.sinks.interface import RowSink
from heliograph.pipeline.sinks.rows import RowField, UnreadableText, python_value
from heliograph.pipeline.sinks.spark.template_columns import column_at, derived_column, quoted, text_of

# A partition of the data source has about 64 MiB; a partition of its own costs a Spark job and a Python worker.
_PARTITIONS_AT_ONCE: Final = 8


class ArrowRows:
    """The rows of a batch in chunks. It is read as often as wanted, with the rows in the same order each time.

    Structures, arrays, maps and variants are JSON text in the chunks: Arrow has no variant, and databases have few of
    the others.

    Args:
        bytes_as_hex: Whether bytes become ``\\x0aff``, as PostgreSQL writes them.
        more: Paths such as ``a.b`` that become columns of that name behind the others; names of columns add nothing.
    """

    def __init__(
        self,
        rows: DataFrame,
        *,
        bytes_as_hex: bool = False,
        more: Sequence[str] = (),
        computed: Sequence[Column] = (),
    ) -> None:
        self._schema = rows.schema
        self._rows = rows.select(*plain_columns(rows.schema, bytes_as_hex, more), *computed)
        is_small = rows.rdd.getNumPartitions() <= _PARTITIONS_AT_ONCE
        # In one piece, or the rows of each partition would be chunks of their own.
        self._held = self._rows.toArrow().combine_chunks() if is_small else None

    @classmethod
    def of(cls, rows: DataFrame, sink: RowSink) -> Self:
        """The rows with what a sink makes of them."""
        computed = [derived_column(derived, rows.schema) for derived in sink.derived]
        return cls(rows, bytes_as_hex=sink.takes_bytes_as_hex, more=sink.paths, computed=computed)

    @property
    def fields(self) -> Sequence[RowField]:
        return fields_of(self._schema)

    def __repr__(self) -> str:
        return f"ArrowRows({'by partition' if self._held is None else f'{self._held.num_rows} held'})"

    def chunks(self, rows_max: int) -> Iterator[pa.RecordBatch]:
        if self._held is not None:
            yield from (chunk for chunk in self._held.to_batches(rows_max) if chunk.num_rows)
            return
        streams = self._rows.mapInArrow(_as_streams, "stream binary")
        for (stream,) in streams.toLocalIterator(prefetchPartitions=True):
            for whole in pa.ipc.open_stream(stream):
                for begin in range(0, whole.num_rows, rows_max):
                    yield whole.slice(begin, rows_max)

    def row(self, chunk: pa.RecordBatch, index: int) -> dict[str, Any]:
        """One row of a chunk as it was, for `MicroBatch.refuse`; what Python has no value for is `UnreadableText`."""
        return {
            field.name: as_it_was(python_value(chunk.column(field.name).slice(index, 1)), field.dataType)
            for field in self._schema
        }


def _as_streams(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Runs on Spark's workers: rows travel as Arrow instead of as one pickled tuple each.
    for batch in batches:
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, batch.schema) as stream:
            stream.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([buffer.getvalue().to_pybytes()], pa.binary())], ["stream"])


def fields_of(schema: StructType) -> tuple[RowField, ...]:
    return tuple(RowField(field.name, field.dataType.simpleString()) for field in schema)


def is_complex(kind: DataType) -> bool:
    """Whether values of a type are JSON text in a chunk."""
    return isinstance(kind, StructType | ArrayType | MapType | VariantType)


def plain_columns(schema: StructType, bytes_as_hex: bool = False, more: Sequence[str] = ()) -> list[Column]:
    """The columns of rows as `ArrowRows` has them, and paths into them."""
    columns = [_plain(F.col(quoted(field.name)), field.dataType, bytes_as_hex).alias(field.name) for field in schema]
    for name in dict.fromkeys(more):
        if name not in schema.fieldNames():
            column, kind = column_at(name, schema, f"${{{name}}} is wanted")
            columns.append(_plain(column, kind, bytes_as_hex).alias(name))
    return columns


def _plain(column: Column, kind: DataType, bytes_as_hex: bool) -> Column:
    if is_complex(kind):
        return text_of(column, kind)
    if isinstance(kind, BinaryType) and bytes_as_hex:
        return F.concat(F.lit("\\x"), F.hex(column))
    return column


def as_it_was(value: Any, kind: DataType) -> Any:
    """A value of a chunk as the rows had it: JSON text and hexadecimal bytes are taken back."""
    if not isinstance(value, str) or isinstance(value, UnreadableText):
        return value
    if isinstance(kind, VariantType):
        return VariantVal.parseJson(value)
    if is_complex(kind):
        return json.loads(value)
    return bytes.fromhex(value[2:]) if isinstance(kind, BinaryType) else value
