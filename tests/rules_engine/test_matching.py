"""Which rules a message is for, and the columns that they see."""

import json
import logging
from dataclasses import replace
from typing import Any

import pytest

from heliograph.rules.topic_index import TopicIndex
from support.services import Node


def collect(node: Node) -> list[Any]:
    """The payloads of what is published to `rows`, from now on, as JSON."""
    rows: list[Any] = []

    def look(message: Any, *_: object) -> None:
        if message.topic == "rows":
            rows.append(json.loads(message.payload))

    node.broker.hooks.message_publish.add(look, 0, lambda topic: topic == "rows")
    return rows


def rows_of(*sqls: str, more: str = "") -> Node:
    action = 'actions = [{ function = republish, args { topic = rows, payload = "${.}" } }]'
    rules = "\n".join(f'r{number} {{ sql = """{sql} """, {action} }}' for number, sql in enumerate(sqls, 1))
    return Node(f"rule_engine {{ rules {{ {rules} }} {more} }}")


def test_every_rule_has_its_turn_once() -> None:
    node = rows_of(
        "SELECT 1 AS n FROM 'a/b', 'a/#', '+/b'",
        "SELECT nosuch() FROM 'a/#'",
        "SELECT 3 AS n FROM '+/+'",
        "SELECT 4 AS n FROM 'a/b/c'",
        "SELECT 5 AS n FROM 'a/+'",
    )
    rows = collect(node)
    node.connect("c").publish("a/b", b"")
    assert rows == [{"n": 1}, {"n": 3}, {"n": 5}]


def test_topics_that_no_rule_wants_run_no_hook() -> None:
    node = rows_of("SELECT 1 AS n FROM 'a/+'")
    assert node.broker.route(b"a/b").hooked
    assert not node.broker.route(b"b/b").hooked
    assert not node.broker.route(b"$SYS/brokers").hooked


def test_a_rule_that_comes_later_is_asked_about_topics_that_are_known() -> None:
    node = rows_of("SELECT 1 AS n FROM 'a'")
    rows = collect(node)
    peer = node.connect("c")
    peer.publish("b", b"")
    (rule,) = node.rules
    node.change_rules(late=replace(rule.settings, sql="SELECT 2 AS n FROM 'b'"))
    peer.publish("b", b"")
    node.change_rules(late=None)
    peer.publish("b", b"")
    assert rows == [{"n": 2}]


def test_events_are_no_topics_that_clients_could_publish_to() -> None:
    node = rows_of("SELECT 1 AS n FROM '$events/client_connected', '$bridges/mqtt:x'")
    rows = collect(node)
    peer = node.connect("c")
    assert rows == [{"n": 1}]
    peer.publish("$events/client_connected", b"")
    peer.publish("$bridges/mqtt:x", b"")
    assert rows == [{"n": 1}]


def test_sys_messages_are_ignored_unless_wanted() -> None:
    for setting, found in (("", 0), ("ignore_sys_message = false", 1)):
        node = rows_of("SELECT topic FROM '$SYS/#'", more=setting)
        rows = collect(node)
        node.connect("c")
        assert (len(rows) >= 1) is bool(found)


def test_the_columns_of_a_message() -> None:
    node = rows_of("SELECT * FROM 't'")
    rows = collect(node)
    peer = node.connect("c1", username="u1")
    peer.publish("t", b'{"x":1}', 1, 3, retain=True, user_property=[("k", "1"), ("k", "2")], content_type="json")
    (row,) = rows
    properties = {
        "Content-Type": "json",
        "User-Property": {"k": "2"},
        "User-Property-Pairs": [{"key": "k", "value": "1"}, {"key": "k", "value": "2"}],
    }
    assert len(row.pop("id")) == 32
    assert row.pop("timestamp") == row.pop("publish_received_at") == 1_700_000_000_000
    assert row == {
        "clientid": "c1",
        "username": "u1",
        "payload": '{"x":1}',
        "peerhost": "192.0.2.1",
        "peername": "192.0.2.1:50000",
        "topic": "t",
        "qos": 1,
        "flags": {"dup": False, "retain": True},
        "headers": {
            "username": "u1",
            "peerhost": "192.0.2.1",
            "peername": "192.0.2.1:50000",
            "protocol": "mqtt",
            "proto_ver": 5,
            "properties": properties,
            "client_attrs": {},
        },
        "pub_props": properties,
        "node": "heliograph@127.0.0.1",
        "client_attrs": {},
        "event": "message.publish",
        "metadata": {"rule_id": "r1"},
    }


