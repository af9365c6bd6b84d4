"""`heliograph rule` as its user sees it: what it prints, where, and its exit code."""

import io
import json
import shlex
import sys
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.rules.events import COMMON_COLUMNS, EVENTS
from heliograph.rules.samples import SAMPLES
from support.cases import cases

RULE = 'SELECT payload.temp AS t FROM "weather/+/obs" WHERE payload.temp > 20'
TOPIC = "weather/EWR/obs"


def test_prints_the_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--sql", RULE, "--topic", TOPIC, "--payload", '{"temp": 21.5}']) == 0
    assert capsys.readouterr() == ('[{"t":21.5}]\n', "")


def test_the_command_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    (command,) = [line for line in readme.splitlines() if "heliograph rule test" in line]
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out == '[{"t":21}]\n'


def test_prints_an_empty_array_where_the_condition_is_false(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--sql", RULE, "--topic", TOPIC, "--payload", '{"temp": 1}']) == 0
    assert capsys.readouterr() == ("[]\n", "no match: WHERE is not true, or there is no element\n")


def test_says_when_the_topic_does_not_match(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--sql", RULE, "--topic", "weather", "--payload", "{}"]) == 0
    assert capsys.readouterr() == ("[]\n", "no match: the topic weather is matched by none of weather/+/obs\n")


def test_undefined_shows_as_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", "--sql", 'SELECT nothing FROM "#"', "--topic", "t"]) == 0
    assert capsys.readouterr().out == '[{"nothing":"undefined"}]\n'


def test_message_options_become_columns(capsys: pytest.CaptureFixture[str]) -> None:
    rule = "SELECT clientid, username, qos, flags.retain AS r, pub_props AS p, is_int(timestamp) AS n FROM t"
    message = ["--topic", "t", "--qos", "2", "--retain", "--clientid", "c", "--username", "u"]
    properties = ["--property", "Content-Type=text/plain", "--property", "User-Property.unit=F=C"]
    assert main(["rule", "test", "--sql", rule, *message, *properties]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row == {
        "clientid": "c",
        "username": "u",
        "qos": 2,
        "r": True,
        "p": {
            "Content-Type": "text/plain",
            "User-Property": {"unit": "F=C"},
            "User-Property-Pairs": [{"key": "unit", "value": "F=C"}],
        },
        "n": True,
    }


def test_absent_columns_have_sample_values(capsys: pytest.CaptureFixture[str]) -> None:
    rule = 'SELECT topic, peerhost, username, payload.msg AS m, metadata.rule_id AS r, node FROM "weather/+/obs/#"'
    assert main(["rule", "test", "--sql", rule]) == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "topic": "weather/a/obs/a",
            "peerhost": "127.0.0.1",
            "username": "user",
            "m": "hello",
            "r": "rule_test",
            "node": "heliograph@127.0.0.1",
        }
    ]


def test_an_event_has_sample_values_and_what_the_context_says(capsys: pytest.CaptureFixture[str]) -> None:
    rule = 'SELECT event, reason, clientid, payload FROM "$events/message_dropped", "$events/client_connected"'
    assert main(["rule", "test", "--sql", rule]) == 0
    row = {"event": "message.dropped", "reason": "no_subscribers", "clientid": "rule-test"}
    assert json.loads(capsys.readouterr().out) == [row | {"payload": '{"msg": "hello"}'}]
    options = ["--event", "$events/client/connected", "--context", '{"clientid": "c"}']
    assert main(["rule", "test", "--sql", rule, *options]) == 0
    row = {"event": "client.connected", "reason": "undefined", "clientid": "c", "payload": "undefined"}
    assert json.loads(capsys.readouterr().out) == [row]
    assert main(["rule", "test", "--sql", rule, "--event", "client.connack"]) == 0
    assert "no match: the event client.connack is matched by none of" in capsys.readouterr().err


def test_every_column_of_every_event_has_a_sample() -> None:
    assert [name for event in EVENTS for name in (*event.columns, *COMMON_COLUMNS) if name not in SAMPLES] == []


def test_evaluation_error_shows_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    rule = 'SELECT (payload.t - 32) / 1.8 AS c FROM "#"'
    assert main(["rule", "test", "--sql", rule, "--topic", "t", "--payload", '{"t": null}']) == 1
    assert capsys.readouterr() == (
        "",
        "heliograph rule: [rule_evaluation] line 1, column 9: '-' needs two numbers, not null\n"
        '    SELECT (payload.t - 32) / 1.8 AS c FROM "#"\n'
        "            ^^^^^^^^^^^^^^\n",
    )


def test_rule_and_payload_come_from_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rule, payload = tmp_path / "rule.sql", tmp_path / "payload"
    rule.write_text('SELECT bytesize(payload) AS n,\n  base64_encode(payload) AS x FROM "#"\n')
    payload.write_bytes(b"\xff\x00")
    assert main(["rule", "test", "--file", str(rule), "--topic", "t", "--payload-file", str(payload)]) == 0
    assert capsys.readouterr().out == '[{"n":2,"x":"/wA="}]\n'


def test_payload_comes_from_standard_input(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"temp": 30}')))
    assert main(["rule", "test", "--sql", RULE, "--topic", TOPIC, "--payload-file", "-"]) == 0
    assert capsys.readouterr().out == '[{"t":30}]\n'


def test_errors_of_a_rule_file_name_the_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rule = tmp_path / "rule.sql"
    rule.write_text("SELECT a\nFROM")
    assert main(["rule", "test", "--file", str(rule), "--topic", "t"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(
        f"heliograph rule: [rule_syntax] {rule}: line 2, column 5: the rule ends too early; "
        "expected a name or a string\n"
    )


@cases(
    ("arguments", "problem"),
    [
        (["--sql", "SELECT a FROM t", "--topic", "a/+"], "--topic: the topic name 'a/+' holds a wildcard"),
        (["--sql", "SELECT a FROM t", "--event", "nothing"], "there is no event 'nothing'; there are $events/client/"),
        (["--sql", "SELECT a FROM t", "--context", "[1]"], "--context: a case must be a JSON object"),
        (["--file", "/nowhere/rule.sql", "--topic", "t"], "/nowhere/rule.sql: No such file or directory"),
        (["--sql", "SELECT payload FROM t", "--topic", "t", "--payload", "\udcff"], "cannot be shown as JSON"),
    ],
)
def test_what_cannot_be_done_is_said(arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "test", *arguments]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert problem in output.err


def test_explain_shows_columns_and_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "explain", 'SELECT topic FROM "#"']) == 0
    assert "topic   string (inferred)  native  CAST(`topic` AS STRING)" in capsys.readouterr().out


def test_explain_of_a_bad_rule_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rule", "explain", "SELECT FROM t"]) == 1
    assert "line 1, column 8: unexpected FROM; expected a value or '*'" in capsys.readouterr().err
    assert main(["rule", "explain"]) == 1
    assert "give the rule or --file FILE" in capsys.readouterr().err
