"""Iceberg tables as a reader of Iceberg sees them; what they share with Delta Lake's is in `test_sink_lakes`."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.spark.writing import write_batch
from pipeline.batches import Batches, sink_of, station_rows

if TYPE_CHECKING:
    from pyiceberg.table import Table

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _table(output: Path, name: str = "default.obs") -> "Table":
    from pyiceberg.catalog import load_catalog  # heavy: not while tests are collected

    return load_catalog("heliograph", type="sql", uri=f"sqlite:///{output}/iceberg.db").load_table(name)


def _read(output: Path) -> list[tuple[str, int]]:
    return sorted((row["station"], row["n"]) for row in _table(output).scan().to_arrow().to_pylist())


def test_a_batch_is_a_snapshot_that_says_whose_it_is(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of("type = iceberg, table = weather.obs, partition_by = [station]"), Batches(tmp_path)
    written = write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert written.figures["files"] == 2
    write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1))
    table = _table(tmp_path, "weather.obs")
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    said = snapshot.summary.additional_properties
    assert (said["heliograph.owner"], said["heliograph.batch"]) == ("11111111-owner-1", "1")
    assert [field.name for field in table.spec().fields] == ["station"]


def test_a_batch_is_known_when_its_snapshot_has_expired(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of("type = iceberg, table = obs, snapshots_kept = 0s"), Batches(tmp_path)
    for number in (97, 98, 99, 99, 98):
        write_batch(sink, station_rows(spark, ("JFK", number)), batches.number(number))
    assert len(_table(tmp_path).snapshots()) == 1
    assert [n for _, n in _read(tmp_path)] == [97, 98, 99]


def test_rows_are_merged_by_key_and_a_key_that_is_null_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_of("type = iceberg, table = obs, key = [station]", OutputMode.UPDATE)
    batches = Batches(tmp_path)
    write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    for number in (1, 1, 2):
        # Of several rows of a key the last counts.
        rows = station_rows(spark, ("JFK", 3), ("JFK", 4), (None, 5), ("LGA", 6))
        write_batch(sink, rows.coalesce(1), batches.number(number))
    assert _read(tmp_path) == [("EWR", 2), ("JFK", 4), ("LGA", 6)]
    assert [row for row, _ in batches.refused] == [{"station": None, "n": 5}] * 2
    assert "a column of the key (station) is null" in batches.refused[0][1]


def test_a_catalog_of_ones_own(spark: SparkSession, tmp_path: Path) -> None:
    catalog = f'type = sql, uri = "sqlite:///{tmp_path}/own.db", warehouse = "file://{tmp_path}/house", token = hidden'
    sink = sink_of(f"type = iceberg, table = obs, catalog {{ {catalog} }}")
    write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path / "out").number(0))
    assert list((tmp_path / "house").rglob("*.parquet"))
    assert "hidden" not in repr(sink)


def test_rows_are_parted_by_time_where_the_library_can(spark: SparkSession, tmp_path: Path) -> None:
    sink = sink_of("type = iceberg, table = obs, partition_by = ['day(at)', 'bucket(4, station)']".replace("'", '"'))
    rows = station_rows(spark, ("JFK", 1)).selectExpr("*", "timestamp'2026-01-02 03:04:05' at")
    if find_spec("pyiceberg_core") is None:
        with pytest.raises(SinkError, match="needs more of pyiceberg"):
            write_batch(sink, rows, Batches(tmp_path).number(0))
        return
    for _ in range(2):
        write_batch(sink, rows, Batches(tmp_path).number(0))
    assert [field.name for field in _table(tmp_path).spec().fields] == ["at_day", "station_bucket"]
    assert len(_read(tmp_path)) == 1


def test_a_table_whose_old_snapshots_cannot_expire_has_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from pyiceberg.table import Table

    def fail(_: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Table, "maintenance", property(fail))
    sink = sink_of("type = iceberg, table = obs")
    assert write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(99)).rows_total == 1
    assert "could not be expired: no room" in caplog.text
