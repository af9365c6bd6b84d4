"""Parquet tables written batch by batch, with interruptions at every step."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.append_table import AppendTable
from heliograph.pipeline.sinks.file_format import FileFormat
from heliograph.pipeline.sinks.parquet import ResultTable, merge
from heliograph.pipeline.sinks.table_locations import Directory

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _append(output: Path, owner: str = "owner-1", partition_by: Sequence[str] = ()) -> AppendTable:
    return AppendTable(Directory(output, "obs"), owner, FileFormat(), partition_by)


def _result(output: Path, owner: str = "owner-1", key: Sequence[str] = ()) -> ResultTable:
    return ResultTable(Directory(output, "obs"), owner, key)


def _rows(spark: SparkSession, *rows: tuple[str, int]) -> DataFrame:
    return spark.createDataFrame(list(rows), "station string, n long")


def _read(table: Path) -> list[tuple[str, int]]:
    """The table as a reader sees it that knows nothing of Spark or Heliograph."""
    found = ds.dataset(table, format="parquet", partitioning="hive").to_table(columns=["station", "n"])
    return sorted((row["station"], row["n"]) for row in found.to_pylist())


def test_batches_are_appended_and_a_repeated_one_is_not(spark: SparkSession, tmp_path: Path) -> None:
    table = _append(tmp_path, "owner-1", ["station"])
    assert table.write(_rows(spark, ("JFK", 1), ("EWR", 2)), 0).rows_total == 2
    assert table.write(_rows(spark, ("JFK", 3)), 1).rows_total == 3
    # The batch is run again, and by chance gives other rows: what counted once stays.
    assert table.write(_rows(spark, ("JFK", 4), ("LGA", 5)), 1).rows_total == 3
    assert _read(tmp_path / "obs") == [("EWR", 2), ("JFK", 1), ("JFK", 3)]
    assert sorted(path.name for path in (tmp_path / "obs").iterdir()) == ["station=EWR", "station=JFK"]
    spark_rows = spark.read.parquet(str(tmp_path / "obs")).select("station", "n").collect()
    assert sorted((row[0], row[1]) for row in spark_rows) == _read(tmp_path / "obs")


def test_a_batch_interrupted_while_staging_is_written_anew(spark: SparkSession, tmp_path: Path) -> None:
    table = _append(tmp_path, "owner-1")
    table.write(_rows(spark, ("JFK", 1)), 0)
    staging = tmp_path / ".heliograph" / "obs" / "staging"
    staging.mkdir()
    (staging / "part-0.parquet").write_bytes(b"half a file")
    table.write(_rows(spark, ("JFK", 2)), 1)
    assert _read(tmp_path / "obs") == [("JFK", 1), ("JFK", 2)]


def test_a_batch_interrupted_while_publishing_is_finished(spark: SparkSession, tmp_path: Path) -> None:
    table = _append(tmp_path, "owner-1", ["station"])
    table.write(_rows(spark, ("JFK", 1)), 0)
    table.write(_rows(spark, ("EWR", 2), ("JFK", 3), ("LGA", 4)), 1)
    # Put two of the files back to where they were before they were renamed.
    bookkeeping = tmp_path / ".heliograph" / "obs"
    for file in [file for file in (tmp_path / "obs").rglob("*00000001-*.parquet") if file.parent.name != "station=EWR"]:
        staged = next(
            name
            for name, place in _manifest(bookkeeping, 1)["files"].items()
            if place == str(file.relative_to(tmp_path / "obs"))
        )
        (bookkeeping / staged).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(file, bookkeeping / staged)
    assert len(_read(tmp_path / "obs")) == 2
    table.write(_rows(spark, ("EWR", 20), ("JFK", 30)), 1)
    assert _read(tmp_path / "obs") == [("EWR", 2), ("JFK", 1), ("JFK", 3), ("LGA", 4)]


def test_an_empty_batch_adds_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = _append(tmp_path, "owner-1", ["station"])
    assert table.write(_rows(spark, ("JFK", 1)).where("n > 5"), 0).rows_total == 0
    assert table.write(_rows(spark, ("JFK", 1)), 1).rows_total == 1


def test_the_manifests_of_old_batches_go(spark: SparkSession, tmp_path: Path) -> None:
    table = _append(tmp_path, "owner-1")
    table.write(_rows(spark, ("JFK", 1)), 0)
    batches = tmp_path / ".heliograph" / "obs" / "batches"
    for batch in range(1, 150):
        shutil.copy(batches / "00000000.json", batches / f"{batch:08d}.json")
    table.write(_rows(spark, ("JFK", 2)), 150)
    assert len(list(batches.iterdir())) == 100
    assert _read(tmp_path / "obs") == [("JFK", 1), ("JFK", 2)]


@pytest.mark.parametrize("kind", [_append, _result])
def test_a_table_of_another_checkpoint_is_not_touched(
    spark: SparkSession, tmp_path: Path, kind: Callable[[Path, str], AppendTable | ResultTable]
) -> None:
    kind(tmp_path, "owner-1").write(_rows(spark, ("JFK", 1)), 0)
    with pytest.raises(SinkError, match="was written by owner-1, not by this checkpoint \\(owner-2\\)"):
        kind(tmp_path, "owner-2").write(_rows(spark, ("JFK", 1)), 0)
    assert _read(tmp_path / "obs") == [("JFK", 1)]


def test_a_directory_with_other_parquet_files_is_not_touched(spark: SparkSession, tmp_path: Path) -> None:
    _rows(spark, ("JFK", 1)).write.parquet(str(tmp_path / "obs"))
    with pytest.raises(SinkError, match="was written by something else"):
        _append(tmp_path, "owner-1").write(_rows(spark, ("JFK", 1)), 0)


def test_a_table_that_cannot_be_written_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / ".heliograph").write_text("a file in the way")
    with pytest.raises(SinkError, match=f"the table {tmp_path / 'obs'} cannot be written"):
        _append(tmp_path, "owner-1").write(_rows(spark, ("JFK", 1)), 0)


def test_a_result_is_replaced_as_a_whole_without_a_key(spark: SparkSession, tmp_path: Path) -> None:
    table = _result(tmp_path, "owner-1")
    table.write(_rows(spark, ("JFK", 1), ("EWR", 2)), 0)
    assert table.write(_rows(spark, ("JFK", 3)), 1) == 1
    assert _read(tmp_path / "obs") == [("JFK", 3)]


def test_a_result_is_replaced_by_key(spark: SparkSession, tmp_path: Path) -> None:
    table = _result(tmp_path, "owner-1", ["station"])
    table.write(_rows(spark, ("JFK", 1), ("EWR", 2)), 0)
    for _ in range(2):
        # Of several rows of a key the last counts.
        assert table.write(_rows(spark, ("JFK", 9), ("JFK", 3), ("LGA", 4)).coalesce(1), 1) == 3
        assert _read(tmp_path / "obs") == [("EWR", 2), ("JFK", 3), ("LGA", 4)]
    assert [path.name for path in (tmp_path / "obs").iterdir()] == ["table.parquet"]


def test_a_key_that_is_null_is_a_key() -> None:
    def table(*rows: tuple[str | None, int]) -> pa.Table:
        return pa.Table.from_pylist(
            [{"k": k, "n": n} for k, n in rows], pa.schema([("k", pa.string()), ("n", pa.int64())])
        )

    merged = merge(table((None, 1), ("a", 2)), table((None, 3)), ["k"])
    assert _pairs(merged) == [("a", 2), (None, 3)]


def _pairs(table: pa.Table) -> Sequence[tuple[str | None, int]]:
    return [(row["k"], row["n"]) for row in table.to_pylist()]


def _manifest(bookkeeping: Path, batch: int) -> dict[str, dict[str, str]]:
    manifest: dict[str, dict[str, str]] = json.loads((bookkeeping / "batches" / f"{batch:08d}.json").read_text())
    return manifest
