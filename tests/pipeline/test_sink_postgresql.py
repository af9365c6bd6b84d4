"""The sink `postgresql` and a real server: what is in the table afterwards, whatever happened on the way."""

import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from pyspark.sql import SparkSession

from heliograph.cli.main import main
from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.files.rulefile import load_pipeline
from heliograph.pipeline.running.preview import preview_queries
from heliograph.pipeline.sinks import OutputMode
from heliograph.pipeline.sinks.postgresql import PostgresqlSink
from heliograph.pipeline.sinks.retry import RetryPolicy
from heliograph.pipeline.sinks.spark.writing import write_batch
from heliograph.settings.units import Address
from support.added_columns import missing_columns_are_shown_and_added, writers_add_the_same_columns
from support.cases import cases
from support.postgresql import Postgresql, postgresql
from support.sinks import Refused, batch_of, sink_of, write_rows

if TYPE_CHECKING:
    from pipeline.conftest import Stored

pytestmark = [pytest.mark.service, pytest.mark.slow]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgresql]:
    with postgresql() as running:
        yield running


def test_values_of_every_type_arrive(spark: SparkSession, server: Postgresql) -> None:
    rows = spark.sql(
        """SELECT 1 AS id, CAST(7 AS TINYINT) AS small, 9000000000 AS big, 1.5D AS d, CAST('NaN' AS DOUBLE) AS nan,
                  CAST(12.30 AS DECIMAL(10, 2)) AS amount, 'quote " comma, line\n' AS t, '' AS empty, X'00FF' AS b,
                  true AS flag, DATE'2026-01-31' AS day, TIMESTAMP'2026-01-31 12:00:00.123456Z' AS at,
                  TIMESTAMP_NTZ'2026-01-31 12:00:00' AS local, named_struct('x', 1, 'y', array('a')) AS s,
                  parse_json('{"a": [1]}') AS v, CAST(NULL AS STRING) AS nothing"""
    )
    sink = sink_of(server.section("table = every_type, create = true, key = [id]"))
    written = write_batch(sink, rows, batch_of(0, query="types"))
    assert written.figures["rows"] == 1
    (found,) = server.query(
        "SELECT small, big, d, nan::text, amount::text, t, empty, b, flag, day::text, at AT TIME ZONE 'UTC', "
        "local::text, s, v, nothing FROM every_type"
    )
    assert [str(value) if index == 10 else value for index, value in enumerate(found)] == [
        *(7, 9_000_000_000, 1.5, "NaN", "12.30", 'quote " comma, line\n', "", b"\x00\xff", True, "2026-01-31"),
        *("2026-01-31 12:00:00.123456", "2026-01-31 12:00:00", {"x": 1, "y": ["a"]}, {"a": [1]}, None),
    ]


