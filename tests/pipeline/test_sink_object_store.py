"""Tables by URI: an object store that fails in between, and a directory elsewhere."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyarrow import fs
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks import OutputMode, Sink
from heliograph.pipeline.sinks.spark.writing import write_batch
from pipeline.batches import Batches, sink_of, station_rows
from support.s3 import S3Server, s3_server

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture
def store() -> Iterator[S3Server]:
    """An S3 server with an empty bucket."""
    with s3_server() as server:
        yield server


def _sink(store: S3Server, kind: str = "parquet", more: str = "", mode: OutputMode = OutputMode.APPEND) -> Sink:
    options = (
        f'endpoint_override = "{store.endpoint}", scheme = http, access_key = key, secret_key = hidden, region = x'
    )
    return sink_of(f'type = {kind}, path = "s3://lake/raw/obs", storage_options {{ {options} }}{more}', mode)


def _read(store: S3Server) -> list[int]:
    """The table as somebody sees it who lists the bucket."""
    files = fs.S3FileSystem(access_key="k", secret_key="s", endpoint_override=store.endpoint, scheme="http", region="x")
    found = ds.dataset("lake/raw/obs", filesystem=files, format="parquet").to_table(columns=["n"])
    return sorted(found.column("n").to_pylist())


def test_a_batch_whose_upload_broke_off_is_finished(spark: SparkSession, store: S3Server, tmp_path: Path) -> None:
    sink, batches = _sink(store, more=", partition_by = [station]"), Batches(tmp_path)
    assert "hidden" not in repr(sink)
    assert write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0)).rows_total == 2
    store.delete("raw/obs/.heliograph-owner")
    assert _read(store) == [1, 2]
    store.puts()
    store.refuse_puts(1)
    with pytest.raises(SinkError, match="the table s3://lake/raw/obs cannot be written: ") as refused:
        write_batch(sink, station_rows(spark, ("JFK", 3), ("LGA", 4)), batches.number(1))
    assert "hidden" not in str(refused.value)
    # The batch counts by now: the next run brings these rows, whatever it computes.
    assert write_batch(sink, station_rows(spark, ("ORD", 9)), batches.number(1)).rows_total == 4
    assert _read(store) == [1, 2, 3, 4]
    assert sorted(store.puts()) == [
        "raw/obs/station=JFK/11111111-00000001-0000.parquet",
        "raw/obs/station=LGA/11111111-00000001-0001.parquet",
    ]
    assert not list(tmp_path.rglob("*.parquet")), "nothing stays behind here"


def test_a_table_in_a_store_belongs_to_one_checkpoint(spark: SparkSession, store: S3Server, tmp_path: Path) -> None:
    sink = _sink(store)
    write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path / "a").number(0))
    other = Batches(tmp_path / "b", "22222222-other")
    with pytest.raises(SinkError, match="s3://lake/raw/obs was written by 11111111-owner-1"):
        write_batch(sink, station_rows(spark, ("JFK", 1)), other.number(0))
    store.delete("raw/obs/.heliograph-owner")
    with pytest.raises(SinkError, match="was written by something else"):
        write_batch(sink, station_rows(spark, ("JFK", 1)), other.number(0))


def test_a_result_in_a_store_is_replaced(spark: SparkSession, store: S3Server, tmp_path: Path) -> None:
    sink, batches = _sink(store, more=", key = [station]", mode=OutputMode.UPDATE), Batches(tmp_path)
    write_batch(sink, station_rows(spark, ("JFK", 1), ("EWR", 2)), batches.number(0))
    assert write_batch(sink, station_rows(spark, ("JFK", 3)), batches.number(1)).rows_total == 2
    assert _read(store) == [2, 3]
    assert store.listed() == ["raw/obs/table.parquet"]


def test_lines_of_json_in_a_store(spark: SparkSession, store: S3Server, tmp_path: Path) -> None:
    write_batch(_sink(store, "json"), station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(0))
    (key,) = [key for key in store.listed() if key.endswith(".json")]
    assert json.loads(store.get(key)) == {"station": "JFK", "n": 1}


def test_a_directory_by_uri(spark: SparkSession, tmp_path: Path) -> None:
    elsewhere, batches = tmp_path / "elsewhere" / "obs", Batches(tmp_path / "out")
    sink = sink_of(f'type = parquet, path = "file://{elsewhere}", partition_by = [station]')
    for number, station in enumerate(("JFK", "EWR", "EWR")):
        write_batch(sink, station_rows(spark, (station, number)), batches.number(min(number, 1)))
    assert sorted(ds.dataset(elsewhere).to_table(columns=["n"]).column("n").to_pylist()) == [0, 1]
    assert sorted(path.name for path in elsewhere.iterdir()) == [".heliograph-owner", "station=EWR", "station=JFK"]


def test_a_store_that_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    options = 'endpoint_override = "127.0.0.1:9", scheme = http, access_key = a, secret_key = hidden, region = x'
    sink = sink_of(f'type = orc, path = "s3://lake/obs", storage_options {{ {options} }}')
    with pytest.raises(SinkError, match="the table s3://lake/obs cannot be written") as caught:
        write_batch(sink, station_rows(spark, ("JFK", 1)), Batches(tmp_path).number(0))
    assert "hidden" not in str(caught.value)
