"""Delta Lake tables as a reader of Delta Lake sees them; what they share with Iceberg's is in `test_sink_lakes`."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.delta import DeltaSink
from heliograph.pipeline.sinks.spark.writing import write_batch
from pipeline.batches import Batches, sink_of, station_rows
from support.s3 import s3_server

if TYPE_CHECKING:
    from deltalake import DeltaTable

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _table(path: Path) -> "DeltaTable":
    from deltalake import DeltaTable  # heavy: not while tests are collected

    return DeltaTable(str(path))


def _read(table: Path) -> list[tuple[str | None, int]]:
    found = pa.table(_table(table).scan()).to_pylist()
    return sorted(((row["station"], row["n"]) for row in found), key=str)


def test_a_batch_is_a_version_that_says_whose_it_is(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of('type = delta, path = "lake/obs", partition_by = [station]'), Batches(tmp_path)
    written = write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert written.figures["files"] == 2
    write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1))
    table = _table(tmp_path / "lake" / "obs")
    assert table.metadata().partition_columns == ["station"]
    assert table.transaction_version("heliograph/obs/11111111-owner-1") == 1
    assert table.history(1)[0]["heliograph.batch"] == "1"


def test_a_batch_without_rows_makes_no_version(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of("type = delta, path = obs"), Batches(tmp_path)
    assert write_batch(sink, station_rows(spark, ("JFK", 1)).where("n > 5"), batches.number(0)).rows_total == 0
    write_batch(sink, station_rows(spark, ("JFK", 1)), batches.number(1))
    assert _table(tmp_path / "obs").version() == 0


def test_rows_are_merged_by_key_and_null_is_a_key(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of("type = delta, path = daily, key = [station]", OutputMode.UPDATE), Batches(tmp_path)
    write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2), (None, 3)), batches.number(0))
    for number in (1, 1, 2):
        write_batch(sink, station_rows(spark, ("JFK", 4), (None, 5), ("LGA", 6)), batches.number(number))
    assert _read(tmp_path / "daily") == [("EWR", 2), ("JFK", 4), ("LGA", 6), (None, 5)]


def test_of_several_rows_of_a_key_in_a_batch_the_last_counts(spark: SparkSession, tmp_path: Path) -> None:
    sink, batches = sink_of("type = delta, path = last, key = [station]", OutputMode.UPDATE), Batches(tmp_path)
    rows = station_rows(spark, ("JFK", 1), ("EWR", 2), (None, 3), ("JFK", 4), (None, 5)).coalesce(1)
    for number in range(2):
        write_batch(sink, rows, batches.number(number))
        found = _table(tmp_path / "last").to_pyarrow_table().to_pylist()
        assert sorted(row["n"] for row in found) == [2, 4, 5]


def test_a_table_that_something_else_made_is_not_touched_unless_it_is_shared(
    spark: SparkSession, tmp_path: Path
) -> None:
    from deltalake import write_deltalake

    rows, batches = station_rows(spark, ("JFK", 1)), Batches(tmp_path)
    write_deltalake(tmp_path / "foreign", pa.table({"station": ["LGA"], "n": [9]}))
    with pytest.raises(SinkError, match="was made by something else"):
        write_batch(sink_of("type = delta, path = foreign"), rows, batches.number(0))
    shared = sink_of("type = delta, path = foreign, shared = true")
    for _ in range(2):
        assert write_batch(shared, rows, batches.number(0)).rows_total == 2


def test_small_files_become_large_ones_and_old_ones_go(spark: SparkSession, tmp_path: Path) -> None:
    settings = sink_of("type = delta, path = obs, optimize_every = 4, vacuum_every = 4")
    assert isinstance(settings, DeltaSink)
    sink = dataclasses.replace(settings, retention_s=0.0)  # less than a file may say
    for number in range(4):
        write_batch(sink, station_rows(spark, ("JFK", number)), Batches(tmp_path).number(number))
    assert len(list((tmp_path / "obs").glob("*.parquet"))) == 1
    assert [n for _, n in _read(tmp_path / "obs")] == [0, 1, 2, 3]


def test_a_table_that_cannot_be_tidied_up_has_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from deltalake import DeltaTable

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(DeltaTable, "vacuum", fail)
    sink = sink_of("type = delta, path = obs, vacuum_every = 1")
    assert write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(0)).rows_total == 1
    assert "the Delta table obs could not be tidied up: no room" in caplog.text


def test_a_table_in_an_object_store(spark: SparkSession, tmp_path: Path) -> None:
    with s3_server() as store:
        options = (
            f'AWS_ENDPOINT_URL = "http://{store.endpoint}", AWS_ALLOW_HTTP = "true", AWS_REGION = x, '
            "AWS_ACCESS_KEY_ID = key, AWS_SECRET_ACCESS_KEY = hidden"
        )
        sink = sink_of(f'type = delta, path = "s3://lake/obs", storage_options {{ {options} }}')
        assert "hidden" not in repr(sink)
        for number in (0, 0, 1):
            write_batch(sink, station_rows(spark, ("JFK", number)), Batches(tmp_path).number(number))
        assert sum(key.endswith(".parquet") for key in store.listed()) == 2
        assert "obs/_delta_log/00000000000000000001.json" in store.listed()
        store.refuse_puts(100)
        with pytest.raises(SinkError, match="the Delta table s3://lake/obs cannot be written") as caught:
            write_batch(sink, station_rows(spark, ("JFK", 2)), Batches(tmp_path).number(2))
        assert "hidden" not in str(caught.value)


def test_an_older_row_never_replaces_a_newer_one(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    for mode in (OutputMode.APPEND, OutputMode.UPDATE):
        section = f"type = delta, path = newest_{mode}, key = [station], newest_by = [ts, seq], shared = true"
        sink = sink_of(section, mode)
        first = (
            "('a', 5, 1, 1L), ('a', 3, 9, 2L), ('b', null, 0, 3L), ('c', 1, 0, 4L), ('d', 7, 2, 5L), ('e', 7, 2, 6L)"
        )
        later = (
            "('a', 4, 9, 7L), ('b', 1, 0, 8L), ('c', null, 9, 9L), ('d', 7, 2, 10L), ('e', 7, 1, 11L), ('f', 0, 0, 12L)"
        )
        for number, rows in enumerate((first, later)):
            found = spark.sql(f"SELECT * FROM VALUES {rows} AS t(station, ts, seq, n)").coalesce(1)
            write_batch(sink, found, batches.number(number))
        expected = [("a", 1), ("b", 8), ("c", 4), ("d", 10), ("e", 6), ("f", 12)]
        assert _read(tmp_path / f"newest_{mode}") == expected


def test_rows_with_columns_that_a_table_lacks_are_not_merged_without_them(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    write_batch(sink_of("type = delta, path = narrow"), station_rows(spark, ("JFK", 1)), batches.number(0))
    sink = sink_of("type = delta, path = narrow, key = [station], newest_by = ts")
    with pytest.raises(
        SinkError, match=r"narrow lacks columns of the rows: ts \(int32\)\. Add them, or set merge_schema"
    ):
        write_batch(sink, spark.sql("SELECT 'JFK' AS station, 2L AS n, 9 AS ts"), batches.number(1))
    assert _read(tmp_path / "narrow") == [("JFK", 1)]


def test_columns_are_added_to_a_table_whose_rows_are_merged(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    write_batch(sink_of("type = delta, path = wide"), station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    before = _table(tmp_path / "wide").metadata().id
    # The rows of the table have no time, so every row with one is newer.
    sink = sink_of("type = delta, path = wide, key = [station], newest_by = ts, merge_schema = true")
    for number, (n, ts, fields) in enumerate(((3, 9, "'a', 1"), (4, 8, "'a', 2"), (5, 9, "'a', 3, 'b', 4")), 1):
        rows = f"SELECT 'JFK' AS station, {n}L AS n, {ts} AS ts, array(named_struct({fields})) AS tools"
        write_batch(sink, spark.sql(rows), batches.number(number))
        assert _read(tmp_path / "wide") == [("EWR", 2), ("JFK", 3 if n < 5 else 5)]
    table = _table(tmp_path / "wide")
    found = {row["station"]: row["tools"] for row in pa.table(table.scan()).to_pylist()}
    assert (found, table.metadata().id) == ({"JFK": [{"a": 3, "b": 4}], "EWR": None}, before)
