"""`heliograph authz test --batch` over the bank of cases, which were written from the descriptions of the rules.

A case of `tests/access/cases/authz_*.jsonl` is what the command reads. Its key `expect` is the wanted result; `error`
where the rules are to be refused.
"""

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from heliograph.cli.main import main
from support.cases import cases

BANK = sorted((Path(__file__).parents[1] / "cases").glob("authz_*.jsonl"))
CASES = [json.loads(line) for file in BANK for line in file.read_text().splitlines()]


def answers_of(lines: bytes) -> list[Any]:
    """What the command answers to lines."""
    printed = io.StringIO()
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines))), redirect_stdout(printed):
        assert main(["authz", "test", "--batch"]) == 0
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def test_every_case_has_the_wanted_answer() -> None:
    answers = answers_of(b"".join(json.dumps(case).encode() + b"\n" for case in CASES))
    assert [answer["id"] for answer in answers] == [case["id"] for case in CASES]
    wrong = [
        (case, answer)
        for case, answer in zip(CASES, answers, strict=True)
        if answer.get("result", "error") != case["expect"]
    ]
    assert not wrong
    assert len(CASES) >= 300


@cases(
    "line",
    [
        b"x",
        b"[]",
        b"5",
        b"{}",
        b'{"rules": 5}',
        b'{"rules": "", "rows": []}',
        b'{"rules": "", "topic": 5}',
        b'{"rules": "", "topic": "t"}',
        b'{"rules": "", "topic": "t", "action": "x"}',
        b'{"rules": "", "topic": "t", "action": "publish", "qos": 3}',
        b'{"rules": "", "topic": "t", "action": "publish", "qos": true}',
        b'{"rules": "", "topic": "t", "action": "publish", "retain": 1}',
        b'{"rules": "", "topic": "t", "action": "publish", "client": 5}',
        b'{"rules": "", "topic": "t", "action": "publish", "client": {"username": 5}}',
        b'{"rules": "", "topic": "t", "action": "publish", "client": {"client_attrs": {"a": 5}}}',
        b'{"rows": {}}',
        b'{"acl": {}, "topic": "t", "action": "publish", "now": "x"}',
        b'{"acl": {}, "expire": NaN}',
        b'{"rows": [' + b"9" * 5000 + b"]}",
        b'{"rows": [{"permission": "allow", "action": "all", "topic": "t", "qos": ' + b"9" * 4000 + b"}]}",
        b'{"rules": ' + b"[" * 100_000 + b"}",
        b'{"rules": "' + b"{" * 100_000 + b'"}',
        b'{"rules": "{allow, {\'or\', [' + b"{'or', [" * 10_000 + b'"}',
        b'{"rules": "\\ud800"}',
        b'{"rules": "{allow, {username, {re, [' + b"40," * 12_000 + b'40]}}, all, all}."}',
        b'\xff\xfe{"rules"',
    ],
)
def test_a_bad_line_is_answered_with_an_error_and_those_behind_it_are_answered(line: bytes) -> None:
    bad, good = answers_of(line + b'\n{"id": [1, null], "rules": "{allow, all}."}\n')
    assert isinstance(bad["error"], str)
    assert good == {"id": [1, None], "result": "valid"}


def test_half_a_surrogate_pair_is_a_text_like_others() -> None:
    client = {"username": "\ud800"}
    case = {"id": "\ud800", "rules": "{allow, all}.", "client": client, "topic": "\ud800", "action": "publish"}
    other = {**case, "rules": '{allow, {username, {re, "a"}}, all, all}.', "action": "subscribe"}
    answers = answers_of(f"{json.dumps(case)}\n{json.dumps(other)}\n".encode())
    assert [answer.get("result") for answer in answers] == ["allow", "nomatch"]
    assert answers[0]["id"] == "\ud800"
