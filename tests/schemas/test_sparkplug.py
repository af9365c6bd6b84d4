"""Sparkplug B: payloads, aliases learned from births, and metrics by name."""

import json
from struct import pack

import pytest

from heliograph.mqtt import packets as p
from heliograph.rules.environment import Environment
from heliograph.rules.evaluator import CompiledRule
from heliograph.rules.schemas.interface import SchemaError
from heliograph.rules.schemas.sparkplug import EdgeTopic, metric_value, sparkplug_schema
from heliograph.rules.schemas.sparkplug_births import Births
from heliograph.rules.values import UNDEFINED, Value
from support.cases import cases
from support.services import Node

NBIRTH = "spBv1.0/plant/NBIRTH/edge"
NDATA = "spBv1.0/plant/NDATA/edge"
DDATA = "spBv1.0/plant/DDATA/edge/press"


def payload(*metrics: dict[str, Value], timestamp: int = 1000, seq: int = 0) -> bytes:
    """The bytes of a payload."""
    return sparkplug_schema().encode({"timestamp": timestamp, "seq": seq, "metrics": list(metrics)})


def birth(sequence: int = 1, name: str = "Temperature") -> bytes:
    """A birth with one metric of alias 1."""
    return payload(
        {"name": "bdSeq", "datatype": 4, "long_value": sequence},
        {"name": name, "alias": 1, "datatype": 10, "double_value": 20.5},
        {"name": "Line/Offset", "alias": 2, "datatype": 1, "int_value": 254},
    )


DATA = payload({"alias": 1, "double_value": 21.5}, {"alias": 2, "int_value": 255, "timestamp": 7}, {"alias": 9})


def learn(births: Births, topic: str, data: bytes) -> None:
    """Have a message looked at."""
    found = EdgeTopic.of(topic)
    assert found is not None
    births.on_message(found, data)


def evaluate(sql: str, topic: str, data: bytes, environment: Environment | None = None) -> dict[str, Value]:
    """The one row of a rule."""
    (row,) = CompiledRule(sql, environment=environment).apply({"topic": topic, "payload": data})
    return row


@cases(
    ("topic", "expected"),
    [
        ("spBv1.0/g/NDATA/e", EdgeTopic("g", "NDATA", "e", None)),
        ("spBv1.0/g/DBIRTH/e/d", EdgeTopic("g", "DBIRTH", "e", "d")),
        ("spBv1.0/g/NDATA/e/d", None),
        ("spBv1.0/g/DDATA/e", None),
        ("spBv1.0/STATE/host", None),
        ("spAv1.0/g/NDATA/e", None),
        ("t", None),
    ],
)
def test_topics(topic: str, expected: EdgeTopic | None) -> None:
    assert EdgeTopic.of(topic) == expected


def test_the_payload_as_it_was_sent() -> None:
    row = evaluate('SELECT sparkplug_decode(payload) AS p FROM "#"', NDATA, DATA)
    assert row["p"] == {
        "timestamp": 1000,
        "seq": 0,
        "metrics": [
            {"alias": 1, "double_value": 21.5},
            {"alias": 2, "timestamp": 7, "int_value": 255},
            {"alias": 9},
        ],
    }
    again = evaluate('SELECT sparkplug_encode(sparkplug_decode(payload)) AS p FROM "#"', NDATA, DATA)
    assert sparkplug_schema().decode(_bytes(again["p"])) == row["p"]


def test_the_schema_has_a_name_in_every_registry() -> None:
    row = evaluate("SELECT schema_decode('sparkplug_b', payload) AS p FROM \"#\"", NDATA, DATA)
    assert row == evaluate("SELECT sparkplug_decode(payload, 'Payload') AS p FROM \"#\"", NDATA, DATA)


