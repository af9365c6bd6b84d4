"""Schema validation, as clients see it."""

import logging

import pytest

from heliograph.broker import hooks
from heliograph.broker.message import Message
from heliograph.config.message_policies import Validation, ValidationCheck
from heliograph.message_policies.errors import MessagePolicyError
from heliograph.mqtt import packets as p
from support.cases import cases
from support.packets import properties, publish
from support.schemas import SCHEMAS
from support.services import Node

V3 = p.V3_1_1
JSON = "{ type = json, schema = reading }"


def node_with(*validations: str, extra: str = "") -> Node:
    """A node with validations, given as the settings between the braces of each."""
    listed = "\n".join(f"{{ {validation} }}" for validation in validations)
    return Node(f"{SCHEMAS}\nschema_validation.validations = [{listed}]\n{extra}")


def counts(node: Node, name: str) -> tuple[float, float, float]:
    """matched, succeeded and failed."""
    numbers = node.statistics()
    return tuple(numbers[f"schema_validation.{name}.{count}"] for count in ("matched", "succeeded", "failed"))  # type: ignore[return-value]  # three of them


def passes(node: Node, payload: bytes, topic: str = "t/1") -> bool:
    """Whether a message reaches a subscriber."""
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("publisher", username="u").publish(topic, payload)
    return watcher.heard() != []


# --- checks


@cases(
    ("payload", "passed"),
    [(b'{"t": 20.5}', True), (b'{"t": 61}', False), (b"{}", False), (b"[1]", False), (b"{", False), (b"", False)],
)
def test_json(payload: bytes, passed: bool) -> None:
    assert passes(node_with(f'name = v, topics = "t/#", checks = [{JSON}]'), payload) is passed


def test_avro() -> None:
    node = node_with('name = v, topics = "t/#", checks = [{ type = avro, schema = row }]')
    assert passes(node, b"\x00\x00\x00\x00\x00\x80\x34\x40\x04d1")
    assert not passes(node, b"\x00\x00")
    assert not passes(node, b'{"t": 20}')


def test_protobuf() -> None:
    node = node_with('name = v, topics = "t/#", checks = [{ type = protobuf, schema = device, message_type = Sample }]')
    assert passes(node, b"\x0a\x02d1\x10\x07")
    assert not passes(node, b"\x0a\x7fd1")


