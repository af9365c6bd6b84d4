"""`heliograph rule test --batch`: many cases, an answer each, the same from both engines."""

import io
import json
import subprocess
import sys
from typing import Any, Final

import pytest

from heliograph.cli.main import main
from heliograph.rules.events import EVENTS

CASES: Final[tuple[tuple[dict[str, Any], dict[str, Any]], ...]] = (
    (
        {
            "sql": 'SELECT payload.a AS a, clientid FROM "t/#"',
            "topic": "t/1",
            "context": {"payload": '{"a": 1.0}', "clientid": "c"},
        },
        {"rows": [{"a": 1.0, "clientid": "c"}]},
    ),
    (
        {
            "sql": 'SELECT reason, event FROM "$events/client_disconnected"',
            "event": "$events/client/disconnected",
            "context": {"reason": "normal"},
        },
        {"rows": [{"reason": "normal", "event": "client.disconnected"}]},
    ),
    (
        {"sql": 'SELECT reason FROM "$events/client/disconnected", "t/#"', "event": "client.disconnected"},
        {"rows": [{"reason": {"$undefined": True}}]},
    ),
    ({"sql": 'SELECT 1 AS x FROM "$events/client_connected"', "event": "$events/client_connack"}, {"rows": []}),
    ({"sql": "SELECT getenv('A') AS a FROM t", "topic": "t", "env": {"HELIOGRAPHVAR_A": "v"}}, {"rows": [{"a": "v"}]}),
    ({"sql": "SELECT getenv('A') AS a FROM t", "topic": "t"}, {"rows": [{"a": ""}]}),
    ({"sql": 'FOREACH payload.l AS x FROM "#"', "topic": "t", "context": {"payload": '{"l": []}'}}, {"rows": []}),
    (
        {"sql": "SELECT payload FROM t", "topic": "t", "context": {"payload": {"$base64": "/w=="}}},
        {"rows": [{"payload": {"$base64": "/w=="}}]},
    ),
    (
        {"sql": "SELECT strlen(payload) AS n FROM t", "topic": "t", "context": {"payload": {"$repeat": ["ab", 4]}}},
        {"rows": [{"n": 8}]},
    ),
    ({"sql": "SELECT topic FROM t", "context": {"topic": "t"}}, {"rows": [{"topic": "t"}]}),
)


def answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cases: list[Any], *options: str
) -> list[dict[str, Any]]:
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    main(["rule", "test", "--batch", *options])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_each_case_has_its_answer(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(capsys, monkeypatch, [case for case, _ in CASES]) == [answer for _, answer in CASES]


def test_mistakes_say_in_which_phase(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [
        {"sql": "SELECT FROM t", "topic": "t"},
        {"sql": "SELECT 1 / 0 AS x FROM t", "topic": "t"},
        {"sql": "SELECT 1 AS x FROM t", "event": "client.nothing"},
        {"sql": "SELECT 1 AS x FROM t"},
        {"topic": "t"},
    ]
    first, second, third, fourth, fifth = answers(capsys, monkeypatch, cases)
    assert first["phase"] == "parse"
    assert second["phase"] == "eval"
    assert "there is no event 'client.nothing'; there are $events/client_connected" in third["error"]
    assert 'needs "topic" or "event"' in fourth["error"]
    assert '"sql" must be there' in fifth["error"]


def test_a_batch_and_options_for_one_case_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--batch", "--topic", "t"]) == 1
    assert "--batch takes rules and topics from standard input" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.service
def test_spark_answers_the_same(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [case for case, _ in CASES]
    cases += [{"sql": "SELECT FROM t", "topic": "t"}, {"sql": "SELECT 1 / 0 FROM t", "topic": "t"}]
    expected = answers(capsys, monkeypatch, cases)
    # In a process of its own, since there is one Spark session in a process, and other tests have theirs.
    command = [sys.executable, "-m", "heliograph.cli.main", "rule", "test", "--batch", "--engine", "spark"]
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == expected, done.stderr


def test_every_event_is_found_by_its_topics_and_no_topic_means_two() -> None:
    topics = [topic for event in EVENTS for topic in event.topics]
    assert len(topics) == len(set(topics))
    assert all(event.matches(topic) for event in EVENTS for topic in event.topics)
    assert all(event.matches("$events/#") and not event.matches("#") for event in EVENTS)
