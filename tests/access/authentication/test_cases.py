"""`heliograph authn test --batch` over the bank of cases, which were written from the descriptions of authenticators.

A case of `tests/access/cases/authn_*.jsonl` is what the command reads. Its key `expect` is the wanted answer; that has
`refused` where the settings, or what else a case gives, are to be refused.
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

BANK = sorted((Path(__file__).parents[1] / "cases").glob("authn_*.jsonl"))


def answers_of(lines: bytes) -> list[Any]:
    """What the command answers to lines."""
    printed = io.StringIO()
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines))), redirect_stdout(printed):
        assert main(["authn", "test", "--batch"]) == 0
    return [json.loads(line) for line in printed.getvalue().splitlines()]


def test_every_case_has_the_wanted_answer() -> None:
    cases = [json.loads(line) for file in BANK for line in file.read_text().splitlines()]
    wrong = {}
    for case, answer in zip(
        cases, answers_of("".join(json.dumps(case) + "\n" for case in cases).encode()), strict=True
    ):
        assert answer.pop("id") == case["id"]
        if case["expect"] != ({"refused": True} if "error" in answer else answer):
            wrong[case["kind"], case["id"]] = answer
    assert wrong == {}
    assert len(cases) > 400


@cases(
    "line",
    [
        b"x",
        b"[]",
        b"5",
        b"{}",
        b"\xff",
        b'{"kind": "none"}',
        b'{"kind": ["hash"]}',
        b'{"kind": "hash"}',
        b'{"kind": "hash", "algorithm": 5, "stored": "", "password": ""}',
        b'{"kind": "hash", "algorithm": {"name": {}}, "stored": "", "password": ""}',
        b'{"kind": "hash", "stored": 5, "password": ""}',
        b'{"kind": "cidr", "cidr": 5, "ip": "x"}',
        b'{"kind": "bootstrap"}',
        b'{"kind": "bootstrap", "format": "csv", "type": "other", "text": "user_id,password_hash\\na,b"}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_case_is_answered_with_an_error_and_does_not_stop_the_others(line: bytes) -> None:
    first, second = answers_of(line + b'\n\n{"id": 2, "kind": "cidr", "cidr": "::/0", "ip": "::1"}\n')
    assert first["error"]
    assert second == {"id": 2, "result": True}
