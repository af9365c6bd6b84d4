"""The sink `kafka` by librdkafka, and the brokers that librdkafka has inside: what a consumer reads afterwards."""

import json
import re
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks.spark.kafka import spark_knows_kafka
from heliograph.pipeline.sinks.spark.writing import write_batch
from support.kafka import KafkaCluster, kafka_cluster, refusing_broker
from support.sinks import Refused, batch_of, sink_of

pytestmark = [pytest.mark.service, pytest.mark.slow]

# Messages of one partition are one request, also where a busy machine takes its time between two of them.
_AT_ONCE = 'properties { "linger.ms" = "20000" }'


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster() as running:
        yield running


def test_rows_become_messages(spark: SparkSession, cluster: KafkaCluster) -> None:
    sink = sink_of(f'{{ type = kafka, servers = "{cluster.servers}", topic = "obs-${{kind}}", key = "${{id}}" }}')
    rows = spark.range(0, 1000, 1, 2).selectExpr("id", "IF(id % 2 = 0, 'even', 'odd') AS kind")
    written = write_batch(sink, rows, batch_of(0))
    messages = cluster.read("obs-even", 500)
    assert sorted(int(message.key() or b"") for message in messages) == list(range(0, 1000, 2))
    assert json.loads(messages[0].value() or b"") == {"id": int(messages[0].key() or b""), "kind": "even"}
    assert (written.figures["rows"], written.figures["refused"]) == (1000, 0)
    assert written.figures["bytes"] > 20_000


def test_templates_say_how_a_message_is_made(spark: SparkSession, cluster: KafkaCluster) -> None:
    sink = sink_of(
        f'{{ type = kafka, servers = "{cluster.servers}", topic = made, value = "${{payload}}", key = "k-${{id}}", '
        'partition = "${id}", headers { id = "${id}", kind = fixed }, compression = zstd }'
    )
    write_batch(sink, spark.sql("SELECT 2 AS id, X'00FF' AS payload UNION ALL SELECT 3, NULL"), batch_of(0))
    first, second = cluster.read("made", 2)
    assert (first.partition(), first.key(), first.value()) == (2, b"k-2", b"\x00\xff")
    assert first.headers() == [("id", b"2"), ("kind", b"fixed")]
    assert (second.partition(), second.value()) == (3, None)


def test_refused_rows_are_told_and_the_others_sent(spark: SparkSession, cluster: KafkaCluster) -> None:
    sink = sink_of(
        f'{{ type = kafka, servers = "{cluster.servers}", topic = fussy, value = "${{value}}", '
        'partition = "${partition}", properties { "message.max.bytes" = "2000" } }'
    )
    rows = spark.sql(
        "SELECT id, IF(id = 5, repeat('x', 5000), 'v') AS value, IF(id = 7, 99, 0) AS partition FROM range(10)"
    )
    refused = Refused()
    written = write_batch(sink, rows, batch_of(0, refused))
    reasons = {row["id"]: reason for row, reason in refused.rows}
    assert sorted(reasons) == [5, 7]
    assert "too large" in reasons[5]
    assert "partition" in reasons[7]
    assert (written.figures["rows"], written.figures["refused"]) == (8, 2)
    assert len(cluster.read("fussy", 8)) == 8


def test_a_request_that_a_broker_refuses_as_a_whole_costs_only_the_row_that_is_to_blame(spark: SparkSession) -> None:
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    # The batch as one request, then row by row, of which it is the fourth.
    with refusing_broker(too_large, 0, 0, 0, too_large) as broker:
        sink = sink_of(f'{{ type = kafka, servers = "{broker.servers}", topic = whole, partition = "0", {_AT_ONCE} }}')
        refused = Refused()
        written = write_batch(sink, spark.range(10).coalesce(1), batch_of(0, refused))
        ((row, reason),) = refused.rows
        assert row == {"id": 3}
        assert "too large" in reason
        assert (written.figures["rows"], written.figures["refused"]) == (9, 1)
        found = [json.loads(message.value() or b"")["id"] for message in broker.read("whole", 9)]
    assert found == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_refusals_of_several_partitions_name_the_rows_that_did_not_arrive(spark: SparkSession) -> None:
    too_large = KafkaError.MSG_SIZE_TOO_LARGE
    # One request for each of the two partitions, then row by row.
    with refusing_broker(too_large, too_large, 0, 0, 0, *[too_large] * 4) as broker:
        sink = sink_of(
            f'{{ type = kafka, servers = "{broker.servers}", topic = parted, value = "${{id}}", '
            f'partition = "${{partition}}", {_AT_ONCE} }}'
        )
        refused = Refused()
        rows = spark.range(20).coalesce(1).selectExpr("id", "(id + 1) % 2 AS partition")
        assert write_batch(sink, rows, batch_of(0, refused)).figures["refused"] == 4
        found = [int(message.value() or b"") for message in broker.read("parted", 16)]
    assert sorted(found + [row["id"] for row, _ in refused.rows]) == list(range(20))


def test_brokers_that_are_not_there_are_told(spark: SparkSession) -> None:
    sink = sink_of(
        '{ type = kafka, servers = "127.0.0.1:9", topic = t, username = u, password = s3cret, '
        "retry { deadline = 500ms, first_pause = 10ms } }"
    )
    with pytest.raises(
        SinkError, match=r"Kafka topic t at 127\.0\.0\.1:9: 3 of 3 messages were not delivered"
    ) as error:
        write_batch(sink, spark.range(3), batch_of(0))
    assert "s3cret" not in str(error.value)
    assert "s3cret" not in repr(sink)


def test_sparks_own_sink_is_not_there_without_its_jar(spark: SparkSession) -> None:
    assert not spark_knows_kafka(spark)
    with pytest.raises(SinkError, match="Spark does not know Kafka: add its jar"):
        write_batch(
            sink_of('{ type = kafka, servers = "h:1", topic = t, client = spark }'), spark.range(1), batch_of(0)
        )


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "sink.topic: is missing"),
        ("topic = t, client = java", "expected auto, spark or librdkafka"),
        ("topic = t, compression = zip", "expected none, gzip"),
        ('topic = t, properties { "acks" = "0" }', "acks is not for a person to set"),
        ('topic = t, properties { "no.such" = "0" }', 'No such configuration property: "no.such"'),
    ],
)
def test_mistakes_are_told(spark: SparkSession, more: str, told: str) -> None:
    with pytest.raises((RuleFileError, SinkError), match=re.escape(told)):
        write_batch(sink_of(f'{{ type = kafka, servers = "h:1", {more} }}'), spark.range(1), batch_of(0))
