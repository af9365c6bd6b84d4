"""Variform expressions: what they give, what they refuse, and the command that evaluates them."""

import io
import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.rules.values import Value
from heliograph.rules.variform import Variform, VariformEvaluationError, VariformSyntaxError
from support.cases import cases

BINDINGS: dict[str, Value] = {
    "clientid": "dev-7",
    "zone": "z1",
    "n": 41,
    "f": 2.0,
    "yes": True,
    "no": False,
    "none": None,
    "empty": "",
    "list": ["", "b", 3],
    "nothing": [],
    "payload": {"t": 41, "o": {"k": "v"}, "a-b": 1},
    "pub_props": {"Message-Expiry-Interval": 60},
    "token": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIiwicm9sZSI6eyJuIjoxfX0.x",
}

RESULTS = (
    ("clientid", "dev-7"),
    ("payload.o.k", "v"),
    ("payload.a-b", "1"),
    ("pub_props.Message-Expiry-Interval", "60"),
    ("n", "41"),
    ("f", "2.0"),
    ("yes", "true"),
    ("none", ""),
    ("'text'", "text"),
    ('"it\'s"', "it's"),
    ("1.50", "1.5"),
    ("-7", "-7"),
    ("true", "true"),
    ("nth(1, tokens(clientid, '-'))", "dev"),
    ("nth('2', tokens(clientid, '-'))", "7"),
    ("nth(9, list)", ""),
    ("concat([zone, '/', coalesce(username, 'anon')])", "z1/anon"),
    ("concat(n, 'x')", "41x"),
    ("concat([payload.o, none])", '{"k":"v"}'),
    ("iif(num_gte(payload.t, 40), 'hot', 'ok')", "hot"),
    ("iif(missing, 'a', 'b')", "b"),
    ("iif(empty, 'a', 'b')", "b"),
    ("iif(nothing, 'a', 'b')", "b"),
    ("iif('false', 'a', missing)", "a"),
    ("iif(no, missing, 'b')", "b"),
    ("iif(false, 'a', 'b')", "b"),
    ("iif(0, 'a', 'b')", "a"),
    ("coalesce(regex_extract('pump12', '([0-9]+)'))", "12"),
    ("coalesce(list)", "b"),
    ("coalesce(missing)", ""),
    ("coalesce(upper(missing), 0)", "0"),
    ("coalesce([missing, '', no])", "false"),
    ("is_empty(missing)", "true"),
    ("is_empty_var(upper(missing))", "true"),
    ("is_empty_val(empty)", "true"),
    ("is_empty(n)", "false"),
    ("any_to_str(payload.o)", '{"k":"v"}'),
    ("any_to_string(n)", "41"),
    ("sprintf_s('~s-~b', [clientid, 3])", "dev-7-3"),
    ("join_to_string('-', list)", "-b-3"),
    ("hash('sha256', 'a')", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"),
    ("hash_to_range('a', 1, 1)", "1"),
    ("map_to_range(7, 10, 14)", "12"),
    ("map_to_range('a', 0, 95)", "1"),
    ("int2hexstr(16)", "10"),
    ("bin2hexstr('ab')", "6162"),
    ("hexstr2bin('6162')", "ab"),
    ("base64_encode('a')", "YQ=="),
    ("num_eq(1, 1.0)", "true"),
    ("num_lt(1, 2)", "true"),
    ("str_gt(9, 10)", "true"),
    ("str_eq(none, '')", "true"),
    ("not('false')", "true"),
    ("not(true)", "false"),
    ("strlen(rand_str(12))", "12"),
    ("rand_int(1)", "1"),
    ("jwt_value(token, 'role.n')", "1"),
    ("jwt_value(token, 'role.x')", ""),
    ("json_value('{\"a\": {\"b\": 2}}', 'a.b')", "2"),
    ("json_value('no json', 'a')", ""),
    ("lists.last(list)", "3"),
    ("maps.get('k', payload.o)", "v"),
    ("  upper ( zone )\n", "Z1"),
)


@cases(("expression", "result"), RESULTS)
def test_gives(expression: str, result: str) -> None:
    assert Variform(expression).render(BINDINGS) == result


@cases(
    ("expression", "problem"),
    [
        ("upper(username)", "the variable username has no value"),
        ("payload.x", "the variable payload.x has no value"),
        ("clientid.x", "the variable clientid.x has no value"),
        ("is_empty_val(missing)", "the variable missing has no value"),
        ("iif(yes, missing, 1)", "the variable missing has no value"),
        ("list", "the result must be text"),
        ("payload", "the result must be text"),
        ("upper(n)", "upper: argument 1 must be a string"),
        ("trim(' a', 'b')", "trim: it takes 1 argument"),
        ("nosuch(1)", "there is no function nosuch"),
        ("os.system('x')", "there is no module os"),
        ("lists.nosuch(1)", "the module lists has no function nosuch"),
        ("a.b.c(1)", "joined by one dot"),
        ("concat('a')", "a single argument must be an array"),
        ("coalesce(clientid)", "a single argument must be an array"),
        ("coalesce()", "at least 1 argument"),
        ("iif(1, 2)", "iif: it takes 3 arguments"),
        ("nth(0, list)", "positions begin at 1"),
        ("nth('x', list)", "no positive integer"),
        ("num_eq(1, '1')", "is no number"),
        ("not('x')", "neither true nor false"),
        ("hash(sha1, 'x')", "the variable sha1 has no value"),
        ("hash_to_range('', 1, 2)", "a text that is not empty"),
        ("rand_int(0)", "the greatest must be 1 or more"),
        ("jwt_value('x', 'a')", "no JSON web token"),
        ("base64_decode('*')", "base64_decode"),
    ],
)
def test_fails(expression: str, problem: str) -> None:
    with pytest.raises(VariformEvaluationError) as caught:
        Variform(expression).render(BINDINGS)
    assert problem in caught.value.problem


@cases(
    ("expression", "problem"),
    [
        ("", "the expression ends too early"),
        ("(", "unexpected ("),
        ("upper(", "the expression ends too early"),
        ("upper(a", "expected ',' or ')'"),
        ("upper(a,)", "unexpected )"),
        ("concat([])", "unexpected ]"),
        ("[1]", "unexpected ["),
        ("a b", "expected the end of the expression"),
        ("_a", "unexpected character '_'"),
        ("a + b", "unexpected character '+'"),
        ("'open", "the string has no end"),
        ("f(" * 200 + ")" * 200, "more than 100 calls"),
        ("concat([" + "a," * 100_000 + "a])", "more than 200,000 words"),
        ("f(" + "[" * 200 + "1" + "]" * 200 + ")", "more than 100 arrays"),
    ],
)
def test_refuses(expression: str, problem: str) -> None:
    with pytest.raises(VariformSyntaxError) as caught:
        Variform(expression)
    assert problem in caught.value.problem


def test_shows_the_place() -> None:
    with pytest.raises(VariformEvaluationError) as caught:
        Variform("concat([zone,\n  upper(missing)])").render(BINDINGS)
    assert str(caught.value) == (
        "line 2, column 9: the variable missing has no value\n      upper(missing)])\n            ^^^^^^^"
    )


@cases(
    ("text", "problem"),
    [
        ("iif(yes, 'a', nosuch(1))", "there is no function nosuch"),
        ("coalesce(upper(), 'd')", "upper: it takes 1 argument"),
        ("concat(['a', iif(yes, 'b')])", "iif: it takes 3 arguments, not 2"),
        ("getenv()", "getenv: it takes 1 argument, not 0"),
    ],
)
def test_calls_can_be_checked_before_any_evaluation(text: str, problem: str) -> None:
    with pytest.raises(VariformEvaluationError) as caught:
        Variform(text).check_calls()
    assert problem in caught.value.problem
    Variform("coalesce(upper(missing), concat(['a', n]), getenv('A'))").check_calls()


def test_getenv_gives_bytes_that_are_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "HELIOGRAPHVAR_RAW_FOR_VARIFORM", "\udcff")
    assert Variform("getenv('RAW_FOR_VARIFORM')").render({}) == b"\xff"


