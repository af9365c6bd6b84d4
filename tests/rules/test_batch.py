"""`heliograph rule test --batch`: many cases, an answer each, the same from both engines."""

import io
import json
import sys
from contextlib import nullcontext
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

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
    # what the given context does not have is not there: only a single case is filled with samples
    (
        {"sql": "SELECT clientid, payload, metadata FROM t", "topic": "t"},
        {"rows": [{name: {"$undefined": True} for name in ("clientid", "payload", "metadata")}]},
    ),
    (
        {
            "sql": 'SELECT a, b, is_float(a[2]) AS f, is_null(b) AS n FROM "#"',
            "topic": "t",
            "context": {"a": [1, 1.0, 10**30], "b": {"$undefined": True}},
        },
        {"rows": [{"a": [1, 1.0, 10**30], "b": {"$undefined": True}, "f": True, "n": True}]},
    ),
    (
        {
            "sql": "SELECT topic(2) AS l, clientip() AS ip, payload('a.b') AS b, flag('retain') AS r FROM \"#\"",
            "topic": "a/b",
            "context": {"peerhost": "10.0.0.1", "payload": '{"a": {"b": null}}', "flags": {"retain": True}},
        },
        {"rows": [{"l": "b", "ip": "10.0.0.1", "b": None, "r": True}]},
    ),
    (
        {
            "sql": "FOREACH jq('.[]', topics) AS t DO t, topic() AS own, metadata.rule_id AS r FROM \"$events/sys/#\"",
            "event": "$events/sys/alarm_activated",
            "context": {"topics": ["a"], "metadata": {"rule_id": "r"}},
        },
        {"rows": [{"t": "a", "own": {"$undefined": True}, "r": "r"}]},
    ),
    (
        {"sql": "SELECT subbits('abc', 1, 5, 'bits') AS x FROM t", "topic": "t"},
        {"rows": [{"x": {"$bits": "01100"}}]},
    ),
    (
        {"sql": "SELECT bin2hexstr(x) AS x FROM t", "topic": "t", "context": {"x": {"$bits": "01100"}}},
        {"rows": [{"x": "0C"}]},
    ),
    (
        {"sql": "SELECT bitsl(1, 60000) AS x FROM t", "topic": "t"},
        {
            "error": "the output cannot be shown as JSON: an integer in it has too many digits to be written",
            "phase": "eval",
        },
    ),
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
    assert first["error"].startswith("line 1, column 8: unexpected FROM; expected a value")
    assert first["phase"] == "parse"
    assert second["phase"] == "eval"
    assert "there is no event 'client.nothing'; there are $events/client_connected" in third["error"]
    assert 'needs "topic" or "event"' in fourth["error"]
    assert '"sql" must be there' in fifth["error"]


def test_lines_that_are_no_case_are_told_and_empty_ones_are_none(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = b'{"sql": "SELECT 1 AS x FROM t", "topic": "t"}\n'
    contexts = (b"5", b'{"a": {"$base64": "*"}}', b'{"a": {"$repeat": ["x", -1]}}', b'{"a": {"$repeat": ["x", 1e3]}}')
    wrong = [b'{"sql": "SELECT a FROM t", "topic": "t", "context": ' + context + b"}\n" for context in contexts]
    lines = b"".join([good, b"\n  \n", b"nonsense\n", b"[]\n", b"\xff\n", *wrong])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines + good)))
    assert main(["rule", "test", "--batch"]) == 1
    first, *bad, last = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first == last == {"rows": [{"x": 1}]}
    assert [answer["phase"] for answer in bad] == ["parse"] * 7
    assert [answer["error"].partition(":")[0] for answer in bad] == [f"line {number}" for number in range(4, 11)]


