"""How long the tables of dead letters and of late rows are kept, and how large they may become.

The oldest batches go first. The newest batch of a query stays whatever its size, so that the last failure can always be
looked at. Nothing is lost that is not stored elsewhere: the messages themselves are the broker's.
"""

import logging
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from heliograph.config.units import format_size
from heliograph.pipeline.side_outputs.side_tables import batches_in, rows_in

logger = logging.getLogger(__name__)

_TIDY_EVERY_S: Final = 3600.0


@dataclass(frozen=True)
class Retention:
    """What may stay of a table.

    Attributes:
        age_s: Seconds after which a batch is removed; None keeps it.
        bytes_max: Bytes of the table, beyond which the oldest batches are removed; None has no limit.
    """

    age_s: float | None = 30 * 86_400.0
    bytes_max: int | None = 10 << 30


#: Of a table of which the file says nothing.
DEFAULT_RETENTION: Final = Retention()


@dataclass(frozen=True)
class TableSize:
    """What a table holds: batches, their rows and bytes; and the rows that were removed from it."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    removed: int = 0

    def to_json(self) -> dict[str, int]:
        """As a JSON object."""
        return {"batches": self.batches, "rows": self.rows, "bytes": self.bytes, "removed": self.removed}


@dataclass(frozen=True)
class _Batch:
    """One batch of a query: its directory, and what it holds."""

    place: Path
    at: float
    rows: int
    bytes: int
    is_newest: bool


class SideTables:
    """The tables beside the sinks of one output directory. Owned by the driver, which has them looked after.

    Args:
        output: The output directory.
    """

    def __init__(self, output: Path) -> None:
        self.sizes: dict[str, TableSize] = {}
        self._output = output
        self._tidy_at = 0.0

    def __repr__(self) -> str:
        return f"SideTables({str(self._output)!r}, {', '.join(self.sizes)})"

    def attend(self, tables: Mapping[str, tuple[str, Retention]], now: float) -> None:
        """Remove what is beyond its retention, now and then.

        Args:
            tables: Of each table by name, its path below the output directory and how long it is kept.
            now: Seconds of a clock that does not go back.
        """
        if now < self._tidy_at:
            return
        self._tidy_at = now + _TIDY_EVERY_S
        for name, (path, retention) in tables.items():
            removed = keep_within(self._output / path, retention)
            if not removed.batches:
                continue
            before = self.sizes.get(name, TableSize())
            self.sizes[name] = replace(before, removed=before.removed + removed.rows)
            logger.warning(
                "%s: %d batches with %d rows (%s) were beyond their retention and were removed",
                name,
                removed.batches,
                removed.rows,
                format_size(removed.bytes),
            )

    def measure(self, tables: Mapping[str, tuple[str, Retention]]) -> None:
        """Look at what the tables hold."""
        for name, (path, _) in tables.items():
            removed = self.sizes.get(name, TableSize()).removed
            self.sizes[name] = replace(size_of(self._output / path), removed=removed)

    def to_json(self) -> dict[str, dict[str, int]]:
        """The sizes as a JSON object, by table."""
        return {name: size.to_json() for name, size in self.sizes.items()}


def size_of(table: Path) -> TableSize:
    """What a table holds."""
    found = list(_batches(table))
    return TableSize(len(found), sum(batch.rows for batch in found), sum(batch.bytes for batch in found))


def keep_within(table: Path, retention: Retention) -> TableSize:
    """Remove the batches of a table that are too old, then the oldest until it is small enough.

    Returns:
        What was removed.
    """
    if retention.age_s is None and retention.bytes_max is None:
        return TableSize()
    limit = time.time() - retention.age_s if retention.age_s is not None else None
    found = sorted(_batches(table), key=lambda batch: (batch.at, batch.place.name))
    left = sum(batch.bytes for batch in found)
    batches = rows = size = 0
    for batch in found:
        is_old = limit is not None and batch.at < limit
        is_beyond = retention.bytes_max is not None and left > retention.bytes_max and not batch.is_newest
        if not is_old and not is_beyond:
            continue
        shutil.rmtree(batch.place, ignore_errors=True)
        left -= batch.bytes
        batches, rows, size = batches + 1, rows + batch.rows, size + batch.bytes
    return TableSize(batches, rows, size)


def _batches(table: Path) -> Iterator[_Batch]:
    for query in sorted(table.iterdir()) if table.is_dir() else ():
        places = list(batches_in(query))
        for number, place in enumerate(places):
            try:
                size = sum(file.stat().st_size for file in place.glob("*.parquet"))
                yield _Batch(place, place.stat().st_mtime, rows_in(place), size, number == len(places) - 1)
            except OSError:
                continue  # another driver of this directory removed it meanwhile
