"""Rules become trees, and texts that are no rules are refused with the place and what was expected there."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heliograph.rules.errors import RuleSyntaxError
from heliograph.rules.parser import parse_rule
from heliograph.rules.tree import (
    Arithmetic,
    Branch,
    Call,
    Case,
    Comparison,
    Expression,
    Field,
    Index,
    IndexBy,
    InList,
    Key,
    Literal,
    Logical,
    Not,
    Path,
    Place,
    Select,
    Slice,
    Star,
    Unary,
)
from support.cases import cases

NOWHERE = Place(0, 0, 1, 1)


def literal(value: str | int | float | bool) -> Literal:
    return Literal(value, NOWHERE)


def variable(name: str) -> Path:
    return Path(name, (), NOWHERE)


def expression(text: str) -> Expression:
    (field,) = parse_rule(f"SELECT {text} FROM t").fields
    assert isinstance(field, Field)
    return field.expression


def condition(text: str) -> Expression:
    where = parse_rule(f"SELECT a FROM t WHERE {text}").where
    assert where is not None
    return where


def refusal(text: str) -> RuleSyntaxError:
    with pytest.raises(RuleSyntaxError) as raised:
        parse_rule(text)
    return raised.value


def test_parts_of_a_statement() -> None:
    rule = parse_rule("select *, topic t, payload.a as b.c, qos FROM \"a/+\", 'b/#', c where qos > 0")
    assert rule == Select(
        (
            Star(NOWHERE),
            Field(variable("topic"), variable("t"), NOWHERE),
            Field(Path("payload", (Key("a"),), NOWHERE), Path("b", (Key("c"),), NOWHERE), NOWHERE),
            Field(variable("qos"), None, NOWHERE),
        ),
        rule.sources,
        Comparison(">", variable("qos"), literal(0), NOWHERE),
        "",
    )
    assert rule.topics == ("a/+", "b/#", "c")


def test_every_node_knows_its_place() -> None:
    text = "SELECT a,\n  (b + c.d[1]) * 2 AS x FROM t"
    field = parse_rule(text).fields[1]
    assert isinstance(field, Field)
    product = field.expression
    assert isinstance(product, Arithmetic)
    sum_ = product.left
    assert isinstance(sum_, Arithmetic)
    assert (sum_.place.line, sum_.place.column) == (2, 4)
    assert text[sum_.place.start : sum_.place.end] == "b + c.d[1]"
    assert text[sum_.right.place.start : sum_.right.place.end] == "c.d[1]"
    assert text[field.place.start : field.place.end].endswith("AS x")


@cases(
    ("text", "tree"),
    [
        ("1 - 2 - 3", Arithmetic("-", Arithmetic("-", literal(1), literal(2), NOWHERE), literal(3), NOWHERE)),
        ("1 + 2 * 3", Arithmetic("+", literal(1), Arithmetic("*", literal(2), literal(3), NOWHERE), NOWHERE)),
        ("(1 + 2) div 3", Arithmetic("div", Arithmetic("+", literal(1), literal(2), NOWHERE), literal(3), NOWHERE)),
        ("-1 * 2", Arithmetic("*", Unary("-", literal(1), NOWHERE), literal(2), NOWHERE)),
        ("div(1, 2)", Call("div", (literal(1), literal(2)), NOWHERE)),
        ("m.f()", Call("m.f", (), NOWHERE)),
        ("a[-0]", Path("a", (Index(0, behind_end=True),), NOWHERE)),
        ("a[0]", Path("a", (Index(0),), NOWHERE)),
        ("a[i.j]", Path("a", (IndexBy(Path("i", (Key("j"),), NOWHERE)),), NOWHERE)),
        ("a.'x y'.1", Path("a", (Key("x y"), Key("1")), NOWHERE)),
        ("a.b[1..-2]", Slice(Path("a", (Key("b"),), NOWHERE), 1, -2, NOWHERE)),
        (
            "CASE a WHEN 1 THEN 2 ELSE 3 END",
            Case(variable("a"), (Branch(literal(1), literal(2)),), literal(3), NOWHERE),
        ),
        ("f(a = 1)", Call("f", (Comparison("=", variable("a"), literal(1), NOWHERE),), NOWHERE)),
    ],
)
def test_expressions(text: str, tree: Expression) -> None:
    assert expression(text) == tree


def test_precedence_of_conditions() -> None:
    a, b, c = variable("a"), variable("b"), variable("c")
    assert condition("a or not b and c") == Logical("or", a, Logical("and", Not(b, NOWHERE), c, NOWHERE), NOWHERE)
    assert condition("NOT a = 1 AND b NOT IN (1, c)") == Logical(
        "and",
        Not(Comparison("=", a, literal(1), NOWHERE), NOWHERE),
        InList(b, (literal(1), c), negated=True, place=NOWHERE),
        NOWHERE,
    )
    assert condition("((a = 1) OR (b))") == Logical("or", Comparison("=", a, literal(1), NOWHERE), b, NOWHERE)


@cases("word", ["DIV", "Mod", "TRUE", "False", "if_", "selected", "fromage"])
def test_words_that_only_look_like_keywords_are_names(word: str) -> None:
    assert expression(word) == variable(word)


def test_equal_rules_may_be_written_differently() -> None:
    assert parse_rule("SELECT a AS b FROM 't' -- why\n") == parse_rule('\n select  a  b\nfrom "t"  ')


REFUSALS = [
    ("", "1:1", "the rule is empty; it must begin with SELECT or FOREACH"),
    (" \n", "1:1", "the rule is empty; it must begin with SELECT or FOREACH"),
    ("SELECT", "1:7", "the rule ends too early; expected a value or '*'"),
    ("SELECT a", "1:9", "the rule ends too early; expected an operator, FROM, AS or ','"),
    ("SELECT a FROM ", "1:14", "the rule ends too early; expected a name or a string"),
    ("SELECT a FROM t WHERE", "1:22", "the rule ends too early; expected a value"),
    ("SELECT a FROM t WHERE (a = 1", "1:29", "the rule ends too early; expected an operator or ')'"),
    ("FOREACH * FROM t", "1:9", "the last item of FOREACH must be an array, and * is not one"),
    ("a FROM t", "1:1", "unexpected name a; expected SELECT or FOREACH"),
    ("SELECT a, FROM t", "1:11", "unexpected FROM; expected a value or '*'"),
    ("SELECT a b c FROM t", "1:12", "unexpected name c; expected FROM or ','"),
    ("SELECT upper(a FROM t", "1:16", "unexpected FROM; expected an operator, ')' or ','"),
    ("SELECT a AS 1 FROM t", "1:13", "unexpected number 1; expected a name"),
    ("SELECT 1 AS a[1..2] FROM t", "1:14", "unexpected '[1..2]'; expected FROM or ','"),
    ("SELECT a[1..2].b FROM t", "1:15", "unexpected '.'; expected an operator, FROM, AS or ','"),
    ("SELECT (a).b FROM t", "1:11", "unexpected '.'; expected an operator, FROM, AS or ','"),
    ("SELECT a FROM t WHERE a = 1 AS b", "1:29", "unexpected AS; expected an operator or the end of the rule"),
    ("SELECT a FROM t WHERE a IN ()", "1:29", "unexpected ')'; expected a value"),
    ("SELECT a FROM t;", "1:16", "unexpected ';'; a rule ends without ';'"),
    ("SELECT a FROM t -- why", "1:17", "unexpected '-'; a comment must end with a line break"),
    ("SELECT a # why\nFROM t", "1:10", "unexpected '#'; a comment begins with --"),
    ("SELECT 'abc FROM t", "1:8", "the string that begins here has no closing '"),
    ('SELECT "abc FROM t', "1:8", 'the quoted name that begins here has no closing "'),
    ("SELECT _a FROM t", "1:8", "unexpected '_'; a name begins with a letter; write \"_...\" in double quotes"),
    (
        "SELECT\n  größe FROM t",
        "2:5",
        "unexpected 'ö'; outside of strings and quoted names only ASCII letters are allowed",
    ),
    ("SELECT a.1.100 FROM t", "1:10", "unexpected number 1.100; write the steps as strings, .'1'.'100'"),
    (
        "SELECT a.from FROM t",
        "1:10",
        "unexpected FROM; from is a word of the language; write the step as a string, .'from'",
    ),
    (
        "SELECT a.true FROM t",
        "1:10",
        "unexpected true; true is a word of the language; write the step as a string, .'true'",
    ),
    ("SELECT a.[1] FROM t", "1:10", "unexpected '['; after the point of a path comes a name, an integer or a string"),
    ("SELECT div FROM t", "1:12", "unexpected FROM; expected '('"),
    ("SELECT a = 1 = 2 FROM t", "1:14", "unexpected '='; comparisons do not chain; join them with AND"),
    ("SELECT a FROM t WHERE a == 1", "1:26", "unexpected '='; == is no comparison; there are = != <> < > <= >= and =~"),
    ("SELECT a FROM t WHERE a < b < c", "1:29", "unexpected '<'; comparisons do not chain; join them with AND"),
    ("SELECT a = 1 b FROM t", "1:14", "AS is needed between a comparison and its name"),
    ("SELECT (1 = 1) AS a FROM t", "1:8", "a comparison in parentheses cannot be selected, only used as a condition"),
    (
        "SELECT a AND b FROM t",
        "1:8",
        "a condition with AND, OR or NOT cannot be selected; use CASE WHEN ... THEN true ELSE false END",
    ),
    ("SELECT 1 + (a = 2) FROM t", "1:12", "a comparison cannot be a side of +"),
    (
        "SELECT CASE WHEN a THEN CASE WHEN b THEN 1 END END FROM t",
        "1:25",
        "CASE cannot be part of a CASE; give it a name with AS first and use the name",
    ),
    (
        "SELECT a FROM t WHERE CASE WHEN a THEN 1 END",
        "1:23",
        "CASE cannot be a condition; give it a name with AS and compare the name",
    ),
    ("SELECT a[1](2) FROM t", "1:8", "the name of a function has no index"),
    ("SELECT a FROM 'x/#/y'", "1:15", "FROM needs valid topic filters: '#' must stand alone and last in 'x/#/y'"),
    ("SELECT a FROM ''", "1:15", "FROM needs valid topic filters: the topic filter is empty"),
    ("SELECT 1.0e999 FROM t", "1:8", "this number is larger than a 64-bit float can be (about 1.8e308)"),
    ("SELECT a\ud800 FROM t", "1:9", "the rule is not valid UTF-8 text"),
]


@cases(("text", "place", "problem"), REFUSALS, ids=[repr(text) for text, _, _ in REFUSALS])
def test_refusals_name_the_place_and_what_was_expected(text: str, place: str, problem: str) -> None:
    error = refusal(text)
    assert (f"{error.place.line}:{error.place.column}", error.problem) == (place, problem)


def test_refusal_shows_the_line_with_carets() -> None:
    assert str(refusal("SELECT a,\n\tb + FROM t\nWHERE c = 1")) == (
        "line 2, column 6: unexpected FROM; expected a value\n    \tb + FROM t\n    \t    ^^^^"
    )


def test_huge_integers_are_refused() -> None:
    assert "at most 4,300 digits" in refusal(f"SELECT {'9' * 4301} FROM t").problem
    assert "at most 4,300 digits" in refusal(f"SELECT [1..{'9' * 4301}] FROM t").problem


_PIECES = [*"aAf.,'\"[]()0159 =<>+-*/_$\n;é", "SELECT ", " FROM t", " WHERE ", " AND ", "CASE ", " WHEN ", " END"]


@given(st.lists(st.sampled_from(_PIECES), max_size=30).map("".join))
def test_any_text_is_a_rule_or_refused_with_a_place_in_it(text: str) -> None:
    error = refusal_or_none(text)
    if error is not None:
        assert 0 <= error.place.start <= len(text)
        assert error.place.line <= text.count("\n") + 1
        assert error.problem in str(error)


def refusal_or_none(text: str) -> RuleSyntaxError | None:
    try:
        parse_rule(text)
    except RuleSyntaxError as error:
        return error
    return None


def test_a_rule_is_no_longer_than_a_broker_has_time_for() -> None:
    text = "SELECT " + ", ".join(f"1 as a{number}" for number in range(10_000)) + ' FROM "t"'
    error = refusal_or_none(text)
    assert error is not None
    assert "at most 65,536" in error.problem
    assert len(str(error)) < 1_000
