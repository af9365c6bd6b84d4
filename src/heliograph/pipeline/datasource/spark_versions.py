"""What the data source needs of Spark that not every version from 4.0 on has; all others is the same in each.

- 4.0 has no Arrow writer of streams, and pushes no filters down.
- 4.0 and 4.1 neither say where a micro-batch begins nor limit it: `UnlimitedStreamReader`.
- Up to 4.2, the Arrow form of a schema has no time zone as a parameter, and that of times is UTC.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from heliograph.pipeline.datasource.offsets import Offset
from heliograph.pipeline.errors import OptionError

#: Whether Spark gives `latestOffset` a beginning and a limit.
HAS_LIMITS: Final = bool(inspect.signature(DataSourceStreamReader.latestOffset).parameters.keys() - {"self"})
#: Arguments of `to_arrow_schema` and `to_arrow_type` that make times those of UTC.
IN_UTC: Final[Mapping[str, Any]] = (
    {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}
)
#: Spark's own `pushFilters`, by which it sees whether a reader has another; None where there is none.
PUSH_FILTERS: Final[Callable[..., Any] | None] = getattr(DataSourceReader, "pushFilters", None)

if TYPE_CHECKING or HAS_LIMITS:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )
else:

    class ReadLimit:
        """The limit of a micro-batch; there is only the one below."""

    class ReadAllAvailable(ReadLimit):
        """No limit."""

    ReadMaxBytes = ReadMaxRows = ReadLimit

    class SupportsTriggerAvailableNow:
        """Spark asks once for the newest offset, and reads up to it in one micro-batch."""


if TYPE_CHECKING or hasattr(datasource, "DataSourceStreamArrowWriter"):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:

    class DataSourceStreamArrowWriter(DataSourceStreamWriter):
        """Spark hands over rows of its own instead of record batches; `rows_of` takes both."""


def rows_of(batches: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """The rows that Spark hands to a writer, by the names of their columns."""
    for batch in batches:
        if isinstance(batch, pa.RecordBatch):
            yield from batch.to_pylist()
        else:
            yield batch.asDict()


class UnlimitedStreamReader(DataSourceStreamReader):
    """A stream reader for Spark before 4.2: each micro-batch has all that is stored when it begins.

    Where that is, Spark does not say. It is where the last one ended, which the reader remembers; after a restart Spark
    plans a micro-batch that ends there, an empty one if all were committed, before it asks for the newest offset.
    """

    def __init__(self, reader: DataSourceStreamReader) -> None:
        self._reader = reader
        self._reached: Offset | None = None

    def initialOffset(self) -> Offset:  # noqa: N802
        """Where a new query begins."""
        self._reached = self._reader.initialOffset()
        return self._reached

    def latestOffset(self) -> Offset:  # type: ignore[override]  # noqa: N802  # as it was before Spark 4.2
        """The end of all that is stored."""
        start = self._reached if self._reached is not None else self._reader.initialOffset()
        self._reached = self._reader.latestOffset(start, ReadAllAvailable())
        return self._reached

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Cut a micro-batch into partitions."""
        self._reached = end
        return self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, on a worker."""
        return self._reader.read(partition)

    def stop(self) -> None:
        """Called when the query ends."""
        self._reader.stop()


def check_limit(option: str, value: int | None) -> None:
    """Refuse a limit of micro-batches that Spark would not keep to."""
    if value is not None and not HAS_LIMITS:
        raise OptionError(option, value, "left out with Spark before 4.2, which cannot limit a micro-batch")


__all__ = [
    "HAS_LIMITS",
    "IN_UTC",
    "PUSH_FILTERS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxBytes",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
    "UnlimitedStreamReader",
    "check_limit",
    "rows_of",
]
