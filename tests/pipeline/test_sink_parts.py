"""What sinks share: templates, trying again, and SQL templates."""

import pytest
from pyspark.sql import SparkSession

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy, TransientError
from heliograph.pipeline.sinks.sql_settings import SqlTemplate
from heliograph.pipeline.sinks.template import bytes_column, template_column


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
