"""The sink `parquet`: rows as Parquet files, or one file that each micro-batch of a changing result replaces."""

import fcntl
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.files import FilesSink, compression
from heliograph.pipeline.sinks.interface import COLUMNS, MicroBatch, OutputMode, Written, check_key
from heliograph.pipeline.sinks.keyed_rows import keys_of, last_of_each
from heliograph.pipeline.sinks.ledger import check_owner
from heliograph.pipeline.sinks.rejected_rows import faults_of_texts, write_without_rejected
from heliograph.pipeline.sinks.table_locations import TableLocation
from heliograph.settings.fields import list_setting
from heliograph.settings.kinds import RefusedError
from heliograph.storage.durable_files import force_to_disk

_FILE: Final = "table.parquet"
_OWNER: Final = b"heliograph.owner"
_BATCH: Final = b"heliograph.batch"


@dataclass(frozen=True)
class ParquetSink(FilesSink):
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
        return f"Parquet table {self.path}"

    def write(self, rows: DataFrame, batch: MicroBatch) -> Written:
        if self.mode is OutputMode.APPEND:
            return super().write(rows, batch)
        faults = faults_of_texts(rows.schema, self.key)
        return write_without_rejected(rows, batch, faults, lambda kept: self._replace(kept, batch))

    def _replace(self, rows: DataFrame, batch: MicroBatch) -> Written:
        place = self.place(batch.output)
        key = self.key if self.mode is OutputMode.UPDATE else ()
        total = ResultTable(place, batch.backfill_of or batch.owner, key, self.compression).write(rows, batch.number)
        return Written(total)


class ResultTable:
    """A table in one Parquet file that each micro-batch replaces: as a whole, or the rows of the keys that changed.

    The file takes the place of the one before in one step and names the batch it holds, so a reader sees the table
    before a batch or after it and nothing in between. The table passes through the memory of the driver: it is meant
    for results, such as aggregates, not for streams.

    Args:
        owner: Name of the checkpoint that counts the batches; a table belongs to one.
        key: The columns that identify a row; without, a batch is the whole table.
    """

    def __init__(self, place: TableLocation, owner: str, key: Sequence[str] = (), compression: str = "zstd") -> None:
        self._place = place
        self._owner = owner
        self._key = tuple(key)
        self._compression = compression

    def __repr__(self) -> str:
        return f"ResultTable({self._place.shown!r})"

    def write(self, rows: DataFrame, batch: int) -> int:
        """Bring one micro-batch into the table; return how many rows the table has."""
        arrived = rows.toArrow()
        changed = last_of_each(arrived, self._key) if self._key else arrived
        try:
            with self._alone():
                before = self._read()
                table = merge(before, changed, self._key) if before is not None and self._key else changed
                self._replace(table, batch)
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"the table {self._place.shown} cannot be written: {error}") from error
        return int(table.num_rows)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep out a backfill of another process, which would replace the file at the same time."""
        self._place.bookkeeping.mkdir(parents=True, exist_ok=True)
        with (self._place.bookkeeping / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self) -> pa.Table | None:
        opened = self._place.find(_FILE)
        if opened is None:
            return None
        with opened:
            table = pq.read_table(opened)
        found = (table.schema.metadata or {}).get(_OWNER, b"something else").decode()
        check_owner(self._place.shown, found, self._owner)
        return table

    def _replace(self, table: pa.Table, batch: int) -> None:
        metadata = {_OWNER: self._owner.encode(), _BATCH: str(batch).encode()}
        staging = self._place.bookkeeping / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        unfinished = staging / _FILE
        pq.write_table(table.replace_schema_metadata(metadata), unfinished, compression=self._compression)
        force_to_disk(unfinished)
        self._place.take({unfinished: _FILE})


def merge(before: pa.Table, changed: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows of `before` with those of `changed` in the place of rows with the same key; null equals null."""
    replaced = set(keys_of(changed, key))
    kept = [index for index, row in enumerate(keys_of(before, key)) if row not in replaced]
    rows = before.select(changed.column_names).cast(changed.schema).take(pa.array(kept, pa.int64()))
    return pa.concat_tables([rows, changed])
