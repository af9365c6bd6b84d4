"""Rules in a real node: refused at the start, storing rows for the pipeline, with jq in threads."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiomqtt
import pytest

from heliograph.config.loading import load_config
from heliograph.node import Node
from heliograph.rules.engine.faults import rule_faults
from heliograph.settings.errors import ConfigError
from heliograph.storage.interface import Batch
from support.cases import cases
from support.databases import open_database

BASE = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.flight.enable = false
sys_topics.sys_msg_interval = disabled
"""
WAIT_S = 30


def refused(tmp_path: Path, text: str) -> str:
    """What is said of a configuration that is refused."""
    file = tmp_path / "node.conf"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(file, {}, checks=(rule_faults,))
    return str(caught.value)


def test_a_text_that_is_no_rule_is_refused_with_its_place(tmp_path: Path) -> None:
    said = refused(
        tmp_path, '\nrule_engine.rules {\n  good { sql = "SELECT * FROM t" }\n  bad { sql = "SELECT a FROM" }\n}'
    )
    assert "node.conf:4: rule_engine.rules.bad.sql: [rule_syntax] line 1, column" in said
    assert "expected" in said


@cases(
    ("rule", "problem"),
    [
        ("{ actions = [console] }", "a rule needs sql"),
        ('{ sql = "SELECT * FROM t", actions = [email] }', 'there is no "email", but republish, console, pipeline'),
        (
            '{ sql = "SELECT * FROM t", actions = ["kafka:x"] }',
            "type:name of an action; types are http",
        ),
        ('{ sql = "SELECT * FROM t", actions = [republish] }', "republish, needs args with topic"),
        (
            '{ sql = "SELECT * FROM t", actions = [{ function = republis, args { topic = x } }] }',
            'action 1: there is no "republis", but republish, console, pipeline',
        ),
        (
            '{ sql = "SELECT * FROM t", actions = [console, { function = republish, args { topic = "a/+" } }] }',
            "r1.actions: action 2, args.topic: the topic name 'a/+' holds a wildcard",
        ),
        (
            '{ sql = "SELECT * FROM t", actions = [{ function = republish, args { topic = "$pipeline/r" } }] }',
            "r1.actions: action 1, args.topic: $pipeline/ belongs to the action pipeline",
        ),
        (
            """{ sql = "SELECT * FROM t, '$events/client_conected'" }""",
            "FROM names the event $events/client_conected, which there is not; did you mean $events/client_connected?",
        ),
        ('{ sql = "SELECT * FROM t", actions = [{ function = republish, args {} }] }', "has no topic"),
        (
            '{ sql = "SELECT * FROM t", actions = [{ function = republish, args { topic = x, qos = 3 } }] }',
            "args.qos is 3; valid is an integer from 0 to 2, or a placeholder",
        ),
        (
            '{ sql = "SELECT * FROM t", actions = [console, { function = republish, args { topic = x, qqs = 1 } }] }',
            "action 2, args: unknown key qqs (line 1)",
        ),
        (
            '{ sql = "SELECT * FROM t", actions = [{ function = republish, args { topic = x, '
            "mqtt_properties { Topic-Alias = 1 } } }] }",
            "unknown key Topic-Alias",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_what_can(tmp_path: Path, rule: str, problem: str) -> None:
    assert problem in refused(tmp_path, f"rule_engine.rules.r1 {rule}")


def run_node(tmp_path: Path, settings: str, talk: Callable[[Node, int], Any]) -> dict[str, float]:
    """Start a node, talk to it, stop it; its statistics before the end."""

    async def serve() -> dict[str, float]:
        file = tmp_path / "node.conf"
        file.write_text(BASE + settings)
        node = Node(load_config(file, {}, {"node.data_dir": str(tmp_path / "data")}))
        await node.start()
        try:
            port = int(node.ready_line().rpartition(":")[2])
            await asyncio.wait_for(talk(node, port), WAIT_S)
            return node.statistics()
        finally:
            await node.stop()

    return asyncio.run(serve())


def stored(tmp_path: Path, topic_filter: str) -> list[tuple[str, Any]]:
    """Topics and payloads on the disk."""
    database = open_database(tmp_path / "data")
    found: list[tuple[str, Any]] = []
    for stream in database.get_streams(topic_filter):
        iterator = database.make_iterator(stream.id, topic_filter)
        while isinstance(batch := database.next(iterator, 100), Batch) and batch.messages:
            found += [(message.topic, json.loads(message.payload)) for message in batch.messages]
            iterator = batch.iterator
    database.close()
    return found


@pytest.mark.service
@pytest.mark.parametrize("topics", ['["#"]', "[]"])
def test_rows_for_the_pipeline_are_stored_and_nobody_else_makes_them(tmp_path: Path, topics: str) -> None:
    settings = f"""
    durable_storage.messages.topics = {topics}
    rule_engine.rules.hot {{
      sql = "SELECT payload.t AS t, clientid FROM 's/#' WHERE payload.t > 30", actions = [pipeline]
    }}
    """

    async def talk(node: Node, port: int) -> None:
        async with (
            aiomqtt.Client("127.0.0.1", port, identifier="all") as watcher,
            aiomqtt.Client("127.0.0.1", port, identifier="c1") as client,
        ):
            await watcher.subscribe("$pipeline/#")
            await watcher.subscribe("s/#")
            for value in (20, 31, 32):
                await client.publish("s/1", json.dumps({"t": value}), qos=1)
            await client.publish("$pipeline/hot", b'{"t":99}', qos=1)
            await client.publish("s/2", b'{"t":0}', qos=1)
            seen = []
            async for message in watcher.messages:
                seen.append(str(message.topic))
                if seen[-1] == "s/2":
                    break
            assert set(seen) == {"s/1", "s/2"}

    numbers = run_node(tmp_path, settings, talk)
    assert numbers["rules.hot.passed"] == 2
    assert numbers["rules.pipeline_publish_refused"] == 1
    rows = stored(tmp_path, "$pipeline/hot")
    assert rows == [("$pipeline/hot", {"t": value, "clientid": "c1"}) for value in (31, 32)]
    assert bool(stored(tmp_path, "s/#")) is (topics != "[]")


@pytest.mark.service
def test_a_rule_that_may_block_answers_in_order_from_threads(tmp_path: Path) -> None:
    settings = """
    durable_storage.messages.topics = []
    rule_engine.rules.j {
      sql = "SELECT first(jq('.a * 2', payload)) AS n FROM 't'"
      actions = [{ function = republish, args { topic = out, payload = "${n}" } }]
    }
    rule_engine.rules.loop { sql = "SELECT jq('def f: f; f', payload, 300) AS n FROM 'loop'", actions = [console] }
    """

    async def talk(node: Node, port: int) -> None:
        async with aiomqtt.Client("127.0.0.1", port, identifier="c1") as client:
            await client.subscribe("out", qos=1)
            await client.publish("loop", b"{}", qos=1)
            for number in range(20):
                await client.publish("t", json.dumps({"a": number}), qos=1)
            seen = []
            async for message in client.messages:
                assert isinstance(message.payload, bytes)
                seen.append(int(message.payload))
                if len(seen) == 20:
                    break
            assert seen == [2 * number for number in range(20)]
            (rule,) = (each for each in node.rules if each.rule_id == "loop")
            while not rule.counters.exceptions:
                await client.publish("meanwhile", b"", qos=1)

    numbers = run_node(tmp_path, settings, talk)
    assert numbers["rules.j.passed"] == 20
    assert numbers["rules.loop.failed.exception"] == 1
