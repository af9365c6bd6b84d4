"""`heliograph conf show --batch`: many texts, each with its files and variables."""

import io
import json
import os
import subprocess
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
    assert third == {"error": 'line 3: "text" must be there and be a text', "line": None, "file": None}
    assert fourth == {"error": "line 4: a case must be a JSON object", "line": None, "file": None}


def test_bytes_that_are_not_utf_8_come_and_go(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = (
        {"text": {"$base64": "YT0xCmI9/w=="}},
        {"text": 'include "x"', "files": {"x": {"$base64": "/w=="}}},
        {"text": "a = 1", "env": {"HELIOGRAPH_A": {"$base64": "/w=="}, "HELIOGRAPH_B": "日"}},
    )
    first, second, third = answers(capsys, monkeypatch, *cases)
    assert isinstance(first, dict)
    assert (first["line"], first["file"]) == (2, "<text>")
    assert isinstance(second, dict)
    assert (second["line"], second["file"]) == (1, "x")
    assert third == {"value": {"a": {"$base64": "/w=="}, "b": "日"}}


def test_integers_and_levels_have_no_bounds_of_json_libraries(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    digits = "9" * 5000
    given = json.dumps({"text": f"a = {digits}"}) + "\n" + json.dumps({"text": "a=" + "[" * 499 + "]" * 499}) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
    assert main(["conf", "show", "--batch"]) == 0
    integer, levels = capsys.readouterr().out.splitlines()
    assert integer == f'{{"value": {{"a": {digits}}}}}'
    assert levels == '{"value": {"a": ' + "[" * 499 + "]" * 499 + "}}"


def test_a_variable_of_too_many_parts_is_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "HELIOGRAPH_" + "A__" * 10_000 + "A"
    (answer,) = answers(capsys, monkeypatch, {"text": "", "env": {name: "1"}})
    assert isinstance(answer, dict)
    assert (answer["line"], answer["file"]) == (None, name)
    assert "more than 500 parts, which is the limit" in str(answer["error"])


def test_answers_are_utf_8_whatever_the_terminal_has_and_a_reader_may_leave() -> None:
    command = [sys.executable, "-c", "import sys; from heliograph.cli.main import main; sys.exit(main())"]
    case = json.dumps({"text": 'a = "日本"'}).encode() + b"\n"
    process = subprocess.Popen(
        [*command, "conf", "show", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(case)
    process.stdin.flush()
    assert process.stdout.readline() == '{"value": {"a": "日本"}}\n'.encode()
    process.stdout.close()
    process.stdout = None
    _, errors = process.communicate(case * 10)
    assert (process.returncode, errors) == (1, b"")


def test_a_file_or_a_batch_and_not_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conf", "show"]) == 2
    assert main(["conf", "show", "--batch", "x.conf"]) == 2
    assert "name a file, or give --batch" in capsys.readouterr().err
