"""The Spark engine against the broker's: the bank, rules and messages made at random, and what tables add."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pyspark.sql import DataFrame, SparkSession

from heliograph.cli.main import main
from heliograph.mqtt.topic import topic_matches
from heliograph.rules.columns import MessageColumns
from heliograph.rules.errors import RuleEvaluationError
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.spark import CaseOutcome, apply_rule, evaluate_on_spark, plan_rule
from heliograph.rules.spark.native import topic_condition
from heliograph.rules.values import equal_exactly
from rules.bank import BANK
from rules.generated import messages, rules
from support.strategies import topic_filters, topic_names

pytestmark = [pytest.mark.service, pytest.mark.slow]

MESSAGES = "topic string, payload binary, qos tinyint, retain boolean, clientid string, username string"


def in_broker(sql: str, columns: MessageColumns) -> CaseOutcome:
    rule = CompiledRule(sql)
    topic = columns.message[0]
    try:
        return CaseOutcome(rule.apply(columns) if rule.matches(topic) else [])
    except RuleEvaluationError as error:
        return CaseOutcome(None, str(error))


def same(one: CaseOutcome, other: CaseOutcome) -> bool:
    if one.rows is None or other.rows is None:
        return one == other
    return equal_exactly(list(one.rows), list(other.rows)) and list(map(list, one.rows)) == list(map(list, other.rows))


def differences(spark: SparkSession, cases: list[tuple[str, MessageColumns]]) -> list[str]:
    outcomes = evaluate_on_spark(spark, cases)
    return [
        f"{sql}\n  on {columns.message}\n  broker {in_broker(sql, columns)}\n  spark  {outcome}"
        for (sql, columns), outcome in zip(cases, outcomes, strict=True)
        if not same(in_broker(sql, columns), outcome)
    ]


def test_bank_gives_the_same_in_both_engines(spark: SparkSession) -> None:
    # What time it is may differ, and so does how much of a machine a test finds for itself.
    cases = [(case.sql, case.columns()) for case in BANK if "now_" not in case.sql and "def f: f" not in case.sql]
    assert differences(spark, cases) == []


def test_bank_has_native_rules_and_rules_for_the_udf() -> None:
    engines = [plan_rule(case.sql).engine for case in BANK]
    assert engines.count("native") > 40
    assert engines.count("udf") > 200


def test_random_rules_give_the_same_in_both_engines(spark: SparkSession) -> None:
    cases: list[tuple[str, MessageColumns]] = []

    # Hypothesis makes the cases; one Spark job then decides about all of them.
    @settings(max_examples=400, phases=[Phase.generate], suppress_health_check=list(HealthCheck), database=None)
    @given(rules(), messages())
    def make(sql: str, columns: MessageColumns) -> None:
        cases.append((sql, columns))

    make()
    assert len(cases) > 300
    engines = Counter(plan_rule(sql).engine for sql, _ in cases)
    assert engines["native"] > 20
    assert engines["udf"] > 100
    assert differences(spark, cases) == []


def test_topic_condition_is_the_topic_match_of_mqtt(spark: SparkSession) -> None:
    pairs: list[tuple[str, str]] = []

    @settings(max_examples=300, phases=[Phase.generate], database=None)
    @given(topic_names(), topic_filters())
    def make(name: str, topic_filter: str) -> None:
        pairs.append((name, topic_filter))

    make()
    special = [
        ("a.b", "a.b/#"),
        ("axb", "a.b"),
        ("a\n", "a"),
        ("a\n/b", "+/b"),
        ("a^[x]\\", "a^[x]\\/#"),
        ("($1|", "($1|/+"),
    ]
    pairs += [
        *special,
        ("($1|/z", "($1|/+"),
        ("a^[x]\\/q/r", "a^[x]\\/+/r"),
        ("a-b'c/d", "a-b'c/+"),
        ("a-b'c", "a-b'c"),
    ]
    by_filter: dict[str, list[str]] = {}
    for name, topic_filter in pairs:
        by_filter.setdefault(topic_filter, []).append(name)
    names = spark.createDataFrame([(name,) for name in sorted({name for name, _ in pairs})], "topic string").cache()
    conditions = [topic_condition((topic_filter,)) for topic_filter in by_filter]
    rows = names.selectExpr("topic", f"array({', '.join(conditions)}) AS matched").collect()
    for row in rows:
        expected = [topic_matches(row["topic"], topic_filter) for topic_filter in by_filter]
        assert row["matched"] == expected, row["topic"]


def frame(spark: SparkSession, *payloads: bytes, topic: str = "t/1") -> DataFrame:
    rows = [(topic, payload, 1, False, "c1", None) for payload in payloads]
    return spark.createDataFrame(rows, MESSAGES)


def typed(spark: SparkSession, values: Sequence[tuple[str, object]]) -> list[Any]:
    """What becomes of values in output columns of their types; `failed` where the rule failed."""
    kinds = {kind: f"x{number}" for number, kind in enumerate(dict.fromkeys(kind for kind, _ in values))}
    nothing = dict.fromkeys(kinds.values())
    payloads = [{**nothing, kinds[kind]: value, "number": number} for number, (kind, value) in enumerate(values)]
    df = frame(spark, *(json.dumps(payload).encode() for payload in payloads))
    fields = ", ".join(f"payload.{name} AS {name}" for name in (*kinds.values(), "number"))
    declared = {name: kind for kind, name in kinds.items()}
    rows = apply_rule(df, f'SELECT {fields} FROM "#"', {**declared, "number": "int"}).collect()
    found = {row["number"]: row for row in rows}
    return [found[number][kinds[kind]] if number in found else "failed" for number, (kind, _) in enumerate(values)]


def test_arrays_maps_and_structures_arrive_with_their_types(spark: SparkSession) -> None:
    tools = "array<struct<id: string, wear: double, at: timestamp, `max n`: int>>"
    kinds = {
        "tools": tools,
        "rates": "map<string, array<double>>",
        "place": "struct<hall: string, of: map<string, int>>",
    }
    documents: tuple[dict[str, object], ...] = (
        {
            # What does not fit is null by itself; a string takes any value.
            "tools": [{"id": 7, "wear": "worn", "at": "2026-01-31T12:00:00Z", "max n": 3, "x": 1}, "none", None, {}],
            "rates": {"a": [1, 2.5, "x", None], "b": 5, "c": None},
            "place": {"hall": {"n": 1}, "of": {"x": 1, "y": 2.5}},
        },
        {"tools": [], "rates": {}, "place": {}},
        {"tools": None},
        {"tools": "none"},
        {"rates": [1]},
        {"place": 5},
    )
    df = frame(spark, *(json.dumps({"n": n, **document}).encode() for n, document in enumerate(documents)))
    fields = ", ".join(f"payload.{name} AS {name}" for name in ("n", *kinds))
    found = apply_rule(df, f'SELECT {fields} FROM "#"', {**kinds, "n": "int"})
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert types["tools"] == "array<struct<id:string,wear:double,at:timestamp,max n:int>>"
    assert (types["rates"], types["place"]) == ("map<string,array<double>>", "struct<hall:string,of:map<string,int>>")
    rows = {row["n"]: row.asDict(recursive=True) for row in found.collect()}
    assert sorted(rows) == [0, 1, 2]  # the others are no array, map or structure at all, which fails the rule
    nothing = {"id": None, "wear": None, "at": None, "max n": None}
    first, second, third, fourth = rows[0]["tools"]
    assert first.pop("at").astimezone(UTC) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert (first, second, third, fourth) == ({"id": "7", "wear": None, "max n": 3}, None, None, nothing)
    assert rows[0]["rates"] == {"a": [1.0, 2.5, None, None], "b": None, "c": None}
    assert rows[0]["place"] == {"hall": '{"n":1}', "of": {"x": 1, "y": None}}
    assert rows[1] == {"n": 1, "tools": [], "rates": {}, "place": {"hall": None, "of": None}}
    assert rows[2] == {"n": 2, "tools": None, "rates": None, "place": None}


def test_rows_arrive_as_typed_columns(spark: SparkSession) -> None:
    df = frame(spark, b'{"t": 20.5, "at": "2026-01-31T12:00:00.25+01:00", "n": 7}', b'{"t": null, "at": null}')
    sql = (
        "SELECT topic, payload.t AS t, payload.t > 20 AS hot, payload.at AS at, payload.n AS n, qos + 1 AS q, "
        'payload.o.k FROM "t/+"'
    )
    rows = apply_rule(df, sql, {"t": "double", "at": "timestamp", "n": "decimal(5,1)"})
    assert {field.name: field.dataType.simpleString() for field in rows.schema} == {
        "topic": "string",
        "t": "double",
        "hot": "boolean",
        "at": "timestamp",
        "n": "decimal(5,1)",
        "q": "bigint",
        "payload": "string",
    }
    first, second = rows.collect()
    assert (first.topic, first.t, first.hot, first.n, first.q) == ("t/1", 20.5, True, Decimal("7.0"), 2)
    assert first["at"].astimezone(UTC) == datetime(2026, 1, 31, 11, 0, 0, 250_000, UTC)
    assert first.payload == '{"o":{"k":"undefined"}}'
    assert (second.t, second.hot, second["at"], second.n) == (None, True, None, None)


@pytest.mark.parametrize("observed", ["native", "udf"])
def test_failing_rows_are_dropped_and_counted(spark: SparkSession, observed: str, tmp_path: Path) -> None:
    field = {"native": "1 AS c", "udf": "(payload.t - 32) / 1.8 AS c"}[observed]
    messages_in = [b'{"t": 50}', b'{"t": null}', b"no JSON", b'{"t": 32}', b'{"t": -4}']
    source = tmp_path / "messages"
    frame(spark, *messages_in).repartition(1).write.parquet(str(source))
    stream = spark.readStream.schema(MESSAGES).parquet(str(source))
    rows = apply_rule(stream, f'SELECT {field} FROM "t/#"', observe_as="rule")
    query = (
        rows.writeStream.format("memory")
        .queryName(f"counted_{observed}")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = query.lastProgress
    assert progress is not None
    counts = progress["observedMetrics"]["rule"]
    expected = {"native": (5, 5, 0), "udf": (5, 3, 2)}[observed]
    assert (counts["matched"], counts["passed"], counts["failed"]) == expected
    assert spark.table(f"counted_{observed}").count() == expected[1]


def test_any_name_may_be_an_output_column(spark: SparkSession) -> None:
    names = ["passed", "Passed_", "row", "error", "c0", "status", "a.b", "a`b"]
    for value in ("1", "payload.v"):
        fields = ", ".join(f'{value} AS "{name}"' for name in names)
        rows = apply_rule(frame(spark, b'{"v": 1}'), f'SELECT {fields} FROM "#"')
        assert rows.columns == names
        assert [str(value) for value in rows.collect()[0]] == ["1"] * len(names)


def test_a_rule_with_an_id_has_metadata(spark: SparkSession) -> None:
    df = frame(spark, b'{"l": [1]}')
    rows = apply_rule(df, 'SELECT metadata.rule_id AS r, qos FROM "#"', rule_id="my_rule").collect()
    assert [tuple(row) for row in rows] == [("my_rule", 1)]
    each = apply_rule(df, 'FOREACH payload.l AS x DO metadata, x FROM "#"', rule_id="my_rule").collect()
    assert [tuple(row) for row in each] == [('{"rule_id":"my_rule"}', "1")]
    everything = 'SELECT * FROM "#"'
    assert plan_rule(everything, rule_id="my_rule").outputs == (*plan_rule(everything).outputs, ("metadata", "string"))


def test_udf_is_evaluated_once_per_row(spark: SparkSession) -> None:
    rows = apply_rule(frame(spark, b"{}"), 'SELECT payload.a AS a, payload.b AS b FROM "#" WHERE is_null(payload.a)')
    plan = rows.filter("a IS NULL OR b = 'x'")._jdf.queryExecution().executedPlan().toString()
    assert plan.count("ArrowEvalPython") == 1


#: Types of columns with values given to them, and what becomes of these.
VALUES: Final[list[tuple[str, object, object]]] = [
    ("string", "text", "text"),
    ("string", 1.5, "1.5"),
    ("string", {"a": [1, None]}, '{"a":[1,null]}'),
    ("string", None, None),
    ("binary", "ä", bytearray("ä".encode())),
    ("boolean", True, True),
    ("boolean", "false", False),
    ("boolean", 1, True),
    ("boolean", "yes", "failed"),
    ("tinyint", 127, 127),
    ("tinyint", 128, "failed"),
    ("smallint", -32768, -32768),
    ("int", 2**31, "failed"),
    ("integer", 5.0, 5),
    ("int", 5.5, "failed"),
    ("bigint", "42", 42),
    ("long", 2**63, "failed"),
    ("double", 3, 3.0),
    ("double", "20.5", 20.5),
    ("double", "warm", "failed"),
    ("double", True, "failed"),
    ("double", 10**400, "failed"),
    ("float", 0.5, 0.5),
    ("float", 1e300, "failed"),
    ("decimal(4,2)", 0.125, Decimal("0.13")),
    ("decimal(4,2)", -0.125, Decimal("-0.13")),
    ("decimal(3)", 1000, "failed"),
    ("decimal(38,0)", 10**37 + 1, Decimal(10**37 + 1)),
    ("date", "2026-01-31", date(2026, 1, 31)),
    ("date", "2026-01-31T23:30:00-01:00", date(2026, 2, 1)),
    ("date", "2026-13-01", "failed"),
    ("timestamp", "yesterday", "failed"),
    ("timestamp", 10**18, "failed"),
]


def test_values_become_the_declared_type_or_fail(spark: SparkSession) -> None:
    outcomes = typed(spark, [(kind, value) for kind, value, _ in VALUES])
    wrong = [
        f"{value!r} as {kind}: {outcome!r}, not {expected!r}"
        for (kind, value, expected), outcome in zip(VALUES, outcomes, strict=True)
        if outcome != expected
    ]
    assert wrong == []


def test_integers_are_times_in_milliseconds(spark: SparkSession) -> None:
    (value,) = typed(spark, [("timestamp", 1_700_000_000_123)])
    assert value.astimezone(UTC) == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)


def test_frames_with_few_columns_and_nulls_are_enough(spark: SparkSession) -> None:
    df = spark.createDataFrame([("t", None), ("u", b"x")], "topic string, payload binary")
    rows = apply_rule(df, "SELECT payload + '' AS p, topic FROM \"#\"").collect()
    assert [(row.p, row.topic) for row in rows] == [("", "t"), ("x", "u")]


def test_many_rows_in_many_batches_keep_their_values(spark: SparkSession) -> None:
    numbers = random.Random(1).sample(range(10**6), 25_000)
    df = frame(spark, *(b'{"n": %d}' % number for number in numbers))
    rows = apply_rule(df, 'SELECT payload.n * 2 AS n FROM "#" WHERE payload.n > 1000', {"n": "bigint"}).collect()
    assert sorted(row.n for row in rows) == sorted(number * 2 for number in numbers if number > 1000)


def test_command_fails_on_spark_as_it_fails_in_the_broker(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = "SELECT payload.temp AS t FROM \"weather/+/obs\" WHERE topic != 'x' AND payload.temp > 20"
    command = ["rule", "test", "--sql", rule, "--topic", "weather/EWR/obs", "--payload", '{"temp": "x"}']
    # There is one Spark session in a process, and the other tests have theirs already.
    monkeypatch.setattr("heliograph.pipeline.spark.session.spark_session", lambda *_, **__: nullcontext(spark))
    assert main([*command, "--engine", "broker"]) == 1
    in_broker = capsys.readouterr().err
    assert main([*command, "--engine", "spark"]) == 1
    on_spark = capsys.readouterr()
    assert (on_spark.out, on_spark.err) == ("", in_broker)
    assert "line 1, column 70: the string 'x' is not the text of a number" in on_spark.err
