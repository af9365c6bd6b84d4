"""What the sinks of table formats (Delta Lake, Iceberg) have in common: settings, and what becomes of a batch.

The libraries of Delta Lake and Iceberg write from the driver. A batch that was collected there would have to fit into
its memory, and the first batch of a new query is everything that is stored; so the workers write it to files, as in
parallel as they computed it, and the driver reads these as a stream of record batches. That costs a second writing of
the rows, and as much memory for a large batch as for a small one.
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.file_format import FileFormat
from heliograph.pipeline.sinks.interface import (
    COLUMNS,
    Guarantee,
    MicroBatch,
    OutputMode,
    TableSink,
    Written,
    check_key,
)
from heliograph.pipeline.sinks.outward import OutwardSink
from heliograph.pipeline.sinks.rejected_rows import (
    Naming,
    faults_of_directories,
    faults_of_texts,
    with_valid_texts,
    write_without_rejected,
)
from heliograph.pipeline.sinks.rows import RowField, check_names
from heliograph.pipeline.sinks.table_columns import RowColumn, said_of
from heliograph.pipeline.sinks.table_locations import BOOKKEEPING
from heliograph.settings.fields import list_setting, setting
from heliograph.settings.kinds import Boolean


@dataclass(frozen=True, kw_only=True)
class LakeSink(OutwardSink, TableSink):
    """A sink whose rows go to a table with a log of its own, each batch in one commit that says which it was.

    Attributes:
        mode: Which rows the batches bring: append adds them, update merges them by key, complete replaces all.
        naming: How the library names the directories of partitions.
    """

    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE
    naming: ClassVar[Naming]

    mode: OutputMode = OutputMode.APPEND
    key: tuple[str, ...] = list_setting(
        COLUMNS, (), "Columns that identify a row (mode update); of several rows of a batch the last counts."
    )
    merge_schema: bool = setting(Boolean(), False, "Whether columns that the table does not have yet are added to it.")
    shared: bool = setting(Boolean(), False, "Whether others write to the table too.")

    def __post_init__(self) -> None:
        check_key(self.mode, self.key)

    @property
    def owned(self) -> tuple[str, ...]:
        return () if self.shared else (f"the {self.target}",)

    @property
    def partition_columns(self) -> Sequence[str]:
        raise NotImplementedError

    @property
    def directory_columns(self) -> Sequence[str]:
        """Those whose values become names of directories on a file system."""
        raise NotImplementedError

    def check_fields(self, fields: Sequence[RowField]) -> None:
        check_names(self.partition_columns, fields, "partition_by")
        check_names(self.key, fields, "key")

    def changes(self, fields: Sequence[RowField], output: Path) -> Sequence[str]:
        columns = [RowColumn(field.name, field.kind, field.kind) for field in fields]
        held = self.held_columns(output)
        if held is None:
            return (f"creates the table with {', '.join(map(str, columns))}",)
        missing = [column for column in columns if column.name not in held]
        return said_of(missing, f"the {self.target}", may_add=self.merge_schema)

    def held_columns(self, output: Path) -> Collection[str] | None:
        """The names of the columns of the table; None without a table. Nothing is created."""
        raise NotImplementedError

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        faults = faults_of_texts(rows.schema, rows.columns)
        faults += faults_of_directories(rows.schema, self.directory_columns, self.naming)
        return write_without_rejected(rows, batch, faults, lambda kept: self.write_batch(kept, batch))

    def write_batch(self, rows: DataFrame, batch: MicroBatch) -> Written:
        """Write rows that the table can hold, unless its log has the batch."""
        raise NotImplementedError

    def check_owner(self, found: str, owner: str) -> None:
        """Refuse a table that this checkpoint did not make, unless it is shared."""
        if found != owner and not self.shared:
            raise SinkError(
                f"the {self.target} was made by {found}, not by this checkpoint ({owner}), so this could repeat rows: "
                "write to another table, use the checkpoint that made it, or set shared = true to add to what is there"
            )


@dataclass(frozen=True)
class StagedRows:
    files: tuple[Path, ...]
    schema: pa.Schema
    rows: int

    @property
    def bytes(self) -> int:
        return sum(file.stat().st_size for file in self.files)

    def reader(self) -> pa.RecordBatchReader:
        # Spark writes times in a form (INT96) that Arrow reads in nanoseconds by default.
        options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
        files = [str(file) for file in self.files]
        found = ds.dataset(files, format=ds.ParquetFileFormat(read_options=options)) if files else None
        batches = found.to_batches(batch_readahead=2, fragment_readahead=1) if found is not None else ()
        return pa.RecordBatchReader.from_batches(self.schema, (_as(batch, self.schema) for batch in batches))

    def tables(self, bytes_max: int) -> Iterator[pa.Table]:
        """The rows, if there are any, as tables of about so many bytes in memory."""
        gathered: list[pa.RecordBatch] = []
        for batch in self.reader():
            if batch.num_rows:
                gathered.append(batch)
            if sum(one.nbytes for one in gathered) >= bytes_max:
                yield pa.Table.from_batches(gathered, self.schema)
                gathered = []
        if gathered:
            yield pa.Table.from_batches(gathered, self.schema)


@contextmanager
def staged_rows(rows: DataFrame, output: Path, table: str) -> Iterator[StagedRows]:
    """Compute the rows of a batch into files; they are removed afterwards, and those of a run that was killed before.

    A text that is not UTF-8 fails: the libraries would write it as it is, and no reader could read the table.
    """
    directory = output / BOOKKEEPING / table / "staging"
    shutil.rmtree(directory, ignore_errors=True)
    file_format = FileFormat("parquet", "snappy")
    try:
        count = file_format.write(with_valid_texts(rows), directory, (), None)
        schema = pa.schema([_nullable(column) for column in to_arrow_schema(rows.schema, timezone="UTC")])
        yield StagedRows(tuple(file_format.files(directory)), schema, count)
    except OSError as error:
        raise SinkError(f"the rows of {table} cannot be kept in {directory}: {error}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _nullable(column: pa.Field) -> pa.Field:
    """A column that may be null: that none is null in this batch is no promise for the next."""
    kind = column.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_nullable(inner) for inner in kind])
    elif pa.types.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    elif pa.types.is_map(kind):
        kind = pa.map_(kind.key_field, _nullable(kind.item_field))
    return pa.field(column.name, kind)


def _as(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = [batch.column(number).cast(field.type) for number, field in enumerate(schema)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
