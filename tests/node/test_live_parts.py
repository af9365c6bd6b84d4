"""Parts behind the kernel change while the node runs, and clients see it: retainer, delayed, storage, events, rules."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.packets import say
from support.running import MqttClient, RunningNode

OPEN = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'

pytestmark = pytest.mark.service

RETAINER_OFF = "retainer.enable = false\n"


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[RunningNode]:
    """A node that keeps nothing but what a test switches on."""
    async with RunningNode(tmp_path, OPEN, RETAINER_OFF) as running:
        yield running


async def said(client: MqttClient) -> str:
    """The next message, as people read it."""
    return say(await client.take(p.Publish))


async def test_the_retainer_comes_and_goes_and_its_limits_change(running: RunningNode) -> None:
    client = await running.connect("c")
    await client.publish("r/1", b"before", 1, retain=True)
    assert await running.change("")  # on the disk: the databases are opened now
    await client.publish("r/2", b"kept", 1, retain=True)
    assert running.node.statistics()["retained.count"] == 1
    assert await client.subscribe("r/#", 1) == 1
    assert await said(client) == "PUBLISH r/2 'kept' q1 #1 retain"
    assert await running.change("retainer.max_payload_size = 1\nretainer.backend.max_retained_messages = 1\n")
    other = await running.connect("d")
    await other.publish("s/1", b"xx", 1, retain=True)  # too large
    await other.publish("s/2", b"x", 1, retain=True)  # one too many
    assert await other.subscribe("s/#", 1) == 1
    assert await running.change(RETAINER_OFF)
    third = await running.connect("e")
    assert await third.subscribe("r/#", 1) == 1
    assert await running.change("")
    fourth = await running.connect("f")
    assert await fourth.subscribe("r/#", 1) == 1
    assert await said(fourth) == "PUBLISH r/2 'kept' q1 #1 retain"  # what there was is found again
    assert await third.payloads() == await other.payloads() == []


async def test_delayed_messages_come_and_go_and_are_limited(running: RunningNode) -> None:
    client = await running.connect("c")
    assert await running.change("delayed.max_delayed_messages = 1\n")
    assert await client.publish("$delayed/3600/t", b"", 1) != rc.QUOTA_EXCEEDED
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.QUOTA_EXCEEDED
    assert await running.change("delayed.max_delayed_messages = 2\n")
    assert await client.publish("$delayed/3600/t", b"", 1) != rc.QUOTA_EXCEEDED
    assert await running.change("delayed.max_delayed_bytes = 1024\n")
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.QUOTA_EXCEEDED
    assert await running.change("delayed.enable = false\n")
    other = await running.connect("d")
    assert await other.subscribe("$delayed/#", 1) == 1
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.SUCCESS  # a topic like any other
    assert running.node.statistics()["delayed.count"] == 2


async def test_events_begin_and_end_also_for_clients_that_were_connected(running: RunningNode) -> None:
    client = await running.connect("c")
    assert await client.subscribe("$events/#", 1) == 1
    assert await client.subscribe("$SYS/brokers/+/clients/#", 1) == 1
    settings = "event_message.message_dropped = true\nsys_topics.sys_event_messages.client_subscribed = true\n"
    assert await running.change(settings)
    other = await running.connect("e")
    assert "clients/e/connected" in await said(client)
    assert await other.publish("nobody", b"", 1) == rc.NO_MATCHING_SUBSCRIBERS
    assert "$events/message_dropped" in await said(client)
    assert await client.subscribe("more", 1) == 1
    assert "clients/c/subscribed" in await said(client)
    assert await running.change("")
    assert await other.publish("nobody", b"", 1) == rc.NO_MATCHING_SUBSCRIBERS
    assert await other.publish("more", b"next", 1) == rc.SUCCESS
    assert "PUBLISH more 'next'" in await said(client)


async def test_topics_are_stored_and_databases_come_and_go(running: RunningNode) -> None:
    client = await running.connect("c")
    await client.publish("a/1", b"", 1)
    stored = 'durable_storage.messages { topics = ["a/#"], retention = 1d }\n'
    more = 'durable_storage.databases.long { topics = ["a/#", "b/#"], retention = infinity }\n'
    assert await running.change(stored)
    await client.publish("a/1", b"", 1)
    await client.publish("b/1", b"", 1)
    assert running.node.statistics()["storage.messages"] == 1
    assert await running.change(stored + more)
    await client.publish("a/1", b"", 1)
    await client.publish("b/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 2)
    assert await running.change(stored + more.replace("b/#", "c/#") + "durable_storage.messages.fsync = false\n")
    await client.publish("b/1", b"", 1)
    await client.publish("c/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 3)
    assert await running.change("durable_storage.messages.topics = []\n")  # `long` is closed in the background
    await client.publish("a/1", b"", 1)
    assert await running.change(stored + more)  # and opened again when it is
    await client.publish("b/1", b"", 1)
    numbers = running.node.statistics()
    assert (numbers["storage.messages"], numbers["storage.long.messages"]) == (2, 1)


async def test_a_database_that_cannot_be_opened_refuses_the_change(
    running: RunningNode, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await running.change('durable_storage.messages.topics = ["a"]\n')
    (tmp_path / "data" / "storage" / "broken").write_text("no directory")
    assert not await running.change('durable_storage { messages.topics = ["b"], databases.broken.topics = ["c"] }\n')
    client = await running.connect("c")
    await client.publish("a", b"", 1)
    await client.publish("b", b"", 1)
    assert running.node.statistics()["storage.messages"] == 1
    assert running.node.parts.health() == {}