def test_a_payload_is_decoded_once_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[bytes] = []

    class Counting:
        def __call__(self, text: bytes) -> Any:
            calls.append(text)
            return json.loads(text)

    monkeypatch.setattr("heliograph.rules.columns.decode_json", Counting())
    node = rows_of(*(f"SELECT payload.a AS a, payload.b AS b FROM 't' WHERE payload.a > {n}" for n in range(5)))
    rows = collect(node)
    node.connect("c").publish("t", b'{"a":10,"b":2}')
    assert rows == [{"a": 10, "b": 2}] * 5
    assert len(calls) <= 1


def test_large_integers_and_floats_stay_what_they_are() -> None:
    node = rows_of("SELECT payload.i + 1 AS i, payload.f AS f, payload.w AS w FROM 't'")
    rows = collect(node)
    node.connect("c").publish("t", b'{"i":123456789012345678901234567890,"f":1.0,"w":1e2}')
    assert rows == [{"i": 123456789012345678901234567891, "f": 1.0, "w": 100.0}]


def test_a_flood_of_failures_is_a_few_lines_with_the_message_and_the_place(caplog: pytest.LogCaptureFixture) -> None:
    node = rows_of("SELECT payload.x AS x FROM 't'")
    peer = node.connect("c1")
    with caplog.at_level(logging.WARNING):
        for _ in range(1000):
            peer.publish("t", b"{")
    assert node.statistics()["rules.r1.failed.exception"] == 1000
    assert 1 <= len(caplog.records) <= 20
    first = caplog.records[0].getMessage()
    assert "rule r1 failed on message 000" in first
    assert "client 'c1'" in first
    assert "rule_evaluation" in first
    assert "line 1, column 8" in first


def test_many_rules_that_fail_share_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    rules = "".join(f"rule_engine.rules.r{number} {{ sql = \"SELECT 1 / 0 AS x FROM 't'\" }}\n" for number in range(50))
    node = Node(rules)
    peer = node.connect("c1")
    with caplog.at_level(logging.WARNING):
        for _ in range(100):
            peer.publish("t", b"{")
    assert node.statistics()["rules.failed.exception"] == 5000
    assert 1 <= len(caplog.records) <= 220  # a hundred a minute, and the clock of the test may turn once


def test_what_clients_call_themselves_makes_no_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    node = rows_of("SELECT 1 / 0 AS x FROM '#'")
    with caplog.at_level(logging.WARNING):
        node.connect("c1\nERROR forged").publish("t\nERROR forged", b"{")
    told = caplog.records[0].getMessage()
    assert r"of client 'c1\nERROR forged' to 't\nERROR forged'" in told
    assert "\nERROR" not in told


def test_the_index_forgets_topics_beyond_its_limit_and_what_is_removed() -> None:
    index: TopicIndex[str] = TopicIndex(topics_max=3)
    index.add("rule", ("a/+", "a/b"), 1)
    for number in range(10):
        assert index.find(f"a/{number}") == ("rule",)
        assert len(index.remembered) <= 3
    index.find("a/" + "x" * 5000)
    assert "a/" + "x" * 5000 not in index.remembered
    index.remove("rule", ("a/+", "a/b"))
    assert index.find("a/b") == ()
    assert len(index) == 0


def test_a_rule_that_is_not_enabled_rests() -> None:
    node = Node("rule_engine.rules.r1 { enable = false, sql = \"SELECT * FROM 't'\", actions = [console] }")
    node.connect("c").publish("t", b"")
    assert not node.broker.route(b"t").hooked
    assert node.statistics()["rules.r1.matched"] == 0
