"""Parquet tables that a streaming query writes exactly once, also for readers that know nothing of Spark.

Spark's own file sink keeps a list of the valid files beside the table; a reader that does not know the list (pyarrow,
pandas, DuckDB) also sees the files of batches that were interrupted and written again. Here the files that are there
are the table. A micro-batch is appended in three steps:

1. Spark writes its files to a staging directory, which no reader of the table looks into.
2. A manifest that names every staged file and its place in the table is written, and everything is forced to disk. From
   here on the batch counts.
3. The files are renamed into the table.

A driver that dies before step 2 leaves only staged files, which the next run of the batch throws away; one that dies
later leaves a manifest, and the next run of the batch finishes step 3 instead of computing the batch again. So a file
of the table is never replaced by another content and none is left over, whatever the killed run had done.

`ParquetAppend` is for rows that are final, `ParquetTable` for results that change (a table in one file that is replaced
as a whole). What a batch is and when it runs again is `heliograph.pipeline.queries`'s.
"""

import json
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from heliograph.pipeline.errors import SinkError

#: Directory beside the tables of an output directory; readers skip it for its leading dot.
BOOKKEEPING: Final = ".heliograph"

# Spark runs the last batch again at most; the others tell a person what was written when.
_MANIFESTS_KEPT: Final = 100

_TABLE_FILE: Final = "table.parquet"
_OWNER: Final = b"heliograph.owner"
_BATCH: Final = b"heliograph.batch"


class ParquetAppend:
    """Appends micro-batches to a directory of Parquet files, each batch exactly once.

    Owned by one query of one driver; it is the only writer of its table. Its state is on disk, so it can be made anew
    at any time.
    """

    def __init__(self, output: Path, table: str, owner: str, partition_by: Sequence[str] = ()) -> None:
        """Describe the table.

        Args:
            output: The directory of all tables.
            table: Path of the table in it.
            owner: Name of the checkpoint that counts the batches; a table belongs to one.
            partition_by: Columns that become directories.
        """
        self._table = output / table
        self._bookkeeping = output / BOOKKEEPING / table
        self._owner = owner
        self._partition_by = tuple(partition_by)

    def __repr__(self) -> str:
        return f"ParquetAppend({str(self._table)!r})"

    def write(self, rows: DataFrame, batch: int) -> int:
        """Append one micro-batch, or finish appending it; return how many rows the table has from all batches.

        Raises:
            SinkError: The table belongs to another checkpoint, or cannot be written.
        """
        try:
            self._claim()
            manifest = self._read_manifest(batch)
            if manifest is None:
                manifest = self._stage(rows, batch)
            self._publish(manifest)
        except OSError as error:
            raise SinkError(f"the table {self._table} cannot be written: {error}") from error
        return int(manifest["rows_total"])

    def rows(self) -> int:
        """How many rows the table has from all batches."""
        newest = max(self._manifests(), default=None)
        manifest = self._read_manifest(newest) if newest is not None else None
        return int(manifest["rows_total"]) if manifest is not None else 0

    def _claim(self) -> None:
        owner_file = self._bookkeeping / "owner"
        if owner_file.exists():
            _check_owner(self._table, owner_file.read_text(), self._owner)
            return
        if self._table.exists() and any(self._table.rglob("*.parquet")):
            _check_owner(self._table, "something else", self._owner)
        self._bookkeeping.mkdir(parents=True, exist_ok=True)
        _write_durably(owner_file, self._owner.encode())

    def _stage(self, rows: DataFrame, batch: int) -> dict[str, Any]:
        staging = self._bookkeeping / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        writer = rows.write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        if self._partition_by:
            writer = writer.partitionBy(*self._partition_by)
        writer.parquet(str(staging.resolve()))
        files = {}
        row_count = 0
        for number, file in enumerate(sorted(staging.rglob("*.parquet"))):
            place = file.relative_to(staging).parent / f"{self._owner[:8]}-{batch:08d}-{number:04d}.parquet"
            files[str(file.relative_to(self._bookkeeping))] = str(place)
            row_count += pq.read_metadata(file).num_rows
            _force_to_disk(file)
        manifest = {"batch": batch, "rows": row_count, "rows_total": self.rows() + row_count, "files": files}
        _force_to_disk(staging)
        _write_durably(self._manifest_file(batch), json.dumps(manifest).encode())
        return manifest

    def _publish(self, manifest: dict[str, Any]) -> None:
        touched = set()
        for staged, place in manifest["files"].items():
            source, target = self._bookkeeping / staged, self._table / place
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)
                touched.add(target.parent)
        for directory in touched:
            _force_to_disk(directory)
        shutil.rmtree(self._bookkeeping / "staging", ignore_errors=True)
        for old in sorted(self._manifests())[:-_MANIFESTS_KEPT]:
            self._manifest_file(old).unlink(missing_ok=True)

    def _manifest_file(self, batch: int) -> Path:
        return self._bookkeeping / "batches" / f"{batch:08d}.json"

    def _manifests(self) -> Iterable[int]:
        return [int(file.stem) for file in (self._bookkeeping / "batches").glob("*.json")]

    def _read_manifest(self, batch: int) -> dict[str, Any] | None:
        try:
            manifest: dict[str, Any] = json.loads(self._manifest_file(batch).read_bytes())
        except FileNotFoundError:
            return None
        return manifest


