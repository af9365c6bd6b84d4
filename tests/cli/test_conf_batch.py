"""`heliograph conf show --batch`: many texts, each with its files and variables."""

import io
import json
import sys

import pytest

from heliograph.cli.main import main


def answers(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *cases: object) -> list[object]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    main(["conf", "show", "--batch"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_values_come_with_their_kinds(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'a = 1, b = 1.0, c = ${a}, d = [yes, null]\ninclude "more.conf"'
    case = {
        "text": text,
        "files": {"more.conf": "e { f = 2h }"},
        "env": {"HELIOGRAPH_A": "7", "HELIOGRAPH_E__G": "x", "OTHER_A": "9"},
    }
    (answer,) = answers(capsys, monkeypatch, case)
    assert answer == {"value": {"a": 7, "b": 1.0, "c": 1, "d": ["yes", None], "e": {"f": "2h", "g": "x"}}}


def test_mistakes_come_with_file_and_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cases: tuple[object, ...] = (
        {"text": "a = 1\nb = ${nope}"},
        {"text": 'include "more.conf"', "files": {"more.conf": "\n\nx = 3 apples"}},
        {"text": 5},
        [],
    )
    first, second, third, fourth = answers(capsys, monkeypatch, *cases)
    assert isinstance(first, dict)
    assert (first["line"], first["file"]) == (2, "<text>")
    assert isinstance(second, dict)
    assert (second["line"], second["file"]) == (3, "more.conf")
    assert third == {"error": 'line 3: "text" must be there and be a text'}
    assert fourth == {"error": "line 4: a case must be a JSON object"}


def test_a_file_or_a_batch_and_not_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "show"]) == 2
    assert main(["conf", "show", "--batch", "x.conf"]) == 2
    assert "name a file, or give --batch" in capsys.readouterr().err
