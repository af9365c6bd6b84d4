"""Counts in Spark: the same numbers as of rows that are read, while only numbers are."""

import shutil
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.datasource.source import HeliographDataSource

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    """The source is registered, which has Spark name what a query needs."""
    spark.dataSource.register(HeliographDataSource)


def _read(spark: SparkSession, stored: "Stored", **options: str) -> DataFrame:
    return spark.read.format("heliograph").options(endpoint=stored.endpoint, **options).load()


def _rows_read(stored: "Stored") -> int:
    """How many rows the reader has looked at."""
    with StorageClient(stored.endpoint) as client:
        return int(client.info()["read"]["rows_read"])


def test_a_count_is_that_of_the_rows_and_reads_none(spark: SparkSession, stored: "Stored") -> None:
    assert _read(spark, stored).count() == 0
    stored.put_commits("a/1", 20, 10)
    stored.put_commits("b/1", 3, 10)
    times = sorted({row[0] for row in _read(spark, stored).selectExpr("unix_micros(stored_at)").collect()})
    looked_at = _rows_read(stored)
    assert _read(spark, stored).count() == 230
    assert _read(spark, stored, partitionMessages="5").count() == 230
    assert _read(spark, stored, topics="a/1").count() == 200
    assert _read(spark, stored, start=str(times[4]), end=str(times[21])).count() == 170
    _read(spark, stored).createOrReplaceTempView("messages")
    assert spark.sql("SELECT count(*), count(1) AS c, count(1, 2) FROM messages").collect() == [(230, 230, 230)]
    assert _read(spark, stored).select("topic").count() == 230
    assert _rows_read(stored) == looked_at


def test_what_is_no_count_of_all_rows_is_computed_by_spark(spark: SparkSession, stored: "Stored") -> None:
    stored.put_commits("a/1", 2, 10)
    stored.put_commits("b/1", 1, 10)
    _read(spark, stored).createOrReplaceTempView("messages")

    def result(select: str) -> list[int]:
        return list(spark.sql(f"SELECT {select}").collect()[0])

    assert result("count(*), count(DISTINCT topic) FROM messages") == [30, 2]
    assert result("count(NULL) FROM messages") == [0]
    assert result("count(DISTINCT 1) FROM messages") == [1]
    assert result("count(*) FILTER (WHERE topic = 'a/1') FROM messages") == [20]
    assert result("count(*) FROM messages WHERE topic = 'a/1'") == [20]
    assert result("count(*) + 1 FROM messages") == [31]
    assert result("count(*) FROM (SELECT 1 FROM messages LIMIT 7)") == [7]
    assert result("count(*) FROM (SELECT explode(array(1, 2)) FROM messages)") == [60]
    assert result("count(*) FROM messages AS a JOIN messages AS b ON a.position = b.position") == [30]
    assert result("count(username) FROM messages") == [0]
    counts = spark.sql("SELECT topic, count(*) FROM messages GROUP BY topic").collect()
    assert sorted(map(tuple, counts)) == [("a/1", 20), ("b/1", 10)]
    assert spark.sql("SELECT 1 FROM messages HAVING count(*) > 29").count() == 1


def test_dropped_rows_are_not_counted(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"n": 1}', b"no JSON", b'{"n": 2}'])
    decoded = {"schema": "json", "jsonSchema": "n INT"}
    assert _read(spark, stored, **decoded).count() == 3
    assert _read(spark, stored, mode="DROPMALFORMED", **decoded).count() == 2


def test_erased_messages_are_not_counted_and_offloaded_ones_without_their_files(
    spark: SparkSession, stored: "Stored"
) -> None:
    for _ in range(3):
        stored.put("a/1", [b"1", b"2"], "ada")
        stored.put("a/1", [b"3"], "bob")
    stored.add_generation()
    stored.offload(1)
    stored.put("a/1", [b"4"], "ada")
    shutil.move(stored.data_dir / "cold", stored.data_dir / "away")
    assert _read(spark, stored).count() == 10
    shutil.move(stored.data_dir / "away", stored.data_dir / "cold")
    stored.erase("ada")
    assert _read(spark, stored).count() == len(_read(spark, stored).collect()) == 3
