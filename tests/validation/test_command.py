"""`heliograph message test`: validations and transformations tried without a broker."""

import json
from pathlib import Path

import pytest

from heliograph.cli.main import main
from support.cases import cases
from support.schemas import SCHEMAS

SETTINGS = f"""{SCHEMAS}
schema_validation.validations = [
  {{ name = reading, topics = "t/#", checks = [{{ type = json, schema = reading }}] }}
  {{ name = strict, topics = "s", failure_action = disconnect, checks = [{{ type = avro, schema = row }}] }}
]
message_transformation.transformations = [
  {{ name = raw, topics = "raw", operations = [{{ key = topic, value = "concat([username, '/', user_property.k])" }}] }}
  {{ name = bad, topics = "t/#", operations = [{{ key = topic, value = "payload.x" }}] }}
]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "node.conf"
    file.write_text(SETTINGS)
    return file


def tried(capsys: pytest.CaptureFixture[str], config: Path, *options: str) -> tuple[int, object, str]:
    """The exit code, what is printed, and what is told on standard error."""
    code = main(["message", "test", "--config", str(config), *options])
    told = capsys.readouterr()
    return code, json.loads(told.out) if told.out else None, told.err


def test_a_message_that_goes_on(capsys: pytest.CaptureFixture[str], config: Path, tmp_path: Path) -> None:
    payload = tmp_path / "payload"
    payload.write_bytes(b"\xff")
    options = ["--topic", "raw", "--payload", f"@{payload}", "--retain", "--username", "u", "--user-property", "k=v=w"]
    expected = {"topic": "u/v=w", "payload": {"$base64": "/w=="}, "qos": 0, "retain": True}
    expected["user_property"] = [{"key": "k", "value": "v=w"}]
    assert tried(capsys, config, *options) == (0, expected, "")


def test_messages_that_are_dropped(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    code, printed, told = tried(capsys, config, "--topic", "t/1", "--payload", '{"t": 99}', "--clientid", "dev")
    reason = "implementation_specific_error"
    assert (code, printed) == (
        1,
        {"dropped": "schema_validation_failed", "reason_code": reason, "disconnects": False},
    )
    assert "validation reading failed (drop) for message" in told
    assert "of client 'dev' to 't/1': at t: 99 is greater than the maximum of 60" in told
    code, printed, _ = tried(capsys, config, "--topic", "s")
    assert printed == {"dropped": "schema_validation_failed", "reason_code": reason, "disconnects": True}


def test_a_failure_that_is_ignored_is_told(capsys: pytest.CaptureFixture[str], config: Path) -> None:
    code, printed, told = tried(capsys, config, "--topic", "t/1", "--payload", '{"t": 9}')
    assert (code, printed) == (0, {"topic": "t/1", "payload": '{"t": 9}', "qos": 0, "retain": False})
    assert "transformation bad failed (ignore)" in told


@cases(
    ("options", "problem"),
    [
        (["--topic", "a/#"], "--topic: the topic name 'a/#' holds a wildcard"),
        (["--topic", "a", "--user-property", "k"], "--user-property: found 'k', expected NAME=TEXT"),
        (["--topic", "a", "--payload", "@/none"], "--payload: /none cannot be read: No such file or directory"),
    ],
)
def test_options_that_make_no_sense(
    capsys: pytest.CaptureFixture[str], config: Path, options: list[str], problem: str
) -> None:
    assert tried(capsys, config, *options) == (1, None, f"heliograph message: {problem}\n")


def test_mistakes_of_the_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "node.conf"
    file.write_text("\nschema_validation.validations = [{ name = v, topics = t }]")
    code, _, told = tried(capsys, file, "--topic", "t")
    assert code == 1
    assert told.startswith(f"heliograph message: [config_invalid] {file}:2: schema_validation.validations.1: ")
