"""Message transformation, as clients see it."""

import logging
from pathlib import Path

import pytest

from heliograph.broker import hooks
from heliograph.broker.message import Message
from heliograph.cli.main import main
from heliograph.config.message_policies import Operation, Transformation
from heliograph.message_policies.errors import MessagePolicyError
from heliograph.mqtt import packets as p
from retainer.retaining import each
from support.cases import cases
from support.packets import properties
from support.schemas import SCHEMAS
from support.services import Node

PREFIX = """{ key = topic, value = "concat([clientid, '/', topic])" }"""
JSON = "payload_decoder.type = json, payload_encoder.type = json"


def node_with(*transformations: str, extra: str = "") -> Node:
    """A node with transformations, given as the settings between the braces of each."""
    listed = "\n".join(f"{{ {transformation} }}" for transformation in transformations)
    return Node(f"{SCHEMAS}\nmessage_transformation.transformations = [{listed}]\n{extra}")


def transforming(*operations: tuple[str, str], settings: str = JSON) -> Node:
    """A node with one transformation of all topics, which drops what it cannot transform."""
    listed = ", ".join(f'{{ key = "{key}", value = """{value}""" }}' for key, value in operations)
    return node_with(f'name = t, topics = "#", failure_action = drop\n{settings}\noperations = [{listed}]')


def arrivals(node: Node, payload: bytes = b"x", topic: str = "a", qos: int = 0, **named: object) -> list[Message]:
    """What is made of a message, as a callback behind the transformation sees it."""
    seen: list[Message] = []
    peer = node.connect("me", username="u")
    point = node.broker.hooks.point(hooks.MESSAGE_PUBLISH)
    point.add(seen.append, -100)
    peer.publish(topic, payload, qos, **named)  # type: ignore[arg-type]  # they are properties
    point.remove(seen.append)
    node.run()
    peer.disconnect()
    return seen


def counts(node: Node, name: str) -> tuple[float, ...]:
    """matched, succeeded and failed."""
    numbers = node.statistics()
    return tuple(numbers[f"message_transformation.{name}.{count}"] for count in ("matched", "succeeded", "failed"))


# --- what operations set


@cases(
    ("expression", "topic"),
    [
        ("concat([clientid, '/', topic])", "me/a"),
        ("concat([username, '/', qos])", "u/1"),
        ("concat([payload.site, '/', payload.n])", "north/7"),
        ("concat([coalesce(client_attrs.tns, 'none'), '/', user_property.k])", "none/v"),
        ("concat([nth(1, tokens(peername, ':')), '/', node])", "192.0.2.1/heliograph@127.0.0.1"),
        ("concat([flags.retain, '/', retain])", "true/true"),
        ("concat([pub_props.Content-Type, '/', strlen(id)])", "text/32"),
        ("concat([timestamp, publish_received_at])", "17000000000001700000000000"),
    ],
)
def test_topic(expression: str, topic: str) -> None:
    node = transforming(("topic", expression))
    (message,) = arrivals(
        node,
        b'{"site":"north","n":7}',
        qos=1,
        packet_id=1,
        retain=True,
        user_property=[("k", "v")],
        content_type="text",
    )
    assert message.topic == topic
    assert message.payload == b'{"site":"north","n":7}'


@cases(
    ("key", "expression", "payload"),
    [
        ("payload", "payload.s", b'"x"'),
        ("payload", "payload.n", b"1"),
        ("payload", "tokens('a b', ' ')", b'["a","b"]'),
        ("payload.n", "num_gt(payload.n, 0)", b'{"n":true,"s":"x","m":{"a":1}}'),
        ("payload.new", "payload.f", None),
        ("payload.m.b", "concat([topic, '!'])", b'{"n":1,"s":"x","m":{"a":1,"b":"a!"}}'),
        ("payload.deep.er", "qos", b'{"n":1,"s":"x","m":{"a":1},"deep":{"er":0}}'),
        ("payload.s", "payload.m", b'{"n":1,"s":{"a":1},"m":{"a":1}}'),
        ("payload.n.x", "topic", None),  # there is a number in the way
    ],
)
def test_payload(key: str, expression: str, payload: bytes | None) -> None:
    node = transforming((key, expression))
    got = [message.payload for message in arrivals(node, b'{"n":1,"s":"x","m":{"a":1}}')]
    assert got == ([] if payload is None else [payload])


