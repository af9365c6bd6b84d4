"""A node offloads what its settings say; its clients, its durable sessions and the Flight reader notice nothing."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from durable.test_killed import Subscriber, publish
from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.storage.columnar.inspection import offload_facts
from heliograph.storage.columnar.secondary import reading
from support.process import NodeProcess
from support.waiting import wait_until

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_sessions.enable = true
durable_storage.messages {
  generation_interval = 1s
  offload { enable = true, target = cold, after = 0s }
}
"""


def rows(reader: StorageClient) -> list[dict[str, object]]:
    """All rows, in the order of their streams."""
    streams = sorted(reader.streams(MessageSelection()), key=lambda one: one.rank)
    batches = [batch for one in streams for batch in reader.read(MessageSelection(), one.stream)]
    found: list[dict[str, object]] = pa.Table.from_batches(batches).to_pylist()
    return found


def files(node: NodeProcess) -> list[Path]:
    """What is offloaded."""
    return list((node.data_dir / "cold").rglob("*.parquet"))


def wait_until_offloaded(node: NodeProcess) -> None:
    """Wait until a generation is marked as offloaded; nothing tells a process beside the node of it."""

    def is_offloaded() -> bool:
        with reading(node.data_dir, "messages") as (rocks, catalog):
            facts = [offload_facts(rocks, one.info.shard, one.info.number) for one in catalog.generations()]
        return any(one is not None and one["state"] == "offloaded" for one in facts)

    wait_until(is_offloaded, "a generation is offloaded")


def test_a_session_and_a_reader_go_on_over_what_was_offloaded(tmp_path: Path) -> None:
    payloads = [b"%d" % number for number in range(3000)]
    with NodeProcess(tmp_path, SETTINGS, reader=True) as node, StorageClient(f"127.0.0.1:{node.flight_port}") as reader:
        Subscriber("sub", node.port, "t/#", 1).stop()
        publish(node.port, "t/1", payloads, 1)
        before = rows(reader)
        halfway = reader.plan(MessageSelection(), messages_max=100).positions()
        wait_until_offloaded(node)
        after = rows(reader)
        assert [row["payload"] for row in after] == payloads
        assert after == before
        rest = reader.plan(MessageSelection(), halfway)
        read = [
            reader.read(MessageSelection(), one, halfway.get(one, ""), step.position)
            for one, step in rest.streams.items()
        ]
        assert sum(batch.num_rows for batches in read for batch in batches) == rest.messages
        node.stop()
        node.start()
        sub = Subscriber("sub", node.port)
        sub.wait_for(len(payloads))
        publish(node.port, "t/1", [b"live"], 1)
        sub.wait_for(len(payloads) + 1)
        sub.stop()
        assert sub.got == [*payloads, b"live"]
        node.stop()


def test_a_target_that_refuses_raises_an_alarm_until_it_does_not(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path, SETTINGS)
    node.data_dir.mkdir()
    (node.data_dir / "cold").write_text("in the way")
    with node:
        alarms = Subscriber("alarms", node.port, "$SYS/brokers/+/alarms/#", 1)
        publish(node.port, "t/1", [b"one"], 1)
        alarms.wait_for(1)
        raised = json.loads(alarms.got[0])
        assert (raised["name"], raised["activated"]) == ("storage_cannot_offload", True)
        assert raised["details"]["code"] == "storage_offload_unreachable"
        alarms.stop()
        node.stop()
        assert not files(node)
