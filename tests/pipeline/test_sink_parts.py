"""What sinks share: templates, trying again, and SQL templates."""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from heliograph.pipeline.errors import RuleFileError, SinkError
from heliograph.pipeline.sinks.mqtt import MqttSink
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy, TransientError
from heliograph.pipeline.sinks.spark.template_columns import bytes_column, template_column
from heliograph.pipeline.sinks.spark.writing import check_rows
from heliograph.pipeline.sinks.sql_settings import SqlTemplate
from heliograph.settings.tls import ClientTls
from support.cases import cases
from support.sinks import sink_of


@pytest.mark.service
@pytest.mark.slow
def test_templates_reach_into_values(spark: SparkSession) -> None:
    rows = spark.sql(
        """SELECT 1 AS `a.b`, named_struct('x', named_struct('y', 2.5D), 'z', array(1)) AS s, map('k', 'v') AS m,
                  parse_json('{"deep": [{"er": true}]}') AS v, CAST(NULL AS INT) AS n, X'41FF' AS b, 'it' AS t"""
    )
    texts = {
        "${a.b}|${ s.x.y }|${s}": '1|2.5|{"x":{"y":2.5},"z":[1]}',
        "${m.k}|${m.none}|${n}|$t{}": "v|null|null|$t{}",
        "${v.deep.0.er}|${v.no}|${b}|${t}": "true|null|A\ufffd|it",
        "plain": "plain",
    }
    columns = [template_column(text, rows.schema, "topic").alias(str(number)) for number, text in enumerate(texts)]
    exact = bytes_column("${b}", rows.schema, "payload").alias("bytes")
    tombstone = bytes_column("${n}", rows.schema, "value", keep_null=True).alias("tombstone")
    *found, raw, none = rows.select(*columns, exact, tombstone).collect()[0]
    assert found == list(texts.values())
    assert (bytes(raw), none) == (b"A\xff", None)
    with pytest.raises(SinkError, match=r"topic is '\$\{s.x.q\}', but s.x is struct<y:double> and has no field 'q'"):
        template_column("${s.x.q}", rows.schema, "topic")
    with pytest.raises(SinkError, match=r"no column 'tt': a.b, s, m"):
        template_column("${tt}", rows.schema, "topic")


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def _failing(times: int, pause_s: float | None = None) -> "list[TransientError | None]":
    return [TransientError("lost", pause_s) for _ in range(times)] + [None]


def _run(policy: RetryPolicy, outcomes: "list[TransientError | None]") -> tuple[_Clock, Attempts]:
    clock = _Clock()
    attempts = Attempts(policy, lambda: clock.now, clock.sleep)

    def action() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    attempts.run(action)
    return clock, attempts


def test_pauses_double_up_to_the_longest() -> None:
    policy = RetryPolicy(attempts=6, first_pause_s=1, longest_pause_s=5, deadline_s=100)
    clock, attempts = _run(policy, _failing(5))
    assert clock.pauses == [1, 2, 4, 5, 5]
    assert attempts.retries == 5
    with pytest.raises(SinkError, match=r"lost .tried 6 times"):
        _run(policy, _failing(6))


def test_the_target_may_say_how_long_to_wait_within_the_deadline() -> None:
    policy = RetryPolicy(attempts=6, first_pause_s=1, deadline_s=10)
    assert _run(policy, _failing(1, pause_s=7))[0].pauses == [7]
    with pytest.raises(SinkError, match=r"lost .tried 2 times"):
        _run(policy, _failing(5, pause_s=7))


def test_an_sql_template_becomes_a_statement_with_parameters() -> None:
    template = SqlTemplate.parse("INSERT INTO t (a, b) VALUES (${ a }, ${b.c}) -- 100% 'safe'")
    assert template == SqlTemplate("INSERT INTO t (a, b) VALUES (%s, %s) -- 100%% 'safe'", ("a", "b.c"))
    with pytest.raises(ValueError, match="name a column"):
        SqlTemplate.parse("INSERT INTO t VALUES (${.})")


