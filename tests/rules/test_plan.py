"""What a rule's table looks like and which engine makes it, decided without Spark."""

import pytest

from heliograph.rules.columns import MESSAGE_COLUMN_NAMES, STORED_NAMES
from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.spark import explain, plan_rule
from heliograph.rules.spark.output_types import output_type
from support.cases import cases


def planned(fields: str, where: str = "true") -> str:
    return plan_rule(f'SELECT {fields} FROM "#" WHERE {where}').engine


@cases(
    ("field", "kind"),
    [
        ("topic", "string"),
        ("payload", "binary"),
        ("qos", "bigint"),
        ("timestamp", "bigint"),
        ("flags", "string"),
        ("flags.retain AS r", "boolean"),
        ("payload.a AS a", "string"),
        ("payload.a + 1 AS a", "double"),
        ("payload.a + 'x' AS a", "string"),
        ("payload.a + payload.b AS a", "double"),
        ("qos + 1 AS a", "bigint"),
        ("qos / 2 AS a", "double"),
        ("payload.a div 2 AS a", "bigint"),
        ("-qos AS a", "bigint"),
        ("-payload.a AS a", "double"),
        ("payload.a > 1 AS a", "boolean"),
        ("upper(payload.a) AS a", "string"),
        ("strlen(payload.a) AS a", "bigint"),
        ("nosuch(1) AS a", "string"),
        ("split(topic, '/') AS a", "string"),
        ("is_null(payload.a) AS a", "boolean"),
        ("CASE WHEN qos > 0 THEN 1 ELSE 2.5 END AS a", "double"),
        ("CASE WHEN qos > 0 THEN 1 ELSE 'x' END AS a", "string"),
        ("1 AS a.b", "string"),
        ("payload.a.b", "string"),
        ("1.5 AS a", "double"),
        ("true AS a", "boolean"),
    ],
)
def test_types_that_a_rule_implies(field: str, kind: str) -> None:
    (column,) = plan_rule(f'SELECT {field} FROM "#"').columns
    assert (column.type, column.declared) == (kind, False)


def test_aliases_pass_their_kind_on() -> None:
    plan = plan_rule('SELECT qos AS q, q + 1 AS r, topic AS q, q AS s, payload.x AS topic, topic AS u FROM "#"')
    assert dict(plan.outputs) == {"q": "string", "r": "bigint", "s": "string", "topic": "string", "u": "string"}


@cases(
    ("fields", "where"),
    [
        ("topic, payload, qos, username, id, timestamp", "true"),
        ("qos + 1 AS q, topic + '/' + clientid AS t", "qos IN (1, 2) AND NOT topic =~ 'a/#'"),
        ("CASE WHEN qos > 0 THEN 'sure' ELSE 'maybe' END AS q", "username = 'x' OR flags.retain = true"),
        ("timestamp / 1000 AS s, timestamp div 60000 AS m", "timestamp mod 2 = 0"),
    ],
)
def test_what_cannot_fail_and_has_known_kinds_is_native(fields: str, where: str) -> None:
    assert planned(fields, where) == "native"


@cases(
    ("field", "reason"),
    [
        ("payload.a AS x", "payload.a has the kind that each payload gives it"),
        ("upper(topic) AS x", "the function upper has no exact equal in Spark"),
        ("1 / qos AS x", "division fails the rule where the divisor is 0"),
        ("timestamp * timestamp AS x", "the result of * may need more than 64 bits"),
        ("1.0e300 * 10 AS x", "the result may be larger than a 64-bit float can be"),
        ("topic - 1 AS x", "arithmetic on what is no number fails the rule"),
        ("-username AS x", "arithmetic on what is no number fails the rule"),
        ("username + 1 AS x", "arithmetic on what is no number fails the rule"),
        ("topic > 1 AS x", "string and integer are compared by the broker's engine"),
        ("timestamp > 0.5 AS x", "large integers are compared with floats by the broker's engine"),
        ("topic + 1.5 AS x", "the text of floats and payloads is made by the broker's engine"),
        ("[1] AS x", "arrays are evaluated by the broker's engine"),
        ("1 AS x.y", "x becomes a map"),
        ("*", "* gathers columns that the broker's engine puts together"),
        ("CASE WHEN qos > 0 THEN 1 ELSE 'x' END AS x", "the branches of CASE have different kinds"),
        ("username AS topic", "topic may be undefined and then means the column topic"),
    ],
)
def test_reasons_for_the_udf(field: str, reason: str) -> None:
    plan = plan_rule(f'SELECT {field} FROM "#"')
    assert plan.engine == "udf"
    assert {column.reason for column in plan.columns} == {reason}


