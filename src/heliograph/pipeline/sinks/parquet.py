"""The sink `parquet`: rows as Parquet files in a directory or an object store."""

from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from heliograph.pipeline.sinks.files import FilesSink, compression
from heliograph.pipeline.sinks.interface import COLUMNS, MicroBatch, OutputMode, Written, check_key
from heliograph.pipeline.sinks.rejected_rows import faults_of_texts, write_without_rejected
from heliograph.pipeline.sinks.result_table import ResultTable
from heliograph.pipeline.sinks.table_locations import open_location
from heliograph.settings.fields import list_setting
from heliograph.settings.kinds import RefusedError


@dataclass(frozen=True)
class ParquetSink(FilesSink):
    """Rows go to Parquet files: final ones to more and more of them, a result that changes to one."""

    modes: ClassVar[tuple[OutputMode, ...]] = tuple(OutputMode)
    format_name: ClassVar[str] = "parquet"

    compression: str = compression("parquet")
    key: tuple[str, ...] = list_setting(COLUMNS, (), "Columns that identify a row (mode update).")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("partition_by", "target_file_rows", "target_file_bytes"):
            if self.mode is not OutputMode.APPEND and getattr(self, name):
                raise RefusedError("is for mode append: a result that changes is one file", name)
        check_key(self.mode, self.key)

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
        total = ResultTable(place, batch.backfill_of or batch.owner, key, self.compression).write(rows, batch.number)
        return Written(total)
