"""What the options of the data source make of a read, on a real Spark and real storage readers."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (Spark's own convention)
from pyspark.sql.types import StructType

from heliograph.pipeline.datasource import column_pruning
from heliograph.pipeline.datasource.client import StorageClient
from heliograph.pipeline.datasource.source import HeliographDataSource

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


def _read(spark: SparkSession, stored: "Stored", **options: str) -> DataFrame:
    return spark.read.format("heliograph").options(**{"endpoint": stored.endpoint, **options}).load()


def _numbers(rows: list[Row]) -> list[int]:
    return sorted(json.loads(row["payload"])["n"] for row in rows)


def _read_by_the_reader(stored: "Stored") -> dict[str, int]:
    with StorageClient(stored.endpoint) as client:
        counts: dict[str, int] = client.info()["read"]
        return counts


@pytest.fixture
def other(tmp_path: Path) -> Iterator["Stored"]:
    """The storage of another node."""
    from pipeline.conftest import Stored

    other = Stored(tmp_path / "other")
    yield other
    other.close()


def test_a_narrow_query_reads_narrowly(
    spark: SparkSession, stored: "Stored", capsys: pytest.CaptureFixture[str]
) -> None:
    for device in range(40):
        stored.put(f"site/{device}/state", [b'{"n": %d}' % device] * 5, clientid=f"device-{device % 20}")
    times = sorted(row[0] for row in _read(spark, stored).select("stored_at").distinct().collect())

    def messages(columns: str = "topic,stored_at,clientid,qos,shard") -> DataFrame:
        return _read(spark, stored, pushFilters="true", columns=columns)

    narrow = {
        5: messages().where(F.col("topic") == "site/35/state"),
        10: messages().where("topic IN ('site/36/state', 'site/37/state', 'other')"),
        20: messages().where(F.col("stored_at") < F.lit(times[4])),
        15: messages().where((F.col("stored_at") > F.lit(times[-4])) & (F.col("qos") == 1)),
        0: messages().where("shard = 7"),
    }
    for rows, query in narrow.items():
        before = _read_by_the_reader(stored)
        assert len(query.collect()) == rows
        after = _read_by_the_reader(stored)
        assert after["rows_read"] - before["rows_read"] == rows
    before = _read_by_the_reader(stored)
    assert len(messages().where("clientid = 'device-3' AND topic LIKE 'site/23%'").collect()) == 5
    after = _read_by_the_reader(stored)
    assert after["rows_given"] - before["rows_given"] == 10
    messages("topic").where("topic = 'site/35/state'").explain("formatted")
    told = capsys.readouterr().out
    assert "Filter (" not in told
    assert "PushedFilters: [IsNotNull(topic), EqualTo(topic,site/35/state)]" in told


def _read_schemas(query: DataFrame) -> list[str]:
    """The columns of each read of a query, as `explain` shows them."""
    plan = query._jdf.queryExecution().optimizedPlan().toString()
    return re.findall(r"RelationV2\[([^]]*)\]", re.sub(r"#\d+", "", plan))


def test_a_query_reads_the_columns_that_it_uses(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"n": 1}', b'{"n": 2}', b"no"])
    stored.put("a/2", [b'{"n": 3}'])
    table = _read(spark, stored)
    counted = table.groupBy().count()
    assert (_read_schemas(counted), counted.collect()[0][0], table.count()) == (["$rowsL"], 4, 4)
    topics = table.where("clientid = 'station'").groupBy("topic").count()
    assert _read_schemas(topics) == ["topic, clientid"]
    assert sorted(topics.collect()) == [("a/1", 3), ("a/2", 1)]
    both = table.select("topic", "payload").join(table.select("topic", "qos").where("qos = 1").distinct(), "topic")
    assert sorted(_read_schemas(both)) == ["topic, payload", "topic, qos"]
    assert both.count() == 4
    assert _read_schemas(table) == _read_schemas(table.select("*"))
    assert len(table.collect()[0]) == len(table.columns)
    # What a mode leaves out is counted out, whatever is read.
    decoded = _read(spark, stored, schema="json", jsonSchema="n INT", mode="DROPMALFORMED")
    assert (decoded.count(), decoded.selectExpr("sum(value.n)").collect()[0][0]) == (3, 6)
    # With conditions that the reader takes over, its read is planned with all columns.
    narrowed = _read(spark, stored, pushFilters="true").where("topic = 'a/2'")
    assert (narrowed.count(), [row.payload for row in narrowed.select("payload").collect()]) == (1, [b'{"n": 3}'])


def test_a_rule_that_spark_does_not_take_leaves_queries_as_they_are(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def add(*_: object) -> None:
        raise TypeError("'JavaPackage' object is not callable")

    monkeypatch.setattr(column_pruning, "add_rule", add)
    spark.dataSource.register(HeliographDataSource)
    assert "queries read all columns of stored messages: 'JavaPackage' object is not callable" in caplog.messages


def test_queries_of_one_table_do_not_narrow_one_another(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b"1"])
    stored.put("a/2", [b"2", b"2"])
    messages = _read(spark, stored)
    one, two = messages.where("topic = 'a/1'"), messages.where("topic = 'a/2'")
    assert (one.count(), messages.count()) == (1, 3)
    assert sorted(bytes(row["payload"]) for row in one.union(two).collect()) == [b"1", b"2", b"2"]


def test_a_session_without_pushdown_reads_the_same(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"n": 0}'])
    stored.put("a/2", [b'{"n": 1}'])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert _numbers(_read(spark, stored).where("topic = 'a/2'").collect()) == [1]
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_each_row_has_the_position_to_go_on_from(spark: SparkSession, stored: "Stored") -> None:
    stored.put_commits("a/1", 3, 4)
    stored.merge_blocks()
    stored.put_commits("a/1", 1, 4)
    rows = _read(spark, stored, columns="stream,position,payload").collect()
    assert len({row["position"] for row in rows}) == 16
    for index in (0, 5, 11, 12, 15):
        start = json.dumps({"streams": {rows[index]["stream"]: rows[index]["position"]}})
        assert [row["position"] for row in _read(spark, stored, start=start).collect()] == [
            row["position"] for row in rows[index + 1 :]
        ]


def test_times_are_of_the_sessions_zone(spark: SparkSession, stored: "Stored") -> None:
    from heliograph.pipeline.running.ranges import register_sources

    stored.put("a/1", [b'{"n": 0}'])
    begin = _read(spark, stored).first()
    assert begin is not None
    start = (begin["stored_at"] + timedelta(minutes=30)).isoformat()  # naive, of UTC
    assert _read(spark, stored, end=start).count() == 1
    spark.conf.set("spark.sql.session.timeZone", "+01:00")
    register_sources(spark)
    try:
        assert _read(spark, stored, end=start).count() == 0
        assert _read(spark, stored).where(F.col("stored_at") < F.lit(start).cast("timestamp")).count() == 0
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        register_sources(spark)


def test_offsets_bound_a_table(spark: SparkSession, stored: "Stored", tmp_path: Path) -> None:
    stored.put_commits("a/1", 2, 10)
    query = (
        spark.readStream.format("heliograph")
        .option("endpoint", stored.endpoint)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert query.lastProgress is not None
    offset = json.dumps(json.loads(query.lastProgress.json)["sources"][0]["endOffset"])
    stored.put("a/1", [b'{"n": 20}'])
    stored.put("b/1", [b'{"n": 21}'])
    assert _numbers(_read(spark, stored, start=offset).collect()) == [20, 21]
    assert _numbers(_read(spark, stored, end=offset).collect()) == list(range(20))
    assert _read(spark, stored, start=offset, end=offset).collect() == []


def test_several_endpoints_are_read_as_one(
    spark: SparkSession, stored: "Stored", other: "Stored", tmp_path: Path
) -> None:
    both = {"endpoint": f"{stored.endpoint},{other.endpoint}"}
    stored.put_commits("a/1", 3, 10)
    other.put("a/1", [b'{"n": 30}'])
    assert _numbers(_read(spark, stored, **both).collect()) == list(range(31))
    found: list[int] = []

    def run_once(options: dict[str, str]) -> dict[str, str]:
        rows = spark.readStream.format("heliograph").options(**options).load()
        writer = rows.writeStream.foreachBatch(lambda batch, _: found.extend(_numbers(batch.collect())))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        assert query.lastProgress is not None
        streams: dict[str, str] = json.loads(query.lastProgress.json)["sources"][0]["endOffset"]["streams"]
        return streams

    assert list(run_once({"endpoint": stored.endpoint})) == ["messages/0/1/1"]
    streams = run_once(both | {"maxMessagesPerTrigger": "4"})
    assert sorted(found) == list(range(31))
    sites, own = zip(*(stream.rpartition(":")[::2] for stream in streams), strict=True)
    assert (set(own), len(set(sites))) == ({"messages/0/1/1"}, 2)
    other.put("b/1", [b'{"n": 31}'])
    reordered = run_once({"endpoint": f"{other.endpoint},{stored.endpoint}"})
    assert sorted(found) == list(range(32))
    assert len(reordered) == 3


def test_partitions_have_about_the_same_bytes_and_small_streams_share_one(
    spark: SparkSession, stored: "Stored"
) -> None:
    for commit in range(40):
        stored.put("large", [b"%1000d" % commit] * 10)
    for stream in range(8):
        stored.put(f"small/{stream}", [b"x" * 100])
    messages = _read(spark, stored, partitionBytes="100000")
    sizes = messages.rdd.mapPartitions(lambda rows: [sum(len(row["payload"]) for row in rows)]).collect()
    assert sum(sizes) == 400_800
    assert 5 <= len(sizes) <= 6
    assert max(sizes) <= 120_000


def test_json_payloads_become_typed_columns(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"temp": 1.5, "tags": ["x"], "at": "2026-01-01T00:00:00Z"}', b'{"temp": "warm"}', b"\xff"])
    rows = _read(
        spark, stored, schema="json", jsonSchema="temp DOUBLE, tags ARRAY<STRING>, at TIMESTAMP", columns="value"
    )
    good, *bad = rows.select("value.*").collect()
    assert (good["temp"], good["tags"], good["at"].isoformat()) == (1.5, ["x"], "2026-01-01T00:00:00")
    assert bad == [Row(temp=None, tags=None, at=None)] * 2
    stored.put("a/2", [b'{"rates": {"a": 1, "b": "x"}, "tools": [{"of": {"k": {"n": 2}}}]}'])
    nested = "rates MAP<STRING, DOUBLE>, tools ARRAY<STRUCT<of: MAP<STRING, STRUCT<n: INT>>>>"
    maps = _read(spark, stored, schema="json", jsonSchema=nested, topics="a/2", columns="value,decode_error")
    (found,) = maps.select("value.*", "decode_error").collect()
    assert found["rates"] == {"a": 1.0, "b": None}
    assert found["tools"] == [Row(of={"k": Row(n=2)})]
    assert found["decode_error"] == 'field rates.* is "x", which is no DOUBLE'
    narrow = _read(spark, stored, schema="json", jsonSchema="temp DOUBLE", topics="a/1").orderBy("guid")
    assert [row["decode_error"] for row in narrow.collect()] == [
        None,
        'field temp is "warm", which is no DOUBLE',
        "it is not UTF-8",
    ]
    assert [bytes(row["payload"]) for row in narrow.collect()][2] == b"\xff"
    with pytest.raises(PySparkException, match='cannot be decoded: field temp is "warm", which is no DOUBLE'):
        _read(spark, stored, schema="json", jsonSchema="temp DOUBLE", topics="a/1", mode="FAILFAST").collect()
    kept = _read(
        spark, stored, schema="json", jsonSchema="temp DOUBLE", topics="a/1", mode="dropmalformed", columns="value"
    )
    assert (kept.count(), len(kept.collect())) == (1, 1)
    all_columns = _read(spark, stored, schema="json", jsonSchema="temp DOUBLE", topics="a/1", mode="dropmalformed")
    assert (all_columns.count(), all_columns.select("topic").count()) == (1, 1)
    corrupt = _read(
        spark, stored, schema="json", jsonSchema="temp DOUBLE", topics="a/1", columns="value,_corrupt_record,guid"
    )
    records = [row["_corrupt_record"] for row in corrupt.orderBy("guid").collect()]
    assert records == [None, '{"temp": "warm"}', "\N{REPLACEMENT CHARACTER}"]
    with pytest.raises(PySparkException, match=r"option jsonSchema is 'value.temp date', but must be struct"):
        _read(spark, stored, schema="json", jsonSchema="temp DATE").collect()


def test_variants_are_sparks_own(spark: SparkSession, stored: "Stored") -> None:
    stored.put("a/1", [b'{"temp": 1.5, "tags": ["x"]}', b"temp"])
    rows = _read(spark, stored, schema="variant").orderBy("guid")
    found = rows.selectExpr("variant_get(value, '$.tags[0]', 'string') AS tag", "value:temp::double AS temp", "value")
    assert [row[:2] for row in found.collect()] == [("x", 1.5), (None, None)]
    assert [row["decode_error"] is None for row in rows.collect()] == [True, False]


def test_named_schemas_become_typed_columns(spark: SparkSession, stored: "Stored", tmp_path: Path) -> None:
    avro = {"type": "record", "name": "T", "fields": [{"name": "temp", "type": "double"}]}
    (tmp_path / "schemas.hocon").write_text(
        f"schemas {{ telemetry {{ type = avro, source = {json.dumps(json.dumps(avro))} }}\n"
        'device { type = protobuf, source = """syntax = "proto3"; message D { int32 n = 1; } message E {}""" } }'
    )
    stored.put("avro", [b"\0\0\0\0\0\0\xf0?", b"x"])
    stored.put("protobuf", [b"\x08\x05", b"\xff"])
    schemas = {"schemas": str(tmp_path / "schemas.hocon")}
    rows = _read(spark, stored, topics="avro", schema="avro:telemetry", **schemas).orderBy("guid")
    assert isinstance(rows.schema["value"].dataType, StructType)
    assert [row["value"] and row["value"]["temp"] for row in rows.collect()] == [1.0, None]
    assert [row["decode_error"] is None for row in rows.collect()] == [True, False]
    rows = _read(spark, stored, topics="protobuf", schema="protobuf:device:D", **schemas).orderBy("guid")
    assert [row["value"] and row["value"]["n"] for row in rows.collect()] == [5, None]
    with pytest.raises(PySparkException, match="option schema is 'protobuf:device'"):
        _read(spark, stored, schema="protobuf:device", **schemas).collect()