def test_names_come_from_the_birth() -> None:
    environment = Environment()
    learn(environment.births, NBIRTH, birth())
    row = evaluate(
        "SELECT spb_metric(payload, 'Temperature') AS t, spb_metric(payload, 'Line/Offset') AS o,"
        " spb_metric(payload, 'Pressure') AS none, spb_metrics(payload) AS all,"
        ' spb_decode(payload) AS d FROM "#"',
        NDATA,
        DATA,
        environment,
    )
    assert row["t"] == 21.5
    assert row["o"] == -1
    assert row["none"] is UNDEFINED
    assert row["all"] == [
        {"name": "Temperature", "alias": 1, "datatype": "Double", "timestamp": 1000, "value": 21.5},
        {"name": "Line/Offset", "alias": 2, "datatype": "Int8", "timestamp": 7, "value": -1},
        {"alias": 9, "timestamp": 1000},
    ]
    assert isinstance(row["d"], dict)
    assert row["d"]["metrics"] == [
        {"alias": 1, "double_value": 21.5, "name": "Temperature"},
        {"alias": 2, "timestamp": 7, "int_value": 255, "name": "Line/Offset"},
        {"alias": 9},
    ]


def test_aliases_belong_to_one_edge_node_and_device() -> None:
    environment = Environment()
    learn(environment.births, NBIRTH, birth())
    for other in ("spBv1.0/plant/NDATA/other", "spBv1.0/shop/NDATA/edge", DDATA):
        row = evaluate("SELECT spb_metric(payload, 'Temperature') AS t FROM \"#\"", other, DATA, environment)
        assert row["t"] is UNDEFINED
    learn(environment.births, "spBv1.0/plant/DBIRTH/edge/press", birth(name="Force"))
    sql = "SELECT spb_metric(payload, 'Force') AS f FROM \"#\""
    assert evaluate(sql, DDATA, DATA, environment) == {"f": 21.5}
    assert evaluate(sql, DDATA, DATA, Environment()) == {"f": UNDEFINED}


def test_bytes_have_a_text() -> None:
    data = payload({"name": "raw", "datatype": 17, "bytes_value": b"\xff\x00"})
    row = evaluate('SELECT spb_decode(payload) AS d, spb_encode(spb_decode(payload)) AS e FROM "#"', NDATA, data)
    assert isinstance(row["d"], dict)
    assert row["d"]["metrics"] == [{"name": "raw", "datatype": 17, "bytes_value": "/wA="}]
    assert _bytes(row["e"]) == data


def test_births_replace_and_deaths_end() -> None:
    births = Births()
    of = EdgeTopic.of(NDATA)
    device = EdgeTopic.of(DDATA)
    assert of is not None
    assert device is not None
    learn(births, NBIRTH, birth(1))
    learn(births, "spBv1.0/plant/DBIRTH/edge/press", birth(name="Force"))
    learn(births, NBIRTH, birth(2, "Heat"))
    born = births.find(of, 1)
    assert born is not None
    assert born.name == "Heat"
    assert births.find(device, 1) is None  # a rebirth takes those of the devices back
    learn(births, "spBv1.0/plant/NDEATH/edge", payload({"name": "bdSeq", "datatype": 4, "long_value": 1}))
    assert births.find(of, 1) is not None  # the will of an earlier connection
    learn(births, "spBv1.0/plant/NDEATH/edge", payload({"name": "bdSeq", "datatype": 4, "long_value": 2}))
    assert births.find(of, 1) is None
    assert births.statistics()["sparkplug.aliases"] == 0


def test_the_death_of_an_edge_node_whose_birth_nobody_saw_ends_its_devices() -> None:
    births = Births()
    device = EdgeTopic.of(DDATA)
    assert device is not None
    learn(births, "spBv1.0/plant/DBIRTH/edge/press", birth(name="Force"))
    learn(births, "spBv1.0/plant/NDEATH/edge", payload({"name": "bdSeq", "datatype": 4, "long_value": 7}))
    assert births.find(device, 1) is None


def test_metrics_of_two_bytes_are_not_taken_by_the_million() -> None:
    births = Births()
    learn(births, "spBv1.0/g/NBIRTH/e", b"\x12\x00" * 50_001)
    assert births.statistics()["sparkplug.births.malformed"] == 1
    with pytest.raises(SchemaError, match="metrics has 50,001 items; at most 50,000 are decoded"):
        births.metrics(EdgeTopic.of("spBv1.0/g/NDATA/e"), b"\x12\x00" * 50_001)