@cases(
    ("key", "expression", "got"),
    [
        ("qos", "payload.q", (2, True)),
        ("qos", "'0'", (0, True)),
        ("qos", "iif(str_eq(topic, 'a'), 1, 2)", (1, True)),
        ("retain", "payload.r", (1, False)),
        ("retain", "'false'", (1, False)),
        ("retain", "str_eq(topic, 'b')", (1, False)),
        ("qos", "3", None),
        ("qos", "true", None),
        ("qos", "'one'", None),
        ("retain", "1", None),
        ("retain", "''", None),
    ],
)
def test_qos_and_retain(key: str, expression: str, got: tuple[int, bool] | None) -> None:
    node = transforming((key, expression), settings="payload_decoder.type = json")
    seen = arrivals(node, b'{"q": 2, "r": false}', qos=1, packet_id=1, retain=True)
    assert [(int(message.qos), message.retain) for message in seen] == ([] if got is None else [got])


def test_user_properties() -> None:
    node = transforming(
        ("user_property.new", "upper(topic)"),
        ("user_property.k", "concat([user_property.k, user_property.new])"),
        ("user_property.n", "strlen(topic)"),
        settings="",
    )
    pairs = [("a", "1"), ("k", "2"), ("b", "3"), ("k", "4")]
    (message,) = arrivals(node, b"x", user_property=pairs, message_expiry_interval=30)
    assert message.properties.named() == {
        "Message-Expiry-Interval": 30,
        "User-Property": [("a", "1"), ("k", "4A"), ("b", "3"), ("new", "A"), ("n", "1")],
    }
    assert message.expiry_s == 30


def test_operations_see_what_those_before_them_made() -> None:
    node = transforming(("topic", "concat([topic, '/1'])"), ("topic", "concat([topic, '/2'])"), ("payload", "topic"))
    (message,) = arrivals(node, b"1", "t")
    assert (message.topic, message.payload) == ("t/1/2", b'"t/1/2"')


def test_what_a_message_is_beside_that_stays() -> None:
    node = transforming(("topic", "'b'"), settings="")
    seen: list[Message] = []
    node.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(seen.append, 900)
    (message,) = arrivals(node, b"\xff\x00", "a", 2, packet_id=3, correlation_data=b"c")
    (before,) = [one for one in seen if one.topic == "a"]
    assert (message.guid, message.clientid, message.username) == (before.guid, "me", "u")
    assert (message.payload, message.properties.named()) == (b"\xff\x00", {"Correlation-Data": b"c"})
    assert before.topic == "a"


# --- decoders and encoders

ROW = b"\x00\x00\x00\x00\x00\x80\x34\x40\x04d1"
AVRO = "{ type = avro, schema = row }"
PROTOBUF = "{ type = protobuf, schema = device, message_type = Sample }"


def test_from_avro_to_json() -> None:
    settings = f"payload_decoder = {AVRO}, payload_encoder.type = json"
    node = transforming(("topic", "concat(['by/', payload.dev])"), settings=settings)
    (message,) = arrivals(node, ROW)
    assert (message.topic, message.payload) == ("by/d1", b'{"t":20.5,"dev":"d1"}')
    assert arrivals(node, b"\x00") == []


def test_from_json_to_protobuf() -> None:
    node = transforming(settings=f"payload_decoder.type = json, payload_encoder = {PROTOBUF}")
    (message,) = arrivals(node, b'{"dev": "d1", "n": 7}')
    assert message.payload == b"\x0a\x02d1\x10\x07"
    assert arrivals(node, b'{"dev": 5}') == []


def test_a_payload_that_is_only_looked_at_needs_no_encoder() -> None:
    node = transforming(("topic", "payload.site"), settings="payload_decoder.type = json")
    (message,) = arrivals(node, b'{"site" :  "north"}')
    assert (message.topic, message.payload) == ("north", b'{"site" :  "north"}')


def test_a_later_transformation_may_encode_what_an_earlier_one_decoded() -> None:
    change = '{ key = payload.a, value = "topic" }'
    node = node_with(
        f"name = decodes, topics = t, payload_decoder.type = json, operations = [{change}]",
        'name = encodes, topics = "#", payload_encoder.type = json, operations = [{ key = payload.b, value = "qos" }]',
    )
    assert [message.payload for message in arrivals(node, b'{"c": 1}', "t")] == [b'{"c":1,"a":"t","b":0}']
    assert (counts(node, "decodes"), counts(node, "encodes")) == ((1, 1, 0), (1, 1, 0))


