"""Values of which no table of files can be parted: the row is refused, the others of its batch arrive."""

from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.sinks.spark.writing import write_batch
from pipeline.batches import Batches, sink_of

pytestmark = [pytest.mark.slow]

_LONG = "é" * 130


def _rows(directory: Path, kind: str) -> list[str]:
    from deltalake import DeltaTable  # heavy: not while tests are collected
    from pyiceberg.catalog import load_catalog

    if kind == "delta":
        found = DeltaTable(directory / "obs").to_pyarrow_table().column("station").to_pylist()
    elif kind == "iceberg":
        catalog = load_catalog("heliograph", type="sql", uri=f"sqlite:///{directory}/iceberg.db")
        found = catalog.load_table("default.obs").scan().to_arrow().column("station").to_pylist()
    else:
        found = ds.dataset(directory / "obs", format=kind, partitioning="hive").to_table().column("station").to_pylist()
    return sorted(found)


@pytest.mark.parametrize("kind", ["parquet", "csv", "delta", "iceberg"])
def test_a_partition_value_that_is_no_name_of_a_directory_costs_its_row_only(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    place = "table = obs" if kind == "iceberg" else "path = obs"
    sink = sink_of(f"{{ type = {kind}, {place}, partition_by = [station] }}")
    batches = Batches(tmp_path)
    bad = [_LONG, "a" * 300] + (["a\0b"] if kind in ("parquet", "csv") else [])
    rows = spark.createDataFrame([(name, 1) for name in ("JFK", "x" * 200, *bad)], "station string, n long")
    for _ in range(2):
        write_batch(sink, rows, batches.number(0))
    write_batch(sink, spark.createDataFrame([("LGA", 2)], "station string, n long"), batches.number(1))
    assert _rows(tmp_path, kind) == ["JFK", "LGA", "x" * 200]
    assert sorted({row["station"] for row, _ in batches.refused}) == sorted(bad)
    assert len(batches.refused) == len(bad)
    assert "too long for the name of a directory" in batches.refused[0][1]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_text_that_is_not_utf_8_costs_its_row_only(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    place = "table = obs" if kind == "iceberg" else "path = obs, partition_by = [station]"
    batches = Batches(tmp_path)
    rows = spark.sql("SELECT CAST(X'61FF62' AS STRING) AS station, 1L AS n UNION ALL SELECT 'JFK', 2L")
    write_batch(sink_of(f"{{ type = {kind}, {place} }}"), rows, batches.number(0))
    assert _rows(tmp_path, kind) == ["JFK"]
    ((row, reason),) = batches.refused
    assert (row["station"], reason) == (r"a\xffb", "the value of station is not UTF-8")


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [("delta", "a b" * 60, "~" * 240), ("delta", "a*" * 70, "b"), ("iceberg", "a*" * 70, "a " * 120)],
)
def test_a_name_is_as_long_as_the_writer_of_the_table_makes_it(
    spark: SparkSession, tmp_path: Path, kind: str, bad: str, good: str
) -> None:
    place = "table = obs" if kind == "iceberg" else "path = obs"
    batches = Batches(tmp_path)
    rows = spark.createDataFrame([(bad, 1), (good, 2)], "station string, n long")
    write_batch(sink_of(f"{{ type = {kind}, {place}, partition_by = [station] }}"), rows, batches.number(0))
    assert _rows(tmp_path, kind) == [good]
    assert [row["station"] for row, _ in batches.refused] == [bad]


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_text_within_a_value_that_is_not_utf_8_costs_its_row_only(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    place = "table = obs" if kind == "iceberg" else "path = obs"
    batches = Batches(tmp_path)
    # Where the text that a device has sent lies; every row has all of them, but a row without anything has none.
    texts = spark.sql("SELECT stack(6, 's', 'a', 'k', 'v', '-', null) AS place").selectExpr(
        "place AS station",
        *(f"CAST(IF(place = '{each}', X'61FF62', X'61') AS STRING) AS {each}" for each in "sakv"),
    )
    rows = texts.selectExpr(
        "coalesce(station, 'nothing') AS station",
        "IF(station IS NULL, NULL, named_struct('n', 1, 't', s)) AS inner",
        "IF(station IS NULL, NULL, array(named_struct('t', 'x'), named_struct('t', a), NULL)) AS list",
        "IF(station IS NULL, NULL, map(k, array(v, NULL))) AS pairs",
        "array(1, 2) AS numbers",
    )
    write_batch(sink_of(f"{{ type = {kind}, {place} }}"), rows, batches.number(0))
    assert _rows(tmp_path, kind) == ["-", "nothing"]
    told = {row["station"]: reason.split()[3] for row, reason in batches.refused}
    assert told == {"s": "inner", "a": "list", "k": "pairs", "v": "pairs"}


def test_a_batch_that_fails_for_another_reason_refuses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    batches = Batches(tmp_path)
    (tmp_path / "obs").write_text("a file where the table should be")
    sink = sink_of("{ type = parquet, path = obs, partition_by = [station] }")
    rows = spark.createDataFrame([("JFK", 1)], "station string, n long")
    with pytest.raises(Exception, match="obs"):
        write_batch(sink, rows, batches.number(0))
    assert batches.refused == []
