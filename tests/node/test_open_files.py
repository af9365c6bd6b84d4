"""A flood of connections takes the open files that are for connections, and storage goes on."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiomqtt
import pytest

from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

LIMIT = 160
SETTINGS = "durable_storage.flight.enable = false"


async def flood(port: int, count: int) -> list[asyncio.StreamWriter]:
    """Connections that say nothing."""
    writers = []
    for _ in range(count):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writers.append(writer)
    return writers


async def test_storage_goes_on_while_connections_take_every_open_file(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS, open_files_max=LIMIT) as node:
        async with aiomqtt.Client("127.0.0.1", node.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.subscribe("$SYS/brokers/+/alarms/#")
            messages = aiter(client.messages)
            writers = await flood(node.port, LIMIT)
            async with asyncio.timeout(30):
                assert json.loads(await payload(messages))["name"] == "open_files_exhausted"
            for number in range(40):
                await client.publish("t/1", bytes(500_000 + number), qos=1)
            for writer in writers:
                writer.close()
            async with asyncio.timeout(30):
                assert not json.loads(await payload(messages))["activated"]
        assert node.stop() == 0
    said = node.log.read_text()
    assert "storage_failed" not in said
    assert said.count("cannot accept connections") == 1


async def payload(messages: AsyncIterator[aiomqtt.Message]) -> bytes:
    message = await anext(messages)
    assert isinstance(message.payload, bytes)
    return message.payload


def test_connections_that_the_limit_does_not_allow_are_told_at_the_start(tmp_path: Path) -> None:
    settings = f"{SETTINGS}\nlisteners.tcp.default.max_connections = 500"
    with NodeProcess(tmp_path, settings, open_files_max=LIMIT) as node:
        assert node.stop() == 0
    assert "max_connections of tcp:default cannot be reached: 160 files may be open" in node.log.read_text()