@cases(
    ("sql", "payload", "passed"),
    [
        ("SELECT * WHERE payload.t < 30", b'{"t": 20}', True),
        ("SELECT * WHERE payload.t < 30", b'{"t": 40}', False),
        ("SELECT payload.t * 2 AS d WHERE d < 60", b'{"t": 20}', True),
        ("SELECT payload.t * 2 AS d WHERE d < 60", b'{"t": 40}', False),
        ("SELECT *", b"anything", True),
        ("SELECT * WHERE payload.t < 30", b"no json", False),
        ("SELECT * WHERE payload.t < 30", b'{"t": "warm"}', False),
        ("SELECT nonsense(1) AS x", b"{}", False),
        ("SELECT 1 AS qos, * WHERE qos = 0", b"{}", True),  # `*` comes last and counts
        ("SELECT * WHERE topic = 't/1' AND clientid = 'publisher' AND username = 'u' AND qos = 0", b"", True),
        ("SELECT * WHERE pub_props.'User-Property'.site = 'north'", b"", True),
        ("SELECT * WHERE peerhost = '192.0.2.1' AND node = 'heliograph@127.0.0.1'", b"", True),
        ("SELECT schema_check('reading', payload) AS ok WHERE ok = true", b'{"t": 61}', False),
    ],
)
def test_sql(sql: str, payload: bytes, passed: bool) -> None:
    node = node_with(f'name = v, topics = "t/#", checks = [{{ type = sql, sql = """{sql}""" }}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("publisher", username="u").publish("t/1", payload, user_property=[("site", "north")])
    assert (watcher.heard() != []) is passed


SQL = "{ type = sql, sql = \"SELECT * WHERE payload.dev = 'd1'\" }"


@cases(
    ("strategy", "payload", "passed"),
    [
        ("all_pass", b'{"t": 1, "dev": "d1"}', True),
        ("all_pass", b'{"t": 1, "dev": "d2"}', False),
        ("all_pass", b'{"t": 99, "dev": "d1"}', False),
        ("any_pass", b'{"t": 1, "dev": "d2"}', True),
        ("any_pass", b'{"t": 99, "dev": "d1"}', True),
        ("any_pass", b'{"t": 99, "dev": "d2"}', False),
    ],
)
def test_strategies(strategy: str, payload: bytes, passed: bool) -> None:
    node = node_with(f"name = v, topics = t, strategy = {strategy}, checks = [{JSON}, {SQL}]")
    assert passes(node, payload, "t") is passed


# --- what a publisher is told


@cases(
    ("version", "qos", "answers"),
    [
        (p.V5, 0, []),
        (p.V5, 1, ["PUBACK #7 0x83"]),
        (p.V5, 2, ["PUBREC #7 0x83"]),
        (V3, 0, []),
        (V3, 1, ["PUBACK #7"]),
        (V3, 2, ["PUBREC #7"]),
    ],
)
def test_a_message_that_is_dropped(version: int, qos: int, answers: list[str]) -> None:
    node = node_with(f'name = v, topics = "t/#", checks = [{JSON}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#", 2)
    peer = node.connect("publisher", version=version)
    peer.publish("t/1", b"bad", qos, 7 if qos else 0)
    assert peer.heard() == answers
    assert watcher.heard() == []
    assert not peer.closed()
    peer.publish("t/1", b'{"t": 1}', 0)
    assert watcher.heard() == ["PUBLISH t/1 '{\"t\": 1}' q0"]


def test_a_packet_identifier_that_was_refused_is_free() -> None:
    node = node_with(f'name = v, topics = "t/#", checks = [{JSON}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#", 2)
    peer = node.connect("publisher")
    peer.publish("t/1", b"bad", 2, 7)
    assert peer.heard() == ["PUBREC #7 0x83"]
    peer.publish("t/1", b"bad", 2, 7, dup=True)  # a new message, which is looked at anew
    assert peer.heard() == ["PUBREC #7 0x83"]
    peer.publish("t/1", b'{"t": 1}', 2, 7)
    assert peer.heard() == ["PUBREC #7"]
    peer.ack(p.PUBREL, 7)
    assert peer.heard() == ["PUBCOMP #7"]
    assert len(watcher.heard()) == 1
    assert counts(node, "v") == (3, 1, 2)


def test_a_client_of_mqtt_3_ends_the_flow_of_a_message_that_was_dropped() -> None:
    node = node_with(f'name = v, topics = "t/#", checks = [{JSON}]')
    peer = node.connect("publisher", version=V3)
    peer.publish("t/1", b"bad", 2, 7)
    peer.publish("t/1", b"bad", 2, 7, dup=True)
    assert peer.heard() == ["PUBREC #7", "PUBREC #7"]
    assert counts(node, "v") == (1, 0, 1)
    peer.ack(p.PUBREL, 7)
    assert peer.heard() == ["PUBCOMP #7"]
    assert node.statistics()["packets.pubrel.missed"] == 0


@cases(("version", "answers"), [(p.V5, ["DISCONNECT 0x83"]), (V3, [])])
@cases("qos", [0, 1, 2])
def test_a_publisher_that_is_disconnected(version: int, answers: list[str], qos: int) -> None:
    node = node_with(f'name = v, topics = "t/#", failure_action = disconnect, checks = [{JSON}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    reasons: list[str] = []
    node.broker.hooks.point(hooks.CLIENT_DISCONNECTED).add(lambda client, reason, *_: reasons.append(reason))
    peer = node.connect("publisher", version=version)
    first = peer.encoded(publish("t/1", b"bad", qos, 7 if qos else 0, version=version))
    peer.send_bytes(first + peer.encoded(publish("t/1", b'{"t": 1}', version=version)))
    assert peer.heard() == answers
    assert peer.closed()
    assert watcher.heard() == []  # what stands behind it is not read
    assert reasons == ["implementation_specific_error"]


def test_failures_that_are_ignored() -> None:
    node = node_with(f'name = v, topics = "t/#", failure_action = ignore, checks = [{JSON}]')
    assert passes(node, b"bad")
    assert counts(node, "v") == (1, 0, 1)
    numbers = node.statistics()
    assert (numbers["messages.validation_succeeded"], numbers["messages.validation_failed"]) == (0, 1)


# --- several validations


def test_all_that_match_run_in_their_order_until_one_refuses() -> None:
    node = node_with(
        f'name = first, topics = "t/#", failure_action = ignore, checks = [{JSON}]',
        'name = off, enable = false, topics = "#", checks = [{ type = json, schema = listed }]',
        f'name = second, topics = ["t/1", "u/+"], checks = [{SQL}]',
        f'name = third, topics = "t/#", failure_action = disconnect, checks = [{JSON}]',
        f'name = elsewhere, topics = "v", checks = [{JSON}]',
    )
    assert not passes(node, b"{}")
    assert [counts(node, name) for name in ("first", "second", "third")] == [(1, 0, 1), (1, 0, 1), (0, 0, 0)]
    assert passes(node, b'{"t": 1, "dev": "d1"}')
    assert [counts(node, name) for name in ("first", "second", "third")] == [(2, 1, 1), (2, 1, 1), (1, 1, 0)]
    assert passes(node, b"x", "w")
    assert passes(node, b'{"dev": "d1"}', "u/9")
    assert counts(node, "elsewhere") == (0, 0, 0)
    assert "schema_validation.off.matched" not in node.statistics()
    numbers = node.statistics()
    assert (numbers["messages.validation_succeeded"], numbers["messages.validation_failed"]) == (2, 1)


def test_filters_with_wildcards_do_not_see_topics_of_the_system() -> None:
    node = node_with(f'name = v, topics = "#", checks = [{JSON}]')
    watcher = node.connect("watcher")
    watcher.subscribe("$x/#")
    node.connect().publish("$x/y", b"bad")
    assert watcher.heard() == ["PUBLISH $x/y 'bad' q0"]


# --- who else is told


def test_hook_points_and_the_log_tell_of_failures(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(f"name = v, topics = t, log_failure.level = warning, checks = [{JSON}]")
    failed: list[tuple[Message, str]] = []
    dropped: list[tuple[Message, str]] = []
    node.broker.hooks.point(hooks.SCHEMA_VALIDATION_FAILED).add(lambda message, name, _: failed.append((message, name)))
    node.broker.hooks.point(hooks.MESSAGE_DROPPED).add(lambda message, reason, _: dropped.append((message, reason)))
    node.connect("me").publish("t", b'{"t": 99}')
    ((message, name),) = failed
    assert (message.topic, message.payload, message.clientid, name) == ("t", b'{"t": 99}', "me", "v")
    assert dropped == [(message, "schema_validation_failed")]
    (entry,) = [record for record in caplog.records if "validation v" in record.message]
    assert entry.levelno == logging.WARNING
    assert message.guid.hex().upper() in entry.message
    assert "of client 'me' to 't'" in entry.message
    assert "99 is greater than the maximum of 60" in entry.message


def test_the_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    node = node_with(
        f"name = noisy, topics = n, log_failure.level = error, checks = [{JSON}]",
        f"name = other, topics = o, log_failure.level = error, checks = [{JSON}]",
        f"name = silent, topics = s, log_failure.level = none, checks = [{JSON}]",
    )
    peer = node.connect("x" * 60_000)
    for _ in range(100):
        peer.publish("n", b'{"t": "' + b"y" * 60_000 + b'"}')
    peer.publish("o", b"bad")
    peer.publish("s", b"bad")
    lines = [record.message for record in caplog.records if " failed (drop)" in record.message]
    assert [sum(f"validation {name} " in line for line in lines) for name in ("noisy", "other", "silent")] == [10, 1, 0]
    assert max(map(len, lines)) < 700


def test_what_a_client_may_not_publish_is_not_looked_at() -> None:
    node = node_with(f"name = v, topics = t, failure_action = disconnect, checks = [{JSON}]")
    node.broker.hooks.point(hooks.CLIENT_AUTHORIZE).add(lambda *told: (hooks.STOP, "deny"))
    peer = node.connect()
    peer.publish("t", b"bad", 1, 1)
    assert peer.heard() == ["PUBACK #1 0x87"]
    assert counts(node, "v") == (0, 0, 0)


def test_a_publisher_of_much_that_is_validated_yields_its_turn() -> None:
    node = node_with(f"name = v, topics = t, checks = [{JSON}]")
    busy, other = node.connect("busy"), node.connect("other")
    busy.feed(busy.encoded(publish("t", b'{"t": 1}')) * 5000)
    other.feed(other.encoded(publish("u", b"x")))
    assert 0 < counts(node, "v")[0] < 5000
    node.run()
    assert counts(node, "v") == (5000, 5000, 0)


# --- the messages of others


def test_a_will_is_validated() -> None:
    node = node_with(f'name = v, topics = "t/#", failure_action = disconnect, checks = [{JSON}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("leaves", will=p.Will("t/will", b"bad", 1, False, properties())).drop()
    node.connect("leaves", will=p.Will("t/will", b'{"t": 1}', 1, False, properties())).drop()
    assert watcher.heard() == ["PUBLISH t/will '{\"t\": 1}' q0"]


def test_what_is_dropped_is_neither_retained_nor_stored_nor_delayed() -> None:
    node = node_with(f'name = v, topics = ["t/#", "$delayed/#"], checks = [{JSON}]')
    peer = node.connect()
    peer.publish("t/1", b"bad", retain=True)
    peer.publish("$delayed/10/t/2", b"bad")
    assert len(node.retainer) == 0
    assert node.statistics()["messages.delayed"] == 0


def test_a_delayed_message_is_validated_under_both_topics() -> None:
    node = node_with(f"name = v, topics = t, checks = [{JSON}]")
    watcher = node.connect("watcher")
    watcher.subscribe("t")
    peer = node.connect()
    peer.publish("$delayed/10/t", b"bad")
    node.advance(11)
    assert watcher.heard() == []
    assert counts(node, "v") == (1, 0, 1)


def test_a_rewritten_topic_is_the_one_that_counts() -> None:
    rewrite = 'rewrite = [{ action = publish, source_topic = "old/#", re = "^old/(.+)$", dest_topic = "t/$1" }]'
    node = node_with(f'name = v, topics = "t/#", checks = [{JSON}]', extra=rewrite)
    assert not passes(node, b"bad", "old/1")
    assert passes(node, b'{"t": 1}', "old/1")


# --- the life of a node


def test_without_validations_nothing_is_hooked_in() -> None:
    node = Node(SCHEMAS)
    assert not node.broker.route(b"t").hooked
    assert node.validation.on_message_publish not in node.broker.hooks.message_publish.callbacks


def for_topic(topic: str, schema: str = "reading") -> Validation:
    return Validation(name="v", topics=(topic,), checks=(ValidationCheck("json", schema),))


def test_validations_are_replaced_while_clients_publish() -> None:
    node = Node(SCHEMAS)
    validation = node.validation
    assert passes(node, b"bad", "t")
    validation.replace([for_topic("t")])
    assert not passes(node, b"bad", "t")
    assert counts(node, "v") == (1, 0, 1)
    validation.replace([for_topic("u")])
    assert passes(node, b"bad", "t")
    assert not passes(node, b"bad", "u")
    assert counts(node, "v") == (2, 0, 2)  # they go on
    with pytest.raises(MessagePolicyError, match=r"validations\.2\.checks\.1\.schema: there is no schema 'none'"):
        validation.replace([for_topic("t"), for_topic("x", "none")])
    assert not passes(node, b"bad", "u")
    validation.replace(())
    assert passes(node, b"bad", "u")
    assert validation.names == ()
    node.stop()
    assert node.broker.hooks.message_publish.callbacks == []


def test_many_validations_cost_a_topic_what_it_matches() -> None:
    many = [f'name = v{n}, topics = ["a/{n}/+", "b/{n}"], checks = [{JSON}]' for n in range(300)]
    node = node_with(*many)
    assert not passes(node, b"bad", "a/7/x")
    assert not passes(node, b"bad", "b/299")
    assert passes(node, b"bad", "b/300")
    assert [counts(node, f"v{n}")[0] for n in (6, 7, 298, 299)] == [0, 1, 0, 1]
