"""`heliograph conf show --batch` over the bank of cases of the configuration language."""

import io
import json
import sys
from base64 import b64encode
from contextlib import redirect_stdout
from typing import Any
from unittest.mock import patch

import pytest

from heliograph.cli.main import main
from hocon.bank import CASES, At, Case
from support.cases import cases


def _coded(content: str | bytes) -> object:
    return content if isinstance(content, str) else {"$base64": b64encode(content).decode()}


def _line(case: Case) -> dict[str, Any]:
    files, environ = (*case[2:], {}, {})[:2]
    return {
        "text": _coded(case[0]),
        "files": {name: _coded(content) for name, content in files.items()},
        "env": dict(environ),
    }


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    """What the command answers to all cases in one run."""
    given = "".join(json.dumps(_line(case)) + "\n" for case in CASES)
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode()))), redirect_stdout(printed):
        assert main(["conf", "show", "--batch"]) == 0
    printed.seek(0)
    return [json.loads(line) for line in printed.read().splitlines()]


def _written(value: object) -> str:
    # As JSON 1, 1.0 and true are three values; the order of keys has no meaning.
    return json.dumps(value, sort_keys=True)


def test_each_case_has_one_answer(answers: list[Any]) -> None:
    assert len(answers) == len(CASES)


@cases("number", range(len(CASES)), ids=[repr(case[0])[:60] for case in CASES])
def test_a_case_says_what_its_description_says(answers: list[Any], number: int) -> None:
    wanted, answer = CASES[number][1], answers[number]
    if isinstance(wanted, At):
        assert (answer.get("line"), answer.get("file")) == (wanted.line, wanted.file), answer
        assert answer["error"]
    else:
        assert _written(answer) == _written({"value": wanted})
