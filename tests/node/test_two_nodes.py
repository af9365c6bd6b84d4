"""Two nodes in one process, each with its own schemas, births, jq, kept values and databases; one ends, one goes on."""

import asyncio
import json
from pathlib import Path

import aiomqtt
import psutil
import pytest

from heliograph.config.loading import load_config
from heliograph.node import Node
from heliograph.rules.schemas.sparkplug import sparkplug_schema

pytestmark = pytest.mark.service

WAIT_S = 20.0
SETTINGS = '''
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage {{ messages.topics = ["kept/#"], flight.enable = false }}
rule_engine.jq_function_default_timeout = {jq_timeout}
rule_engine.rules {{
  decoded {{
    sql = "SELECT schema_decode('reading', payload) AS value FROM 'reading'"
    actions = [{{ function = republish, args {{ topic = "out", payload = "${{value}}" }} }}]
  }}
  kept {{
    sql = "SELECT kv_store_get('last', 'nothing') AS before, kv_store_put('last', payload) AS now FROM 'keep'"
    actions = [{{ function = republish, args {{ topic = "out", payload = "${{before}} ${{now}}" }} }}]
  }}
  asked {{
    sql = "SELECT first(jq('.n', payload)) AS n FROM 'jq'"
    actions = [{{ function = republish, args {{ topic = "out", payload = "${{n}}" }} }}]
  }}
  born {{
    sql = "SELECT spb_metric(payload, 'Heat') AS heat FROM 'spBv1.0/g/NDATA/e'"
    actions = [{{ function = republish, args {{ topic = "out", payload = "${{heat}}" }} }}]
  }}
}}
schema_registry.sparkplug_b.enable_alias_mapping = true
schema_registry.schemas.reading {{ type = avro, source = """{schema}""" }}
'''
BIRTH = sparkplug_schema().encode(
    {"metrics": [{"name": "Heat", "alias": 1, "datatype": 10, "double_value": 1.5}], "seq": 0, "timestamp": 1}
)
DATA = sparkplug_schema().encode({"metrics": [{"alias": 1, "double_value": 2.5}], "seq": 1, "timestamp": 2})


class Running:
    """A node that has started, and a client of it that hears what its rules publish."""

    def __init__(self, directory: Path, name: str, field: str, kind: str, jq_timeout: str) -> None:
        directory.mkdir()
        schema = json.dumps({"type": "record", "name": "r", "fields": [{"name": field, "type": kind}]})
        file = directory / "node.conf"
        file.write_text(SETTINGS.format(schema=schema, jq_timeout=jq_timeout))
        overrides = {"node.data_dir": str(directory / "data"), "node.name": name}
        self.node = Node(load_config(file, {}, overrides))
        self.name = name
        self.client: aiomqtt.Client

    async def start(self) -> None:
        """Start the node, connect, subscribe."""
        await self.node.start()
        port = int(self.node.ready_line().rpartition(":")[2])
        self.client = aiomqtt.Client("127.0.0.1", port, identifier=self.name, protocol=aiomqtt.ProtocolVersion.V5)
        await self.client.__aenter__()
        await self.client.subscribe("out", 1)
        await self.client.subscribe("kept/#", 1)

    async def hear(self, topic: str, payload: bytes) -> bytes:
        """What comes back for a message."""
        await self.client.publish(topic, payload, 1)
        async with asyncio.timeout(WAIT_S):
            message = await anext(self.client.messages)
        assert isinstance(message.payload, bytes)
        return message.payload

    async def stop(self) -> None:
        """Disconnect and stop."""
        await self.client.__aexit__(None, None, None)
        await self.node.stop()


async def test_two_nodes_in_one_process_know_nothing_of_each_other(tmp_path: Path) -> None:
    one = Running(tmp_path / "one", "one@h", "n", "int", "10s")
    two = Running(tmp_path / "two", "two@h", "text", "string", "20s")
    await one.start()
    await two.start()

    # The same name is another schema on each.
    assert json.loads(await one.hear("reading", b"\x02")) == {"n": 1}
    assert json.loads(await two.hear("reading", b"\x02a")) == {"text": "a"}
    # Births, kept values and jq's processes are the node's own.
    await one.client.publish("spBv1.0/g/NBIRTH/e", BIRTH, 1)
    assert await one.hear("spBv1.0/g/NDATA/e", DATA) == b"2.5"
    assert await two.hear("spBv1.0/g/NDATA/e", DATA) == b"undefined"
    assert [await one.hear("keep", b"a"), await one.hear("keep", b"b")] == [b"nothing a", b"a b"]
    assert await two.hear("keep", b"c") == b"nothing c"
    before = set(psutil.Process().children())
    assert await one.hear("jq", b'{"n": 1}') == b"1"
    of_one = set(psutil.Process().children()) - before
    assert await two.hear("jq", b'{"n": 2}') == b"2"
    of_two = set(psutil.Process().children()) - before - of_one
    assert (len(of_one), len(of_two)) == (1, 1)
    # Messages, sessions and counters too.
    assert await one.hear("kept/1", b"of one") == b"of one"
    for running, count in ((one, 9), (two, 4)):
        numbers = running.node.statistics()
        assert numbers["messages.publish"] >= count
        assert numbers["sessions.count"] == 1
        assert numbers["rules.matched"] == (5 if running is one else 4)

    await one.stop()
    assert not any(process.is_running() for process in of_one)
    assert await two.hear("jq", b'{"n": 3}') == b"3"
    assert all(process.is_running() for process in of_two)
    assert json.loads(await two.hear("reading", b"\x02b")) == {"text": "b"}
    assert await two.hear("keep", b"d") == b"c d"
    assert await two.hear("kept/2", b"of two") == b"of two"
    await two.stop()
