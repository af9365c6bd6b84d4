"""Guards of a node that runs as its own process, as real clients see them."""

import asyncio
import json
from pathlib import Path

import aiomqtt
import pytest

from support.process import NodeProcess
from support.schemas import SCHEMAS

pytestmark = pytest.mark.service

WAIT_S = 20.0
SETTINGS = (
    SCHEMAS
    + """
durable_storage { flight.enable = false, messages.topics = [] }
schema_validation.validations = [
  { name = reading, topics = "t/#", checks = [{ type = json, schema = reading }] }
  { name = strict, topics = "s", failure_action = disconnect, checks = [{ type = avro, schema = row }] }
]
message_transformation.transformations = [{
  name = seen, topics = "t/#", payload_decoder.type = json, payload_encoder.type = json
  operations = [{ key = topic, value = "concat([clientid, '/', topic])" }, { key = payload.by, value = "clientid" }]
}]
rule_engine.rules.failures {
  sql = \"\"\"SELECT validation, clientid, topic, payload FROM "$events/schema_validation_failed" \"\"\"
  actions = [{ function = republish, args { topic = "failed/${validation}", payload = "${.}" } }]
}
"""
)


@pytest.mark.slow
async def test_what_passes_is_transformed_and_rules_hear_of_the_others(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        async with aiomqtt.Client("127.0.0.1", node.port, identifier="watcher") as watcher:
            await watcher.subscribe("#")
            for version in (aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5):
                async with aiomqtt.Client("127.0.0.1", node.port, identifier="dev", protocol=version) as client:
                    await client.publish("t/1", b'{"t": 20}', qos=1)
            async with aiomqtt.Client("127.0.0.1", node.port, identifier="bad") as client:
                await client.publish("t/1", b'{"t": 99}', qos=2)
            heard: list[tuple[str, object]] = []
            async with asyncio.timeout(WAIT_S):
                async for message in watcher.messages:
                    assert isinstance(message.payload, bytes)
                    heard.append((str(message.topic), json.loads(message.payload)))
                    if len(heard) == 3:
                        break
    failure = {"validation": "reading", "clientid": "bad", "topic": "t/1", "payload": '{"t": 99}'}
    assert heard == [("dev/t/1", {"t": 20, "by": "dev"})] * 2 + [("failed/reading", failure)]
