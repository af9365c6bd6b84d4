"""Tables of files that a streaming query writes exactly once, also for readers that know nothing of Spark.

Spark's own file sink keeps a list of the valid files beside the table; a reader that does not know the list (pyarrow,
pandas, DuckDB) also sees the files of batches that were interrupted and written again. Here the files that are there
are the table. A micro-batch is appended in three steps:

1. Spark writes its files to a staging directory, which no reader of the table looks into.
2. A manifest that names every staged file and its place in the table is written, and everything is forced to disk. From
   here on the batch counts.
3. The files are taken over into the table: renamed, or copied to an object store under names that are the same however
   often it is done.

A driver that dies before step 2 leaves only staged files, which the next run of the batch throws away; one that dies
later leaves a manifest, and the next run of the batch finishes step 3 instead of computing the batch again. So a file
of the table is never replaced by another content and none is left over, whatever the killed run had done.

Results that change are `heliograph.pipeline.sinks.parquet`'s. What a batch is and when it runs again is
`heliograph.pipeline.running.queries`'s.
"""

import math
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.file_format import FileFormat
from heliograph.pipeline.sinks.ledger import Ledger, Manifest
from heliograph.pipeline.sinks.table_locations import TableLocation
from heliograph.storage.durable_files import force_to_disk

# Of a row before any was written, to begin with.
_ROW_BYTES: Final = 100


@dataclass(frozen=True)
class TargetSize:
    """How large the files of a batch should be, by the batch before; without, each task of Spark writes its own."""

    rows: int | None = None
    bytes: int | None = None

    def rows_of_file(self, before: Manifest | None) -> int | None:
        limits = [self.rows] if self.rows is not None else []
        if self.bytes is not None:
            row_bytes = (
                before.bytes / before.rows if before is not None and before.rows and before.bytes else _ROW_BYTES
            )
            limits.append(max(1, int(self.bytes / row_bytes)))
        return min(limits, default=None)


class AppendTable:
    """Appends micro-batches to a directory of files, each batch exactly once.

    Owned by one query of one driver; it is the only writer of its table. Its state is on disk, so it can be made again
    at any time.
    """

    def __init__(
        self,
        place: TableLocation,
        owner: str,
        file_format: FileFormat,
        partition_by: Sequence[str] = (),
        size: TargetSize | None = None,
        backfill_of: str | None = None,
    ) -> None:
        self._place = place
        self._owner = owner
        self._format = file_format
        self._partition_by = tuple(partition_by)
        self._size = size or TargetSize()
        self._ledger = Ledger(place, owner, backfill_of)

    def __repr__(self) -> str:
        return f"AppendTable({self._place.shown!r})"

    def write(self, rows: DataFrame, batch: int) -> Manifest:
        """Append one micro-batch, or finish appending it; return what it brought."""
        try:
            self._ledger.claim(self._format.suffix)
            manifest = self._ledger.read(batch)
            if manifest is None:
                manifest = self._stage(rows, batch)
            self._place.take({self._ledger.inside(staged): name for staged, name in manifest.files.items()})
            self._ledger.settle()
        except (OSError, pa.ArrowException) as error:
            raise SinkError(f"the table {self._place.shown} cannot be written: {error}") from error
        return manifest

    def rows(self) -> int:
        return self._ledger.rows_total()

    def _stage(self, rows: DataFrame, batch: int) -> Manifest:
        staging = self._ledger.staging
        shutil.rmtree(staging, ignore_errors=True)
        before = self._ledger.newest()
        file_rows = self._size.rows_of_file(before)
        with self._sized(rows, file_rows) as sized:
            row_count = self._format.write(sized, staging, self._partition_by, file_rows)
        files, size = {}, 0
        for number, file in enumerate(self._format.files(staging)):
            name = f"{self._owner[:8]}-{batch:08d}-{number:04d}{self._format.suffix}"
            files[str(file.relative_to(staging.parent))] = str(file.relative_to(staging).parent / name)
            size += file.stat().st_size
            force_to_disk(file)
        force_to_disk(staging)
        total = row_count + (before.rows_total if before is not None else 0)
        manifest = Manifest(batch, row_count, total, files, size)
        self._ledger.record(manifest)
        return manifest

    @contextmanager
    def _sized(self, rows: DataFrame, file_rows: int | None) -> Iterator[DataFrame]:
        """The rows in as few partitions as files of the wanted size need; each partition becomes a file.

        They are computed once, by all cores, and kept by Spark until they are written: how many there are must be known
        before the first file is begun.
        """
        if file_rows is None:
            yield rows
            return
        rows.persist()
        try:
            count = max(1, math.ceil(rows.count() / file_rows))
            # Rows of one value in one partition: otherwise each partition would write a file for each value.
            yield rows.repartition(count, *self._partition_by) if self._partition_by else rows.coalesce(count)
        finally:
            rows.unpersist()
