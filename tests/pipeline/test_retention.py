"""Retention of the tables of dead letters and late rows: what is too old or too much goes, the newest stays."""

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heliograph.pipeline.side_outputs.retention import Retention, SideTables, TableSize, keep_within, size_of

_HOUR_S = 3600.0


def _batch(table: Path, query: str, number: int, *, hours_old: float, rows: int = 10) -> Path:
    place = table / query / f"0123abcd-{number:08d}"
    place.mkdir(parents=True)
    pq.write_table(pa.table({"row": [os.urandom(1000) for _ in range(rows)]}), place / "part-0.parquet")
    at = time.time() - hours_old * _HOUR_S
    os.utime(place, (at, at))
    return place


def test_batches_that_are_too_old_go(tmp_path: Path) -> None:
    old = [_batch(tmp_path, query, 0, hours_old=5) for query in ("obs", "daily")]
    young = _batch(tmp_path, "obs", 1, hours_old=1)
    removed = keep_within(tmp_path, Retention(2 * _HOUR_S, None))
    assert (removed.batches, removed.rows) == (2, 20)
    assert not any(place.exists() for place in old)
    assert young.exists()
    assert keep_within(tmp_path, Retention(None, None)) == TableSize()


def test_the_oldest_batches_of_any_query_go_until_the_table_is_small_enough(tmp_path: Path) -> None:
    places = [
        _batch(tmp_path, "obs", 0, hours_old=9),
        _batch(tmp_path, "daily", 0, hours_old=8),
        _batch(tmp_path, "obs", 1, hours_old=7),
        _batch(tmp_path, "obs", 2, hours_old=6),
    ]
    size = size_of(tmp_path)
    assert (size.batches, size.rows) == (4, 40)
    assert size.bytes > 40_000
    removed = keep_within(tmp_path, Retention(None, size.bytes // 2))
    # That of daily is the last that there is of its failures.
    assert removed.batches == 2
    assert [place.exists() for place in places] == [False, True, False, True]
    assert keep_within(tmp_path, Retention(None, 1)).batches == 0


def test_the_driver_counts_what_it_removed(tmp_path: Path) -> None:
    _batch(tmp_path / "late", "daily", 0, hours_old=5)
    _batch(tmp_path / "late", "daily", 1, hours_old=1)
    _batch(tmp_path / "dead_letters", "obs", 0, hours_old=1, rows=3)
    tables = {
        "dead_letters": ("dead_letters", Retention(2 * _HOUR_S)),
        "late": ("late", Retention(2 * _HOUR_S)),
    }
    side_tables = SideTables(tmp_path)
    side_tables.attend(tables, 1000.0)
    side_tables.measure(tables)
    found = side_tables.to_json()
    assert (found["late"]["rows"], found["late"]["removed"]) == (10, 10)
    assert (found["dead_letters"]["rows"], found["dead_letters"]["removed"]) == (3, 0)
    # Once an hour is enough.
    old = _batch(tmp_path / "late", "other", 0, hours_old=5)
    side_tables.attend(tables, 1001.0)
    assert old.exists()
    side_tables.attend(tables, 1000.0 + _HOUR_S)
    side_tables.measure(tables)
    assert side_tables.sizes["late"].removed == 20
