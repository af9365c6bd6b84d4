"""The figures of running queries: what each has read and written, how far it is behind, and how often it failed.

Here are also the forms in which people and programs get them: a line for the log, a table at the end, and a JSON
document.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from heliograph.pipeline.running.views import ViewInput

STARTING: Final = "starting"
RUNNING: Final = "running"
#: Its sink tries again within a micro-batch, after a failure that may pass.
RETRYING: Final = "retrying"
WAITING: Final = "waiting to restart"
#: Of a query whose driver, or whose Spark, ended without ending it.
INTERRUPTED: Final = "interrupted"
FINISHED: Final = "finished"
FAILED: Final = "failed"


@dataclass
class QueryFigures:
    """What one query has done since its driver started.

    Attributes:
        decode_failed: Messages of its sources that could not be decoded, or not all of whose fields could.
        rows_refused: Rows that lacked a column which the sink requires, or that the sink refused.
        rows_written: Rows given to the sink, without those that it refused.
        rows_total: Rows that the target holds, where the sink knows.
        rows_late: Rows that came later than the watermark allows and were left out, as Spark counts them.
        rows_fallen_back: Of the refused ones, those that fallback actions took.
        rows_lost: Rows at least that retention removed before they were at the target; of actions without Spark.
        rows_expired: Rows that were dropped for their age; of actions without Spark, as the next three.
        rows_crowded_out: Rows that were dropped since too many bytes waited.
        rows_under_way: Rows of the batch that is being written.
        batch_bytes: Bytes of those rows; None of queries of Spark, whose processes hold them.
        rows_answered_late: Rows that had become too old when the target had them.
        lag: Messages of its topics stored and not read yet; None when it could not be asked.
        behind_s: How long the oldest of them has been stored; None where that is not known.
        failures_in_row: How often it failed since it last worked.
        sink_figures: What the sink counts, such as retries.
        sink_refused: Those of them that it refused.
    """

    name: str
    state: str = STARTING
    target: str = ""
    guarantee: str = ""
    batches: int = 0
    rows_read: int = 0
    rows_failed: int = 0
    decode_failed: int = 0
    rows_refused: int = 0
    rows_fallen_back: int = 0
    rows_written: int = 0
    rows_total: int | None = None
    rows_late: int = 0
    rows_lost: int = 0
    rows_expired: int = 0
    rows_crowded_out: int = 0
    rows_under_way: int = 0
    rows_answered_late: int = 0
    batch_bytes: int | None = None
    late_kept: int = 0
    dead_letters: int = 0
    batch_ms: int = 0
    last_batch_at: str | None = None
    lag: int | None = None
    behind_s: float | None = None
    failures: int = 0
    failures_in_row: int = 0
    restarts: int = 0
    last_error: str | None = None
    sink_figures: Counter[str] = field(default_factory=Counter)
    positions: list[dict[str, str]] = field(default_factory=list, repr=False)
    inputs: "tuple[ViewInput, ...]" = field(default=(), repr=False)
    rows_given: int = field(default=0, repr=False)
    sink_refused: int = field(default=0, repr=False)

    def to_json(self) -> dict[str, Any]:
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in ("positions", "inputs", "rows_given", "sink_refused"):
            del document[name]
        return document | {"sink_figures": dict(self.sink_figures)}

    def log_line(self) -> str:
        counts = [
            f"{count:,} {what}"
            for count, what in (
                (self.rows_failed, "failed"),
                (self.decode_failed, "not decoded"),
                (self.rows_refused, "refused"),
                (self.rows_late, "too late"),
                (self.dead_letters, "dead letters"),
            )
            if count
        ]
        lag = "unknown" if self.lag is None else f"{self.lag:,}"
        batch = f"batch {self.batches} took {self.batch_ms} ms" if self.batches else "no batch yet"
        parts = [f"{self.rows_read:,} read", f"{self.rows_written:,} written", *counts, f"lag {lag}"]
        return f"{self.name}: {self.state}, {batch}, {', '.join(parts)}"


def summary_table(figures: Sequence[QueryFigures]) -> str:
    head = ("query", "state", "batches", "read", "failed", "refused", "written", "late", "letters", "lag", "restarts")
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
        query.dead_letters,
    )
    return (query.name, query.state, *(f"{number:,}" for number in numbers), lag, f"{query.restarts:,}")