def test_a_payload_that_nobody_encoded_is_the_fault_of_the_last_one() -> None:
    change = '{ key = payload.a, value = "topic" }'
    node = node_with(
        f"name = first, topics = t, payload_decoder.type = json, operations = [{change}]",
        f"name = last, topics = t, operations = [{PREFIX}]",
    )
    assert [(message.topic, message.payload) for message in arrivals(node, b'{"c": 1}', "t")] == [("t", b'{"c": 1}')]
    assert (counts(node, "first"), counts(node, "last")) == ((1, 1, 0), (1, 0, 1))


# --- failures


@cases(
    "operation",
    [
        ("topic", "concat([topic, '/#'])"),
        ("topic", "''"),
        ("topic", "payload.nul"),
        ("topic", "pad(topic, 70000)"),
        ("topic", "payload.none"),
        ("topic", "tokens('a b', ' ')"),
        ("topic", "upper(qos)"),
        ("user_property.k", "payload.nul"),
        ("user_property.k", "pad(topic, 70000)"),
        ("payload", "hexstr2bin('ff')"),  # which JSON cannot say
    ],
)
def test_nothing_is_half_done(operation: tuple[str, str]) -> None:
    key, value = operation
    listed = f'{{ key = qos, value = "2" }}, {{ key = "{key}", value = """{value}""" }}, {PREFIX}'
    node = node_with(f'name = t, topics = "#", {JSON}, operations = [{listed}]')
    watcher = node.connect("watcher")
    watcher.subscribe("#", 2)
    node.connect("me").publish("a", b'{"nul": "\\u0000"}')
    assert watcher.heard() == ['PUBLISH a \'{"nul": "\\\\u0000"}\' q0']
    assert counts(node, "t") == (1, 0, 1)
    assert node.hook_failures == []


def test_after_a_failure_that_is_ignored_the_next_one_runs() -> None:
    node = node_with(
        f"name = fails, topics = a, {JSON}, operations = [{PREFIX}]",
        f"name = works, topics = a, operations = [{PREFIX}]",
    )
    assert [message.topic for message in arrivals(node, b"no json")] == ["me/a"]
    assert (counts(node, "fails"), counts(node, "works")) == ((1, 0, 1), (1, 1, 0))
    numbers = node.statistics()
    assert (numbers["messages.transformation_succeeded"], numbers["messages.transformation_failed"]) == (0, 1)


@cases(
    ("version", "action", "qos", "answers"),
    [
        (p.V5, "drop", 1, ["PUBACK #7 0x83"]),
        (p.V5, "drop", 2, ["PUBREC #7 0x83"]),
        (p.V3_1_1, "drop", 1, ["PUBACK #7"]),
        (p.V3_1_1, "drop", 2, ["PUBREC #7"]),
        (p.V5, "disconnect", 1, ["DISCONNECT 0x83"]),
        (p.V3_1_1, "disconnect", 1, []),
        (p.V5, "ignore", 1, ["PUBACK #7"]),
    ],
)
def test_what_a_publisher_is_told(version: int, action: str, qos: int, answers: list[str]) -> None:
    node = node_with(f"name = t, topics = a, failure_action = {action}, {JSON}")
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    peer = node.connect("publisher", version=version)
    peer.publish("a", b"no json", qos, 7)
    assert peer.heard() == answers
    assert peer.closed() is (action == "disconnect")
    assert len(watcher.heard()) == (action == "ignore")


def test_hook_points_and_the_log_tell_of_failures(caplog: pytest.LogCaptureFixture) -> None:
    operation = '{ key = topic, value = "payload.x" }'
    node = node_with(
        f"name = t, topics = a, failure_action = drop, log_failure.level = error, operations = [{operation}]"
    )
    failed: list[tuple[Message, str]] = []
    dropped: list[tuple[Message, str]] = []
    point = node.broker.hooks.point
    point(hooks.MESSAGE_TRANSFORMATION_FAILED).add(lambda message, name, _: failed.append((message, name)))
    point(hooks.MESSAGE_DROPPED).add(lambda message, reason, _: dropped.append((message, reason)))
    node.connect("me").publish("a", b"x")
    ((message, name),) = failed
    assert (message.topic, name) == ("a", "t")
    assert dropped == [(message, "message_transformation_failed")]
    (entry,) = [record for record in caplog.records if "transformation t" in record.message]
    assert entry.levelno == logging.ERROR
    assert entry.message.endswith("of client 'me' to 'a': topic: the variable payload.x has no value")


