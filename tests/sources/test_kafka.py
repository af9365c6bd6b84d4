"""Sources of the type `kafka_consumer`, at librdkafka's mock cluster: columns, offsets, a group, a killed process."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from support.kafka import KafkaCluster, kafka_cluster
from support.running import RunningNode
from support.sources import WAIT_S, has_state, is_connected, part_of, received
from support.waiting import until

pytestmark = [pytest.mark.service, pytest.mark.slow]

ALWAYS: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["in/#"]
"""


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with kafka_cluster() as cluster:
        yield cluster


def produce(kafka: KafkaCluster, topic: str, values: list[bytes], partition: int = 0, mark: str = "") -> None:
    producer = Producer({"bootstrap.servers": kafka.servers})
    for value in values:
        producer.produce(
            topic,
            value,
            key=b"k",
            partition=partition,
            timestamp=1_700_000_000_123,
            headers={"heliograph-via": mark} if mark else {"a": "b"},
        )
    assert producer.flush(WAIT_S) == 0


def committed(kafka: KafkaCluster, group: str, topic: str, partition: int = 0) -> int:
    """The offset of a group."""
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=WAIT_S)
        return int(found.offset)
    finally:
        consumer.close()


async def test_messages_come_with_their_columns_and_the_group_goes_on_after_a_kill(
    tmp_path: Path, kafka: KafkaCluster
) -> None:
    produce(kafka, "first", [b'{"n":1}'])
    settings = f"""
    connectors.kafka_consumer.far {{ bootstrap_hosts = "{kafka.servers}" }}
    sources.kafka_consumer.one {{
      connector = far
      parameters {{
        topic = first, group_id = g, offset_reset_policy = earliest, key_encoding_mode = base64
        offset_commit_interval_seconds = 50ms
      }}
      local.topic = "in/${{topic}}/${{key}}"
    }}
    sources.kafka_consumer.absent {{ connector = far, parameters.topic = no_such }}
    rule_engine.rules.read {{
      sql = \"\"\"SELECT key, value.n AS n, topic, offset, ts, ts_type, headers
              FROM "$bridges/kafka_consumer:one" WHERE offset = 0 \"\"\"
      actions = [{{ function = republish, args {{ topic = "in/rows", payload = "${{.}}" }} }}]
    }}
    """
    async with RunningNode(tmp_path, ALWAYS, settings) as node:
        client = await node.connect("here")
        await client.subscribe("in/#", 1)
        first = dict(await received(client, 2))
        assert first["in/first/aw=="] == b'{"n":1}'
        assert json.loads(first["in/rows"]) == {
            "key": "aw==",
            "n": 1,
            "topic": "first",
            "offset": 0,
            "ts": 1_700_000_000_123,
            "ts_type": "create",
            "headers": {"a": "b"},
        }
        await is_connected(node, "kafka_consumer:one")
        await has_state(node, "kafka_consumer:absent", "disconnected", "has no topic no_such")
        sources = part_of(node)
        await asyncio.to_thread(produce, kafka, "first", [b"round"], mark=sources.site)
        await until(lambda: sources.counts("kafka_consumer:one").get("dropped.loop") == 1, WAIT_S)
        pid = sources.pid
        assert pid is not None
        values = [b"%d" % number for number in range(2000)]
        await asyncio.to_thread(produce, kafka, "first", values)
        found = await received(client, 700)
        os.kill(pid, signal.SIGKILL)
        while found[-1][1] != values[-1]:
            found += await received(client, 1)
        assert list(dict.fromkeys(value for _, value in found)) == values
        await until(lambda: committed(kafka, "g", "first") == 2002, WAIT_S)
        one, *_, last = kafka.servers.split(",")
        denied = f"outbound.denied_ports = [{last.rpartition(':')[2]}]\n"  # of a broker that the first one names
        assert await node.change(denied + settings.replace(kafka.servers, one))
        await has_state(node, "kafka_consumer:one", "disconnected", "outbound.denied_ports")


async def test_a_group_is_shared_and_begins_at_the_latest(tmp_path: Path, kafka: KafkaCluster) -> None:
    """Another member takes partitions over and gives them back: each message is at one of the two at least."""
    produce(kafka, "shared", [b"before"])
    settings = f"""
    connectors.kafka_consumer.far {{ bootstrap_hosts = "{kafka.servers}" }}
    sources.kafka_consumer.one {{
      connector = far, parameters {{ topic = shared, group_id = h }}, local.topic = "in/here"
    }}
    """
    async with RunningNode(tmp_path, ALWAYS, settings) as node:
        client = await node.connect("here")
        await client.subscribe("in/#", 1)
        await is_connected(node, "kafka_consumer:one")
        assert committed(kafka, "h", "shared") == 1  # before any message has come
        other = Consumer({"bootstrap.servers": kafka.servers, "group.id": "h", "auto.offset.reset": "earliest"})
        there: list[Message] = []

        async def poll() -> None:
            there.extend(await asyncio.to_thread(other.consume, 100, 0.2))

        try:
            other.subscribe(["shared"])
            while not other.assignment():
                await poll()
            for partition in range(4):
                await asyncio.to_thread(produce, kafka, "shared", [b"%d" % partition], partition)
            while len(there) < 2:
                await poll()
        finally:
            await asyncio.to_thread(other.close)
        here = await received(client, 2)
        assert {value for _, value in here} | {message.value() for message in there} == {b"0", b"1", b"2", b"3"}
        for partition in range(4):
            await asyncio.to_thread(produce, kafka, "shared", [b"again"], partition)
        again = 0
        while again < 4:  # what the other has not committed comes too
            again += (await received(client, 1))[0][1] == b"again"
