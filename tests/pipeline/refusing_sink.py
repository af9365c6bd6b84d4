"""A sink that refuses some rows, and fails behind its commit, when a test says so."""

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from pyspark.sql import DataFrame

from heliograph.pipeline.sinks import MicroBatch, Written
from heliograph.pipeline.sinks.parquet import ParquetSink
from heliograph.pipeline.sinks.spark.arrow_rows import ArrowRows


@dataclass(frozen=True)
class RefusingSink(ParquetSink):
    """A Parquet sink that will not have some values.

    Attributes:
        refused: Those values, by their columns.
        fails_once: Why it fails behind its next commits, one for each.
    """

    refused: ClassVar[dict[str, set[Any]]] = {}
    fails_once: ClassVar[list[str]] = []

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """See `Sink.write`."""
        kept = rows
        for column, refused in self.refused.items():
            kept = kept.where(~kept[column].isin(list(refused)))
        given = ArrowRows(rows)
        for chunk in given.chunks(10) if self.refused else ():
            for values in map(partial(given.row, chunk), range(chunk.num_rows)):
                for column, refused in self.refused.items():
                    if values[column] in refused:
                        batch.refuse(values, f"{values[column]} is taken")
        written = super().write(kept, batch)
        if self.fails_once:
            raise RuntimeError(self.fails_once.pop())
        return written