def test_one_part_in_the_udf_takes_the_others_along() -> None:
    plan = plan_rule('SELECT topic FROM "#" WHERE payload.a > 1')
    assert plan.engine == "udf"
    assert plan.columns[0].reason == "exact in Spark too, but another part of the rule needs the UDF"
    assert plan.where_reason == "payload.a has the kind that each payload gives it"


def test_a_replaced_field_still_counts() -> None:
    assert planned("upper(topic) AS x, 1 AS x") == "udf"


def test_udf_is_given_only_what_it_reads() -> None:
    def reads(rule: str) -> tuple[str, ...]:
        return plan_rule(rule).reads

    assert reads('SELECT payload.a AS a FROM "#"') == ("payload",)
    assert reads('SELECT upper(topic) AS a, pub_props AS p FROM "#" WHERE timestamp > 1') == (
        "topic",
        "properties",
        "received_at",
    )
    assert reads("SELECT upper('a') AS a FROM \"#\"") == ("topic",)
    assert reads('SELECT 1 AS a[payload.i] FROM "#"') == ("payload",)
    assert reads('SELECT a[qos] AS x FROM "#"') == ("qos",)
    assert reads('SELECT * FROM "#"') == STORED_NAMES
    assert [name for name, _ in plan_rule('SELECT * FROM "#"').outputs] == list(MESSAGE_COLUMN_NAMES)


def test_declared_columns_must_be_in_the_output() -> None:
    with pytest.raises(ValueError, match="the rule has no output column temp; it has t, u"):
        plan_rule('SELECT payload.t AS t, 1 AS u FROM "#"', {"temp": "double"})


def test_declared_types_must_exist() -> None:
    with pytest.raises(
        ValueError, match=r"'number' is no type of an output column; there are string, binary, .*decimal"
    ):
        plan_rule('SELECT payload.t AS t FROM "#"', {"t": "number"})
    for wrong in ("decimal(39)", "decimal(2, 3)", "decimal", "array<number>", "array", "map<int, int>", ""):
        with pytest.raises(ValueError, match="is no type"):
            output_type(wrong)
    assert output_type(" DECIMAL( 10 , 2 ) ").name == "decimal(10,2)"
    assert output_type("Long").name == "bigint"


@cases(
    ("text", "said"),
    [
        (
            "array<number>",
            "'number' is no type of an output column; there are string, .*and of these `array<T>`, `map<str",
        ),
        ("array<int", "it is not complete"),
        ("array<int>>", "it ends before '>'"),
        ("array int>", "is no type of an output column"),
        ("map<int, int>", "it has keys of type int: keys are strings"),
        ("map<string>", "it has '>' where ',' stands"),
        ("struct<>", "it has '>' where the name of a field stands"),
        ("struct<a: int, A: int>", "it has the field 'A' twice"),
        ("struct<a: int; b: int>", "is no type: nested ones are"),
        ("array<" * 18 + "int" + ">" * 18, "it has more than 16 levels"),
    ],
)
def test_nested_types_that_are_none_are_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        output_type(text)


def test_nested_types_have_one_form() -> None:
    text = " ARRAY< Struct<`odd name` : Map<String , Decimal( 10 , 2 )>, wear double > > "
    assert output_type(text).name == "array<struct<`odd name`:map<string,decimal(10,2)>,wear:double>>"
    assert output_type(output_type(text).name).arrow == output_type(text).arrow


def test_columns_that_spark_takes_for_one_are_refused() -> None:
    with pytest.raises(RuleSyntaxError, match="temp and Temp differ in letter case only"):
        plan_rule('SELECT 1 AS temp, 2 AS Temp FROM "#"')


def test_declared_type_that_can_fail_needs_the_udf() -> None:
    rule = 'SELECT topic FROM "#"'
    assert plan_rule(rule, {"topic": "string"}).engine == "native"
    assert plan_rule(rule, {"topic": "timestamp"}).columns[0].reason == "making timestamp of string can fail"


