"""What Delta Lake and Iceberg tables have in common, as a reader of each sees it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from heliograph.cli.main import main
from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.lakes import LakeSink
from heliograph.pipeline.sinks.spark.arrow_rows import fields_of
from heliograph.pipeline.sinks.spark.writing import write_batch
from pipeline.batches import EVERY_TYPE, Batches, every_value, sink_of, station_rows
from support.cases import cases

pytestmark = [pytest.mark.service, pytest.mark.slow]


@dataclass(frozen=True)
class Lake:
    """One of the two.

    Attributes:
        settings: Those of a sink to the table `obs`.
        rows: What the table has below an output directory.
        refusal: What is said of columns that the table does not have.
        library: A module without which the sink cannot work.
    """

    settings: str
    rows: Callable[[Path], list[dict[str, Any]]]
    refusal: str
    library: str

    def read(self, output: Path) -> list[tuple[str, int]]:
        return sorted((row["station"], row["n"]) for row in self.rows(output))


def _delta_rows(output: Path) -> list[dict[str, Any]]:
    from deltalake import DeltaTable  # heavy: not while tests are collected

    rows: list[dict[str, Any]] = pa.table(DeltaTable(str(output / "obs")).scan()).to_pylist()
    return rows


def _iceberg_rows(output: Path) -> list[dict[str, Any]]:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("heliograph", type="sql", uri=f"sqlite:///{output}/iceberg.db")
    rows: list[dict[str, Any]] = catalog.load_table("default.obs").scan().to_arrow().to_pylist()
    return rows


DELTA = Lake("type = delta, path = obs", _delta_rows, "Set merge_schema = true to have columns added", "deltalake")
ICEBERG = Lake(
    "type = iceberg, table = obs",
    _iceberg_rows,
    "the Iceberg table default.obs cannot be written",
    "pyiceberg.exceptions",
)

of_both = pytest.mark.parametrize("lake", [DELTA, ICEBERG], ids=["delta", "iceberg"])


@of_both
def test_a_batch_that_runs_again_is_there_once(spark: SparkSession, tmp_path: Path, lake: Lake) -> None:
    sink, batches = sink_of(f"{lake.settings}, partition_by = [station]"), Batches(tmp_path)
    written = write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert (written.rows_total, written.figures["rows"]) == (2, 2)
    assert written.figures["bytes"] > 0
    for _ in range(2):
        again = write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1))
    assert (again.rows_total, again.figures["rows"]) == (3, 0)
    assert lake.read(tmp_path) == [("EWR", 2), ("JFK", 1), ("JFK", 3)]
    assert not list((tmp_path / ".heliograph").rglob("*.parquet"))


@of_both
def test_values_of_every_type(spark: SparkSession, tmp_path: Path, lake: Lake) -> None:
    write_batch(sink_of(lake.settings), spark.sql(EVERY_TYPE), Batches(tmp_path).number(0))
    assert lake.rows(tmp_path) == [every_value()]


@of_both
@pytest.mark.parametrize("partition", ["", ", partition_by = [station]"])
def test_a_complete_result_replaces_the_table(spark: SparkSession, tmp_path: Path, lake: Lake, partition: str) -> None:
    sink, batches = sink_of(lake.settings + partition, OutputMode.COMPLETE), Batches(tmp_path)
    write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1)).rows_total == 1
    assert lake.read(tmp_path) == [("JFK", 3)]
    assert write_batch(sink, station_rows(spark, ("JFK", 3)).where("n > 5"), batches.number(2)).rows_total == 0


@of_both
def test_columns_that_are_new_are_added_where_that_is_wanted(spark: SparkSession, tmp_path: Path, lake: Lake) -> None:
    batches, more = Batches(tmp_path), station_rows(spark, ("EWR", 2)).selectExpr("*", "1.5D wind")
    strict, merging = sink_of(lake.settings), sink_of(f"{lake.settings}, merge_schema = true")
    assert isinstance(strict, LakeSink)
    assert isinstance(merging, LakeSink)
    creates = "creates the table with station (string), n (bigint), wind (double)"
    assert strict.changes(fields_of(more.schema), tmp_path / "none") == (creates,)
    assert not (tmp_path / "none").exists()
    write_batch(strict, station_rows(spark, ("JFK", 1)), batches.number(0))
    with pytest.raises(SinkError, match=r"lacks columns of the rows: wind \(double\). Add them, or set merge_schema"):
        strict.changes(fields_of(more.schema), tmp_path)
    with pytest.raises(SinkError, match=lake.refusal):
        write_batch(strict, more, batches.number(1))
    assert merging.changes(fields_of(more.schema), tmp_path) == ("adds the column wind (double)",)
    write_batch(merging, more, batches.number(1))
    assert strict.changes(fields_of(more.schema), tmp_path) == ()
    assert sorted((row["station"], row["wind"]) for row in lake.rows(tmp_path)) == [("EWR", 1.5), ("JFK", None)]


def test_probe_tells_which_columns_a_table_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "obs", pa.table({"station": ["JFK"]}))
    file = tmp_path / "pipeline.hocon"
    sql = """rules.obs.sql = "SELECT clientid AS station, qos FROM '#'", rules.obs.sink """
    command = ["pipeline", "probe", str(file), "--output", str(tmp_path)]
    file.write_text(sql + "{ type = delta, path = obs }")
    assert main(command) == 1
    lacks = "obs: the Delta table obs lacks columns of the rows: qos (bigint). Add them, or set merge_schema = true"
    assert capsys.readouterr().err.strip() == lacks
    file.write_text(sql + "{ type = delta, path = obs, merge_schema = true }")
    assert main(command) == 0
    assert capsys.readouterr().out == "obs: can be reached, adds the column qos (bigint)\n"


@of_both
def test_a_table_of_somebody_else_is_not_touched_unless_it_is_shared(
    spark: SparkSession, tmp_path: Path, lake: Lake
) -> None:
    rows = station_rows(spark, ("JFK", 1))
    write_batch(sink_of(lake.settings), rows, Batches(tmp_path).number(0))
    other = Batches(tmp_path, "22222222-other")
    with pytest.raises(SinkError, match=r"was made by 11111111-owner-1, not by this checkpoint \(22222222-other\)"):
        write_batch(sink_of(lake.settings), rows, other.number(0))
    guest = Batches(tmp_path, "22222222-other", "11111111-owner-1")
    for _ in range(2):
        assert write_batch(sink_of(lake.settings), rows, guest.number(0)).rows_total == 2
    shared = sink_of(f"{lake.settings}, shared = true")
    assert shared.owned == ()
    third = Batches(tmp_path, "33333333-third")
    for _ in range(2):
        assert write_batch(shared, rows, third.number(0)).rows_total == 3


@of_both
def test_without_its_library_the_sink_says_what_to_install(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lake: Lake
) -> None:
    monkeypatch.setitem(sys.modules, lake.library, None)
    with pytest.raises(SinkError, match=r"pip install 'heliograph\[pipeline,sinks\]'"):
        write_batch(sink_of(lake.settings), station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(0))


@cases(
    ("text", "mode", "said"),
    [
        ('type = delta, path = "../obs"', "append", "expected a path below the output directory"),
        ("type = delta, path = obs", "update", "has no key"),
        ("type = delta, path = obs, retention = soon", "append", 'sink.retention: found "soon", expected a duration'),
        ("type = delta, path = obs, optimise_every = 3", "append", "did you mean optimize_every?"),
        ('type = delta, path = "s3://lake"', "append", "must have a path after the bucket"),
        ("type = delta, path = obs, newest_by = at", "append", "sink.newest_by: needs key"),
        ("type = delta, path = obs, newest_by = [], key = [id]", "append", "expected the name of a column, or a list"),
        ("type = delta, path = obs, newest_by = at, key = [id]", "complete", "mode complete replaces them all"),
        ("type = iceberg, table = obs, newest_by = at", "append", "iceberg cannot tell whether a row is newer"),
        ("type = iceberg, table = obs", "update", "has no key"),
        ('type = iceberg, table = "a/b"', "append", "expected a name such as obs"),
        ('type = iceberg, table = obs, partition_by = ["week(at)"]', "append", "expected a column such as station"),
        ('type = iceberg, table = obs, partition_by = ["bucket(at)"]', "append", "expected a column such as station"),
        ("type = iceberg, table = obs, path = x", "append", "sink.path: unknown key"),
    ],
)
def test_settings_that_are_not_valid_are_named(text: str, mode: str, said: str) -> None:
    with pytest.raises(RuleFileError) as caught:
        sink_of(text, OutputMode(mode))
    assert said in str(caught.value)
