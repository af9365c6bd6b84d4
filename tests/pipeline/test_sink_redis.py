"""The sink `redis` and a real server: what the keys hold afterwards, whatever happened on the way."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import redis
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks.redis import RedisSink
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.pipeline.sinks.spark.writing import write_batch
from heliograph.settings.units import Address
from support.cases import cases
from support.redis import RedisServer, redis_server
from support.sinks import Refused, batch_of, sink_of

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def client(server: RedisServer) -> Iterator[redis.Redis]:
    with server.client() as client:
        client.flushall()
        yield client


def test_rows_become_commands(spark: SparkSession, server: RedisServer, client: redis.Redis) -> None:
    section = """commands = [[HSET, "obs:${id}", temp, "${s.temp}", row, "${.}"], "SADD stations \\"st ${id}\\""]"""
    rows = spark.sql(
        "SELECT 1 AS id, named_struct('temp', 20.5D) AS s, CAST(NULL AS STRING) AS t UNION ALL SELECT 2, NULL, 'x'"
    )
    written = write_batch(sink_of(server.section(section)), rows, batch_of(0))
    assert client.hgetall("obs:1") == {"temp": "20.5", "row": '{"id":1,"s":{"temp":20.5},"t":null}'}
    assert client.hget("obs:2", "temp") == "null"
    assert client.smembers("stations") == {"st 1", "st 2"}
    assert written.figures == {"rows": 2, "commands": 4, "retries": 0, "refused": 0, "repeated": 0}


def test_bytes_stay_bytes(spark: SparkSession, server: RedisServer, client: redis.Redis) -> None:
    sink = sink_of(server.section('command = [SET, raw, "${payload}"]'))
    write_batch(sink, spark.sql("SELECT X'00FFFE' AS payload"), batch_of(0))
    with redis.Redis(port=server.port, password=server.password) as raw:
        assert raw.get("raw") == b"\x00\xff\xfe"


def test_a_batch_that_is_written_again_counts_once(
    spark: SparkSession, server: RedisServer, client: redis.Redis
) -> None:
    sink = sink_of(server.section('command = "INCRBY total ${id}", batch_rows = 7'))
    assert write_batch(sink, spark.range(100), batch_of(0)).figures["rows"] == 100
    assert write_batch(sink, spark.range(100), batch_of(0)).figures["repeated"] == 1
    assert client.get("total") == "4950"
    write_batch(sink, spark.range(10), batch_of(1))
    assert client.get("total") == "4995"


def test_refused_rows_are_told_and_the_others_written(
    spark: SparkSession, server: RedisServer, client: redis.Redis
) -> None:
    client.set("n:3", "no number")
    sink = sink_of(server.section('command = "INCR n:${id}", batch_rows = 2'))
    refused = Refused()
    written = write_batch(sink, spark.range(5), batch_of(0, refused))
    assert [(row, reason) for row, reason in refused.rows] == [({"id": 3}, "value is not an integer or out of range")]
    assert (written.figures["rows"], written.figures["refused"]) == (4, 1)
    assert client.mget("n:0", "n:1", "n:2", "n:4") == ["1", "1", "1", "1"]
    assert write_batch(sink, spark.range(5), batch_of(0)).figures["repeated"] == 1
    assert client.get("n:0") == "1"


def test_a_value_that_is_longer_than_the_server_takes_is_refused(
    spark: SparkSession, server: RedisServer, client: redis.Redis
) -> None:
    client.config_set("proto-max-bulk-len", 1 << 20)
    try:
        refused = Refused()
        sink = sink_of(server.section('commands = ["INCR n:${id}", [SET, "t:${id}", "${t}"]], retry { attempts = 1 }'))
        rows = spark.range(5).selectExpr("id", "repeat('x', IF(id = 2, 1100000, 10)) AS t")
        assert write_batch(sink, rows, batch_of(0, refused)).figures["rows"] == 4
    finally:
        client.config_set("proto-max-bulk-len", 512 << 20)
    ((row, reason),) = refused.rows
    assert (row["id"], reason) == (2, "an argument has 1,100,000 bytes, and the server takes 1,048,576")
    assert sorted(client.keys("n:*")) == ["n:0", "n:1", "n:3", "n:4"]


def test_a_transaction_that_is_cut_leaves_nothing(
    spark: SparkSession, server: RedisServer, client: redis.Redis
) -> None:
    # The last row is a command that Redis refuses to queue, so that the transaction before it is thrown away.
    sink = sink_of(server.section('commands = ["INCR total", "NOSUCHCOMMAND x"], batch_rows = 3'))
    with pytest.raises(SinkError, match="unknown command"):
        write_batch(sink, spark.range(10), batch_of(0))
    assert client.keys("*") == []


def test_keys_and_channels_that_a_user_may_not_use_cost_their_rows_only(
    spark: SparkSession, server: RedisServer, client: redis.Redis
) -> None:
    client.acl_setuser(
        "station",
        enabled=True,
        passwords=[f"+{server.password}"],
        categories=["+@all"],
        commands=["-append"],
        keys=["n:*", "heliograph:*"],
        channels=["n:*"],
    )
    section = "username = station, batch_rows = 2, retry { attempts = 1 }, command"
    commands = 's = ["INCR n:all", [SET, "${name}", 1], [PUBLISH, "${channel}", 1]]'
    rows = spark.sql(
        "SELECT id, IF(id = 3, 'secret', 'n:' || id) AS name, IF(id = 4, 'secret', 'n:') AS channel FROM range(6)"
    ).coalesce(1)
    try:
        sink, refused = sink_of(server.section(f"{section}{commands}")), Refused()
        figures = write_batch(sink, rows, batch_of(0, refused)).figures
        assert write_batch(sink, rows, batch_of(0)).figures["repeated"] == 1
        with pytest.raises(SinkError, match="no permissions to run the 'append' command"):
            write_batch(sink_of(server.section(f'{section} = "APPEND n:${{id}} x"')), rows, batch_of(1))
    finally:
        client.acl_deluser("station")
    assert (figures["rows"], figures["commands"], figures["refused"]) == (4, 12, 2)
    assert [(row["id"], reason.split("one of the ")[1].split()[0]) for row, reason in refused.rows] == [
        (3, "keys"),
        (4, "channels"),
    ]
    assert sorted(client.keys("n:*")) == ["n:0", "n:1", "n:2", "n:5", "n:all"]
    assert client.get("n:all") == "4"


def test_what_reading_the_rows_raises_is_no_failure_of_the_server(server: RedisServer) -> None:
    sink = sink_of(server.section('command = "SET a ${id}"'))
    assert isinstance(sink, RedisSink)
    with pytest.raises(ConnectionResetError, match="of Spark"), sink.primary("Redis"):
        raise ConnectionResetError("of Spark")


def test_a_server_that_is_full_is_tried_again(spark: SparkSession, server: RedisServer, client: redis.Redis) -> None:
    client.config_set("maxmemory", "1")
    try:
        sink = sink_of(server.section('command = "SET k:${id} v", retry { attempts = 2, first_pause = 1ms }'))
        with pytest.raises(SinkError, match=r"maxmemory.*tried 2 times"):
            write_batch(sink, spark.range(10), batch_of(0))
    finally:
        client.config_set("maxmemory", "0")
    assert write_batch(sink, spark.range(10), batch_of(0)).figures["rows"] == 10


def test_a_server_that_is_not_there_is_told(spark: SparkSession, server: RedisServer) -> None:
    sink = sink_of(server.section('command = "SET a ${id}"'))
    assert isinstance(sink, RedisSink)
    away = replace(sink, address=Address("127.0.0.1", 9), retry=RetryPolicy(attempts=2, first_pause_s=0.001))
    with pytest.raises(SinkError, match=r"Redis SET at 127\.0\.0\.1:9/0: .*tried 2 times") as error:
        write_batch(away, spark.range(1), batch_of(0))
    assert server.password not in str(error.value)
    assert server.password not in repr(away)
    with pytest.raises(SinkError, match="invalid username-password pair"):
        write_batch(
            sink_of(server.section("command = 'SET a b'".replace("'", '"')).replace(server.password, "no")),
            spark.range(1),
            batch_of(0),
        )


@cases(
    ("more", "told"),
    [
        ("", "needs either command or commands"),
        ("command = [MULTI]", "MULTI cannot be part of a transaction"),
        ('command = ["${c}", a]', "cannot come from a row"),
        ("command = {}", "expected a list of texts"),
        ("comand = a", "did you mean command"),
        ("command = [SET, a, b], database = 5000", "from 0 to 1023"),
        ("command = [SET, a, b], redis_type = sharded", "expected single, sentinel or cluster"),
        ('command = [SET, a, b], servers = "a:1"', "sink.servers: is not for redis_type = single, which has server"),
        ("command = [SET, a, b], redis_type = cluster", "sink.server: is not for redis_type = cluster"),
    ],
)
def test_mistakes_are_told(more: str, told: str) -> None:
    with pytest.raises(RuleFileError, match=told):
        sink_of(RedisServer(1).section(more))
