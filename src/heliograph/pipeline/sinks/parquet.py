"""The sink `parquet`: a table in Parquet files on this machine's file system."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import ClassVar, Self

from pyspark.sql import DataFrame

from heliograph.pipeline.section import Section
from heliograph.pipeline.sinks.interface import Batch, Guarantee, OutputMode, Written
from heliograph.pipeline.sinks.parquet_tables import ParquetAppend, ParquetTable


@dataclass(frozen=True)
class ParquetSink:
    """Rows go to a directory of Parquet files.

    Attributes:
        path: Directory of the table below the pipeline's output directory.
        mode: Which rows the batches bring: those of append are final, the others are a result that changes.
        partition_by: Columns that become directories.
        key: Columns that identify a row of a result that changes (mode update).
    """

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    path: str
    mode: OutputMode = OutputMode.APPEND
    partition_by: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        section.check_keys("type", "path", "partition_by", "key", *more_keys)
        sink = cls(table_path(section), mode, section.names("partition_by"), section.names("key"))
        if mode is not OutputMode.APPEND and sink.partition_by:
            raise section.mistake(f"{section.path}.partition_by is for mode append: a result that changes is one file")
        if mode is OutputMode.UPDATE and not sink.key:
            raise section.mistake(f"{section.path} has no key: mode update needs the columns that identify a row")
        return sink

    @property
    def owned(self) -> tuple[str, ...]:
        """The table."""
        return (f"the table {self.path}",)

    @property
    def target(self) -> str:
        """The table."""
        return f"Parquet table {self.path}"

    def write(self, rows: DataFrame, batch: Batch) -> Written:
        """Append to the table, or bring it up to date."""
        if self.mode is OutputMode.APPEND:
            append = ParquetAppend(batch.output, self.path, batch.owner, self.partition_by)
            return Written(append.write(rows, batch.number))
        key = self.key if self.mode is OutputMode.UPDATE else ()
        return Written(ParquetTable(batch.output, self.path, batch.owner, key).write(rows, batch.number))


def table_path(section: Section) -> str:
    """The key `path` of a sink whose table lies below the output directory."""
    path = section.text("path")
    parts = PurePosixPath(path).parts
    if PurePosixPath(path).is_absolute() or any(part.startswith((".", "_")) for part in parts):
        raise section.mistake(
            f"{section.path}.path is {path!r}, but must be a path below the output directory without a leading . or _",
            section.fields["path"],
        )
    return path
