"""Rules that publish: what the messages are, and that loops end."""

import logging

import pytest

from heliograph.broker.message import Message
from heliograph.mqtt import packets as p
from support.cases import cases
from support.services import Node


def node_with(*rules: str, more: str = "") -> Node:
    """A node with rules r1, r2, ..., each given as what stands in its braces."""
    text = "\n".join(f"r{number} {{ {rule} }}" for number, rule in enumerate(rules, 1))
    return Node(f"rule_engine {{ rules {{ {text} }} {more} }}")


def republish(sql: str, **args: str) -> str:
    given = " ".join(f"{name} = {value}," for name, value in args.items())
    return f'sql = """{sql} """, actions = [{{ function = republish, args {{ {given} }} }}]'


def counts(node: Node, rule: str = "r1") -> dict[str, float]:
    prefix = f"rules.{rule}."
    return {name[len(prefix) :]: n for name, n in node.statistics().items() if name.startswith(prefix) and n}


def test_a_row_becomes_a_message_of_the_rule() -> None:
    sql = 'SELECT payload.a AS a, topic FROM "t/#" WHERE payload.b > 10'
    node = node_with(republish(sql, topic='"out/${topic}"', payload='"${.}"', qos="1"))
    seen: list[Message] = []
    node.broker.hooks.message_delivered.add(lambda clientid, message, _: seen.append(message))
    peer = node.connect("c")
    peer.subscribe("out/#", 2)
    peer.publish("t/1", b'{"a":"x","b":11}')
    peer.publish("t/1", b'{"a":"x","b":10}')
    peer.publish("t/1", b"no JSON")
    assert peer.heard() == ['PUBLISH out/t/1 \'{"a":"x","topic":"t/1"}\' q1 #1']
    assert [(message.clientid, message.username, message.made_by) for message in seen] == [("r1", None, ("r1",))]
    assert counts(node) == {
        "matched": 3,
        "passed": 1,
        "failed": 2,
        "failed.exception": 1,
        "failed.no_result": 1,
        "actions.total": 1,
        "actions.success": 1,
    }


def test_the_message_itself_comes_first_whatever_its_rules_do() -> None:
    node = node_with(republish('SELECT * FROM "t"', topic="u"), republish("SELECT nosuch(1) FROM 't'", topic="u"))
    peer = node.connect("c")
    peer.subscribe("#", 1)
    peer.publish("t", b"x", 1, 7)
    assert peer.heard() == ["PUBLISH t 'x' q1 #1", "PUBACK #7", "PUBLISH u 'x' q1 #2"]
    assert counts(node, "r2")["failed.exception"] == 1


@cases(
    ("qos", "retain", "row", "said"),
    [
        ('"${qos}"', '"${retain}"', "1 AS qos, true AS retain", "PUBLISH u 'x' q1 #1"),
        ('"${q}"', '"${r}"', "'2' AS q, 'true' AS r", "PUBLISH u 'x' q2 #1"),
        ('"${q}"', '"${r}"', "1 AS other", "PUBLISH u 'x' q0"),
        ("1", "true", "1 AS other", "PUBLISH u 'x' q1 #1"),
    ],
)
def test_qos_and_retain_come_from_the_row_or_are_fixed(qos: str, retain: str, row: str, said: str) -> None:
    node = node_with(republish(f"SELECT {row}, payload FROM 't'", topic="u", qos=qos, retain=retain))
    peer = node.connect("c")
    peer.subscribe("u", 2)
    peer.publish("t", b"x")
    assert peer.heard() == [said]
    assert node.statistics()["retained.count"] == (0 if "other" in row and qos != "1" else 1)