def test_a_batch_that_is_written_again_changes_nothing(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE plain (n bigint)")
    sink = sink_of(server.section("table = plain, batch_rows = 300"))
    rows = spark.range(1000).withColumnRenamed("id", "n")
    assert write_batch(sink, rows, batch_of(0, query="a_batch_that")).figures["rows"] == 1000
    assert write_batch(sink, rows, batch_of(0, query="a_batch_that")).figures == {
        "rows": 0,
        "bytes": 0,
        "retries": 0,
        "refused": 0,
        "repeated": 1,
    }
    write_batch(sink, rows, batch_of(1, query="a_batch_that"))
    # Another query of the same checkpoint, and the same query of another one, count for themselves.
    write_batch(sink, rows, batch_of(0, query="other"))
    write_batch(sink, rows, batch_of(0, query="a_batch_that", owner="owner-2"))
    assert server.query("SELECT count(*), count(DISTINCT n) FROM plain") == [(4000, 1000)]


def test_a_batch_of_many_partitions_arrives(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE partitions (n bigint)")
    sink = sink_of(server.section("table = partitions, batch_rows = 100"))
    write_batch(sink, spark.range(0, 1000, 1, 9).withColumnRenamed("id", "n"), batch_of(0, query="a_batch_of"))
    assert server.query("SELECT count(*), sum(n) FROM partitions") == [(1000, 499500)]


def test_refused_rows_are_told_and_the_others_written(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE picky (id int PRIMARY KEY, t text CHECK (length(t) < 5), n smallint NOT NULL)")
    sink = sink_of(server.section("table = picky"))
    rows = spark.sql(
        """SELECT CAST(id AS INT) AS id,
                  CASE id WHEN 17 THEN 'too long' WHEN 30 THEN CONCAT('a', CHR(0)) ELSE 't' END AS t,
                  CASE id WHEN 40 THEN 100000 WHEN 41 THEN NULL ELSE 1 END AS n
           FROM (SELECT id FROM range(100) UNION ALL SELECT 5)"""
    )
    refused = Refused()
    written = write_batch(sink, rows.coalesce(1), batch_of(0, refused, query="refused_rows_are"))
    assert server.query("SELECT count(*) FROM picky") == [(96,)]
    assert (written.figures["rows"], written.figures["refused"]) == (96, 5)
    assert sorted(row["id"] for row, _ in refused.rows) == [5, 17, 30, 40, 41]
    reasons = {row["id"]: reason for row, reason in refused.rows}
    assert "picky_t_check" in reasons[17]
    assert "out of range" in reasons[40]
    assert "null value" in reasons[41]
    # The batch is in the table, so it is neither written nor refused again.
    assert write_batch(sink, rows, batch_of(0, query="refused_rows_are")).figures["repeated"] == 1


def test_values_that_no_column_takes_are_dead_letters(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE narrow (t text PRIMARY KEY, n numeric(3, 1), d date, j jsonb, b boolean, i int)")
    server.query(
        "CREATE FUNCTION seven() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN IF NEW.i = 7 THEN RAISE EXCEPTION ''seven is not wanted''; END IF; RETURN NEW; END'"
    )
    server.query("CREATE TRIGGER seven BEFORE INSERT ON narrow FOR EACH ROW EXECUTE FUNCTION seven()")
    rows = spark.sql(
        """SELECT CASE id WHEN 1 THEN CAST(X'61FF' AS STRING) WHEN 2 THEN concat('a', chr(0))
                          WHEN 3 THEN array_join(transform(sequence(1, 1000), n -> sha2(string(n), 256)), '')
                          ELSE string(id) END AS t,
                  CASE id WHEN 4 THEN 1000 ELSE 1 END AS n, CASE id WHEN 5 THEN DATE'+12000-01-01' END AS d,
                  CASE id WHEN 6 THEN '{"a": ' END AS j, CASE id WHEN 8 THEN 'perhaps' END AS b,
                  CASE id WHEN 9 THEN CAST('NaN' AS DOUBLE) WHEN 10 THEN 7 END AS i, id
           FROM range(12)"""
    )
    for number, more in enumerate(("table = narrow", "table = narrow, key = [t]")):
        refused = Refused()
        sink = sink_of(server.section(more + ", batch_rows = 5, retry { attempts = 1 }"))
        written = write_batch(sink, rows.drop("id"), batch_of(number, refused, query="narrow"))
        # PostgreSQL knows the year 12000.
        assert (written.figures["rows"], written.figures["refused"]) == (4, 8), [reason for _, reason in refused.rows]
        assert sorted(t for (t,) in server.query("SELECT t FROM narrow")) == ["0", "11", "5", "7"]
        reasons = [reason for _, reason in refused.rows]
        for said in ("invalid byte sequence", "0x00", "index row", "numeric field overflow", "json", "boolean"):
            assert any(said in reason for reason in reasons), (said, reasons)
        assert any("seven is not wanted" in reason for reason in reasons)
        assert any(row["t"] == r"a\xff" for row, _ in refused.rows)
        server.query("DELETE FROM narrow")
    statement = "INSERT INTO narrow (t, d) VALUES (${t}, ${d})"
    refused = Refused()
    sink = sink_of(server.section(f'sql = "{statement}", retry {{ attempts = 1 }}'))
    assert write_batch(sink, rows, batch_of(2, refused, query="narrow")).figures["rows"] == 8
    assert sorted(row["id"] for row, _ in refused.rows) == [1, 2, 3, 5]


def test_a_limit_of_the_server_costs_a_row_only_where_it_is_of_a_row(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE limits (n bigint, j jsonb)")
    server.query(
        "CREATE FUNCTION limits() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.n = 9 THEN RAISE EXCEPTION "
        "''too many arguments'' USING ERRCODE = ''54023''; END IF; RETURN NEW; END'"
    )
    server.query("CREATE TRIGGER limits BEFORE INSERT ON limits FOR EACH ROW EXECUTE FUNCTION limits()")
    sink = sink_of(server.section("table = limits, retry { attempts = 1 }"))
    rows = spark.range(5).selectExpr("id AS n", "IF(id = 3, repeat('[', 100000), '[]') AS j")
    refused = Refused()
    assert write_batch(sink, rows, batch_of(0, refused, query="limits")).figures["rows"] == 4
    ((row, reason),) = refused.rows
    assert (row["n"], reason.split(" (")[0]) == (3, "stack depth limit exceeded")
    refused = Refused()
    with pytest.raises(SinkError, match="too many arguments"):
        write_batch(sink, spark.sql("SELECT id AS n, '[]' AS j FROM range(10)"), batch_of(1, refused, query="limits"))
    assert refused.rows == []


@pytest.mark.parametrize("state", ["40001", "40P01", "55P03", "53100", "53300", "57014", "25006"])
def test_what_passes_is_tried_again_and_never_a_dead_letter(
    spark: SparkSession, server: Postgresql, state: str
) -> None:
    table = f"passing_{state.lower()}"
    server.query(f"CREATE TABLE {table} (n bigint)")
    server.query(
        f"CREATE FUNCTION {table}() RETURNS trigger LANGUAGE plpgsql AS "
        f"'BEGIN RAISE EXCEPTION ''not now'' USING ERRCODE = ''{state}''; END'"
    )
    server.query(f"CREATE TRIGGER passing BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION {table}()")
    sink = sink_of(server.section(f"table = {table}, retry {{ first_pause = 1ms, attempts = 2 }}"))
    rows = spark.range(3).withColumnRenamed("id", "n")
    with pytest.raises(SinkError, match=r"not now .tried 2 times"):
        write_batch(sink, rows, batch_of(0, query=table))
    server.query(f"DROP TRIGGER passing ON {table}")
    assert write_batch(sink, rows, batch_of(0, query=table)).figures["rows"] == 3


def test_a_server_without_a_free_connection_is_waited_for(spark: SparkSession, server: Postgresql) -> None:
    taken = []
    try:
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                taken.append(server.connect())
        sink = sink_of(server.section("table = full, create = true, retry { first_pause = 1ms, attempts = 2 }"))
        with pytest.raises(SinkError, match=r"too many clients already .tried 2 times"):
            write_batch(sink, spark.range(3), batch_of(0, query="full"))
    finally:
        for connection in taken:
            connection.close()
    assert write_batch(sink, spark.range(3), batch_of(0, query="full")).figures["rows"] == 3


def test_rows_of_a_key_are_updated_or_kept(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE keyed (id text, day date, n int, PRIMARY KEY (id, day))")
    section = "table = keyed, key = [id, day]"
    updating = sink_of(server.section(section), OutputMode.UPDATE)
    rows = "SELECT 'a' AS id, DATE'2026-01-01' AS day, {} AS n"
    # Two rows of one key in a batch: the last one counts.
    write_batch(
        updating, spark.sql(f"{rows.format(1)} UNION ALL {rows.format(2)}").coalesce(1), batch_of(0, query="rows_of_a")
    )
    assert server.query("SELECT id, n FROM keyed") == [("a", 2)]
    write_batch(updating, spark.sql(rows.format(3)), batch_of(1, query="rows_of_a"))
    assert server.query("SELECT id, n FROM keyed") == [("a", 3)]
    keeping = sink_of(server.section(section + ", on_conflict = nothing"))
    write_batch(keeping, spark.sql(rows.format(4)), batch_of(2, query="rows_of_a"))
    assert server.query("SELECT id, n FROM keyed") == [("a", 3)]


def test_a_whole_result_replaces_the_table(spark: SparkSession, server: Postgresql) -> None:
    sink = sink_of(server.section("table = whole, create = true"), OutputMode.COMPLETE)
    write_batch(sink, spark.range(5), batch_of(0, query="a_whole_result"))
    write_batch(sink, spark.range(3), batch_of(1, query="a_whole_result"))
    assert server.query("SELECT id FROM whole ORDER BY id") == [(0,), (1,), (2,)]
    assert sink.owned == (f"the table whole at 127.0.0.1:{server.port}/postgres",)


def test_a_statement_takes_columns_as_parameters(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE stated (id int PRIMARY KEY, t text, x double precision, doc jsonb)")
    statement = "INSERT INTO stated VALUES (${id}, upper(${t}), ${s.x}, ${s}) ON CONFLICT (id) DO UPDATE SET t = '50%'"
    sink = sink_of(server.section(f'sql = "{statement}"'))
    evil = "'); DROP TABLE stated; --"
    rows = spark.sql(f"""SELECT 1 AS id, "{evil}" AS t, named_struct('x', 1.5D) AS s""")
    write_batch(sink, rows, batch_of(0, query="a_statement_takes"))
    assert server.query("SELECT * FROM stated") == [(1, evil.upper(), 1.5, {"x": 1.5})]
    write_batch(sink, rows, batch_of(1, query="a_statement_takes"))
    assert server.query("SELECT t FROM stated") == [("50%",)]
    refused = Refused()
    write_batch(
        sink,
        spark.sql("SELECT CAST(NULL AS INT) AS id, 'b' AS t, named_struct('x', 1.5D) AS s"),
        batch_of(2, refused, query="a_statement_takes"),
    )
    assert [row for row, _ in refused.rows] == [{"id": None, "t": "b", "s": {"x": 1.5}}]


def test_a_commit_is_on_the_disk_also_where_the_server_would_not_wait(spark: SparkSession, server: Postgresql) -> None:
    assert server.query("SHOW synchronous_commit") == [("off",)]
    server.query("CREATE TABLE settings (id int, setting text)")
    statement = "INSERT INTO settings VALUES (${id}, current_setting('synchronous_commit'))"
    sink = sink_of(server.section(f'sql = "{statement}"'))
    write_batch(sink, spark.range(1), batch_of(0, query="a_commit_is_on_the_disk"))
    assert server.query("SELECT setting FROM settings") == [("on",)]


def test_a_batch_survives_a_connection_that_is_cut(spark: SparkSession, server: Postgresql) -> None:
    # The third chunk ends its own connection, once: what a sequence has counted is not undone with the transaction.
    server.query("CREATE TABLE cut (n bigint)")
    server.query("CREATE SEQUENCE chunks")
    server.query(
        "CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "
        "IF nextval(''chunks'') = 3 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NULL; END'"
    )
    server.query("CREATE TRIGGER cut AFTER INSERT ON cut FOR EACH STATEMENT EXECUTE FUNCTION cut()")
    sink = sink_of(server.section("table = cut, batch_rows = 200, retry { first_pause = 1ms }"))
    written = write_batch(sink, spark.range(1000).withColumnRenamed("id", "n"), batch_of(0, query="cut"))
    assert server.query("SELECT count(*), count(DISTINCT n) FROM cut") == [(1000, 1000)]
    assert (written.figures["rows"], written.figures["retries"]) == (1000, 1)


def test_a_server_that_is_not_there_is_tried_and_told(spark: SparkSession, server: Postgresql) -> None:
    sink = sink_of(server.section("table = t"))
    assert isinstance(sink, PostgresqlSink)
    away = replace(sink, server=Address("127.0.0.1", 9), retry=RetryPolicy(attempts=2, first_pause_s=0.001))
    with pytest.raises(SinkError, match=r"PostgreSQL table t at 127\.0\.0\.1:9/postgres: .*tried 2 times") as error:
        write_batch(away, spark.range(1), batch_of(0, query="a_server_that"))
    assert server.password not in str(error.value)
    assert server.password not in repr(away)


def test_what_a_person_must_mend_is_told_at_once(spark: SparkSession, server: Postgresql) -> None:
    with pytest.raises(SinkError, match='relation "missing" does not exist'):
        write_batch(sink_of(server.section("table = missing")), spark.range(1), batch_of(0, query="what_a_person"))
    wrong = server.section("table = t").replace(server.password, "wrong")
    with pytest.raises(SinkError, match="password authentication failed") as error:
        write_batch(sink_of(wrong), spark.range(1), batch_of(0, query="what_a_person"))
    assert "wrong" not in str(error.value)
    with pytest.raises(SinkError, match="names 'station', but the rows have id"):
        write_batch(
            sink_of(server.section("table = t, key = [station]")), spark.range(1), batch_of(0, query="what_a_person")
        )


def test_tls_checks_the_server(spark: SparkSession, server: Postgresql) -> None:
    section = "table = tls, create = true"
    trusted = sink_of(server.section(f'{section}, ssl {{ cacertfile = "{server.cafile}" }}'))
    assert write_batch(trusted, spark.range(1), batch_of(0, query="tls_checks_the")).figures["rows"] == 1
    with pytest.raises(SinkError, match="certificate verify failed"):
        write_batch(
            sink_of(server.section(f"{section}, ssl {{}}, retry {{ attempts = 1 }}")),
            spark.range(1),
            batch_of(0, query="tls_checks_the"),
        )


@cases(
    ("more", "mode", "told"),
    [
        ("", OutputMode.APPEND, "needs either table or sql"),
        ("table = t, sql = 'INSERT'", OutputMode.APPEND, "takes nothing of a row"),
        ("table = t, on_conflict = updat", OutputMode.APPEND, "expected update or nothing"),
        ("table = t", OutputMode.UPDATE, "has no key: mode update needs"),
        ("sql = 'INSERT INTO t VALUES (${a})', key = [a]", OutputMode.APPEND, "sink.key: is for a table"),
        ("sql = 'DELETE FROM t WHERE a = ${a}'", OutputMode.COMPLETE, "cannot take mode complete"),
        ("table = t, newest_by = at", OutputMode.APPEND, "sink.newest_by: needs key"),
        ("table = t, newest_by = [at, id], key = [id]", OutputMode.APPEND, "names 'id', which is in key"),
        (
            "table = t, newest_by = at, key = [id], on_conflict = nothing",
            OutputMode.APPEND,
            "on_conflict = nothing keeps",
        ),
        ("sql = 'INSERT INTO t VALUES (${a})', merge_schema = true", OutputMode.APPEND, "merge_schema: is for a table"),
        ("table = t, sslmode = on", OutputMode.APPEND, "expected disable"),
        ("table = t, tabel = u", OutputMode.APPEND, "did you mean table"),
    ],
)
def test_mistakes_are_told_with_their_line(more: str, mode: OutputMode, told: str) -> None:
    section = Postgresql(5432, None).section(more.replace("'", '"'))  # type: ignore[arg-type]  # no certificate is used
    with pytest.raises(RuleFileError, match=re.escape(told)):
        sink_of(section, mode)


def test_a_placeholder_in_quotes_is_refused() -> None:
    section = "{ type = postgresql, server = h, database = d, sql = \"INSERT INTO t VALUES ('${a}')\" }"
    with pytest.raises(RuleFileError, match=r"\$\{a\} stands in quotes"):
        sink_of(section)


def test_an_older_row_never_replaces_a_newer_one(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE newest (id VARCHAR(10) PRIMARY KEY, ts INT, seq INT, n INT)")
    sink = sink_of(server.section("table = newest, key = [id], newest_by = [ts, seq], batch_rows = 2"))
    first = "('a', 5, 1, 1), ('a', 3, 9, 2), ('b', null, 0, 3), ('c', 1, 0, 4), ('d', 7, 2, 5), ('e', 7, 2, 6)"
    later = "('a', 4, 9, 7), ('b', 1, 0, 8), ('c', null, 9, 9), ('d', 7, 2, 10), ('e', 7, 1, 11), ('f', 0, 0, 12)"
    for number, rows in enumerate((first, later)):
        found = spark.sql(f"SELECT * FROM VALUES {rows} AS t(id, ts, seq, n)").coalesce(1)
        write_batch(sink, found, batch_of(number, query="newest"))
    expected = [("a", 5, 1), ("b", 1, 8), ("c", 1, 4), ("d", 7, 10), ("e", 7, 6), ("f", 0, 12)]
    assert list(server.query("SELECT id, ts, n FROM newest ORDER BY id")) == expected


def test_what_is_newer_must_be_in_the_rows_and_have_an_order(spark: SparkSession, server: Postgresql) -> None:
    rows = spark.sql("SELECT 1 AS id, array(1) AS ts")
    for newest_by, said in (("at", "names 'at', but the rows have id, ts"), ("ts", "names 'ts', which is array<int>")):
        sink = sink_of(server.section(f"table = any, key = [id], newest_by = {newest_by}"))
        with pytest.raises(SinkError, match=said):
            write_batch(sink, rows, batch_of(0))


def test_probe_and_plan_tell_what_a_batch_would_change_in_the_table(
    spark: SparkSession, server: Postgresql, stored: "Stored", tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.query("CREATE TABLE probed (id text PRIMARY KEY, speed integer)")
    file = tmp_path / "pipeline.hocon"
    sections = {
        "adds": server.section("table = probed, merge_schema = true"),
        "lacks": server.section("table = probed"),
        "differs": server.section("table = probed, merge_schema = true, columns { speed = string }"),
        "creates": server.section("table = probed_later, create = true"),
        "absent": server.section("table = probed_never"),
    }
    sql = 'SELECT clientid AS id, qos AS speed, payload.energy * 1 AS energy FROM "t/#" '
    rules = (f'{name} {{ sql = """{sql}""", sink {sink} }}' for name, sink in sections.items())
    file.write_text(f"rules {{ {' '.join(rules)} }}")
    assert main(["pipeline", "probe", str(file)]) == 1
    shown = capsys.readouterr()
    said = {
        "adds": "adds the column energy (double precision)",
        "lacks": "lacks columns of the rows: energy (double precision). Add them, or set merge_schema = true",
        "differs": "the column 'speed' is integer, but the rows have string there (text)",
        "creates": "creates the table probed_later with id (text), speed (bigint), energy (double precision)",
        "absent": "there is no such table: create it, or set create = true",
    }
    lines = {line.partition(":")[0]: line for line in (shown.out + shown.err).splitlines()}
    assert all(text in lines[name] for name, text in said.items()), lines
    assert "adds: can be reached, adds" in shown.out
    stored.put("t/1", [b'{"energy": 1.5}'])
    pipeline = load_pipeline(file)
    found = preview_queries(spark, pipeline, ["adds", "lacks"], {"endpoint": stored.endpoint}, 1, tmp_path)
    changes = [(list(one.changes), one.table_fault) for one in found]
    assert changes[0] == ([said["adds"]], None)
    assert changes[1][0] == []
    assert said["lacks"] in str(changes[1][1])
    assert server.query("SELECT * FROM probed") == []


def test_columns_that_the_table_lacks_are_shown_and_added(
    spark: SparkSession, server: Postgresql, tmp_path: Path
) -> None:
    missing_columns_are_shown_and_added(spark, server, tmp_path, "double precision", "text", "jsonb")


def test_two_writers_may_add_the_same_columns(spark: SparkSession, server: Postgresql) -> None:
    writers_add_the_same_columns(spark, server)


def test_arrays_are_arrays_of_the_server_or_json_as_the_table_has_them(spark: SparkSession, server: Postgresql) -> None:
    rows = spark.sql(
        """SELECT 1 AS id, array(1.5D, null, DOUBLE('NaN')) AS d, array(true, false) AS b,
                  array('a "b" {c}, \\\\', '', 'NULL', null) AS t, array(DATE'2026-01-31') AS day,
                  array(CAST(1.10 AS DECIMAL(4, 2))) AS p, CAST(array() AS ARRAY<BIGINT>) AS n,
                  CAST(null AS ARRAY<INT>) AS e,
                  array(array(1), array(2, 3)) AS nested, array(TIMESTAMP'2026-01-31 12:00:00Z') AS at,
                  map('k', 1.5D) AS m, array(named_struct('x', 1)) AS s"""
    )
    kinds = {"d": "ARRAY", "b": "ARRAY", "t": "ARRAY", "day": "ARRAY", "p": "ARRAY", "n": "ARRAY", "e": "ARRAY"}
    kinds |= dict.fromkeys(("nested", "at", "m", "s"), "jsonb")
    texts = ['a "b" {c}, \\', "", "NULL", None]
    for more in ("", ", key = [id]"):
        sink = sink_of(server.section(f"table = arrays, create = true{more}"))
        write_batch(sink, rows, batch_of(0, query=f"arrays{more}"))
        found = server.query(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'arrays'"
        )
        assert dict(found) == {"id": "integer", **kinds}
        ((d, b, t, day, p, n, e, nested, m, s),) = server.query(
            "SELECT d[1:2], b, t, day::text[], p::text[], n, e, nested, m, s FROM arrays WHERE d[3] = 'NaN'"
        )
        assert (d, b, t, day, p, n, e) == ([1.5, None], [True, False], texts, ["2026-01-31"], ["1.10"], [], None)
        assert (nested, m, s) == ([[1], [2, 3]], {"k": 1.5}, [{"x": 1}])
        server.query("DROP TABLE arrays")
    server.query("CREATE TABLE arrays (id int, d jsonb, t text, n int[])")
    sink = sink_of(server.section("table = arrays, merge_schema = true"))
    write_batch(sink, rows.select("id", "d", "t", "n", "p"), batch_of(0, query="arrays held"))
    ((d, t, n, p),) = server.query("SELECT d, t, n, p::text FROM arrays")
    assert (d, json.loads(t), n, p) == ([1.5, None, "NaN"], texts, [], "{1.10}")
    with pytest.raises(
        SinkError, match=r"the column 'n' is integer\[\], but the rows have array<string> there \(text\[\]\)"
    ):
        write_batch(sink, rows.selectExpr("id", "t AS n"), batch_of(1, query="arrays held"))


def test_a_table_in_use_gets_its_columns_later(spark: SparkSession, server: Postgresql) -> None:
    server.query("CREATE TABLE in_use (id INT)")
    more = "merge_schema = true, timeout = 1s, retry { attempts = 2, first_pause = 1ms }"
    sink = sink_of(server.section(f"table = in_use, {more}"))
    rows = spark.sql("SELECT 1 AS id, 2 AS n")
    with server.connect() as reader:
        reader.execute("SELECT * FROM in_use")
        with pytest.raises(SinkError, match=r"lock timeout .tried 2 times"):
            write_batch(sink, rows, batch_of(0, query="in_use"))
    write_batch(sink, rows, batch_of(0, query="in_use"))
    assert list(server.query("SELECT id, n FROM in_use")) == [(1, 2)]


def test_a_row_for_which_the_server_is_slow_holds_up_no_others(server: Postgresql) -> None:
    server.query("CREATE TABLE slow (n int, s text)")
    statement = "INSERT INTO slow SELECT CAST(${payload.n} AS int), pg_sleep(CAST(${payload.s} AS int))"
    sink = sink_of(server.section(f'sql = "{statement}", timeout = 1s'))
    refused = Refused()
    # A server that is busy may be slow for the others too; then the batch is tried again.
    write_rows(sink, batch_of(0, refused), *({"n": number, "s": 30 if number == 2 else 0} for number in (1, 2, 3)))
    assert [row["payload"] for row, _ in refused.rows] == [b'{"n": 2, "s": 30}']
    assert sorted(number for (number,) in server.query("SELECT n FROM slow")) == [1, 3]
