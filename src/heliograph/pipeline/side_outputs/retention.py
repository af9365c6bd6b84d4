"""How long the tables of dead letters and of late rows are kept, and how large they may become.

A batch that is too old goes, also the newest. Where a table is too large the oldest batches go, but the newest of each
query stays whatever its size, so that the last failure can be looked at. Nothing is lost that is not stored elsewhere:
the messages themselves are the broker's.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Thread
from typing import Final

import pyarrow as pa

from heliograph.pipeline.side_outputs.side_tables import batches_in, rows_in
from heliograph.settings.units import format_size

logger = logging.getLogger(__name__)

_TIDY_EVERY_S: Final = 3600.0


@dataclass(frozen=True)
class Retention:
    """How long batches of a table are kept, and how large it may become; None has no limit."""

    age_s: float | None = 30 * 86_400.0
    bytes_max: int | None = 10 << 30


#: Of a table that the file does not mention.
DEFAULT_RETENTION: Final = Retention()


@dataclass(frozen=True)
class TableSize:
    """Batches of a table, their rows and bytes; and the rows that were removed from it."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    removed: int = 0

    def to_json(self) -> dict[str, int]:
        return {"batches": self.batches, "rows": self.rows, "bytes": self.bytes, "removed": self.removed}


@dataclass(frozen=True, slots=True)
class _SideBatch:
    place: Path
    at: float
    bytes: int
    is_newest: bool


@dataclass(slots=True)
class _Counted:
    """What of a query's batches was counted: a batch never changes, and those of one owner are numbered upwards."""

    changed_ns: int = 0
    size: TableSize = field(default_factory=TableSize)
    reached: dict[str, int] = field(default_factory=dict)


class SideTables:
    """The tables beside the sinks of one output directory. Owned by the driver, which has them looked after.

    They are looked at in a thread of their own, one look at a time: the driver never waits for millions of files.
    """

    def __init__(self, output: Path) -> None:
        self.sizes: dict[str, TableSize] = {}
        self._output = output
        self._tidy_at = 0.0
        self._counted: dict[Path, _Counted] = {}
        self._look: Thread | None = None
        self._trouble = ""

    def __repr__(self) -> str:
        return f"SideTables({str(self._output)!r}, {', '.join(self.sizes)})"

    def attend(self, tables: Mapping[str, tuple[str, Retention]], now: float) -> None:
        """Begin to remove what is beyond its retention, and to count all the rest again, now and then."""
        if now >= self._tidy_at and self._begin(lambda: self._tidy(dict(tables))):
            self._tidy_at = now + _TIDY_EVERY_S

    def measure(self, tables: Mapping[str, tuple[str, Retention]], wait_s: float = 0.0) -> None:
        """Begin to count what was written since the last count, and wait for that at most so long."""
        self._wait(wait_s)
        self._begin(lambda: self._count(dict(tables)))
        self._wait(wait_s)

    def to_json(self) -> dict[str, dict[str, int]]:
        return {name: size.to_json() for name, size in dict(self.sizes).items()}

    def _begin(self, look: Callable[[], None]) -> bool:
        if self._look is not None and self._look.is_alive():
            return False

        def guarded() -> None:
            try:
                look()
                self._trouble = ""
            except (OSError, pa.ArrowException) as error:
                if str(error) != self._trouble:  # it may stay so for days
                    self._trouble = str(error)
                    logger.warning("the tables of what was left out cannot be looked at: %s", error)

        self._look = Thread(target=guarded, name="side tables", daemon=True)
        self._look.start()
        return True

    def _wait(self, seconds: float) -> None:
        if self._look is not None and seconds:
            self._look.join(seconds)

    def _tidy(self, tables: Mapping[str, tuple[str, Retention]]) -> None:
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
        self._counted.clear()
        self._count(tables)

    def _count(self, tables: Mapping[str, tuple[str, Retention]]) -> None:
        for name, (path, _) in tables.items():
            removed = self.sizes.get(name, TableSize()).removed
            self.sizes[name] = replace(count_table(self._output / path, self._counted), removed=removed)