@cases(
    ("args", "problem"),
    [
        ({"topic": '"${x}"', "payload": "p"}, "topic name is empty"),
        ({"topic": '"a/${h}"', "payload": "p"}, "wildcard"),
        ({"topic": '"$pipeline/r9"', "payload": "p"}, "belongs to the action pipeline"),
        ({"topic": "u", "qos": '"${n}"'}, "qos is 3; 0, 1 and 2 are valid"),
        ({"topic": "u", "retain": '"${n}"'}, "retain is 3; true and false are valid"),
        ({"topic": "u", "user_properties": '"${n}"'}, "user_properties needs a map"),
        ({"topic": '"${b}"'}, "not UTF-8"),
        ({"topic": '"a/${h}"', "direct_dispatch": "true"}, "wildcard"),
        ({"topic": "u", "mqtt_properties": '{ Response-Topic = "a/${h}" }'}, "Response-Topic 'a/#' holds a wildcard"),
    ],
)
def test_what_cannot_be_published_is_counted_and_told(
    args: dict[str, str], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = Node("rule_engine.rules {}")
    if problem.startswith("belongs"):
        with pytest.raises(Exception, match=problem):
            node_with(republish("SELECT 1 AS a FROM 't'", **args))
        return
    sql = "SELECT '' AS x, '#' AS h, 3 AS n, hexstr2bin('ff') AS b FROM 't'"
    node = node_with(republish(sql, **args))
    peer = node.connect("c")
    peer.subscribe("#")
    with caplog.at_level(logging.WARNING):
        peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert counts(node)["actions.failed.unknown"] == 1
    assert "actions.success" not in counts(node)
    assert problem in caplog.text
    assert "r1" in caplog.text


def test_properties_are_made_of_the_row() -> None:
    args = {
        "topic": "u",
        "user_properties": '"${up}"',
        "mqtt_properties": (
            '{ Payload-Format-Indicator = "1", Message-Expiry-Interval = "${e}", Content-Type = "text/${kind}", '
            'Response-Topic = "${nothing}", Correlation-Data = "${cd}" }'
        ),
    }
    sql = "SELECT map_put('a', 1, map_new()) AS up, 60 AS e, 'plain' AS kind, hexstr2bin('00ff') AS cd FROM 't'"
    node = node_with(republish(sql, **args))
    peer = node.connect("c")
    peer.subscribe("u")
    peer.publish("t", b"")
    received = peer.take(p.Publish)
    found = Message(0, 0, "u", received, "", None, -1).properties.named()
    assert found == {
        "Payload-Format-Indicator": 1,
        "Message-Expiry-Interval": 60,
        "Content-Type": "text/plain",
        "Correlation-Data": b"\0\xff",
        "User-Property": [("a", "1")],
    }


def test_user_properties_of_the_message_are_passed_on() -> None:
    node = node_with(
        republish("SELECT payload FROM 't'", topic="u", user_properties='''"${pub_props.'User-Property'}"''')
    )
    peer = node.connect("c")
    peer.subscribe("u")
    peer.publish("t", b"x", user_property=[("k", "1"), ("k", "2")])
    received = peer.take(p.Publish)
    assert Message(0, 0, "u", received, "", None, -1).properties.user == [("k", "1"), ("k", "2")]


def test_direct_dispatch_passes_hooks_rules_and_retainer_by() -> None:
    node = node_with(
        republish("SELECT payload FROM 't'", topic="u", direct_dispatch="true", retain="true"),
        republish("SELECT payload FROM 'u'", topic="v"),
    )
    peer = node.connect("c")
    peer.subscribe("#")
    peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0", "PUBLISH u 'x' q0"]
    assert node.statistics()["retained.count"] == 0
    assert counts(node, "r2") == {}


def test_a_rule_does_not_publish_for_what_it_has_made() -> None:
    node = node_with(republish('SELECT * FROM "t/#"', topic='"t/${topic}"'))
    peer = node.connect("c")
    peer.subscribe("#")
    peer.publish("t/1", b"x")
    assert peer.heard() == ["PUBLISH t/1 'x' q0", "PUBLISH t/t/1 'x' q0"]
    assert counts(node)["matched"] == 2
    assert counts(node)["recursive_republish_detected"] == 1


def test_a_loop_through_other_rules_ends(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(*(republish(f"SELECT * FROM 't{at}'", topic=f"t{(at + 1) % 5}") for at in range(5)))
    peer = node.connect("c")
    peer.subscribe("#")
    peer.publish("t0", b"x")
    assert peer.heard() == [f"PUBLISH t{at} 'x' q0" for at in (0, 1, 2, 3, 4, 0)]
    assert counts(node)["recursive_republish_detected"] == 1
    assert "recursive_republish_detected" in caplog.text


def test_a_loop_through_delayed_messages_ends() -> None:
    node = node_with(republish("SELECT * FROM 't'", topic='"$delayed/1/t"'))
    peer = node.connect("c")
    peer.subscribe("t")
    peer.publish("t", b"x")
    for _ in range(10):
        node.advance(1)
    assert peer.heard() == ["PUBLISH t 'x' q0"] * 2


def test_a_chain_of_rules_has_an_end() -> None:
    node = node_with(*(republish(f"SELECT * FROM 't{at}'", topic=f"t{at + 1}") for at in range(40)))
    peer = node.connect("c")
    peer.subscribe("#")
    peer.publish("t0", b"x")
    assert len(peer.heard()) == 33
    assert node.statistics()["rules.recursive_republish_detected"] == 1


def test_a_loop_through_events_ends() -> None:
    node = node_with(republish('SELECT payload FROM "$events/message_delivered"', topic="u"))
    peer = node.connect("c")
    peer.subscribe("#")
    peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0", "PUBLISH u 'x' q0"]


def test_messages_beyond_the_limit_are_dropped_and_counted() -> None:
    sql = "FOREACH json_decode(payload) AS n DO n FROM 't'"
    node = node_with(republish(sql, topic="u", payload='"${n}"'), more="max_queued_messages = 3")
    peer = node.connect("c")
    peer.subscribe("u")
    peer.publish("t", b"[1,2,3,4,5]")
    assert peer.heard() == [f"PUBLISH u '{n}' q0" for n in (1, 2, 3)]
    assert counts(node)["actions.failed.out_of_service"] == 2
    assert counts(node)["actions.success"] == 3


def test_messages_of_rules_are_messages_like_others() -> None:
    node = node_with(republish("SELECT * FROM 't'", topic='"old/x"', retain="true"))
    peer = node.connect("c")
    node.broker.hooks.message_publish.add(lambda message: ("stop", None) if message.topic == "old/x" else None, 900)
    peer.subscribe("#")
    peer.publish("t", b"x")
    assert peer.heard() == ["PUBLISH t 'x' q0"]
    assert node.statistics()["retained.count"] == 0
