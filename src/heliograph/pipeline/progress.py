"""The figures of running queries: what each has read and written, how far it is behind, and how often it failed.

Spark reports a progress for each micro-batch; `QueryFigures` adds them up over the restarts of a query. Here are also
the forms in which people and programs get them: a line for the log, a table at the end, and a JSON document.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from heliograph.pipeline.source import offset_positions

STARTING: Final = "starting"
RUNNING: Final = "running"
WAITING: Final = "waiting to restart"
FINISHED: Final = "finished"
FAILED: Final = "failed"


@dataclass
class QueryFigures:
    """What one query has done since its driver started.

    Attributes:
        name: Name of the query.
        state: What it is doing now.
        batches: Micro-batches that were completed.
        rows_read: Messages read.
        rows_failed: Messages on which the rule failed, so that they gave no row.
        rows_refused: Rows that lacked a column which the sink requires.
        rows_written: Rows given to the sink.
        rows_late: Rows that came later than the watermark allows and were left out.
        batch_ms: Duration of the last micro-batch.
        lag: Messages stored and not read yet; None when it could not be asked.
        restarts: How often it was started again after a failure.
        last_error: The last failure, in a sentence.
    """

    name: str
    state: str = STARTING
    batches: int = 0
    rows_read: int = 0
    rows_failed: int = 0
    rows_refused: int = 0
    rows_written: int = 0
    rows_late: int = 0
    batch_ms: int = 0
    lag: int | None = None
    restarts: int = 0
    last_error: str | None = None
    positions: dict[str, str] = field(default_factory=dict, repr=False)

    def add(self, progress: Mapping[str, Any], output: str, rule: str, refused: str) -> None:
        """Take in the progress of one micro-batch.

        Args:
            progress: Spark's JSON of it.
            output: Name of the metrics of the query's output.
            rule: Name of the metrics of the rule.
            refused: Name of the metrics of rows that the sink did not get.
        """
        sources = progress.get("sources", ())
        for source in sources:
            self.positions = offset_positions(source.get("endOffset")) or self.positions
        observed = progress.get("observedMetrics", {})
        self.rows_read += sum(source.get("numInputRows", 0) for source in sources)
        self.rows_failed += (observed.get(rule) or {}).get("failed", 0)
        self.rows_refused += (observed.get(refused) or {}).get("rows", 0)
        self.rows_written += (observed.get(output) or {}).get("rows", 0)
        self.rows_late += sum(operator.get("numRowsDroppedByWatermark", 0) for operator in progress["stateOperators"])
        self.batch_ms = progress.get("batchDuration", 0)
        self.batches += 1

    def to_json(self) -> dict[str, Any]:
        """The figures as a JSON object."""
        return {
            "name": self.name,
            "state": self.state,
            "batches": self.batches,
            "rows_read": self.rows_read,
            "rows_failed": self.rows_failed,
            "rows_refused": self.rows_refused,
            "rows_written": self.rows_written,
            "rows_late": self.rows_late,
            "batch_ms": self.batch_ms,
            "lag": self.lag,
            "restarts": self.restarts,
            "last_error": self.last_error,
        }

    def log_line(self) -> str:
        """The figures as one line."""
        late = f", {self.rows_late:,} too late" if self.rows_late else ""
        failed = f", {self.rows_failed:,} failed" if self.rows_failed else ""
        failed += f", {self.rows_refused:,} refused" if self.rows_refused else ""
        lag = "unknown" if self.lag is None else f"{self.lag:,}"
        batch = f"batch {self.batches} took {self.batch_ms} ms" if self.batches else "no batch yet"
        return (
            f"{self.name}: {self.state}, {batch}, {self.rows_read:,} read, "
            f"{self.rows_written:,} written{failed}{late}, lag {lag}"
        )


def summary_table(figures: Sequence[QueryFigures]) -> str:
    """The figures of all queries as a table for people."""
    head = ("query", "state", "batches", "read", "failed", "refused", "written", "late", "lag", "restarts")
    lines = [head, *(_cells(query) for query in figures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rows = [
        "  ".join(cell.ljust(width) if column < 2 else cell.rjust(width) for column, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    ]
    errors = [f"{query.name}: {query.last_error}" for query in figures if query.last_error]
    return "\n".join([*rows, *errors])


def _cells(query: QueryFigures) -> tuple[str, ...]:
    lag = "?" if query.lag is None else f"{query.lag:,}"
    numbers = (
        query.batches,
        query.rows_read,
        query.rows_failed,
        query.rows_refused,
        query.rows_written,
        query.rows_late,
    )
    return (query.name, query.state, *(f"{number:,}" for number in numbers), lag, f"{query.restarts:,}")
