"""Reads the table of late rows: how many there are of each query and view, and the rows.

How they go elsewhere is `heliograph.pipeline.side_outputs.late_replay`'s.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from heliograph.pipeline.side_outputs.replayed_files import REPLAYED_AT
from heliograph.pipeline.side_outputs.side_tables import files_in, queries_in


@dataclass
class LateCount:
    """The late rows of one view of a query; the newest is of those that wait."""

    query: str
    view: str
    waiting: int = 0
    replayed: int = 0
    newest: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        newest = None if self.newest is None else self.newest.isoformat()
        counts = {"waiting": self.waiting, "replayed": self.replayed}
        return {"query": self.query, "view": self.view, **counts, "newest": newest}

    def cells(self) -> tuple[str, ...]:
        """As cells of a table."""
        newest = "" if self.newest is None else self.newest.isoformat(timespec="seconds")
        return (self.query, self.view, f"{self.waiting:,}", f"{self.replayed:,}", newest)


def count_late_rows(table: Path) -> list[LateCount]:
    """How many late rows a table holds of each query and view, and the newest event time of those that wait."""
    counts: dict[tuple[str, str], LateCount] = {}
    for query in queries_in(table):
        for file in files_in(query):
            for row in pq.read_table(file, columns=["view", "event_time", REPLAYED_AT]).to_pylist():
                count = counts.setdefault((query.name, row["view"]), LateCount(query.name, row["view"]))
                if row[REPLAYED_AT] is not None:
                    count.replayed += 1
                    continue
                count.waiting += 1
                at = _with_zone(row["event_time"])
                if count.newest is None or at > count.newest:
                    count.newest = at
    return sorted(counts.values(), key=lambda count: (count.query, count.view))


def show_late_rows(table: Path, query: str, limit: int, with_replayed: bool = False) -> Iterator[dict[str, Any]]:
    """The late rows of a query as JSON objects, the newest batches first."""
    shown = 0
    for file in reversed(list(files_in(table / query))):
        for row in pq.read_table(file).drop_columns(["row_schema"]).to_pylist():
            if row[REPLAYED_AT] is not None and not with_replayed:
                continue
            if shown == limit:
                return
            shown += 1
            yield {name: _plain(value) for name, value in row.items()}


def _plain(value: Any) -> Any:
    return _with_zone(value).isoformat() if isinstance(value, datetime) else value


def _with_zone(at: datetime) -> datetime:
    """A time that Spark wrote; in Parquet's older form of times its zone, UTC, is left out."""
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
