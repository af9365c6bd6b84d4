"""Probes of what the root and zones say in `mqtt` of sessions: their windows, queues and ends."""

from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from live_settings.table import World, zoned_probe, zoned_probe_text
from support.running import MqttClient


async def _away(world: World, topic_filter: str = "t/#") -> None:
    """A client that is away with a subscription."""
    client = await world.connect("away", session_expiry_interval=60)
    await client.subscribe(topic_filter, 1)
    await client.leave()


async def _back(world: World) -> MqttClient:
    return await world.connect("away", clean_start=False)


@zoned_probe("mqtt.retry_interval", "1s")
async def retry_interval(world: World) -> AsyncIterator[None]:
    client = await world.connect(version=p.V3_1_1)
    await client.subscribe("t", 1)
    await client.publish("t", b"x", 1)
    first = await client.take(p.Publish)
    yield
    again = await client.take(p.Publish)
    assert (again.packet_id, again.dup) == (first.packet_id, True)


@zoned_probe("mqtt.max_inflight", "1")
async def max_inflight(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("t", 1)
    yield
    for number in range(3):
        await client.publish("t", str(number).encode(), 1)
    first = await client.take(p.Publish)
    assert await client.payloads() == []
    client.acknowledge(first)
    assert await client.payloads() == [b"1"]


@zoned_probe("mqtt.max_mqueue_len", "1")
async def max_mqueue_len(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    for number in range(3):
        await publisher.publish("t", str(number).encode(), 1)
    dropped = world.number("delivery.dropped.queue_full")
    yield
    assert await (await _back(world)).payloads() == [b"2"]
    assert world.number("delivery.dropped.queue_full") == dropped + 2


@zoned_probe("mqtt.max_mqueue_bytes", "2KB")
async def max_mqueue_bytes(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    for number in range(3):
        await publisher.publish("t", str(number).encode() * 900, 1)
    yield
    assert await (await _back(world)).payloads() == [b"2" * 900]


@zoned_probe("mqtt.mqueue_priorities", '{ "t/high" = 9 }')
async def mqueue_priorities(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    for topic in ("t/low", "t/high"):
        await publisher.publish(topic, topic.encode(), 1)
    yield
    assert await (await _back(world)).payloads() == [b"t/high", b"t/low"]


@zoned_probe_text(
    "mqtt.mqueue_default_priority", 'mqueue_priorities = { "t/low" = 9 }, mqueue_default_priority = highest'
)
async def mqueue_default_priority(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    for topic in ("t/low", "t/other"):
        await publisher.publish(topic, topic.encode(), 1)
    yield
    assert await (await _back(world)).payloads() == [b"t/other", b"t/low"]


@zoned_probe("mqtt.mqueue_store_qos0", "false")
async def mqueue_store_qos0(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    await publisher.publish("t", b"0")
    await publisher.publish("t", b"1", 1)
    yield
    assert await (await _back(world)).payloads() == [b"1"]


@zoned_probe("mqtt.max_awaiting_rel", "1")
async def max_awaiting_rel(world: World) -> AsyncIterator[None]:
    told, other = await world.connect("told"), await world.connect(version=p.V3_1_1)
    yield
    await other.publish("t", b"", 2)
    other.send_bytes(b"\x34\x05\x00\x01t\x00\x09")
    await other.until_closed()
    for _ in range(2):
        await told.publish("t", b"", 2)


@zoned_probe_text("mqtt.await_rel_timeout", "max_awaiting_rel = 1, await_rel_timeout = 1ms, idle_timeout = 100ms")
async def await_rel_timeout(world: World) -> AsyncIterator[None]:
    client = await world.connect(version=p.V3_1_1)
    yield
    await client.publish("t", b"", 2)
    await (await world.open()).until_closed()
    await client.publish("t", b"", 2)


@zoned_probe_text("mqtt.message_expiry_interval", "message_expiry_interval = 1s, idle_timeout = 1200ms")
async def message_expiry_interval(world: World) -> AsyncIterator[None]:
    await _away(world)
    publisher = await world.connect()
    await publisher.publish("t", b"before", 1)
    yield
    await publisher.publish("t", b"x", 1)
    await (await world.open()).until_closed()
    assert await (await _back(world)).payloads() == [b"before"]


@zoned_probe("mqtt.session_expiry_interval", "0s")
async def session_expiry_interval(world: World) -> AsyncIterator[None]:
    yield
    await (await world.connect("three", version=p.V3_1_1, clean_start=False)).leave()
    client = await world.open(version=p.V3_1_1)
    client.send_connect("three", clean_start=False)
    assert not (await client.take(p.Connack)).session_present
