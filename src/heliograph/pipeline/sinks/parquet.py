"""The sink `parquet`: rows as Parquet files in a directory or an object store."""

from dataclasses import dataclass
from typing import ClassVar, Self

from pyspark.sql import DataFrame

from heliograph.pipeline.files.section import Section
from heliograph.pipeline.sinks.files import FilesSink
from heliograph.pipeline.sinks.interface import MicroBatch, OutputMode, Written
from heliograph.pipeline.sinks.rejected_rows import faults_of_texts, write_without_rejected
from heliograph.pipeline.sinks.result_table import ResultTable
from heliograph.pipeline.sinks.table_locations import open_location


@dataclass(frozen=True)
class ParquetSink(FilesSink):
    """Rows go to Parquet files: final ones to more and more of them, a result that changes to one."""

    format_name: ClassVar[str] = "parquet"
    more_keys: ClassVar[tuple[str, ...]] = ("key",)

    @classmethod
    def read(cls, section: Section, mode: OutputMode, more_keys: tuple[str, ...]) -> Self:
        """See `Sink.read`."""
        sink = super().read(section, mode, more_keys)
        for key in ("partition_by", "target_file_rows", "target_file_bytes"):
            if mode is not OutputMode.APPEND and key in section.fields:
                raise section.mistake(f"{section.path}.{key} is for mode append: a result that changes is one file")
        if mode is OutputMode.UPDATE and not sink.key:
            raise section.mistake(f"{section.path} has no key: mode update needs the columns that identify a row")
        return sink

    @classmethod
    def check_mode(cls, section: Section, mode: OutputMode) -> None:
        """It takes all of them."""

    @property
    def target(self) -> str:
        """The table."""
        return f"Parquet table {self.path}"

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Append to the table, or bring it up to date."""
        if self.mode is OutputMode.APPEND:
            return super().write(rows, batch)
        faults = faults_of_texts(rows.schema, self.key)
        return write_without_rejected(rows, batch, faults, lambda kept: self._replace(kept, batch))

    def _replace(self, rows: DataFrame, batch: MicroBatch) -> Written:
        place = open_location(self.path, self.storage_options, batch.output)
        key = self.key if self.mode is OutputMode.UPDATE else ()
        total = ResultTable(place, batch.backfill_of or batch.owner, key, self.compression or "zstd").write(
            rows, batch.number
        )
        return Written(total)