def keep_within(table: Path, retention: Retention, queries: Set[str] | None = None) -> TableSize:
    """Remove the batches of a table that are too old, then the oldest until it is small enough.

    Args:
        queries: Those whose batches are looked at; None for all.
    """
    if retention.age_s is None and retention.bytes_max is None:
        return TableSize()
    limit = time.time() - retention.age_s if retention.age_s is not None else None
    found = sorted(_batches(table, queries), key=lambda batch: (batch.at, batch.place.name))
    left = sum(batch.bytes for batch in found)
    removed, failures = TableSize(), _Failures(table, "removed")
    for batch in found:
        is_old = limit is not None and batch.at < limit
        is_beyond = retention.bytes_max is not None and left > retention.bytes_max and not batch.is_newest
        if not is_old and not is_beyond:
            continue
        left -= batch.bytes  # also of one that cannot be removed: no other goes in its place
        try:
            rows = _rows_of(batch.place)
            shutil.rmtree(batch.place)
        except FileNotFoundError:
            continue  # another driver of this directory removed it meanwhile
        except OSError as error:
            failures.add(error)
            continue
        removed = TableSize(removed.batches + 1, removed.rows + (rows or 0), removed.bytes + batch.bytes)
    failures.tell()
    return removed


@dataclass
class _Failures:
    table: Path
    done: str
    count: int = 0
    first: str = ""

    def add(self, error: object) -> None:
        self.first = self.first or str(error)
        self.count += 1

    def tell(self) -> None:
        if self.count:
            logger.warning(
                "%s: %d batches could not be %s, the first: %s", self.table, self.count, self.done, self.first
            )


def count_table(table: Path, known: dict[Path, _Counted]) -> TableSize:
    """The size of a table; only batches that are not `known` are read."""
    failures, total = _Failures(table, "read"), TableSize()
    for query in sorted(table.iterdir()) if table.is_dir() else ():
        if not query.is_dir():
            continue
        counted = known.setdefault(query, _Counted())
        # Asked before its batches are: what appears meanwhile is found by the next look.
        changed_ns = query.stat().st_mtime_ns
        if changed_ns != counted.changed_ns:
            _count_query(query, counted, failures)
            counted.changed_ns = changed_ns
        size = counted.size
        total = TableSize(total.batches + size.batches, total.rows + size.rows, total.bytes + size.bytes)
    failures.tell()
    return total


def _count_query(query: Path, counted: _Counted, failures: _Failures) -> None:
    before, reached = dict(counted.reached), counted.reached
    for place in batches_in(query):
        owner, number = place.name[:8], int(place.name[9:])
        if number <= before.get(owner, -1):
            continue
        reached[owner] = max(number, reached.get(owner, -1))
        try:
            size, rows = _bytes_of(place), _rows_of(place)
        except FileNotFoundError:
            continue
        if rows is None:
            failures.add(f"{place} is damaged")
        old = counted.size
        counted.size = TableSize(old.batches + 1, old.rows + (rows or 0), old.bytes + size)


def _rows_of(place: Path) -> int | None:
    """How many rows a batch has; None for one that is damaged."""
    try:
        return rows_in(place)
    except FileNotFoundError:
        raise
    except (OSError, pa.ArrowException):
        return None


def _bytes_of(place: Path) -> int:
    return sum(file.stat().st_size for file in place.glob("*.parquet"))


def _batches(table: Path, queries: Set[str] | None) -> Iterator[_SideBatch]:
    for query in sorted(table.iterdir()) if table.is_dir() else ():
        if queries is not None and query.name not in queries:
            continue
        places = list(batches_in(query))
        for number, place in enumerate(places):
            try:
                yield _SideBatch(place, place.stat().st_mtime, _bytes_of(place), number == len(places) - 1)
            except FileNotFoundError:
                continue  # another driver of this directory removed it meanwhile