def test_a_batch_and_options_for_one_case_do_not_go_together(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--batch", "--topic", "t"]) == 1
    assert "--batch takes rules and topics from standard input" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.service
def test_spark_answers_the_same(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [case for case, _ in CASES]
    cases += [{"sql": "SELECT FROM t", "topic": "t"}, {"sql": "SELECT 1 / 0 FROM t", "topic": "t"}]
    expected = answers(capsys, monkeypatch, cases)
    # There is one Spark session in a process, and the other tests have theirs already.
    monkeypatch.setattr("heliograph.pipeline.spark.session.spark_session", lambda *_, **__: nullcontext(spark))
    assert answers(capsys, monkeypatch, cases, "--engine", "spark") == expected


def hostile_lines() -> list[bytes]:
    """Lines that ask for much, hold much or are no case; each has an answer all the same."""

    def case(sql: str, payload: Any) -> bytes:
        return json.dumps({"sql": sql, "topic": "t", "context": {"payload": payload}}).encode()

    deep = "[" * 900 + "]" * 900
    head = b'{"sql": "SELECT payload AS x FROM t", "topic": "t", "context": {"payload": '
    return [
        case("SELECT 1 AS x FROM t", ""),
        b"\0",
        b"{}",
        head + deep.encode() + b"}}",
        head + b"[" * 1010 + b"]" * 1010 + b"}}",
        head + b"[" * 5000 + b"]" * 5000 + b"}}",
        head + deep[1:-1].encode() + b', "a": {"$base64": "/w=="}}}',
        case("SELECT json_decode(payload) AS x FROM t", deep),
        case("SELECT json_decode(payload) = json_decode(payload) AS x FROM t", deep),
        case("SELECT strlen(payload) AS n, payload AS x FROM t", {"$repeat": ["ab", 500_000]}),
        case("SELECT payload AS x FROM t", {"$repeat": ["ab", 10**12]}),
        case("SELECT payload AS x FROM t", "a\0b"),
        *(
            case("SELECT json_decode(payload) AS x FROM t", text)
            for text in ('{"$base64":"*"}', '{"$repeat":["a",-1]}')
        ),
        *(case("SELECT payload AS x FROM t", {mark: "*"}) for mark in ("$base64", "$bits")),
        case("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " AS x FROM t", ""),
        case("SELECT " + "- " * 5000 + "1 AS x FROM t", ""),
        case("SELECT 1 AS a" + ".a" * 3000 + " FROM t", ""),
        case("SELECT '" + "x" * 100_000 + " AS x FROM t", ""),
        case("SELECT 2 AS x FROM t", ""),
    ]


def raw_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, lines: list[bytes], *options: str
) -> list[str]:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\n".join(lines))))
    assert main(["rule", "test", "--batch", *options]) == 1
    return capsys.readouterr().out.strip().split("\n")


def test_hostile_lines_cost_no_other_line_its_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others, last = raw_answers(capsys, monkeypatch, hostile_lines())
    assert (first, last) == ('{"rows":[{"x":1}]}', '{"rows":[{"x":2}]}')
    assert len(others) == len(hostile_lines()) - 2
    assert all(answer.startswith(('{"rows":[', '{"error":"')) for answer in others)
    assert all(len(answer) < 2000 for answer in others if answer.startswith('{"error"'))


@pytest.mark.slow
@pytest.mark.service
def test_spark_answers_hostile_lines_as_the_broker_does(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = raw_answers(capsys, monkeypatch, hostile_lines())
    monkeypatch.setattr("heliograph.pipeline.spark.session.spark_session", lambda *_, **__: nullcontext(spark))
    assert raw_answers(capsys, monkeypatch, hostile_lines(), "--engine", "spark") == expected


def test_every_event_is_found_by_its_topics_and_no_topic_means_two() -> None:
    topics = [topic for event in EVENTS for topic in event.topics]
    assert len(topics) == len(set(topics))
    assert all(event.matches(topic) for event in EVENTS for topic in event.topics)
    assert all(event.matches("$events/#") and not event.matches("#") for event in EVENTS)