class ParquetTable:
    """A table in one Parquet file that each micro-batch replaces: as a whole, or the rows of the keys that changed.

    The rename of the new file over the old is the commit, and the file names the batch it holds, so a reader sees the
    table before a batch or after it and nothing in between. The table passes through the memory of the driver: it is
    meant for results, such as aggregates, not for streams.
    """

    def __init__(self, output: Path, table: str, owner: str, key: Sequence[str] = ()) -> None:
        """Describe the table.

        Args:
            output: The directory of all tables.
            table: Path of the table in it.
            owner: Name of the checkpoint that counts the batches; a table belongs to one.
            key: The columns that identify a row; without, a batch is the whole table.
        """
        self._file = output / table / _TABLE_FILE
        self._owner = owner
        self._key = tuple(key)

    def __repr__(self) -> str:
        return f"ParquetTable({str(self._file)!r})"

    def write(self, rows: DataFrame, batch: int) -> int:
        """Bring one micro-batch into the table; return how many rows the table has.

        Raises:
            SinkError: The table belongs to another checkpoint, or cannot be written.
        """
        try:
            before = self._read()
            table = rows.toArrow()
            if before is not None and self._key:
                table = merge(before, table, self._key)
            self._replace(table, batch)
        except OSError as error:
            raise SinkError(f"the table {self._file} cannot be written: {error}") from error
        return int(table.num_rows)

    def rows(self) -> int:
        """How many rows the table has."""
        return int(pq.read_metadata(self._file).num_rows) if self._file.exists() else 0

    def _read(self) -> pa.Table | None:
        if not self._file.exists():
            return None
        table = pq.read_table(self._file, partitioning=None)
        _check_owner(self._file, (table.schema.metadata or {}).get(_OWNER, b"something else").decode(), self._owner)
        return table

    def _replace(self, table: pa.Table, batch: int) -> None:
        metadata = {_OWNER: self._owner.encode(), _BATCH: str(batch).encode()}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        # The leading dot hides an unfinished file from readers of the directory.
        unfinished = self._file.with_name(f".{_TABLE_FILE}.unfinished")
        pq.write_table(table.replace_schema_metadata(metadata), unfinished, compression="zstd")
        _force_to_disk(unfinished)
        unfinished.rename(self._file)
        _force_to_disk(self._file.parent)


def merge(before: pa.Table, changed: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows of `before` with those of `changed` in the place of rows with the same key; null equals null."""
    replaced = set(_keys(changed, key))
    kept = [index for index, row in enumerate(_keys(before, key)) if row not in replaced]
    rows = before.select(changed.column_names).cast(changed.schema).take(pa.array(kept, pa.int64()))
    return pa.concat_tables([rows, changed])


def _keys(table: pa.Table, key: Sequence[str]) -> Iterable[tuple[object, ...]]:
    return zip(*(table.column(name).to_pylist() for name in key), strict=True)


def _check_owner(table: Path, found: str, owner: str) -> None:
    if found != owner:
        raise SinkError(
            f"the table {table} was written by {found}, not by this checkpoint ({owner}), so this could repeat "
            "rows: give another --output, use the checkpoint that wrote it, or remove the table"
        )


def _write_durably(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_bytes(content)
    _force_to_disk(unfinished)
    unfinished.rename(file)
    _force_to_disk(file.parent)


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
