"""Brings batches to a lake and dies at each step of it; run by the tests of the lakes.

`python -m pipeline.lake_driver OUTPUT FILE...` brings the rows of the files, one after another, in each output mode to
a table of its own in each kind of lake. The rows were staged before, so that no process needs Spark.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

# What the sinks and their libraries import when they first need it, which each process would do again.
import deltalake.query
import deltalake.writer.convert_to  # noqa: F401
import pyarrow as pa
import pyarrow.parquet as pq
import pyiceberg.io.pyarrow
import pyiceberg.table.deletion_vector  # noqa: F401
import rich.console
import rich.table  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401
from pyiceberg.catalog.sql import SqlCatalog

from heliograph.pipeline.sinks.delta import DeltaSink
from heliograph.pipeline.sinks.iceberg import IcebergSink
from heliograph.pipeline.sinks.interface import MicroBatch, OutputMode
from heliograph.pipeline.sinks.lakes import StagedRows
from support.dying import bring_each, die, die_at

#: Where it dies: the table was looked at; all rows are read; files are written; everything counts.
STEPS = {
    "delta": ("opened", "reading", "committed"),
    "iceberg": ("opened", "reading", "files", "committed"),
}


def main(output: str, *files: str) -> None:
    """Bring every batch, dying at every step."""

    def bring(name: str, file: Path, number: int, step: str) -> None:
        kind, mode = name.split()
        _bring(kind, OutputMode(mode), Path(output) / kind, file, number, step)

    names = {f"{kind} {mode.value}": steps for kind, steps in STEPS.items() for mode in OutputMode}
    bring_each([Path(file) for file in files], names, bring)


def _bring(kind: str, mode: OutputMode, output: Path, file: Path, number: int, step: str) -> None:
    staged_as = _Dying if step == "reading" else StagedRows
    staged = staged_as((file,), pq.read_schema(file), pq.read_metadata(file).num_rows)
    batch = MicroBatch(mode.value, "owner-1", number, output, "", lambda row, reason: None)
    key = ("station",) if mode is OutputMode.UPDATE else ()
    if step == "files":
        setattr(SqlCatalog, "commit_table", die)  # noqa: B010 (mypy refuses the plain assignment)
    if kind == "delta":
        delta = DeltaSink(mode.value, mode=mode, key=key)
        table = delta.find(batch)
        if not delta.has(table, batch):
            die_at(step, "opened")
            delta.commit(table, staged, batch)
    else:
        iceberg = IcebergSink(f"default.{mode}", mode=mode, key=key)
        found = iceberg.find(batch)
        if found is None or not iceberg.has(found, batch):
            found = found or iceberg.create(staged.schema, batch)
            die_at(step, "opened")
            iceberg.commit(found, staged, batch)
    die_at(step, "committed")


class _Dying(StagedRows):
    """Rows whose reader dies at their end."""

    def reader(self) -> pa.RecordBatchReader:
        """See `StagedRows`."""

        def batches() -> Iterator[pa.RecordBatch]:
            yield from StagedRows(self.files, self.schema, self.rows).reader()
            die()

        return pa.RecordBatchReader.from_batches(self.schema, batches())


if __name__ == "__main__":
    main(*sys.argv[1:])