def test_cases_without_variables_see_those_of_the_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIOGRAPHVAR_OF_THE_COMMAND", "set")
    cases = ({"expr": "getenv('OF_THE_COMMAND')"}, {"expr": "getenv('OF_THE_COMMAND')", "env": {}})
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["variform", "eval", "--batch"]) == 0
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"value": "set"}, {"value": ""}]


def test_the_command_answers_cases_in_order(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [
        {"expr": "upper(a)", "bindings": {"a": "x"}},
        {"expr": "a", "bindings": {"a": {"$base64": "/w=="}}},
        {"expr": "a", "bindings": {"a": {"$undefined": True}}},
        {"expr": "strlen(a)", "bindings": {"a": {"$repeat": ["ab", 5]}}},
        {"expr": "getenv('V')", "env": {"HELIOGRAPHVAR_V": "set"}},
        {"expr": "upper("},
        {"expr": "upper(b)"},
    ]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert main(["variform", "eval", "--batch"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert answers[:5] == [{"value": value} for value in ("X", {"$base64": "/w=="}, "", "10", "set")]
    assert [answer["phase"] for answer in answers[5:]] == ["parse", "eval"]


def test_the_command_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["variform", "eval", "upper(a)"]) == 1
    assert "[variform_evaluation] line 1, column 7: the variable a has no value" in capsys.readouterr().err
    assert main(["variform", "eval", "a", "--bindings", "[]"]) == 1
    assert "--bindings: a case must be a JSON object" in capsys.readouterr().err
    assert main(["variform", "eval"]) == 1
    assert "give an expression, or --batch" in capsys.readouterr().err


def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "variform.md").read_text(encoding="utf-8")
    block = page.split("```console\n$ ")[1].split("```")[0]
    command, _, printed = block.partition("\n")
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == printed
