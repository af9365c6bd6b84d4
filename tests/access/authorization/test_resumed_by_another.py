"""A session that comes back under another user name: what waits for what that user may not have is not sent to it."""

from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.running import MqttClient, RunningNode

NODE = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage.flight.enable = false\n'
IN_MEMORY = "durable_sessions.enable = false\ndurable_storage.messages.topics = []\n"
ON_DISK = "durable_sessions.enable = true\n"
RULES = """
{allow, {username, "boss"}, all, all}.
{allow, {username, "alice"}, all, ["secret/#"]}.
{deny, all, all, ["secret/#"]}.
{allow, all}.
"""


def started(directory: Path, settings: str) -> RunningNode:
    rules = directory / "acl.conf"
    rules.write_text(RULES)
    return RunningNode(
        directory, NODE + settings, f'authorization {{ sources = [ {{ type = file, path = "{rules}" }} ] }}'
    )


async def connected(node: RunningNode, username: str, *, clean_start: bool) -> MqttClient:
    client = await node.open()
    client.send_connect("device", username=username, clean_start=clean_start, session_expiry_interval=1000)
    connack = await client.take(p.Connack)
    assert connack.code == rc.SUCCESS
    assert connack.session_present != clean_start
    return client


async def leave_messages(node: RunningNode, topic_filter: str, qos: int) -> MqttClient:
    """The publisher, after it published a message that alice did not acknowledge and another that waits for her."""
    boss = await node.connect("boss", username="boss")
    alice = await connected(node, "alice", clean_start=True)
    assert await alice.subscribe(topic_filter, qos) == qos
    await boss.publish("secret/x", b"sent", qos)
    await alice.take(p.Publish)
    await alice.leave()
    await boss.publish("secret/x", b"waiting", qos)
    return boss


@pytest.mark.parametrize("settings", [IN_MEMORY, ON_DISK])
@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("topic_filter", ["secret/x", "secret/#", "$share/g/secret/+"])
async def test_it_gets_nothing_of_subscriptions_that_it_loses(
    tmp_path: Path, settings: str, qos: int, topic_filter: str
) -> None:
    async with started(tmp_path, settings) as node:
        boss = await leave_messages(node, topic_filter, qos)
        other = await connected(node, "mallory", clean_start=False)
        assert await other.payloads() == []
        assert await other.subscribe("open", 1) == 1
        await boss.publish("open", b"open", 1)
        assert (await other.take(p.Publish)).payload == b"open"


@pytest.mark.parametrize("settings", [IN_MEMORY, ON_DISK])
async def test_the_same_user_gets_all_of_it(tmp_path: Path, settings: str) -> None:
    async with started(tmp_path, settings) as node:
        await leave_messages(node, "secret/#", 1)
        again = await connected(node, "alice", clean_start=False)
        assert [(await again.take(p.Publish)).payload for _ in range(2)] == [b"sent", b"waiting"]


@pytest.mark.parametrize("qos", [1, 2])
async def test_nor_after_a_restart(tmp_path: Path, qos: int) -> None:
    async with started(tmp_path, ON_DISK) as node:
        await leave_messages(node, "secret/#", qos)
    async with started(tmp_path, ON_DISK) as node:
        other = await connected(node, "mallory", clean_start=False)
        assert await other.payloads() == []
