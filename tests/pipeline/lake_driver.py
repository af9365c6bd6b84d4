"""Processes that commit batches to a lake and die at each step of it, as by kill -9; run by the tests of the lakes.

`python lake_driver.py KIND MODE OUTPUT FILE...` brings the rows of the files, one after another, each by a process for
each step, and says in JSON how each of these ended. The rows were staged before, so that none of them needs Spark; they
are forked from one that has imported everything and started nothing.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

from heliograph.pipeline.sinks.delta import DeltaSink
from heliograph.pipeline.sinks.iceberg import IcebergSink
from heliograph.pipeline.sinks.interface import Batch, OutputMode
from heliograph.pipeline.sinks.staged_rows import StagedRows

#: Where it dies: the table was looked at; all rows are read; files are written; everything counts; nowhere.
STEPS = ("opened", "reading", "files", "committed", "never")


def main(kind: str, mode: str, output: str, *files: str) -> None:
    """Bring every batch, dying at every step."""
    ends = []
    for number, file in enumerate(files):
        for step in STEPS:
            child = os.fork()
            if child == 0:
                _bring(kind, OutputMode(mode), Path(output), Path(file), number, step)
                os._exit(0)
            _, status = os.waitpid(child, 0)
            ends.append([number, step, os.waitstatus_to_exitcode(status)])
    sys.stdout.write(json.dumps(ends))


def _bring(kind: str, mode: OutputMode, output: Path, file: Path, number: int, step: str) -> None:
    staged_as = _Dying if step == "reading" else StagedRows
    staged = staged_as((file,), pq.read_schema(file), pq.read_metadata(file).num_rows)
    batch = Batch("obs", "owner-1", number, output, "", lambda row, reason: None)
    key = ("station",) if mode is OutputMode.UPDATE else ()
    if step == "files":
        setattr(SqlCatalog, "commit_table", lambda *_: _die())  # noqa: B010 (mypy refuses the plain assignment)
    if kind == "delta":
        delta = DeltaSink("obs", mode, key=key)
        table = delta._open(batch)
        if not delta.has(table, batch):
            _die_at(step, "opened")
            delta.commit(table, staged, batch)
    else:
        iceberg = IcebergSink("default.obs", mode, key=key)
        found = iceberg.find(batch)
        if found is None or not iceberg.has(found, batch):
            found = found or iceberg.create(staged.schema, batch)
            _die_at(step, "opened")
            iceberg.commit(found, staged, batch)
    _die_at(step, "committed")


class _Dying(StagedRows):
    """Rows whose reader dies at their end."""

    def reader(self) -> pa.RecordBatchReader:
        """See `StagedRows`."""

        def batches() -> Iterator[pa.RecordBatch]:
            yield from StagedRows(self.files, self.schema, self.rows).reader()
            _die()

        return pa.RecordBatchReader.from_batches(self.schema, batches())


def _die_at(step: str, here: str) -> None:
    if step == here:
        _die()


def _die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
