"""What actions of the types `mqtt` and `kafka_producer` send of rows, without Spark."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heliograph.actions.runner_file import runner_actions
from heliograph.config.loading import load_config
from heliograph.pipeline.runner.connections import KeptConnection
from heliograph.pipeline.runner.local_rows import LocalRows
from heliograph.pipeline.sinks.interface import MicroBatch, RowSink
from heliograph.pipeline.sinks.kafka import KafkaSink
from support.cases import cases
from support.kafka import KafkaCluster, kafka_cluster
from support.sinks import Refused, sink_of
from support.subscribing import subscribed

pytestmark = [pytest.mark.service]


class Action:
    """An action of a configuration, whose sink keeps its connection as the runner does."""

    def __init__(self, directory: Path, kind: str, connector: str, parameters: str) -> None:
        file = directory / "node.conf"
        file.write_text(
            f"connectors.{kind}.c {{ {connector} }}\n"
            f"actions {{ engine = local, {kind}.a {{ connector = c, parameters {{ {parameters} }} }} }}\n"
            f'rule_engine.rules.r {{ sql = "SELECT * FROM \'t\'", actions = ["{kind}:a"] }}\n'
        )
        ((_, self._action),) = runner_actions(load_config(file)).items()
        sink = sink_of(json.dumps(self._action["sink"]))
        assert isinstance(sink, RowSink)
        self.sink = sink
        self.refused = Refused()
        self._connection = KeptConnection()
        self._batches = 0

    def __enter__(self) -> "Action":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def write(self, *rows: dict[str, Any]) -> dict[str, int]:
        """Bring rows to the target, as one batch; its figures."""
        nowhere = Path("/nonexistent")
        batch = MicroBatch(
            "a", "owner", self._batches, nowhere, "127.0.0.1:1", self.refused.take, connections=self._connection
        )
        self._batches += 1
        payloads = [json.dumps(row).encode() for row in rows]
        return dict(self.sink.write(LocalRows(payloads, self.sink), batch).figures)


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with kafka_cluster() as running:
        yield running


def test_a_message_has_the_qos_the_flag_and_the_properties_of_its_row(
    tmp_path: Path, mosquitto: tuple[str, int]
) -> None:
    users = {"User-Property": {"a": "b", "c": "d"}, "User-Property-Pairs": [{"key": "a", "value": "b"}]}
    parameters = 'topic = "out/${n}", payload = "${payload}", qos = "${qos}", retain = "${flags.retain}"'
    with (
        subscribed(mosquitto[1], "out/#") as heard,
        Action(tmp_path, "mqtt", f'server = "127.0.0.1:{mosquitto[1]}"', parameters) as action,
    ):
        properties = {**users, "Content-Type": "x", "Correlation-Data": "id", "Message-Expiry-Interval": 60}
        action.write({"n": 1, "qos": 2, "flags": {"retain": True}, "pub_props": properties, "payload": "p"}, {"n": 2})
        figures = action.write(
            {"n": 3, "qos": 3},
            {"n": 4, "flags": {"retain": "often"}},
            {"n": 5, "qos": 1, "flags": {"retain": False}, "pub_props": {"Correlation-Data": {"$base64": "AP8="}}},
        )
        messages = {message.topic: message for message in heard.wait_for(3)}
    assert {topic: message.qos for topic, message in messages.items()} == {"out/1": 2, "out/2": 0, "out/5": 1}
    first: Any = messages["out/1"].properties
    assert first.UserProperty == [("a", "b"), ("c", "d")]
    assert (first.ContentType, first.CorrelationData, first.MessageExpiryInterval) == ("x", b"id", 60)
    last: Any = messages["out/5"].properties
    assert last.CorrelationData == b"\x00\xff"
    assert [reason for _, reason in action.refused.rows] == [
        "qos is 3, but must be 0, 1 or 2",
        "retain is often, but must be true or false",
    ]
    assert (figures["rows"], figures["refused"]) == (1, 2)
    with subscribed(mosquitto[1], "out/#") as later:
        assert [message.topic for message in later.wait_for(1)] == ["out/1"]


@cases("version", ["v3", "v4"])
def test_older_versions_of_mqtt_send_what_they_have(tmp_path: Path, mosquitto: tuple[str, int], version: str) -> None:
    connector = f'server = "127.0.0.1:{mosquitto[1]}", proto_ver = {version}, bridge_mode = true, keepalive = 10s'
    with (
        subscribed(mosquitto[1], f"old/{version}") as heard,
        Action(tmp_path, "mqtt", connector, f'topic = "old/{version}", qos = 2') as action,
    ):
        for number in range(2):
            assert action.write({"n": number, "pub_props": {"Content-Type": "x"}})["rows"] == 1
        assert [json.loads(message.payload)["n"] for message in heard.wait_for(2)] == [0, 1]


def test_a_row_says_time_and_headers_of_its_message_in_kafka(tmp_path: Path, cluster: KafkaCluster) -> None:
    headers = (
        'kafka_headers = "${h}", kafka_ext_headers = [{ kafka_ext_header_key = x, kafka_ext_header_value = "${k}" }]'
    )
    parameters = 'topic = made, partition_strategy = key_dispatch, message { key = "${k}", value = "${.}" }, ' + headers
    with Action(tmp_path, "kafka_producer", f'bootstrap_hosts = "{cluster.servers}"', parameters) as action:
        action.write({"k": "a", "timestamp": 1_700_000_000_123, "h": {"t": "text", "n": 1}})
        action.write({"k": "a", "timestamp": "soon", "h": [{"key": "l", "value": "v"}]}, {"k": "a", "h": "none"})
    first, second, third = cluster.read("made", 3)
    assert len({message.partition() for message in (first, second, third)}) == 1
    assert first.timestamp()[1] == 1_700_000_000_123
    assert second.timestamp()[1] > 1_700_000_000_123
    assert [message.headers() for message in (first, second, third)] == [
        [("n", b"1"), ("t", b"text"), ("x", b"a")],  # a row has its keys in order
        [("l", b"v"), ("x", b"a")],
        [("x", b"a")],
    ]


@cases(
    ("settings", "expected"),
    [
        ("required_acks = none, max_inflight = 20", {"acks": "0", "enable.idempotence": False}),
        ("required_acks = leader_only", {"acks": "1", "max.in.flight.requests.per.connection": "10"}),
        ("max_inflight = 20", {"acks": "all", "max.in.flight.requests.per.connection": "5"}),
        ("query_mode = sync", {"max.in.flight.requests.per.connection": "1"}),
        ("max_batch_bytes = 2KB, max_linger_time = 7ms", {"batch.size": "2048", "linger.ms": "7"}),
        ("partition_strategy = key_dispatch", {"partitioner": "murmur2_random"}),
        ("partition_strategy = random", {"partitioner": "random"}),
        ('kafka_header_value_encode_mode = json, kafka_headers = "${h}"', {}),
    ],
)
def test_a_producer_has_the_settings_of_its_action(
    tmp_path: Path, cluster: KafkaCluster, settings: str, expected: dict[str, Any]
) -> None:
    topic = f"t{abs(hash(settings))}"
    connector = f'bootstrap_hosts = "{cluster.servers}"'
    with Action(tmp_path, "kafka_producer", connector, f"topic = {topic}, {settings}") as action:
        assert isinstance(action.sink, KafkaSink)
        made = action.sink.producer_settings()
        assert {name: made[name] for name in expected} == expected
        assert action.write({"h": {"t": "text", "n": [1]}})["rows"] == 1
    (message,) = cluster.read(topic, 1)
    assert message.headers() == ([("n", b"[1]"), ("t", b'"text"')] if "kafka_headers" in settings else None)
