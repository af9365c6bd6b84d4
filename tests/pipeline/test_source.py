"""The data source `heliograph` on a real Spark, over a real storage reader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from heliograph.pipeline.datasource.schema import MESSAGE_SCHEMA, arrow_schema
from heliograph.storage.columnar.arrow_rows import PUBLIC_SCHEMA

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]

Batches = dict[int, list[int]]


def _numbers(rows: list[Row]) -> list[int]:
    return [json.loads(row["payload"])["n"] for row in rows]


def _read(spark: SparkSession, stored: "Stored", **options: str) -> DataFrame:
    return spark.read.format("heliograph").options(endpoint=stored.endpoint, **options).load()


def _collector(batches: Batches) -> Callable[[DataFrame, int], None]:
    def collect(rows: DataFrame, batch: int) -> None:
        batches[batch] = _numbers(rows.collect())

    return collect


def _start(
    spark: SparkSession, stored: "Stored", checkpoint: Path, batches: Batches, is_once: bool, **options: str
) -> StreamingQuery:
    messages = spark.readStream.format("heliograph").options(endpoint=stored.endpoint, **options).load()
    writer = messages.writeStream.foreachBatch(_collector(batches)).option("checkpointLocation", str(checkpoint))
    return (
        writer.trigger(availableNow=True).start()
        if is_once
        else writer.trigger(processingTime="100 millisecond").start()
    )


def _run_once(spark: SparkSession, stored: "Stored", checkpoint: Path, **options: str) -> Batches:
    batches: Batches = {}
    query = _start(spark, stored, checkpoint, batches, True, **options)
    assert query.awaitTermination(60)
    return batches


def _all(batches: Batches) -> list[int]:
    return [number for batch in sorted(batches) for number in batches[batch]]


def _offsets(checkpoint: Path) -> list[str]:
    """The offset of each batch that a checkpoint knows, as Spark wrote it."""
    files = sorted(
        (file for file in (checkpoint / "offsets").iterdir() if file.name.isdigit()), key=lambda f: int(f.name)
    )
    return [file.read_text().splitlines()[-1] for file in files]


def test_the_columns_are_those_of_storage() -> None:
    assert MESSAGE_SCHEMA.fieldNames() == PUBLIC_SCHEMA.names
    theirs = {field.name: str(field.type) for field in PUBLIC_SCHEMA}
    ours = {field.name: str(field.type) for field in arrow_schema(MESSAGE_SCHEMA)}
    # Spark knows no binary values of fixed size.
    assert ours == theirs | {"guid": "binary"}


def test_a_message_arrives_as_it_was_stored(spark: SparkSession, stored: "Stored") -> None:
    stored.put("weather/JFK/obs", ['{"temp": "39\u00b0"}'.encode()], clientid="station-1")
    (row,) = _read(spark, stored).collect()
    assert row["topic"] == "weather/JFK/obs"
    assert bytes(row["payload"]) == '{"temp": "39\u00b0"}'.encode()
    assert (row["qos"], row["retain"], row["clientid"], row["username"]) == (1, False, "station-1", None)
    assert row["properties"] is None
    assert len(row["guid"]) == 16
    assert row["received_at"].isoformat() == "2026-01-01T00:00:00.000001"
    assert (row["shard"], row["stream"].startswith("messages/0/")) == (0, True)


def test_topics_times_and_columns_narrow_a_read(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"n": 0}'])
    stored.put("b/1", [b'{"n": 1}'])
    stored.put("a/2", [b'{"n": 2}'])
    times = [row[0] for row in _read(spark, stored).selectExpr("unix_micros(stored_at)").collect()]
    assert sorted(_numbers(_read(spark, stored, topics="a/+").collect())) == [0, 2]
    assert sorted(_numbers(_read(spark, stored, start=str(sorted(times)[1])).collect())) == [1, 2]
    assert sorted(_numbers(_read(spark, stored, end=str(sorted(times)[1])).collect())) == [0]
    assert _read(spark, stored, columns="payload,qos").columns == ["payload", "qos"]
    given = spark.read.format("heliograph").schema("payload binary, topic string").option("endpoint", stored.endpoint)
    assert sorted(row["topic"] for row in given.load().collect()) == ["a/1", "a/2", "b/1"]


def test_a_large_stream_is_read_in_several_partitions_and_an_empty_database_in_none(
    spark: SparkSession, stored: "Stored"
) -> None:
    assert _read(spark, stored).count() == 0
    stored.put_commits("a/1", 20, 10)
    messages = _read(spark, stored, partitionMessages="50")
    assert messages.rdd.getNumPartitions() == 4
    assert _numbers(messages.collect()) == list(range(200))


def test_mistakes_in_options_are_told_when_the_read_is_made(spark: SparkSession, stored: "Stored") -> None:
    with pytest.raises(PySparkException, match="option start is 'now', but must be earliest, latest"):
        _read(spark, stored, start="now").collect()
    with pytest.raises(PySparkException, match="option columns is 'temp', but must be some of topic, payload"):
        _read(spark, stored, columns="temp").collect()
    with pytest.raises(PySparkException, match="there is no such database"):
        _read(spark, stored, database="metrics").collect()
    with pytest.raises(PySparkException, match="option topic is 'a/1', but must be left out, or did you mean topics"):
        _read(spark, stored, topic="a/1").collect()
    with pytest.raises(PySparkException, match="option mode is 'overwrite', but must be append"):
        spark.sql("SELECT 'a' AS topic, 'b' AS payload").write.format("heliograph").mode("overwrite").save()


def test_mistakes_that_only_a_stream_can_make_are_told_too(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    query = _start(spark, stored, tmp_path / "checkpoint", {}, True, end="2026-01-01")
    with pytest.raises(PySparkException, match=r"OptionError: option end is .* a stream has no end"):
        query.awaitTermination(60)
    assert "UnboundLocalError" not in str(query.exception())


def test_a_stream_query_reads_everything_once_in_bounded_batches(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    stored.put_commits("a/1", 10, 10)
    batches = _run_once(spark, stored, tmp_path / "checkpoint", maxMessagesPerTrigger="30")
    assert _all(batches) == list(range(100))
    assert len(batches) >= 4
    assert max(len(batch) for batch in batches.values()) <= 30


def test_bytes_bound_a_batch_too(spark: SparkSession, stored: "Stored", tmp_path: Path) -> None:
    stored.put_commits("a/1", 10, 10)
    batches = _run_once(spark, stored, tmp_path / "checkpoint", maxBytesPerTrigger="300")
    assert _all(batches) == list(range(100))
    assert len(batches) > 3


def test_a_restart_goes_on_where_the_checkpoint_is(spark: SparkSession, stored: "Stored", tmp_path: Path) -> None:
    stored.put_commits("a/1", 3, 10)
    first = _run_once(spark, stored, tmp_path / "checkpoint")
    stored.put("a/1", [b'{"n": 30}', b'{"n": 31}'])
    second = _run_once(spark, stored, tmp_path / "checkpoint")
    assert _all(first) == list(range(30))
    assert _all(second) == [30, 31]
    assert min(second) == max(first) + 1
    assert all(len(offset) < 200 for offset in _offsets(tmp_path / "checkpoint"))


def test_a_batch_that_was_not_committed_is_replayed_with_the_same_rows(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    stored.put_commits("a/1", 5, 10)
    stored.put_commits("b/1", 5, 10)
    before = _run_once(spark, stored, checkpoint, maxMessagesPerTrigger="30", start="1000")
    last = max(before)
    # What a driver leaves behind that is killed within its last batch: planned and not committed.
    for trace in (checkpoint / "commits").glob(f"*{last}*"):
        trace.unlink()
    stored.put("a/1", [b'{"n": 1000}'])
    # The times and limits of the second run are others; the replayed batch must not notice.
    after = _run_once(spark, stored, checkpoint, maxMessagesPerTrigger="7", partitionMessages="4")
    assert sorted(after[last]) == sorted(before[last])
    assert [number for batch in after if batch > last for number in after[batch]] == [1000]


def test_streams_that_appear_while_a_query_runs_are_read(spark: SparkSession, stored: "Stored", tmp_path: Path) -> None:
    stored.put("a/1", [b'{"n": 0}'])
    batches: Batches = {}
    query = _start(spark, stored, tmp_path / "checkpoint", batches, False)
    try:
        query.processAllAvailable()
        stored.put("b/2/c", [b'{"n": 1}'], clientid="other")
        query.processAllAvailable()
        assert _all(batches) == [0, 1]
        progress = json.loads(query.lastProgress.json) if query.lastProgress is not None else {}
        assert len(progress["sources"][0]["latestOffset"]["streams"]) == 2
    finally:
        query.stop()


def test_a_query_that_starts_at_the_latest_reads_only_what_comes(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    stored.put("a/1", [b'{"n": 0}'])
    batches: Batches = {}
    query = _start(spark, stored, tmp_path / "checkpoint", batches, False, start="latest")
    try:
        query.processAllAvailable()
        stored.put("a/1", [b'{"n": 1}'])
        stored.put("b/1", [b'{"n": 2}'])
        query.processAllAvailable()
        assert sorted(_all(batches)) == [1, 2]
    finally:
        query.stop()


def test_a_large_batch_of_a_stream_query_is_read_in_several_partitions(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    stored.put_commits("a/1", 20, 10)
    partitions: list[int] = []
    messages = spark.readStream.format("heliograph").options(endpoint=stored.endpoint, partitionMessages="50").load()
    query = (
        messages.writeStream.foreachBatch(lambda rows, batch: partitions.append(rows.rdd.getNumPartitions()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert partitions == [4]


def test_a_query_ends_with_a_sentence_when_the_reader_is_gone(
    spark: SparkSession, stored: "Stored", tmp_path: Path
) -> None:
    stored.put("a/1", [b'{"n": 0}'])
    endpoint = stored.endpoint
    stored.stop_reader()
    try:
        query = _start(spark, stored, tmp_path / "checkpoint", {}, True)
        with pytest.raises(PySparkException, match=f"the storage reader at {endpoint} does not answer"):
            query.awaitTermination(60)
    finally:
        stored.start_reader(endpoint)
