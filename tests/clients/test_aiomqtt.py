"""What an asyncio program with aiomqtt sees."""

import asyncio
from collections.abc import AsyncIterator

import aiomqtt
import pytest
from aiomqtt import ProtocolVersion

pytestmark = pytest.mark.service

WAIT_S = 10.0
both_versions = pytest.mark.parametrize("version", [ProtocolVersion.V311, ProtocolVersion.V5], ids=["v3", "v5"])


async def take(messages: AsyncIterator[aiomqtt.Message], count: int) -> list[aiomqtt.Message]:
    async with asyncio.timeout(WAIT_S):
        return [await anext(messages) for _ in range(count)]


@both_versions
@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_program_hears_what_another_says(
    broker: tuple[str, int], name: str, version: ProtocolVersion, qos: int
) -> None:
    host, port = broker
    async with (
        aiomqtt.Client(host, port, identifier=f"{name}-in", protocol=version) as receiver,
        aiomqtt.Client(host, port, identifier=f"{name}-out", protocol=version) as sender,
    ):
        await receiver.subscribe([(f"{name}/+/temperature", qos), (f"{name}/door/#", qos)])
        for room in ("hall", "attic"):
            await sender.publish(f"{name}/{room}/temperature", f"{room} 21.5", qos)
            await sender.publish(f"{name}/{room}/humidity", "40", qos)
        await sender.publish(f"{name}/door", "open", qos)
        found = await take(receiver.messages, 3)
    assert [(str(message.topic).removeprefix(f"{name}/"), message.payload, message.qos) for message in found] == [
        ("hall/temperature", b"hall 21.5", qos),
        ("attic/temperature", b"attic 21.5", qos),
        ("door", b"open", qos),
    ]


@both_versions
async def test_many_messages_at_once_all_arrive(broker: tuple[str, int], name: str, version: ProtocolVersion) -> None:
    host, port = broker
    async with (
        aiomqtt.Client(host, port, identifier=f"{name}-in", protocol=version) as receiver,
        aiomqtt.Client(host, port, identifier=f"{name}-out", protocol=version) as sender,
    ):
        await receiver.subscribe(f"{name}/#", 1)
        await asyncio.gather(*(sender.publish(f"{name}/{n}", str(n), 1) for n in range(200)))
        found = await take(receiver.messages, 200)
    assert sorted(int(str(message.topic).rsplit("/", 1)[1]) for message in found) == list(range(200))


@both_versions
async def test_a_retained_message_and_a_will(broker: tuple[str, int], name: str, version: ProtocolVersion) -> None:
    host, port = broker
    will = aiomqtt.Will(f"{name}/status", b"offline", qos=1, retain=True)
    client = aiomqtt.Client(host, port, identifier=name, protocol=version, will=will)
    async with aiomqtt.Client(host, port, identifier=f"{name}-watcher", protocol=version) as watcher:
        async with client:
            await client.publish(f"{name}/status", b"online", qos=1, retain=True)
            await watcher.subscribe(f"{name}/status", 1)
            (message,) = await take(watcher.messages, 1)
            assert (message.payload, message.retain) == (b"online", True)
        await watcher.publish(f"{name}/status", b"", qos=1, retain=True)
        (message,) = await take(watcher.messages, 1)
        assert message.payload == b"", "an orderly goodbye publishes no will"