def test_names_of_any_length_are_not_remembered() -> None:
    births = Births()
    learn(births, f"spBv1.0/{'g' * 2000}/NBIRTH/e", birth())
    assert births.statistics()["sparkplug.births.refused"] == 1
    assert births.statistics()["sparkplug.edge_nodes"] == 0


def topic_of(edge: str, kind: str = "NDATA") -> EdgeTopic:
    """A topic of an edge node."""
    return EdgeTopic("plant", kind, edge, None)


def test_edge_nodes_that_were_silent_longest_make_room() -> None:
    births = Births(aliases_max=6)
    for edge in ("first", "second", "third"):
        births.on_message(topic_of(edge, "NBIRTH"), birth())
    births.on_message(topic_of("first"), DATA)  # it lives
    births.on_message(topic_of("second", "NCMD"), DATA)  # which others say to it
    births.on_message(topic_of("fourth", "NBIRTH"), birth())
    known = [edge for edge in ("first", "second", "third", "fourth") if births.find(topic_of(edge), 1) is not None]
    assert known == ["first", "third", "fourth"]
    births.on_message(topic_of("first", "NBIRTH"), birth(2))  # in place of itself there is room
    statistics = births.statistics()
    assert statistics["sparkplug.edge_nodes"] == 3
    assert statistics["sparkplug.edge_nodes.evicted"] == 1
    assert statistics["sparkplug.aliases"] == 6
    assert statistics["sparkplug.births.refused"] == 0


def test_edge_nodes_are_bounded_in_number() -> None:
    births = Births(edges_max=10)
    for number in range(25):
        births.on_message(topic_of(f"e{number}", "NBIRTH"), b"")
        births.on_message(topic_of("lives", "NBIRTH"), birth())
    statistics = births.statistics()
    assert (statistics["sparkplug.edge_nodes"], statistics["sparkplug.edge_nodes.evicted"]) == (10, 16)
    assert births.find(topic_of("lives"), 1) is not None


def test_one_edge_node_does_not_take_the_room_of_all() -> None:
    births = Births(aliases_max=5)
    births.on_message(topic_of("small", "NBIRTH"), birth())
    births.on_message(topic_of("large", "NBIRTH"), birth())
    for device in ("a", "b", "c"):
        births.on_message(EdgeTopic("plant", "DBIRTH", "large", device), birth())
    # Two devices beside the edge node itself would be 6; a refused birth costs nobody else anything.
    assert births.statistics() == {
        "sparkplug.edge_nodes": 1,
        "sparkplug.edge_nodes.evicted": 1,
        "sparkplug.aliases": 4,
        "sparkplug.births.refused": 2,
        "sparkplug.births.malformed": 0,
    }
    births.on_message(EdgeTopic("plant", "DDEATH", "large", "a"), b"")
    births.on_message(topic_of("large", "NDEATH"), b"")
    assert births.statistics()["sparkplug.aliases"] == 0


def test_births_that_were_forgotten_take_no_room() -> None:
    births = Births()
    births.on_message(topic_of("lives", "NBIRTH"), birth())
    metrics: list[dict[str, Value]] = [{"name": "n" * 1000, "alias": number, "datatype": 10} for number in range(4000)]
    names = payload(*metrics)
    for _ in range(40):  # more than the 128 MiB of names that all together may have
        births.on_message(topic_of("restless", "NBIRTH"), names)
    births.on_message(topic_of("restless", "NDEATH"), b"")
    assert births.find(topic_of("lives"), 1) is not None
    assert births.statistics()["sparkplug.edge_nodes.evicted"] == 0


def test_a_birth_that_is_no_payload_is_counted() -> None:
    births = Births()
    learn(births, "spBv1.0/plant/NBIRTH/third", b"\xff")
    assert births.statistics()["sparkplug.births.malformed"] == 1


def test_what_is_forgotten_is_told_a_few_times_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    node = Node("schema_registry.sparkplug_b { enable_alias_mapping = true, max_aliases = 2 }")
    peer = node.connect("edges")
    for number in range(50):
        peer.publish(f"spBv1.0/plant/NBIRTH/e{number}", birth())
    assert node.statistics()["sparkplug.edge_nodes.evicted"] == 49
    told = [record.getMessage() for record in caplog.records]
    assert 1 <= len(told) <= 11
    assert "the birth of Sparkplug edge node 'e1' of group 'plant' had no room: 1 edge nodes" in told[0]