@cases(
    ("text", "told"),
    [
        (r"INSERT INTO t VALUES ('\'${a})", "in quotes"),
        (r"INSERT INTO t VALUES ('\' || ${a})", "in quotes"),
        ("INSERT INTO t VALUES (/* ${a} */ 1)", "in a comment"),
        ("INSERT INTO t VALUES (1) -- ${a}", "in a comment"),
        ("INSERT INTO t VALUES (${a)", "without its }"),
    ],
)
def test_a_placeholder_that_is_no_parameter_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        SqlTemplate.parse(text)


def test_quotes_in_comments_open_nothing() -> None:
    assert SqlTemplate.parse("-- don't\nINSERT INTO t /* ' */ VALUES (${a}, 'it''s', ${b})").names == ("a", "b")


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("type = parquet, path = a, partition_by = [gone]", "partition_by names 'gone', but the rows have n"),
        ("type = delta, path = a, partition_by = [gone]", "partition_by names 'gone'"),
        ('type = iceberg, table = a, partition_by = ["day(gone)"]', "partition_by names 'gone'"),
        ('type = mqtt, topic = "x/${gone}"', "topic is 'x/${gone}', but the rows have no column 'gone': n"),
        ('type = http, url = "http://h/${gone}"', "no column 'gone'"),
        ('type = kafka, servers = "k:1", topic = t, key = "${gone}"', "no column 'gone'"),
        ('type = kafka, servers = "k:1", topic = t, key = "${n"', "without its }"),
        ('type = redis, server = r, command = "SET k ${gone}"', "no column 'gone'"),
        ('type = postgresql, server = s, database = d, sql = "INSERT INTO t VALUES (${gone})"', "no column 'gone'"),
        ("type = mysql, server = s, database = d, table = t, key = [gone]", "the key of table t names 'gone'"),
    ],
)
def test_a_column_that_rows_do_not_have_is_told_before_the_first_batch(
    spark: SparkSession, section: str, told: str
) -> None:
    sink = sink_of(f"{{ {section} }}")
    with pytest.raises(SinkError, match=re.escape(told)):
        check_rows(sink, StructType().add("n", "integer"))


@cases(
    ("section", "told"),
    [
        ('type = parquet, path = "s3://KEY:SECRET@bucket/a"', "with a login"),
        ('type = delta, path = "s3://KEY:SECRET@bucket/a"', "has a login"),
        ('type = redis, server = r, command = "SET k ${a b}"', "without its }: a name with blanks"),
        ('type = mysql, server = s, database = d, table = "50%"', "without a percent sign"),
        (
            'type = http, url = "ftp://me:SECRET@h"',
            "sink.url: found a string, expected a template that begins",
        ),
        ("type = mqtt, topic = t, password = [SECRET]", "sink.password: found a list, expected a text"),
        ('type = delta, path = "s3://b/a", storage_options = "SECRET"', "found a string, expected an object of texts"),
        ('type = kafka, servers = "a:1", topic = t, headers = "SECRET"', "found a string, expected an object of texts"),
        ('type = mqtt, topic = t, properties = "SECRET"', "found a string, expected"),
        (
            "type = delta, path = d, retention = 7",
            "retention: found 7, expected a duration of at least 1h with its unit",
        ),
        ('type = delta, path = d, retention = "7"', 'found "7", expected a duration of at least 1h with its unit'),
        ("type = delta, path = d, retention = 59m", 'found "59m", expected a duration of at least 1h'),
        ("type = mqtt, topic = t, timeout = 0s", 'found "0s", expected a duration of at least 1ms'),
        ('type = mqtt, topic = " "', 'topic: found " ", expected'),
    ],
)
def test_settings_that_are_not_valid_are_named_without_secrets(section: str, told: str) -> None:
    with pytest.raises(RuleFileError, match=told) as error:
        sink_of(f"{{ {section} }}")
    assert "SECRET" not in str(error.value)


def test_tls_is_left_out_where_it_is_switched_off_or_not_given() -> None:
    for ssl in ("", "ssl = null", "ssl { enable = false, cacertfile = ca.pem }"):
        sink = sink_of(f"{{ type = mqtt, topic = t\n {ssl} }}")
        assert isinstance(sink, MqttSink)
        assert sink.tls is None
    sink = sink_of("{ type = mqtt, topic = t, ssl { cacertfile = ca.pem } }")
    assert isinstance(sink, MqttSink)
    assert sink.tls == ClientTls("ca.pem")
