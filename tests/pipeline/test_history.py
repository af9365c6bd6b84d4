"""Closed generations read as Parquet by Spark itself, and the others as always: every message once."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession

from heliograph.cli.main import main
from heliograph.pipeline.errors import OptionError
from heliograph.pipeline.history import read_messages

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _rows(table: DataFrame) -> list[tuple[object, ...]]:
    return sorted((bytes(row["guid"]), *row) for row in table.drop("position").collect())


def test_exported_generations_are_read_as_parquet(
    spark: SparkSession, stored: "Stored", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.put_commits("a/1", 2, 5)
    stored.put("b/1", [b"{}"], clientid="another")
    stored.add_generation()
    stored.put_commits("a/1", 1, 3)
    stored.add_generation()
    stored.put_commits("a/1", 1, 2)
    exported = str(tmp_path / "exported")
    assert main(["storage", "export", "--data-dir", str(stored.data_dir), "--to", exported]) == 0
    stored.add_generation()
    stored.put("a/1", [b'{"n": 9}'])
    source = {"endpoint": stored.endpoint, "topics": "a/#"}
    table = read_messages(spark, exported, **source)
    plain = spark.read.format("heliograph").options(**source).load()
    assert table.columns == plain.columns
    assert _rows(table) == _rows(plain)
    capsys.readouterr()
    table.explain()
    told = capsys.readouterr().out
    assert "BatchScan heliograph" in told
    assert "FileScan parquet" in told
    # Those that are in no file have their positions.
    assert table.where("position IS NOT NULL").count() == 3
    times = sorted(row["stored_at"] for row in plain.select("stored_at").distinct().collect())
    span = source | {"start": f"{times[1].isoformat()}Z", "end": f"{times[3].isoformat()}Z"}
    assert _rows(read_messages(spark, exported, **span)) == _rows(
        spark.read.format("heliograph").options(**span).load()
    )
    assert _rows(read_messages(spark, **source)) == _rows(plain)  # nothing was offloaded
    with pytest.raises(OptionError, match="option schema is 'variant', but must be raw"):
        read_messages(spark, exported, **source, schema="variant")
    with pytest.raises(OptionError, match="option start is 'latest', but must be earliest or a time"):
        read_messages(spark, exported, **source, start="latest")
    with pytest.raises(OptionError, match="option exported is '/none', but must be where"):
        read_messages(spark, "/none", **source)


def test_a_table_has_what_was_stored_when_it_was_made(
    spark: SparkSession, stored: "Stored", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.put_commits("a/1", 2, 5)
    stored.add_generation()
    exported = str(tmp_path / "exported")
    assert main(["storage", "export", "--data-dir", str(stored.data_dir), "--to", exported]) == 0
    files_only = read_messages(spark, exported, endpoint=stored.endpoint, columns="topic,payload")
    stored.put("a/1", [b"1"])
    with_rest = read_messages(spark, exported, endpoint=stored.endpoint)
    stored.put("a/1", [b"2"])
    assert (files_only.count(), with_rest.count()) == (10, 11)
    assert read_messages(spark, exported, endpoint=stored.endpoint).count() == 12
    assert files_only.columns == ["topic", "payload"]
    capsys.readouterr()
    files_only.explain()
    assert "BatchScan heliograph" not in capsys.readouterr().out


def test_rows_of_files_are_those_that_the_source_would_give(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    for topic in ("a/1", "b/1", "$SYS/uptime"):
        stored.put_commits(topic, 2, 3)
    stored.add_generation()
    exported = str(tmp_path / "exported")
    assert main(["storage", "export", "--data-dir", str(stored.data_dir), "--to", exported]) == 0
    times = sorted(row["stored_at"] for row in spark.read.parquet(exported).select("stored_at").distinct().collect())
    endpoint = {"endpoint": stored.endpoint}
    for options in ({}, {"topics": "#,$SYS/#"}, {"Topics": "a/#"}, {"START": f"{times[1].isoformat()}Z"}):
        plain = spark.read.format("heliograph").options(**endpoint | options).load()
        assert _rows(read_messages(spark, exported, **endpoint | options)) == _rows(plain), options


def test_what_is_erased_is_in_no_table(spark: SparkSession, stored: "Stored") -> None:
    """Neither in rows of files, nor in those that the storage reader serves."""
    for _ in range(2):
        stored.put_commits("a/1", 2, 3, "ada")
        stored.put("a/1", [b"1", b"2"], "other")
        stored.add_generation()
    stored.offload(1)
    stored.erase("ada")
    (files,) = {str(one.parent) for one in stored.data_dir.rglob("*.parquet")}
    assert spark.read.parquet(files).where("qos > 2").count() == 6
    endpoint = {"endpoint": stored.endpoint}
    for table in (
        read_messages(spark, **endpoint),
        spark.read.format("heliograph").options(**endpoint).load(),
    ):
        assert [row.asDict() for row in table.groupBy("clientid").count().collect()] == [
            {"clientid": "other", "count": 4}
        ]
