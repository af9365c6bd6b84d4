"""The services of a node that runs as its own process, as real clients and its operator see them."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import aiomqtt
import pytest

from support.process import NodeProcess

pytestmark = pytest.mark.service

WAIT_S = 60.0  # beyond which it does not come; for a machine that is slow

SETTINGS = """
durable_storage { flight.enable = false, messages.topics = [] }
sys_topics { sys_msg_interval = 1s, sys_heartbeat_interval = 1s }
event_message { client_connected = true, message_dropped = true }
auto_subscribe.topics = [{ topic = "inbox/${clientid}", qos = 1 }]
rewrite = [{ action = publish, source_topic = "old/#", re = "^old/(.+)$", dest_topic = "inbox/$1" }]
"""


async def heard_by(client: aiomqtt.Client, *topics: str) -> dict[str, bytes]:
    """The first message of each of these topics."""
    found: dict[str, bytes] = {}
    async with asyncio.timeout(WAIT_S):
        async for message in client.messages:
            assert isinstance(message.payload, bytes)
            found.setdefault(str(message.topic), message.payload)
            if found.keys() >= set(topics):
                break
    return found


@pytest.mark.slow
async def test_a_node_with_every_service(tmp_path: Path) -> None:
    rules = tmp_path / "acl.conf"
    rules.write_text('{allow, {client, "dev"}, subscribe, ["$events/#", "$SYS/#"]}.')
    sources = f'authorization.sources = [{{ type = file, path = "{rules}" }}]\n'
    bans = tmp_path / "banned.csv"
    bans.write_text("as,who\nclientid,bad\n")
    with NodeProcess(tmp_path, SETTINGS + sources + f'banned.bootstrap_file = "{bans}"') as node:
        async with aiomqtt.Client("127.0.0.1", node.port, identifier="dev") as client:
            await client.subscribe("$SYS/#")
            await client.subscribe("$events/#")
            await client.subscribe("later")
            prefix = "$SYS/brokers/heliograph@127.0.0.1/"
            async with aiomqtt.Client("127.0.0.1", node.port, identifier="other") as other:
                await other.publish("$delayed/1/later", b"now")
                await other.publish("old/dev", b"hello", qos=1)
                await other.publish("nobody", b"x", qos=1)
            heard = await heard_by(
                client,
                "later",
                "inbox/dev",
                "$events/client_connected",
                "$events/message_dropped",
                "$SYS/brokers",
                prefix + "clients/other/connected",
                prefix + "clients/other/disconnected",
                prefix + "uptime",
                prefix + "stats/connections/count",
                prefix + "metrics/packets/publish/received",
            )
        assert heard["later"] == b"now"
        assert heard["inbox/dev"] == b"hello"
        assert json.loads(heard["$events/client_connected"])["clientid"] == "other"
        assert json.loads(heard["$events/message_dropped"])["topic"] == "nobody"
        assert heard["$SYS/brokers"] == b"heliograph@127.0.0.1"
        assert json.loads(heard[prefix + "clients/other/disconnected"])["reason"] == "normal"
        with pytest.raises(aiomqtt.MqttError, match=r"(?i)banned|not authori[sz]ed"):
            async with aiomqtt.Client("127.0.0.1", node.port, identifier="bad"):
                pass
        assert node.stop() == 0
    assert "bans from " in node.log.read_text()


def test_a_file_of_bans_with_a_mistake_keeps_the_node_from_starting(tmp_path: Path) -> None:
    (tmp_path / "banned.csv").write_text("as,who\npeerhost,here\n")
    config = tmp_path / "node.conf"
    config.write_text(f'listeners.tcp.default.bind = "127.0.0.1:0"\nbanned.bootstrap_file = "{tmp_path}/banned.csv"\n')
    command = [sys.executable, "-m", "heliograph.cli.main", "start", "--config", str(config)]
    done = subprocess.run(
        [*command, "--data-dir", str(tmp_path / "data")], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert "[banned_bootstrap_file]" in done.stderr
    assert "banned.csv:2: 'here' is no address" in done.stderr
    assert "Traceback" not in done.stderr
