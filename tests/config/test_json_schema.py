"""`heliograph conf schema`: a JSON Schema that accepts what a node accepts, and tells all about each setting."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs

from heliograph.config.description import every_setting
from heliograph.config.json_schema import json_schema
from heliograph.hocon.document import parse_text
from heliograph.hocon.values import to_plain
from support.cases import cases

_ROOT = Path(__file__).parents[2]
_SCHEMA = json_schema()
_CHECKER = jsonschema_rs.Draft202012Validator(_SCHEMA)


def settings_in(shape: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every setting, without the groups around them."""
    for inner in shape.get("properties", {}).values():
        groups = [
            each
            for each in (
                inner,
                inner.get("items"),
                inner.get("additionalProperties"),
                *inner.get("items", {}).get("oneOf", ()),
            )
            if isinstance(each, dict) and "properties" in each
        ]
        for group in groups:
            yield from settings_in(group)
        if not groups:
            yield inner


def defaults_of(shape: dict[str, Any]) -> dict[str, Any]:
    """What a file would say that gives every setting its default; groups under names have one of the name `some`."""
    found: dict[str, Any] = {}
    for name, inner in shape["properties"].items():
        if "default" in inner:
            found[name] = inner["default"]
        elif "properties" in inner:
            found[name] = defaults_of(inner)
        elif "properties" in inner.get("items", {}):
            found[name] = [defaults_of(inner["items"])]
        elif isinstance(inner.get("additionalProperties"), dict) and "properties" in inner["additionalProperties"]:
            found[name] = {"some": defaults_of(inner["additionalProperties"])}
    return found


def faults_of(text: str) -> list[str]:
    return [error.message for error in _CHECKER.iter_errors(to_plain(parse_text(text)))]


def test_it_is_a_valid_schema_of_its_dialect() -> None:
    jsonschema_rs.meta.validate(_SCHEMA)


def test_the_defaults_as_a_file_says_them_are_valid() -> None:
    defaults = defaults_of(_SCHEMA)
    assert defaults["mqtt"]["max_packet_size"] == "1MB"
    assert defaults["listeners"]["tcp"]["some"]["bind"] == "127.0.0.1:1883"
    del defaults["connectors"], defaults["actions"], defaults["sources"]  # one of them has settings that it needs
    assert [error.message for error in _CHECKER.iter_errors(defaults)] == []


def test_the_examples_of_the_documentation_are_valid() -> None:
    page = (_ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    examples = [block.split("```")[0] for block in page.split("```hocon\n")[1:]]
    assert examples
    for example in examples:
        assert faults_of(example) == [], example


def test_every_row_of_the_reference_is_described() -> None:
    rows = {line.split("`")[1]: line.rpartition(" | ")[2].removesuffix(" |") for line in every_setting()}
    described = {setting["x-path"]: setting["x-how"] for setting in settings_in(_SCHEMA)}
    assert {path: how for path, how in rows.items() if not path.endswith(".*")}.items() <= described.items()
    for setting in settings_in(_SCHEMA):
        assert setting["description"], setting["x-path"]


def test_units_words_and_secrets_are_told() -> None:
    by_path = {setting["x-path"]: setting for setting in settings_in(_SCHEMA)}
    timeout = by_path["listeners.tcp.NAME.proxy_protocol_timeout"]
    assert (timeout["x-kind"], timeout["default"], timeout["x-maximum"]) == ("duration", "3s", "1h")
    mqueue = by_path["mqtt.max_mqueue_len"]
    assert {"const": "infinity", "x-word": True} in mqueue["anyOf"]
    password = by_path["listeners.ssl.NAME.ssl_options.password"]
    assert password["writeOnly"] is True
    assert "default" not in by_path["zones.NAME.mqtt.max_packet_size"], "a zone has the root's value, not the default"


@cases(
    "text",
    [
        'mqtt.idle_timeout = "5 potatoes"',
        "mqtt.idle_timeot = 5s",
        'mqtt.max_packet_size = "1XB"',
        "mqtt.max_mqueue_len = endless",
        "listeners.tcp.default.bind = true",
        "listeners.tcp.default.max_conn_rate = fast",
        "listeners.tcp.default.access_rules = [perhaps]",
        "log = 5",
        "rewrite = { a = b }",
        "durable_storage.messages.topics = [5]",
    ],
)
def test_what_a_node_refuses_is_not_valid(text: str) -> None:
    assert faults_of(text) != []


@cases(
    "text",
    [
        "mqtt.idle_timeout = 1h30m",
        "mqtt.idle_timeout = 15000",
        "mqtt.max_packet_size = 1048576",
        "mqtt.max_mqueue_len = infinity",
        'listeners.tcp.default { bind = 1883, max_conn_rate = "1000/s", bytes_rate = "10MB/1m" }',
        "node.memory_limit = 70%",
        'listeners.tcp.default.access_rules = ["allow 10.0.0.0/8", "deny all"]',
    ],
)
def test_every_form_of_a_value_is_valid(text: str) -> None:
    assert faults_of(text) == []


def test_the_command_prints_it() -> None:
    command = [sys.executable, "-m", "heliograph.cli.main", "conf", "schema"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed) == json.loads(json.dumps(_SCHEMA))
