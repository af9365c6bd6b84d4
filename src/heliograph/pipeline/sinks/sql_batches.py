"""One micro-batch into an SQL database, exactly once: the rows and a note that they are there, in one transaction.

The note is a row of the ledger, a table in the same database: which batch of which query was written last. A batch that
is run again finds itself there and does nothing, whatever was killed, and whether or not the commit was answered.

Rows that the database will never take (a value out of range, a constraint) are found by halving the chunk in which they
are, behind savepoints. The rest of the batch is written. The refused rows are reported before the commit: after it, a
repeated batch would not find them any more.

A row whose statement always times out would hold up all others. Where a batch has failed for that as often as it is
tried, its rows are tried one by one, and one that times out while others do not is refused.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import MicroBatch, Written
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy, TransientError
from heliograph.pipeline.sinks.rows import Rows

_log = logging.getLogger(__name__)

# Rows of a batch that may be slow: each costs two timeouts to find.
_SLOW_MAX: Final = 3


class SlowStatementError(TransientError):
    """The time of a statement was over: the database is slow, or what one row has it do."""


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
    slow: dict[int, str] = {}

    def attempt() -> _Outcome:
        return _write_once(connect, rows, batch, chunk_rows, replace, reports, slow)

    try:
        outcome = attempts.run(attempt)
    except SinkError as error:
        if replace or not isinstance(error.__cause__, SlowStatementError):
            raise
        with suppress(TransientError, SinkError):  # the database is away by now
            slow.update(_slow_rows(connect, rows, chunk_rows))
        if not slow:
            raise
        outcome = attempts.run(attempt)
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
    slow: Mapping[int, str],
) -> _Outcome:
    outcome = _Outcome()
    with connect() as transaction:
        last = transaction.last_batch(batch.owner, batch.query)
        if last is not None and last >= batch.number:
            outcome.is_repeated = True
            return outcome
        if replace:
            transaction.empty_table()
        begin = 0
        for chunk in rows.chunks(chunk_rows):
            left_out = {place: slow[begin + place] for place in range(chunk.num_rows) if begin + place in slow}
            outcome.refused += [(rows.row(chunk, place), reason) for place, reason in left_out.items()]
            begin += chunk.num_rows
            if left_out:
                chunk = chunk.take(pa.array([place for place in range(chunk.num_rows) if place not in left_out]))
            if chunk.num_rows:
                _write_halving(transaction, rows, chunk, outcome)
        transaction.record(batch.owner, batch.query, batch.number)
        reports.add(outcome.refused)
        transaction.commit()
    return outcome


def _slow_rows(
    connect: Callable[[], AbstractContextManager[SqlTransaction]], rows: Rows, chunk_rows: int
) -> dict[int, str]:
    """The rows whose statements time out twice while those of others before or between and after them do not.

    They are tried one by one, and all of it is undone. None are found where two in a row time out, or more than a few:
    then the database is slow, or locked.

    Returns:
        The reasons, by the numbers of the rows.
    """
    singles = [chunk.slice(place, 1) for chunk in rows.chunks(chunk_rows) for place in range(chunk.num_rows)]
    found: dict[int, str] = {}
    witness: pa.RecordBatch | None = None
    begin = 0
    while begin < len(singles):
        count, reason = _passing(connect, singles[begin:])
        if count:
            witness = singles[begin]
        if reason is None:
            break
        if (found and not count) or len(found) == _SLOW_MAX:
            return {}
        found[begin + count] = reason
        begin += count + 1
    if witness is None:
        return {}
    again = {number: reason for number, reason in found.items() if _passing(connect, [singles[number]])[1] is not None}
    return again if _passing(connect, [witness])[1] is None else {}


def _passing(
    connect: Callable[[], AbstractContextManager[SqlTransaction]], singles: Sequence[pa.RecordBatch]
) -> tuple[int, str | None]:
    """How many of some rows the database answers until one is slow, and why that is so; None where none is."""
    count = 0
    try:
        with connect() as transaction:
            for one in singles:
                with suppress(RefusedRowsError):
                    transaction.write(one)
                count += 1
    except SlowStatementError as error:
        return count, str(error)
    return count, None


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
