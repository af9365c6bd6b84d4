"""Retention of the tables of dead letters and late rows: what is too old or too much goes, the newest stays."""

import os
import shutil
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heliograph.pipeline.side_outputs.retention import Retention, SideTables, TableSize, count_table, keep_within
from heliograph.pipeline.side_outputs.side_tables import rows_in

_HOUR_S = 3600.0
_WAIT_S = 60.0


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
    size = count_table(tmp_path, {})
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
    side_tables.measure(tables, _WAIT_S)
    found = side_tables.to_json()
    assert (found["late"]["rows"], found["late"]["removed"]) == (10, 10)
    assert (found["dead_letters"]["rows"], found["dead_letters"]["removed"]) == (3, 0)
    # Once an hour is enough.
    old = _batch(tmp_path / "late", "other", 0, hours_old=5)
    side_tables.attend(tables, 1001.0)
    side_tables.measure(tables, _WAIT_S)
    assert old.exists()
    side_tables.attend(tables, 1000.0 + _HOUR_S)
    side_tables.measure(tables, _WAIT_S)
    assert side_tables.sizes["late"].removed == 20


def test_a_batch_is_read_once_and_the_driver_waits_for_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    may_read = threading.Event()

    def slowly(place: Path) -> int:
        may_read.wait(_WAIT_S)
        read.append(place.name)
        return rows_in(place)

    monkeypatch.setattr("heliograph.pipeline.side_outputs.retention.rows_in", slowly)
    tables = {"late": ("late", Retention(None, None))}
    for number in range(3):
        _batch(tmp_path / "late", "daily", number, hours_old=1)
    side_tables = SideTables(tmp_path)
    side_tables.attend(tables, 0.0)
    side_tables.measure(tables)
    assert not read
    may_read.set()
    side_tables.measure(tables, _WAIT_S)
    assert side_tables.sizes["late"].rows == 30
    _batch(tmp_path / "late", "daily", 10, hours_old=2, rows=4)
    os.utime(tmp_path / "late" / "daily", (0, 0))  # whatever the file system's clock is worth
    side_tables.measure(tables, _WAIT_S)
    assert (side_tables.sizes["late"].rows, side_tables.sizes["late"].batches) == (34, 4)
    assert sorted(read) == [f"0123abcd-{number:08d}" for number in (0, 1, 2, 10)]


def test_a_damaged_batch_is_told_and_goes_with_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = _batch(tmp_path / "late", "daily", 0, hours_old=5)
    file = damaged / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:100])
    _batch(tmp_path / "late", "daily", 1, hours_old=1)
    side_tables = SideTables(tmp_path)
    side_tables.measure({"late": ("late", Retention(None, None))}, _WAIT_S)
    size = side_tables.sizes["late"]
    assert (size.batches, size.rows) == (2, 10)
    assert "1 batches could not be read, the first: " in caplog.text
    assert (keep_within(tmp_path / "late", Retention(2 * _HOUR_S)).batches, damaged.exists()) == (1, False)


def test_what_another_process_removes_meanwhile_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = _batch(tmp_path, "obs", 0, hours_old=5)
    _batch(tmp_path, "obs", 1, hours_old=1)
    is_dir = Path.is_dir

    def removed_behind(place: Path) -> bool:
        known = is_dir(place)
        if place == gone:
            shutil.rmtree(gone, ignore_errors=True)
        return known

    monkeypatch.setattr(Path, "is_dir", removed_behind)
    assert count_table(tmp_path, {}).rows == 10
    assert keep_within(tmp_path, Retention(2 * _HOUR_S)) == TableSize()


def test_what_cannot_be_removed_is_told_and_not_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    places = [_batch(tmp_path, "obs", number, hours_old=5 - number) for number in range(3)]

    def refused(place: Path) -> None:
        raise PermissionError(13, "Permission denied", str(place))

    monkeypatch.setattr("heliograph.pipeline.side_outputs.retention.shutil.rmtree", refused)
    assert keep_within(tmp_path, Retention(_HOUR_S)) == TableSize()
    assert "3 batches could not be removed, the first: [Errno 13]" in caplog.text
    assert all(place.exists() for place in places)
