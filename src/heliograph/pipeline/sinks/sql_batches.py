"""One micro-batch into an SQL database, exactly once: the rows and a note that they are there, in one transaction.

The note is a row of the ledger, a table in the same database: which batch of which query was written last. A batch that
is run again finds itself there and does nothing, whatever was killed, and whether or not the commit was answered.

Rows that the database will never take (a value out of range, a constraint) are found by halving the chunk in which they
are, behind savepoints. The rest of the batch is written. The refused rows are reported before the commit: after it, a
repeated batch would not find them any more.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from heliograph.pipeline.sinks.interface import MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy
from heliograph.pipeline.sinks.rows import Rows

_log = logging.getLogger(__name__)


class RefusedRowsError(Exception):
    """The database will never take a row of a chunk. It does not leave the sinks."""


def python_rows(chunk: pa.RecordBatch, names: Sequence[str]) -> list[tuple[Any, ...]]:
    """The rows of a chunk as tuples of columns, for a library that takes parameters."""
    try:
        return list(zip(*(chunk.column(name).to_pylist() for name in names), strict=True))
    except (ValueError, OverflowError) as error:
        raise RefusedRowsError(f"a value cannot be sent: {error}") from error


class SqlTransaction(Protocol):
    """A connection in which one batch is written in one transaction. What it raises is of `retry` and this module."""

    def last_batch(self, owner: str, query: str) -> int | None:
        """The number of the last batch of a query; it is locked until the transaction ends."""

    def empty_table(self) -> None: ...

    def write(self, chunk: pa.RecordBatch) -> None:
        """Write rows, all of them or none."""

    def record(self, owner: str, query: str, batch: int) -> None: ...

    def commit(self) -> None: ...


@dataclass
class _Outcome:
    rows: int = 0
    bytes: int = 0
    is_repeated: bool = False
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)


def write_exactly_once(
    connect: Callable[[], AbstractContextManager[SqlTransaction]],
    rows: Rows,
    batch: MicroBatch,
    policy: RetryPolicy,
    *,
    chunk_rows: int,
    replace: bool,
) -> Written:
    """Write a batch, or find that it was written.

    Args:
        connect: Opens a connection and begins a transaction; leaving the context undoes what was not committed.
    """
    attempts = Attempts(policy, tell=batch.tell_retry)
    reports = RefusalReports(batch)
    outcome = attempts.run(lambda: _write_once(connect, rows, batch, chunk_rows, replace, reports))
    if outcome.is_repeated:
        _log.info("%s: batch %d was written before and is left as it is", batch.query, batch.number)
    figures = {"rows": outcome.rows, "bytes": outcome.bytes, "retries": attempts.retries}
    return Written(figures=figures | {"refused": len(outcome.refused), "repeated": int(outcome.is_repeated)})


class RefusalReports:
    """Reports the refused rows of a batch, each once however often the batch is tried."""

    def __init__(self, batch: MicroBatch) -> None:
        self._batch = batch
        self._reported: list[tuple[dict[str, Any], str]] = []

    def add(self, refused: Sequence[tuple[dict[str, Any], str]]) -> None:
        before = list(self._reported)
        for each in refused:
            if each in before:
                before.remove(each)
                continue
            self._batch.refuse(*each)
            self._reported.append(each)


def _write_once(
    connect: Callable[[], AbstractContextManager[SqlTransaction]],
    rows: Rows,
    batch: MicroBatch,
    chunk_rows: int,
    replace: bool,
    reports: RefusalReports,
) -> _Outcome:
    outcome = _Outcome()
    with connect() as transaction:
        last = transaction.last_batch(batch.owner, batch.query)
        if last is not None and last >= batch.number:
            outcome.is_repeated = True
            return outcome
        if replace:
            transaction.empty_table()
        for chunk in rows.chunks(chunk_rows):
            _write_halving(transaction, rows, chunk, outcome)
        transaction.record(batch.owner, batch.query, batch.number)
        reports.add(outcome.refused)
        transaction.commit()
    return outcome


def _write_halving(transaction: SqlTransaction, rows: Rows, chunk: pa.RecordBatch, outcome: _Outcome) -> None:
    parts = [chunk]
    while parts:
        part = parts.pop()
        try:
            transaction.write(part)
        except RefusedRowsError as error:
            if part.num_rows == 1:
                outcome.refused.append((rows.row(part, 0), str(error)))
                continue
            half = part.num_rows // 2
            parts += [part.slice(half), part.slice(0, half)]
        else:
            outcome.rows += part.num_rows
            outcome.bytes += part.nbytes
