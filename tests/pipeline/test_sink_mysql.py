"""The sink `mysql` and a real MariaDB: what is in the table afterwards, whatever happened on the way."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.mysql import MysqlSink
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.pipeline.sinks.spark.writing import write_batch
from heliograph.settings.units import Address
from support.added_columns import missing_columns_are_shown_and_added, writers_add_the_same_columns
from support.mariadb import Mariadb, mariadb
from support.sinks import Refused, batch_of, sink_of, write_rows

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mariadb]:
    with mariadb(tmp_path_factory.mktemp("mariadb")) as running:
        yield running


def test_values_of_every_type_arrive(spark: SparkSession, server: Mariadb) -> None:
    rows = spark.sql(
        """SELECT 'a' AS id, CAST(7 AS TINYINT) AS small, 9000000000 AS big, 1.5D AS d,
                  CAST(12.30 AS DECIMAL(10, 2)) AS amount, 'it''s \\\\ 100% "☀"' AS t, '' AS empty, X'00FF' AS b,
                  true AS flag, DATE'2026-01-31' AS day, TIMESTAMP'2026-01-31 12:00:00.123456Z' AS at,
                  TIMESTAMP_NTZ'2026-01-31 12:00:00' AS local, named_struct('x', 1) AS s,
                  CAST(NULL AS STRING) AS nothing"""
    )
    sink = sink_of(server.section("table = every_type, create = true, key = [id]"))
    assert write_batch(sink, rows, batch_of(0, query="types")).figures["rows"] == 1
    (found,) = server.query(
        "SELECT small, big, d, CAST(amount AS CHAR), t, empty, b, flag, CAST(day AS CHAR), CAST(at AS CHAR), "
        "CAST(local AS CHAR), s, nothing FROM every_type"
    )
    assert found == (
        *(7, 9_000_000_000, 1.5, "12.30", rows.collect()[0]["t"], "", b"\x00\xff", 1, "2026-01-31"),
        *("2026-01-31 12:00:00.123456", "2026-01-31 12:00:00.000000", '{"x":1}', None),
    )


def test_a_batch_that_is_written_again_changes_nothing(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE plain (n BIGINT)")
    sink = sink_of(server.section("table = plain, batch_rows = 300"))
    rows = spark.range(1000).withColumnRenamed("id", "n")
    assert write_batch(sink, rows, batch_of(0, query="again")).figures["rows"] == 1000
    assert write_batch(sink, rows, batch_of(0, query="again")).figures["repeated"] == 1
    write_batch(sink, rows, batch_of(1, query="again"))
    assert server.query("SELECT count(*), count(DISTINCT n) FROM plain") == ((2000, 1000),)


def test_refused_rows_are_told_and_the_others_written(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE picky (id INT PRIMARY KEY, t VARCHAR(4), n SMALLINT NOT NULL CHECK (n <> 3), d DOUBLE)")
    sink = sink_of(server.section("table = picky"))
    rows = spark.sql(
        """SELECT CAST(id AS INT) AS id, CASE id WHEN 17 THEN 'too long' ELSE 't' END AS t,
                  CASE id WHEN 40 THEN 100000 WHEN 41 THEN NULL WHEN 42 THEN 3 ELSE 1 END AS n,
                  CASE id WHEN 50 THEN CAST('NaN' AS DOUBLE) ELSE 1D END AS d
           FROM (SELECT id FROM range(100) UNION ALL SELECT 5)"""
    )
    refused = Refused()
    written = write_batch(sink, rows.coalesce(1), batch_of(0, refused, query="refused"))
    assert server.query("SELECT count(*) FROM picky") == ((95,),)
    assert (written.figures["rows"], written.figures["refused"]) == (95, 6)
    assert sorted(row["id"] for row, _ in refused.rows) == [5, 17, 40, 41, 42, 50]


def test_values_that_no_column_takes_are_dead_letters(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE narrow (id INT PRIMARY KEY, t LONGTEXT, at DATETIME, n TINYINT UNSIGNED, p INT)")
    server.query("CREATE TABLE places (id INT PRIMARY KEY)")
    server.query("ALTER TABLE narrow ADD FOREIGN KEY (p) REFERENCES places (id)")
    server.query(
        "CREATE TRIGGER seven BEFORE INSERT ON narrow FOR EACH ROW BEGIN IF NEW.n = 7 THEN "
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'seven is not wanted'; END IF; END"
    )
    ((packet,),) = server.query("SELECT @@max_allowed_packet")
    rows = spark.sql(
        f"""SELECT CAST(id AS INT) AS id,
                   CASE id WHEN 1 THEN repeat("'", CAST({packet} / 2 AS INT)) WHEN 2 THEN CAST(X'61FF' AS STRING)
                           WHEN 3 THEN repeat('x', CAST({packet} / 2 AS INT)) ELSE 't' END AS t,
                   CASE id WHEN 4 THEN TIMESTAMP'+12000-01-01 00:00:00Z' ELSE TIMESTAMP'2026-01-01 00:00:00Z' END AS at,
                   CASE id WHEN 5 THEN -1 WHEN 6 THEN 7 ELSE 1 END AS n, CASE id WHEN 8 THEN 1 END AS p
            FROM range(10)"""
    )
    refused = Refused()
    sink = sink_of(server.section("table = narrow, retry { attempts = 1 }"))
    written = write_batch(sink, rows, batch_of(0, refused, query="narrow"))
    assert (written.figures["rows"], written.figures["refused"]) == (4, 6)
    assert [n for (n,) in server.query("SELECT id FROM narrow ORDER BY id")] == [0, 3, 7, 9]
    told = {row["id"]: (row, reason) for row, reason in refused.rows}
    assert sorted(told) == [1, 2, 4, 5, 6, 8]
    assert "max_allowed_packet" in told[1][1]
    assert told[2][0]["t"] == r"a\xff"
    assert "12000-01-01" in told[4][0]["at"]
    assert "Out of range" in told[5][1]
    assert "seven is not wanted" in told[6][1]
    assert "foreign key" in told[8][1]


def test_statements_stay_below_the_packet_of_a_small_server(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE small_packets (id INT, t LONGTEXT)")
    server.as_root("SET GLOBAL max_allowed_packet = 65536")
    try:
        refused = Refused()
        rows = spark.range(2000).selectExpr("id", "repeat('é', IF(id = 7, 40000, 100)) AS t")
        sink = sink_of(server.section("table = small_packets, retry { attempts = 1 }"))
        assert write_batch(sink, rows, batch_of(0, refused, query="small")).figures["rows"] == 1999
    finally:
        server.as_root("SET GLOBAL max_allowed_packet = 16777216")
    assert [row["id"] for row, _ in refused.rows] == [7]
    assert server.query("SELECT count(*), count(DISTINCT id) FROM small_packets") == ((1999, 1999),)


@pytest.mark.parametrize(
    ("code", "state"), [(1205, "HY000"), (1021, "HY000"), (1114, "HY000"), (1040, "08004"), (1290, "HY000")]
)
def test_what_passes_is_tried_again_and_never_a_dead_letter(
    spark: SparkSession, server: Mariadb, code: int, state: str
) -> None:
    server.query(f"CREATE TABLE passing_{code} (id INT)")
    server.query(
        f"CREATE TRIGGER passing_{code} BEFORE INSERT ON passing_{code} FOR EACH ROW "
        f"SIGNAL SQLSTATE '{state}' SET MYSQL_ERRNO = {code}, MESSAGE_TEXT = 'not now'"
    )
    sink = sink_of(server.section(f"table = passing_{code}, retry {{ first_pause = 1ms, attempts = 2 }}"))
    with pytest.raises(SinkError, match=r"not now .tried 2 times"):
        write_batch(sink, spark.range(3), batch_of(0, query=f"passing_{code}"))
    server.query(f"DROP TRIGGER passing_{code}")
    assert write_batch(sink, spark.range(3), batch_of(0, query=f"passing_{code}")).figures["rows"] == 3


def test_rows_of_a_key_are_updated_or_kept(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE keyed (id VARCHAR(10), day DATE, n INT, PRIMARY KEY (id, day))")
    section = "table = keyed, key = [id, day]"
    updating = sink_of(server.section(section), OutputMode.UPDATE)
    rows = "SELECT 'a' AS id, DATE'2026-01-01' AS day, {} AS n"
    write_batch(
        updating, spark.sql(f"{rows.format(1)} UNION ALL {rows.format(2)}").coalesce(1), batch_of(0, query="keyed")
    )
    assert server.query("SELECT id, n FROM keyed") == (("a", 2),)
    keeping = sink_of(server.section(section + ", on_conflict = nothing"))
    write_batch(keeping, spark.sql(rows.format(4)), batch_of(1, query="keyed"))
    assert server.query("SELECT id, n FROM keyed") == (("a", 2),)


def test_keys_of_a_created_table_differ_in_case_accents_and_blanks(spark: SparkSession, server: Mariadb) -> None:
    sink = sink_of(server.section("table = exact, create = true, key = [id]"), OutputMode.UPDATE)
    ids = ["x", "X", "x ", "é", "e", ""]
    write_batch(sink, spark.createDataFrame([(text,) for text in ids], "id string"), batch_of(0, query="exact"))
    assert sorted(text for (text,) in server.query("SELECT id FROM exact")) == sorted(ids)


def test_a_whole_result_replaces_the_table(spark: SparkSession, server: Mariadb) -> None:
    sink = sink_of(server.section("table = whole, create = true"), OutputMode.COMPLETE)
    write_batch(sink, spark.range(5), batch_of(0, query="whole"))
    write_batch(sink, spark.range(3), batch_of(1, query="whole"))
    assert server.query("SELECT id FROM whole ORDER BY id") == ((0,), (1,), (2,))


def test_a_statement_takes_columns_as_parameters(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE stated (id INT PRIMARY KEY, t TEXT, x DOUBLE)")
    statement = "INSERT INTO stated (id, t, x) VALUES (${id}, ${t}, ${s.x}) ON DUPLICATE KEY UPDATE t = '50%'"
    sink = sink_of(server.section(f'sql = "{statement}"'))
    evil = "'); DROP TABLE stated; --"
    rows = spark.sql(f"""SELECT 1 AS id, "{evil}" AS t, named_struct('x', 1.5D) AS s""")
    write_batch(sink, rows, batch_of(0, query="stated"))
    assert server.query("SELECT * FROM stated") == ((1, evil, 1.5),)
    write_batch(sink, rows, batch_of(1, query="stated"))
    assert server.query("SELECT t FROM stated") == (("50%",),)


def test_a_lock_that_others_hold_is_waited_for(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE locked (id INT PRIMARY KEY)")
    server.query("INSERT INTO locked VALUES (0)")
    # The wait for a lock ends by an error on the third row, once.
    server.query("CREATE TABLE waits (n INT)")
    server.query(
        "CREATE TRIGGER wait BEFORE INSERT ON locked FOR EACH ROW BEGIN "
        "IF NEW.id = 3 AND GET_LOCK('first', 0) = 1 AND @waited IS NULL THEN SET @waited = 1; "
        "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'; END IF; END"
    )
    sink = sink_of(server.section("table = locked, retry { first_pause = 1ms, attempts = 2 }"))
    with pytest.raises(SinkError, match=r"Deadlock found .tried 2 times"):
        write_batch(sink, spark.range(1, 10), batch_of(0, query="locked"))
    server.query("DROP TRIGGER wait")
    assert write_batch(sink, spark.range(1, 10), batch_of(0, query="locked")).figures["rows"] == 9


def test_a_server_that_is_not_there_is_tried_and_told(spark: SparkSession, server: Mariadb) -> None:
    sink = sink_of(server.section("table = t"))
    assert isinstance(sink, MysqlSink)
    away = replace(sink, server=Address("127.0.0.1", 9), retry=RetryPolicy(attempts=2, first_pause_s=0.001))
    with pytest.raises(SinkError, match=r"MySQL table t at 127\.0\.0\.1:9/weather: .*tried 2 times") as error:
        write_batch(away, spark.range(1), batch_of(0))
    assert server.password not in str(error.value)
    assert server.password not in repr(away)


def test_what_a_person_must_mend_is_told_at_once(spark: SparkSession, server: Mariadb) -> None:
    with pytest.raises(SinkError, match=r"Table 'weather\.missing' doesn't exist"):
        write_batch(sink_of(server.section("table = missing")), spark.range(1), batch_of(0, query="missing"))
    with pytest.raises(SinkError, match="Access denied"):
        write_batch(sink_of(server.section("table = t").replace(server.password, "wrong")), spark.range(1), batch_of(0))
    with pytest.raises(RuleFileError, match="did you mean table"):
        sink_of(server.section("tabel = t"))


def test_an_older_row_never_replaces_a_newer_one(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE newest (id VARCHAR(10) PRIMARY KEY, ts INT, seq INT, n INT)")
    sink = sink_of(server.section("table = newest, key = [id], newest_by = [ts, seq], batch_rows = 2"))
    first = "('a', 5, 1, 1), ('a', 3, 9, 2), ('b', null, 0, 3), ('c', 1, 0, 4), ('d', 7, 2, 5), ('e', 7, 2, 6)"
    later = "('a', 4, 9, 7), ('b', 1, 0, 8), ('c', null, 9, 9), ('d', 7, 2, 10), ('e', 7, 1, 11), ('f', 0, 0, 12)"
    for number, rows in enumerate((first, later)):
        found = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, ts, seq, n)").coalesce(1)
        write_batch(sink, found, batch_of(number, query="newest"))
    expected = [("a", 5, 1), ("b", 1, 8), ("c", 1, 4), ("d", 7, 10), ("e", 7, 6), ("f", 0, 12)]
    assert list(server.query("SELECT id, ts, n FROM newest ORDER BY id")) == expected


def test_columns_that_the_table_lacks_are_shown_and_added(spark: SparkSession, server: Mariadb, tmp_path: Path) -> None:
    missing_columns_are_shown_and_added(spark, server, tmp_path, "double", "longtext", "json")


def test_two_writers_may_add_the_same_columns(spark: SparkSession, server: Mariadb) -> None:
    writers_add_the_same_columns(spark, server)


def test_a_table_in_use_gets_its_columns_later(spark: SparkSession, server: Mariadb) -> None:
    server.query("CREATE TABLE in_use (id INT)")
    more = "merge_schema = true, timeout = 5s, retry { attempts = 2, first_pause = 1ms }"
    sink = sink_of(server.section(f"table = in_use, {more}"))
    rows = spark.sql("SELECT 1 AS id, 2 AS n")
    with server.connect() as reader, reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM in_use")
        with pytest.raises(SinkError, match=r"Lock wait timeout exceeded.* .tried 2 times"):
            write_batch(sink, rows, batch_of(0, query="in_use"))
    write_batch(sink, rows, batch_of(0, query="in_use"))
    assert list(server.query("SELECT id, n FROM in_use")) == [(1, 2)]


def test_a_row_for_which_the_server_is_slow_holds_up_no_others(server: Mariadb) -> None:
    server.query("CREATE TABLE slow (n int, s text)")
    statement = "INSERT INTO slow SELECT ${payload.n}, SLEEP(${payload.s})"
    sink = sink_of(server.section(f'sql = "{statement}", timeout = 1s'))
    refused = Refused()
    # A server that is busy may be slow for the others too; then the batch is tried again.
    write_rows(sink, batch_of(0, refused), *({"n": number, "s": 30 if number == 2 else 0} for number in (1, 2, 3)))
    assert [row["payload"] for row, _ in refused.rows] == [b'{"n": 2, "s": 30}']
    assert sorted(number for (number,) in server.query("SELECT n FROM slow")) == [1, 3]