@cases(
    ("metric", "value"),
    [
        ({"datatype": 3, "int_value": 2**32 - 5}, -5),
        ({"datatype": 4, "long_value": 2**64 - 5}, -5),
        ({"datatype": 7, "int_value": 2**32 - 5}, 2**32 - 5),
        ({"datatype": 11, "boolean_value": True}, True),
        ({"datatype": 12, "string_value": "é"}, "é"),
        ({"datatype": 12, "is_null": True}, None),
        ({"datatype": 12}, UNDEFINED),
        ({"datatype": 17, "bytes_value": b"\xff"}, b"\xff"),
        ({"datatype": 23, "bytes_value": pack("<2h", 1, -2)}, [1, -2]),
        ({"datatype": 31, "bytes_value": pack("<d", 1.5)}, [1.5]),
        ({"datatype": 32, "bytes_value": pack("<I", 3) + b"\xa0"}, [True, False, True]),
        ({"datatype": 33, "bytes_value": b"a\0\0b\0"}, ["a", "", "b"]),
        ({"datatype": 23, "bytes_value": b"\1\2\3"}, b"\1\2\3"),
        (
            {
                "datatype": 16,
                "dataset_value": {
                    "columns": ["a", "b"],
                    "types": [3, 12],
                    "rows": [{"elements": [{"int_value": 2**32 - 1}, {"string_value": "x"}]}],
                },
            },
            [{"a": -1, "b": "x"}],
        ),
        (
            {"datatype": 19, "template_value": {"metrics": [{"name": "m", "datatype": 9, "float_value": 1.5}]}},
            {"m": 1.5},
        ),
    ],
)
def test_values(metric: dict[str, Value], value: Value) -> None:
    assert metric_value(metric) == value


def test_bytes_that_are_no_payload_fail_the_rule() -> None:
    for function in ("sparkplug_decode", "spb_decode", "spb_metrics"):
        with pytest.raises(Exception, match="these are not bytes of the Protobuf message Payload"):
            evaluate(f'SELECT {function}(payload) AS x FROM "#"', NDATA, b"\xff")


def test_a_broker_learns_what_is_published() -> None:
    node = Node("schema_registry.sparkplug_b.enable_alias_mapping = true")
    edge = node.connect("edge")
    edge.publish(NBIRTH, birth())
    sql = "SELECT spb_metric(payload, 'Temperature') AS t FROM \"#\""
    assert evaluate(sql, NDATA, DATA, node.environment) == {"t": 21.5}


def test_metrics_as_messages() -> None:
    node = Node("schema_registry.sparkplug_b.metric_messages = true, sys_topics.sys_msg_interval = disabled")
    watcher = node.connect("watcher")
    watcher.subscribe("$sparkplug/#", 0)
    edge = node.connect("edge")
    edge.publish(NBIRTH, birth())
    edge.publish(NDATA, DATA)
    edge.publish(NDATA, b"\xff")
    node.run()
    received = [packet for packet in watcher.received() if isinstance(packet, p.Publish)]
    assert [packet.topic.decode().removeprefix("$sparkplug/plant/edge//") for packet in received] == [
        *("bdSeq", "Temperature", "Line/Offset", "Temperature", "Line/Offset"),
    ]
    assert json.loads(received[3].payload) == {
        "group": "plant",
        "edge_node": "edge",
        "device": None,
        "type": "NDATA",
        "name": "Temperature",
        "alias": 1,
        "datatype": "Double",
        "timestamp": 1000,
        "value": 21.5,
    }
    numbers = node.statistics()
    assert numbers["sparkplug.metrics.published"] == 5
    assert numbers["sparkplug.metrics.unnamed"] == 1
    assert numbers["sparkplug.payloads.malformed"] == 1


def _bytes(value: Value) -> bytes:
    assert isinstance(value, str | bytes)
    return value.encode() if isinstance(value, str) else value
