"""Servers killed in the middle of a batch, and batches that come again in another form: each row arrives once."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.redis import RedisSink
from heliograph.pipeline.sinks.redis_cluster import tag_of
from heliograph.pipeline.sinks.redis_commands import RowCommand
from heliograph.pipeline.sinks.redis_transaction import RedisTransaction
from heliograph.pipeline.sinks.spark.writing import write_batch
from support.mariadb import Mariadb, mariadb
from support.postgresql import Postgresql, postgresql
from support.redis import RedisCluster, RedisServer, redis_cluster, redis_sentinel, redis_server
from support.sinks import Refused, batch_of, sink_of

pytestmark = [pytest.mark.service, pytest.mark.slow]

_FIGURES = {"rows": 300, "commands": 1200, "retries": 0, "refused": 0, "repeated": 0}
_PATIENT = "retry { attempts = 100, first_pause = 50ms, longest_pause = 1s, deadline = 100s }"


class Target(Protocol):
    """A server that keeps the numbers of rows."""

    @property
    def pid(self) -> int:
        """Its process."""

    def section(self, more: str = "", table: str = "numbers") -> str:
        """The section of a sink that writes to it."""

    def numbers(self, table: str = "numbers") -> list[int]:
        """Every number that it has, in order."""

    def clear(self) -> None:
        """Have none."""


@dataclass(frozen=True)
class Database:
    """PostgreSQL or MariaDB."""

    server: Postgresql | Mariadb

    @property
    def pid(self) -> int:
        assert self.server.server is not None
        return self.server.server.pid

    def section(self, more: str = "", table: str = "numbers") -> str:
        return self.server.section(f"table = {table}, create = true, batch_rows = 100, {_PATIENT} {more}")

    def numbers(self, table: str = "numbers") -> list[int]:
        return [n for (n,) in self.server.query(f"SELECT id FROM {table} ORDER BY id")]

    def clear(self) -> None:
        self.server.query("DROP TABLE IF EXISTS numbers")


@dataclass(frozen=True)
class Redis:
    """Redis, with a list of numbers."""

    server: RedisServer

    @property
    def pid(self) -> int:
        assert self.server.server is not None
        return self.server.server.pid

    def section(self, more: str = "", table: str = "numbers") -> str:
        return self.server.section(f'command = [RPUSH, {table}, "${{id}}"], batch_rows = 100, {_PATIENT} {more}')

    def numbers(self, table: str = "numbers") -> list[int]:
        with self.server.client() as client:
            return sorted(map(int, client.lrange(table, 0, -1)))

    def clear(self) -> None:
        with self.server.client() as client:
            client.flushall()


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Target]]:
    with ExitStack() as stack:
        yield {
            "postgresql": Database(stack.enter_context(postgresql())),
            "mariadb": Database(stack.enter_context(mariadb(tmp_path_factory.mktemp("mariadb")))),
            "redis": Redis(stack.enter_context(redis_server(tmp_path_factory.mktemp("redis")))),
        }


@pytest.fixture(params=["postgresql", "mariadb", "redis"])
def target(request: pytest.FixtureRequest, targets: dict[str, Target]) -> Target:
    found = targets[request.param]
    found.clear()
    return found


def _killing(rows: DataFrame, pid: int, marker: Path) -> DataFrame:
    """The same rows; while those of the fifth partition are computed, a process is killed, once."""

    # Nested, so that it travels to Spark's workers by value: they cannot import tests.
    def kill(batches):  # type: ignore[no-untyped-def]  # what it has is pyarrow's, which has no types
        task = TaskContext.get()
        if task is not None and task.partitionId() == 4 and not os.path.exists(marker_path):
            open(marker_path, "w").close()
            os.kill(pid, signal.SIGKILL)
        yield from batches

    marker_path = str(marker)
    return rows.mapInArrow(kill, "id long")


def test_a_server_that_is_killed_in_a_batch_has_all_rows_once(
    spark: SparkSession, target: Target, tmp_path: Path
) -> None:
    sink = sink_of(target.section())
    write_batch(sink, spark.range(100), batch_of(0, query="killed"))
    # More partitions than are fetched at once, so that the transaction is open when the server dies.
    rows = spark.range(100, 1000, 1, 9)
    written = write_batch(sink, _killing(rows, target.pid, tmp_path / "killed"), batch_of(1, query="killed"))
    assert written.figures["rows"] == 900
    assert written.figures["retries"] >= 1
    assert (tmp_path / "killed").exists()
    assert write_batch(sink, rows, batch_of(1, query="killed")).figures["repeated"] == 1
    assert target.numbers() == list(range(1000))


def test_a_batch_that_comes_again_in_other_partitions_and_another_order_changes_nothing(
    spark: SparkSession, target: Target
) -> None:
    sink = sink_of(target.section())
    write_batch(sink, spark.range(0, 500, 1, 3), batch_of(0, query="again"))
    again = spark.range(0, 500, 1, 2).orderBy("id", ascending=False)
    assert write_batch(sink, again, batch_of(0, query="again")).figures["repeated"] == 1
    # A pipeline whose settings changed goes on with its checkpoint.
    other = sink_of(target.section().replace("batch_rows = 100", "batch_rows = 7"))
    assert write_batch(other, again, batch_of(0, query="again")).figures["repeated"] == 1
    assert target.numbers() == list(range(500))


def test_batches_without_rows_are_remembered(spark: SparkSession, target: Target) -> None:
    sink = sink_of(target.section())
    assert write_batch(sink, spark.range(0), batch_of(0, query="empty")).figures["rows"] == 0
    assert write_batch(sink, spark.range(0), batch_of(1, query="empty")).figures["rows"] == 0
    assert write_batch(sink, spark.range(5), batch_of(1, query="empty")).figures["repeated"] == 1
    write_batch(sink, spark.range(5), batch_of(2, query="empty"))
    assert target.numbers() == list(range(5))


def test_two_pipelines_write_to_one_table_each_row_of_each_once(spark: SparkSession, target: Target) -> None:
    sink = sink_of(target.section())
    for number in range(2):
        for query, owner in (("obs", "owner-1"), ("obs", "owner-2"), ("renamed", "owner-1")):
            for _ in range(2):
                write_batch(
                    sink, spark.range(number * 10, number * 10 + 10), batch_of(number, query=query, owner=owner)
                )
    assert target.numbers() == sorted(list(range(20)) * 3)


def test_a_hundred_thousand_rows_arrive(spark: SparkSession, target: Target) -> None:
    sink = sink_of(target.section().replace("batch_rows = 100", "batch_rows = 20000"))
    assert write_batch(sink, spark.range(100_000), batch_of(0, query="large")).figures["rows"] == 100_000
    assert target.numbers() == list(range(100_000))


@pytest.mark.parametrize("name", ["postgresql", "mariadb"])
def test_a_table_without_a_column_waits_until_it_is_there(
    spark: SparkSession, targets: dict[str, Target], name: str
) -> None:
    database = targets[name]
    assert isinstance(database, Database)
    database.clear()
    database.server.query("CREATE TABLE numbers (id BIGINT)")
    sink, rows, refused = sink_of(database.section()), spark.range(3).selectExpr("id", "id * 2 AS twice"), Refused()
    with pytest.raises(SinkError, match="twice"):
        write_batch(sink, rows, batch_of(0, refused, query="column"))
    assert refused.rows == []
    assert database.numbers() == []
    database.server.query("ALTER TABLE numbers ADD COLUMN twice BIGINT")
    assert write_batch(sink, rows, batch_of(0, refused, query="column")).figures["rows"] == 3


def test_a_failover_of_sentinels_in_a_batch_brings_it_once(spark: SparkSession, tmp_path: Path) -> None:
    command = f'command = "INCRBY total ${{id}}", {_PATIENT}'
    with redis_sentinel(tmp_path) as servers:
        sure = sink_of(servers.section(f"{command}, wait_replicas = 1"))
        assert write_batch(sure, spark.range(10), batch_of(0)).figures["rows"] == 10
        assert write_batch(sure, spark.range(10), batch_of(0)).figures["repeated"] == 1
        sink = sink_of(servers.section(command))
        rows = spark.range(0, 900, 1, 9)
        written = write_batch(sink, _killing(rows, servers.primary.pid, tmp_path / "killed"), batch_of(1))
        assert (written.figures["rows"], written.figures["repeated"]) == (900, 0)
        assert write_batch(sink, rows, batch_of(1)).figures["repeated"] == 1
        assert write_batch(sink, rows, batch_of(0)).figures["repeated"] == 1
        with servers.replica.client() as client:
            assert client.role()[0] == "master"
            assert client.get("total") == str(sum(range(10)) + sum(range(900)))
        alone = sink_of(servers.section(f"{command}, timeout = 200ms, wait_replicas = 1").replace("= 100", "= 2"))
        with pytest.raises(SinkError, match=r"0 of 1 replicas have taken the batch .tried 2 times"):
            write_batch(alone, spark.range(1), batch_of(2))


@pytest.fixture(scope="module")
def running_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def cluster(running_cluster: RedisCluster) -> RedisCluster:
    """A cluster without keys, whose nodes take what they are given."""
    for port in running_cluster.ports:
        with RedisServer(port).client() as client:
            client.config_set("maxmemory", "0")
            client.flushall()
    return running_cluster


def test_a_cluster_has_each_slot_once(spark: SparkSession, cluster: RedisCluster) -> None:
    with cluster.client() as client:
        section = f"""commands = [[INCRBY, "n:${{id}}", 1], [RPUSH, "{{all}}", "${{id}}"], [PUBLISH, news, "${{id}}"],
                      [EVAL, "return redis.call('INCR', KEYS[1])", 1, "e:${{id}}"]], {_PATIENT}"""
        sink, rows = sink_of(cluster.section(section)), spark.range(300)
        assert (
            sink.target == f"Redis INCRBY, RPUSH, PUBLISH, EVAL at the cluster 127.0.0.1:9,127.0.0.1:{cluster.ports[1]}"
        )
        assert write_batch(sink, rows, batch_of(0)).figures == _FIGURES
        assert write_batch(sink, rows, batch_of(0)).figures["repeated"] == 1
        assert client.lrange("{all}", 0, -1) == [str(n) for n in range(300)]
        assert {client.get(f"n:{n}") for n in range(300)} == {"1"}
        assert {client.get(f"e:{n}") for n in range(300)} == {"1"}

        client.set("bad:3", "no number")
        refused = Refused()
        strict = sink_of(
            cluster.section(f'commands = ["INCR bad:${{id}}", "MSET a:${{id}} 1 b:${{id}} 2"], {_PATIENT}')
        )
        written = write_batch(strict, spark.range(5), batch_of(1, refused))
        assert (written.figures["rows"], written.figures["refused"]) == (0, 5)
        assert {reason for _, reason in refused.rows} == {"the keys of MSET lie in several slots of the cluster"}
        refused = Refused()
        write_batch(
            sink_of(cluster.section(f'command = "INCR bad:${{id}}", {_PATIENT}')), spark.range(5), batch_of(2, refused)
        )
        assert [(row["id"], reason) for row, reason in refused.rows] == [(3, "value is not an integer or out of range")]


def test_commands_go_to_the_slot_of_their_keys_or_are_not_for_a_cluster(
    spark: SparkSession, cluster: RedisCluster
) -> None:
    with cluster.client() as client:
        section = """commands = ["XGROUP CREATE s:${id} readers $ MKSTREAM", "XGROUP CREATECONSUMER s:${id} readers a"],
                     retry { attempts = 1 }"""
        sink = sink_of(cluster.section(section))
        assert write_batch(sink, spark.range(20), batch_of(0)).figures["rows"] == 20
        assert {client.xinfo_groups(f"s:{n}")[0]["consumers"] for n in range(20)} == {1}
        for command, told in (
            ("SORT s:${id} STORE t:${id}", "which arguments of SORT are keys is unknown"),
            ("ZUNIONSTORE a:${id} 1 b:${id}", "which arguments of ZUNIONSTORE are keys is unknown"),
            ("XGROUP ${id} s", "XGROUP has subcommands"),
            ("XGROUP NONE s", "knows no command XGROUP|NONE"),
        ):
            with pytest.raises(SinkError, match=re.escape(told)):
                write_batch(sink_of(cluster.section(f'command = "{command}"')), spark.range(1), batch_of(1))

        # Keys that this side has sorted in another way than the server.
        tag = tag_of(0).encode()
        node = sink_of(RedisServer(cluster.ports[0]).section("command = [PING]"))
        assert isinstance(node, RedisSink)
        with node.primary("Redis") as connection:
            transaction = RedisTransaction(connection, "Redis", f"{{{tag.decode()}}}")
            assert transaction.is_due(0)
            torn = RowCommand(0, (b"MSET", b"a", b"1", b"b", b"2"))
            whole = RowCommand(1, (b"SET", b"{" + tag + b"}:kept", b"1"))
            assert transaction.write(0, lambda: [[torn, whole]]).keys() == {0}
        assert client.get(f"{{{tag.decode()}}}:kept") == "1"


def test_a_batch_that_a_cluster_has_in_part_is_completed(spark: SparkSession, cluster: RedisCluster) -> None:
    command = f'command = "INCR n:${{id}}", {_PATIENT}'
    with cluster.client() as client:
        sink = sink_of(cluster.section(command))
        write_batch(sink, spark.range(100), batch_of(0))
        # One node turns its slots away in the second batch, so that the others have it and this one does not.
        node = RedisServer(cluster.ports[2])
        with node.client() as lame:
            lame.config_set("maxmemory", "1")
            once = sink_of(cluster.section(command).replace("= 100", "= 1"))
            with pytest.raises(SinkError, match="maxmemory"):
                write_batch(once, spark.range(100), batch_of(1))
            assert {client.get(f"n:{n}") for n in range(100)} == {"1", "2"}
            lame.config_set("maxmemory", "0")
        written = write_batch(sink, spark.range(100).orderBy("id", ascending=False), batch_of(1))
        assert 0 < written.figures["rows"] < 100
        assert {client.get(f"n:{n}") for n in range(100)} == {"2"}
