"""`heliograph topic` as its user sees it: what it prints, where, and its exit code."""

import io
import json
import sys

import pytest

from heliograph.cli.main import main
from support.cases import cases


def batch(
    *lines: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], raw: bytes | None = None
) -> list[dict[str, object]]:
    """The answers to cases, given as values or, raw, as the bytes of standard input."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines) if raw is None else raw
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert main(["topic", "match", "--batch"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return [json.loads(line) for line in captured.out.splitlines()]


@cases(
    ("topic_filter", "topic", "answer"),
    [
        ("sport/#", "sport", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+", "/finance", False),
        ("+/+", "/finance", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("$share/g/sport/#", "sport", True),
        ("$share/g/#", "$SYS/x", False),
        ("$queue/t", "t", True),
        ("$exclusive/t", "t", True),
    ],
)
def test_match(topic_filter: str, topic: str, answer: bool, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "match", topic_filter, topic]) == (0 if answer else 1)
    assert capsys.readouterr() == (json.dumps({"match": answer}) + "\n", "")


def test_what_is_not_valid_matches_nothing_and_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "match", "a/#/b", "a/x/b"]) == 1
    assert capsys.readouterr() == ('{"match": false}\n', "'#' must stand alone and last in 'a/#/b'\n")
    assert main(["topic", "match", "a/#", "a/+"]) == 1
    assert capsys.readouterr() == ('{"match": false}\n', "the topic name 'a/+' holds a wildcard\n")


@cases(
    ("topic_filter", "parsed"),
    [
        ("$share/g/a/+", {"group": "g", "filter": "a/+"}),
        ("$queue/a", {"group": "$queue", "filter": "a"}),
        ("$exclusive/a", {"group": None, "filter": "a"}),
        ("a/+", {"group": None, "filter": "a/+"}),
        ("$share/g", False),
        ("$share//a", False),
        ("$share/a+/b", False),
    ],
)
def test_parse(topic_filter: str, parsed: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "parse", topic_filter]) == (1 if parsed is False else 0)
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {"parse": parsed}
    assert bool(captured.err) == (parsed is False)


def test_validate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "validate", "a/+/#"]) == 0
    assert main(["topic", "validate", "--topic", "a/b"]) == 0
    assert capsys.readouterr() == ('{"valid": true}\n' * 2, "")
    assert main(["topic", "validate", "--topic", "a/+"]) == 1
    assert capsys.readouterr() == ('{"valid": false}\n', "the topic name 'a/+' holds a wildcard\n")
    assert main(["topic", "validate", "$share/g"]) == 1
    assert capsys.readouterr().out == '{"valid": false}\n'


def test_bytes_of_the_command_line_that_are_not_utf_8(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "validate", "--topic", "a\udcff"]) == 1
    assert capsys.readouterr() == ('{"valid": false}\n', "the topic name is not UTF-8\n")


@cases("words", [["match"], ["match", "a"], ["match", "a", "b", "--batch"]])
def test_words_that_make_no_sense_together(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", *words]) == 2
    assert capsys.readouterr().err.startswith("heliograph topic: ")


# --- batches


@cases(
    ("case", "answer"),
    [
        ({"want": "match", "filter": "a/+", "topic": "a/b"}, {"match": True}),
        ({"want": "match", "filter": "$share/g/a", "topic": "a", "subscription": True}, {"match": True}),
        ({"want": "match", "filter": "$share/g/a", "topic": "a", "subscription": False}, {"match": False}),
        ({"want": "match", "filter": "$share/g/a", "topic": "a"}, {"match": False}),
        ({"want": "match", "filter": "$share/g/a", "topic": "$share/g/a"}, {"match": True}),
        ({"want": "match", "filter": "$share/g/#", "topic": "$SYS/a", "subscription": True}, {"match": False}),
        ({"want": "match", "filter": "$share/g/$SYS/#", "topic": "$SYS/a", "subscription": True}, {"match": True}),
        ({"want": "match", "filter": "#", "topic": "/"}, {"match": True}),
        ({"want": "match", "filter": "/", "topic": "//"}, {"match": False}),
        ({"want": "match", "filter": "a/#/b", "topic": "a/x/b"}, {"match": False}),
        ({"want": "match", "filter": "a", "topic": ""}, {"match": False}),
        ({"want": "match", "filter": "#", "topic": "a\0"}, {"match": False}),
        ({"want": "match", "filter": {"$base64": "YS8r"}, "topic": {"$base64": "YS/DpA=="}}, {"match": True}),
        ({"want": "match", "filter": "#", "topic": {"$base64": "gA=="}}, {"match": False}),
        (
            {"want": "match", "filter": {"$repeat": ["+/", 60000]}, "topic": {"$repeat": ["a/", 60000]}},
            {"match": False},
        ),
        ({"want": "match", "filter": {"$repeat": ["+/", 30000]}, "topic": {"$repeat": ["a/", 30000]}}, {"match": True}),
        ({"want": "valid", "filter": "a/+"}, {"valid": True}),
        ({"want": "valid", "topic": "a/+"}, {"valid": False}),
        ({"want": "valid", "filter": "a/+", "topic": "a/b"}, {"valid": True}),
        ({"want": "valid", "filter": "a+", "topic": "a/b"}, {"valid": False}),
        ({"want": "valid", "filter": "a/+", "topic": "a/+"}, {"valid": False}),
        ({"want": "valid", "filter": "$share/g"}, {"valid": True}),  # as a bare filter it is one like others
        ({"want": "valid", "filter": "$share/g", "subscription": True}, {"valid": False}),
        ({"want": "valid", "filter": "$share/g/", "subscription": True}, {"valid": False}),
        ({"want": "valid", "filter": "$queue/", "subscription": True}, {"valid": False}),
        ({"want": "valid", "topic": "$share/g/t"}, {"valid": True}),
        ({"want": "valid", "topic": {"$repeat": ["a", 65535]}}, {"valid": True}),
        ({"want": "valid", "topic": {"$repeat": ["a", 65536]}}, {"valid": False}),
        ({"want": "valid", "topic": {"$repeat": ["ä", 32767]}}, {"valid": True}),
        ({"want": "valid", "topic": {"$repeat": ["ä", 32768]}}, {"valid": False}),
        ({"want": "valid", "topic": {"$repeat": ["/", 65535]}}, {"valid": True}),
        ({"want": "valid", "topic": {"$repeat": ["", 5]}}, {"valid": False}),
        ({"want": "valid", "topic": {"$repeat": ["a", 0]}}, {"valid": False}),
        ({"want": "valid", "topic": {"$repeat": ["a", 10**15]}}, {"valid": False}),
        ({"want": "valid", "filter": {"$base64": "7aCA"}}, {"valid": False}),  # a surrogate
        ({"want": "valid", "filter": {"$base64": "wIA="}}, {"valid": False}),  # U+0000 in two bytes
        ({"want": "valid", "filter": {"$base64": "77u/"}}, {"valid": True}),  # U+FEFF is a character like others
        ({"want": "valid", "topic": "\ud800"}, {"valid": False}),
        ({"want": "valid", "topic": "\U0001f600"}, {"valid": True}),
        ({"want": "valid", "topic": "\ufffe\u0001"}, {"valid": True}),
        ({"want": "parse", "filter": "$share/g/a", "subscription": True}, {"parse": {"group": "g", "filter": "a"}}),
        ({"want": "parse", "filter": "$share/g/a"}, {"parse": {"group": "g", "filter": "a"}}),
        (
            {"want": "parse", "filter": "$share/g/a", "subscription": False},
            {"parse": {"group": None, "filter": "$share/g/a"}},
        ),
        ({"want": "parse", "filter": "$share/g/$share/h/a"}, {"parse": False}),
        ({"want": "parse", "filter": "$queue/a/#"}, {"parse": {"group": "$queue", "filter": "a/#"}}),
        (
            {"want": "parse", "filter": "a/+", "topic": "is not asked about"},
            {"parse": {"group": None, "filter": "a/+"}},
        ),
        ({"want": "parse", "filter": "a+"}, {"parse": False}),
        ({"want": "parse", "filter": {"$base64": "gA=="}}, {"parse": False}),
    ],
)
def test_batch(
    case: dict[str, object],
    answer: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert batch(case, monkeypatch=monkeypatch, capsys=capsys) == [answer]


@cases(
    ("line", "error"),
    [
        (b"", "not a line of JSON"),
        (b"{", "not a line of JSON"),
        (b"[" * 100_000, "not a line of JSON"),
        (b'{"want": "match", "filter": "\xff"}', "not a line of JSON"),
        (b"[1]", "[1] is no object"),
        (b"{}", '"match" needs "filter"'),
        (b'{"want": "matches"}', '"want" is "matches"; "match", "valid" and "parse" are valid'),
        (b'{"want": "match", "filter": "a"}', '"match" needs "topic"'),
        (b'{"want": "parse"}', '"parse" needs "filter"'),
        (b'{"want": "valid"}', '"valid" needs "filter" or "topic"'),
        (b'{"want": "valid", "topic": 5}', '"topic" is 5'),
        (b'{"want": "valid", "topic": {"$base65": "x"}}', '"topic" is {"$base65": "x"}'),
        (b'{"want": "valid", "topic": {"$base64": "x"}}', "is not valid base64"),
        (b'{"want": "valid", "topic": {"$base64": "\xc3\xa4"}}', "is not valid base64"),
        (b'{"want": "valid", "topic": {"$repeat": ["x"]}}', '"topic" is {"$repeat": ["x"]}'),
        (b'{"want": "valid", "topic": {"$repeat": ["x", -1]}}', "is repeated -1 times"),
        (b'{"want": "valid", "topic": {"$repeat": ["x", true]}}', "is repeated true times"),
        (b'{"want": "valid", "topic": {"$repeat": [7, 2]}}', '"topic" is 7'),
        (b'{"want": "valid", "topic": "t", "subscription": 1}', '"subscription" is 1; true or false are valid'),
    ],
)
def test_a_line_that_is_no_case_is_told_and_the_batch_goes_on(
    line: bytes, error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = b'{"want": "valid", "topic": "t"}\n'
    answers = batch(raw=good + line + b"\n" + good, monkeypatch=monkeypatch, capsys=capsys)
    assert answers[0] == answers[2] == {"valid": True}
    assert error in str(answers[1]["error"])
    assert len(answers) == 3


def test_a_line_that_never_ends_is_not_kept_in_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = b'{"want": "' + b"x" * 20_000_000 + b'"}\n{"want": "valid", "topic": "t"}'
    answers = batch(raw=raw, monkeypatch=monkeypatch, capsys=capsys)
    assert answers == [{"error": "the line has more than 16777216 bytes"}, {"valid": True}]


def test_an_empty_batch(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert batch(raw=b"", monkeypatch=monkeypatch, capsys=capsys) == []