def test_explanation_names_engine_columns_and_reasons() -> None:
    text = explain('SELECT payload.t AS t, topic FROM "a/#" WHERE qos > 0', {"t": "double"})
    assert text.splitlines() == [
        "topics   a/#",
        "         (`topic` = 'a' OR startswith(`topic`, 'a/'))",
        "engine   an Arrow UDF with the broker's engine",
        "reads    topic, payload, qos",
        "",
        "output  type               engine  why",
        "t       double             udf     payload.t has the kind that each payload gives it",
        "topic   string (inferred)  udf     exact in Spark too, but another part of the rule needs the UDF",
        "WHERE                      udf     exact in Spark too, but another part of the rule needs the UDF",
        "",
        "SELECT",
        "  AS t",
        "    payload.t",
        "  topic",
        "FROM",
        "  a/#",
        "WHERE",
        "  >",
        "    qos",
        "    0",
    ]


def test_explanation_tells_functions_of_spark_from_those_of_the_udf() -> None:
    native = explain('SELECT md5(topic) AS m, topic() AS t FROM "#" WHERE NOT is_null(username)')
    assert "calls    md5, topic, is_null: Spark SQL\n" in native
    mixed = explain('FOREACH payload.l AS x DO upper(x) AS u, md5(topic) AS m FROM "#"')
    assert "calls    md5: in the UDF here, Spark SQL in a rule that needs none\n" in mixed
    assert "calls    upper: only in the UDF\n" in mixed
    assert "rows     an array of them from the UDF for each message, of which explode makes rows\n" in mixed


def test_explanation_shows_every_kind_of_node() -> None:
    rule = (
        "FOREACH payload.l[1..2] AS a, [1..3] AS x DO *, CASE x WHEN 1 THEN 'a\nb' ELSE true END AS c.d[1], "
        "[-1, 'a'] AS l, topic INCASE x NOT IN (1, 2.5) OR NOT (x = 1 AND y > 2) FROM \"#\" WHERE abs(qos) > 0"
    )
    lines = explain(rule).splitlines()
    tree = lines[lines.index("FOREACH") :]
    assert tree == [
        *("FOREACH", "  AS a", "    payload.l[1..2]", "  AS x", "    [1..3]"),
        *("DO", "  *", "  AS c.d[1]", "    CASE", "      x", "      WHEN", "        1", "      THEN"),
        *("        'a\\nb'", "      ELSE", "        true"),
        *("  AS l", "    [ ]", "      - (sign)", "        1", "      'a'", "  topic"),
        *("INCASE", "  OR", "    NOT IN", "      x", "      1", "      2.5"),
        *("    NOT", "      AND", "        =", "          x", "          1", "        >", "          y", "          2"),
        *("FROM", "  #", "WHERE", "  >", "    abs()", "      qos", "    0"),
    ]


@cases(
    ("expression", "engine"),
    [
        ("topic()", "native"),
        ("topic(1)", "udf"),
        ("payload()", "native"),
        ("payload('a')", "udf"),
        ("flag('retain')", "native"),
        ("peerhost()", "udf"),
        ("md5(payload)", "native"),
        ("md5(username)", "udf"),
        ("sha256(topic + clientid)", "native"),
        ("upper(topic)", "udf"),
        ("bytesize(payload) div 2", "native"),
        ("abs(-qos)", "native"),
        ("int(timestamp / 2)", "udf"),
        ("coalesce(username, 'none')", "native"),
        ("coalesce(username, 1)", "udf"),
        ("is_null(username)", "native"),
        ("is_null(payload.a)", "udf"),
        ("md5(topic, 1)", "udf"),
        ("nosuch(topic)", "udf"),
    ],
)
def test_functions_are_native_where_they_cannot_fail(expression: str, engine: str) -> None:
    assert planned(f"{expression} AS x") == engine


def test_long_sums_are_planned_at_once() -> None:
    plan = plan_rule(f'SELECT {"1 + " * 60}1 AS x FROM "t"')
    assert plan.native
    assert dict(plan.outputs) == {"x": "bigint"}


def test_fields_that_double_each_other_are_left_to_the_brokers_engine() -> None:
    fields = ", ".join(f"x{number} + x{number} AS x{number + 1}" for number in range(60))
    assert not plan_rule(f'SELECT 0 AS x0, {fields} FROM "t"').native
