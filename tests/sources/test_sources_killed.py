"""Node and process of sources killed while messages come in: what the far side has acknowledged is here, in order."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

import pytest

from heliograph.mqtt import packets as p
from support.mosquitto import free_port, mosquitto
from support.process import NodeProcess
from support.running import MqttClient
from support.sources import process_of
from support.waiting import until

pytestmark = [pytest.mark.service, pytest.mark.slow]

COUNT: Final = 3000
SETTINGS: Final = """
durable_storage.messages.topics = ["in/#"]
durable_sessions.enable = true
connectors.mqtt.far { server = "127.0.0.1:PORT", proto_ver = VERSION, max_inflight = 100 }
sources.mqtt.one { connector = far, parameters.topic = "a", local.topic = "in/${topic}" }
"""


async def reader_of(port: int, *, is_new: bool) -> MqttClient:
    """A client whose session outlives its connections and the node."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), p.V5)
    client.send_connect("reader", clean_start=is_new, session_expiry_interval=3600)
    assert (await client.take(p.Connack)).code == 0
    return client


@pytest.mark.parametrize("version", ["v4", "v5"])
async def test_nothing_is_lost_and_the_order_is_kept(tmp_path: Path, version: str) -> None:
    port = free_port()
    with (
        mosquitto(tmp_path, f"listener {port} 127.0.0.1\n"),
        NodeProcess(tmp_path, SETTINGS.replace("PORT", str(port)).replace("VERSION", version)) as node,
    ):
        reader = await reader_of(node.port, is_new=True)
        await reader.subscribe("in/#", 1)
        command = ("mosquitto_pub", "-p", str(port), "-t", "a", "-q", "1", "-l")
        publisher = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
        assert publisher.stdin is not None
        await until(lambda: (tmp_path / "data" / "sources" / "sessions.json").exists(), 60)
        found: list[int] = []

        async def take(until_number: int) -> None:
            while not found or found[-1] < until_number:
                packet = await reader.take(p.Publish)
                reader.acknowledge(packet)
                found.append(int(packet.payload))

        for number in range(COUNT):
            publisher.stdin.write(b"%d\n" % number)
            if number == COUNT // 3:
                await take(number // 2)
                os.kill(process_of(tmp_path), signal.SIGKILL)
            elif number == 2 * COUNT // 3:
                await take(number // 2)
                await asyncio.to_thread(node.kill)
                reader.close()
                await asyncio.to_thread(node.start)
                reader = await reader_of(node.port, is_new=False)
        publisher.stdin.close()
        assert await publisher.wait() == 0
        await take(COUNT - 1)
        assert list(dict.fromkeys(found)) == list(range(COUNT))
        reader.close()
        await reader.until_closed()
