"""The pages about validation and transformation: what they show can be configured, and does what they say."""

import re
import shlex
from pathlib import Path

import pytest

from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt.properties import ALLOWED_PUBLISH, properties_from_wire
from heliograph.rules.evaluator import CompiledRule
from support.cases import cases
from support.services import Node

DOCS = Path(__file__).parents[2] / "docs"
VALIDATION = (DOCS / "schema_validation.md").read_text(encoding="utf-8")
TRANSFORMATION = (DOCS / "message_transformation.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def node_of(page: str) -> Node:
    """A node as a page configures it."""
    (block,) = blocks(page, "hocon")
    return Node(block)


def test_validation(caplog: pytest.LogCaptureFixture) -> None:
    node = node_of(VALIDATION)
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    peer = node.connect()
    good, stormy = b'{"station":"KJFK","temp":20,"wind_speed":9}', b'{"station":"KJFK","temp":20,"wind_speed":90}'
    for payload in (good, stormy, b'{"station":"KJFK","temp":99}', b"bad"):
        peer.publish("weather/KJFK/obs", payload)
    assert watcher.heard() == [f"PUBLISH weather/KJFK/obs '{payload.decode()}' q0" for payload in (good, stormy)]
    assert node.statistics()["schema_validation.calm.failed"] == 1
    assert "validation weather failed (drop)" in caplog.text


def test_transformation() -> None:
    node = node_of(TRANSFORMATION)
    watcher = node.connect("watcher")
    watcher.subscribe("#", 1)
    node.connect("dev", username="acme").publish("up/1/fahrenheit", b'{"t": 70, "alarm": true}')
    (message,) = watcher.received()
    assert isinstance(message, p.Publish)
    assert (message.topic, message.qos) == (b"acme/up/1/fahrenheit", 1)
    assert message.payload == b'{"t":70,"alarm":true,"unit":"F","seen":{"by":"dev"}}'
    properties = properties_from_wire(message.property_bytes, ALLOWED_PUBLISH)
    assert properties.user == [("received_by", "heliograph@127.0.0.1")]


def test_the_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = blocks(TRANSFORMATION, "hocon")
    (tmp_path / "node.conf").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (shown,) = blocks(TRANSFORMATION, "console")
    command, printed = shown.splitlines()
    assert main(shlex.split(command.removeprefix("$ heliograph "))) == 0
    assert capsys.readouterr().out.splitlines() == [printed]


def test_the_rule_of_the_page_is_one() -> None:
    (sql,) = blocks(VALIDATION, "sql")
    assert CompiledRule(sql).topics == ("$events/schema_validation_failed",)


@cases("page", [VALIDATION, TRANSFORMATION])
def test_links_lead_somewhere(page: str) -> None:
    for link in re.findall(r"\]\(([a-z_]+\.md)", page):
        assert (DOCS / link).is_file()