# --- where it stands


def test_the_topic_that_a_message_came_with_says_which_transformations_it_is_for() -> None:
    node = node_with(
        "name = first, topics = a, operations = [{ key = topic, value = \"'b'\" }]",
        f"name = second, topics = a, operations = [{PREFIX}]",
        f"name = third, topics = b, operations = [{PREFIX}]",
    )
    assert [message.topic for message in arrivals(node)] == ["me/b"]
    assert counts(node, "third") == (0, 0, 0)


def test_what_is_valid_is_looked_at_before_it_is_transformed() -> None:
    validation = (
        "schema_validation.validations = [{ name = v, topics = a, checks = [{ type = json, schema = reading }] }]"
    )
    node = node_with(
        f"name = t, topics = a, {JSON}, operations = [{{ key = payload, value = \"'gone'\" }}]", extra=validation
    )
    assert [message.payload for message in arrivals(node, b'{"t": 1}')] == [b'"gone"']
    assert arrivals(node, b"bad") == []


def test_subscribers_retainer_storage_and_delay_have_what_became_of_a_message() -> None:
    operations = f'{PREFIX}, {{ key = retain, value = "true" }}, {{ key = payload, value = "upper(payload)" }}'
    delay = """{ key = topic, value = "concat(['$delayed/10/c/', topic])" }"""
    node = node_with(
        f"name = t, topics = a, operations = [{operations}]", f"name = later, topics = b, operations = [{delay}]"
    )
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    peer = node.connect("me")
    peer.publish("a", b"x", 1, 3)
    assert peer.heard() == ["PUBACK #3"]
    assert watcher.heard() == ["PUBLISH me/a 'X' q0"]
    (kept,) = each(node.retainer.match("me/a"))
    assert kept.payload == b"X"
    peer.publish("b", b"y")
    assert watcher.heard() == []
    node.advance(11)
    assert watcher.heard() == ["PUBLISH c/b 'y' q0"]


def test_a_will_is_transformed() -> None:
    node = node_with(f"name = t, topics = a, operations = [{PREFIX}]")
    watcher = node.connect("watcher")
    watcher.subscribe("#")
    node.connect("me", will=p.Will("a", b"x", 1, False, properties())).drop()
    assert watcher.heard() == ["PUBLISH me/a 'x' q0"]


def test_without_a_change_the_message_stays_the_same_object() -> None:
    node = transforming(("topic", "topic"), settings="")
    seen: list[Message] = []
    node.broker.hooks.point(hooks.MESSAGE_PUBLISH).add(seen.append, 900)
    (message,) = arrivals(node)
    assert message in seen


def test_transformations_are_replaced_while_clients_publish() -> None:
    node = Node(SCHEMAS)
    transformation = node.transformation
    assert [message.topic for message in arrivals(node)] == ["a"]
    transformation.replace([to_topic("b")])
    assert [message.topic for message in arrivals(node)] == ["b"]
    with pytest.raises(MessagePolicyError, match=r"transformations\.1\.operations\.1\.value: line 1, column 1: "):
        transformation.replace([to_topic("c", "(")])
    with pytest.raises(MessagePolicyError, match="there is no function uper"):
        transformation.replace([to_topic("c", "iif(retain, topic, uper(topic))")])
    transformation.replace([to_topic("c")])
    assert [message.topic for message in arrivals(node)] == ["c"]
    assert counts(node, "t") == (2, 2, 0)
    transformation.replace(())
    assert [message.topic for message in arrivals(node)] == ["a"]


def to_topic(topic: str, value: str = "") -> Transformation:
    return Transformation(name="t", topics=("a",), operations=(Operation("topic", value or f"'{topic}'"),))


def test_a_function_that_does_not_exist_is_told_with_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "node.conf"
    file.write_text(
        "message_transformation.transformations = [{\n  name = t, topics = t\n  operations = [\n"
        '    { key = topic, value = topic }\n    { key = qos, value = "coalesce(x, uper(topic))" }\n  ]\n}]\n'
    )
    assert main(["conf", "check", str(file)]) == 1
    said = capsys.readouterr().err
    place = "node.conf:5: message_transformation.transformations.1.operations.2.value: line 1, column 13: "
    assert f"{place}there is no function uper" in said
