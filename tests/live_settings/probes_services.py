"""Probes of the services behind the kernel: retained and delayed messages, events, memory."""

import asyncio
from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.message_ways import MessageWaysPart
from heliograph.node.statistics import SlowSubscriptionsPart, TopicMetricsPart
from live_settings.table import Run, World, probe, probe_text
from support.packets import properties


async def _retained(world: World, *payloads: bytes) -> list[bytes]:
    """What of some retained messages, each to a topic of its own, a new subscriber gets."""
    publisher, receiver = await world.connect("publisher"), await world.connect("receiver")
    for number, payload in enumerate(payloads):
        await publisher.publish(f"retained/{number}", payload, 1, retain=True)
    await receiver.subscribe("retained/#")
    found = await receiver.payloads()
    for number in range(len(payloads)):
        await publisher.publish(f"retained/{number}", b"", 1, retain=True)
    return found


def _retains(*expected: bytes, of: tuple[bytes, ...]) -> Run:
    async def run(world: World) -> AsyncIterator[None]:
        assert await _retained(world, *of) == list(of)
        yield
        assert await _retained(world, *of) == list(expected)

    return run


LARGE = b"x" * 4096
probe("retainer.enable", "false")(_retains(of=(b"a",)))
probe("retainer.max_payload_size", "1")(_retains(b"a", of=(b"a", b"bb")))
probe("retainer.max_publish_rate", '"1/1h"')(_retains(b"a", of=(b"a", b"b")))
probe("retainer.delivery_rate", '"1/1h"')(_retains(b"a", of=(b"a", b"b")))
probe("retainer.flow_control.batch_read_number", "1")(_retains(b"a", b"b", of=(b"a", b"b")))
probe("retainer.flow_control.batch_deliver_number", "1")(_retains(b"a", b"b", of=(b"a", b"b")))
probe("retainer.backend.max_retained_bytes", "2KB")(_retains(b"b", of=(LARGE, b"b")))
for _database in ("retained", "delayed", "sessions", "shared_groups"):
    _settings = f"durable_storage.{_database} {{ fsync = false, max_buffered_bytes = 64KB }}"
    probe_text(f"durable_storage.{_database}", _settings)(_retains(b"a", of=(b"a",)))


@probe("retainer.msg_expiry_interval", "1ms")
@probe("retainer.msg_expiry_interval_override", "1ms")
async def expiry(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.publish("expiring", b"x", 1, retain=True)
    yield
    await client.subscribe("expiring")
    assert await client.payloads() == [b"x"]  # it keeps the expiry that it had
    await client.publish("expiring", b"x", 1, retain=True)
    while await client.payloads():
        await client.subscribe("expiring")


@probe("retainer.backend.max_retained_messages", "1")
async def max_retained_messages(world: World) -> AsyncIterator[None]:
    assert await _retained(world, b"a", b"b") == [b"a", b"b"]
    yield
    assert len(await _retained(world, b"a", b"b")) < 2  # the node may retain what it says of itself


@probe("retainer.stop_publish_clear_msg", "true")
async def stop_publish_clear_msg(world: World) -> AsyncIterator[None]:
    publisher, receiver = await world.connect("publisher"), await world.connect("receiver")
    await receiver.subscribe("t")
    await publisher.publish("t", b"", 1, retain=True)
    assert await receiver.payloads() == [b""]
    yield
    await publisher.publish("t", b"", 1, retain=True)
    assert await receiver.payloads() == []


@probe("delayed.enable", "false")
async def delayed_enable(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("$delayed/#")
    await client.publish("$delayed/3600/t", b"x", 1)
    assert await client.payloads() == []
    yield
    await client.publish("$delayed/3600/t", b"x", 1)
    assert await client.payloads() == [b"x"]


@probe("delayed.max_delayed_messages", "1")
@probe("delayed.max_delayed_bytes", "1KB")
async def max_delayed(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    for _ in range(2):
        assert await client.publish("$delayed/3600/t", b"", 1) != rc.QUOTA_EXCEEDED
    yield
    assert await client.publish("$delayed/3600/t", b"", 1) == rc.QUOTA_EXCEEDED


def _comes(topic: str) -> Run:
    """A message of the broker's own comes at another pace."""

    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        await client.subscribe(topic)
        await client.payloads()
        yield
        for _ in range(3):  # the first round is at once, the others at the new pace
            await client.take(p.Publish)

    return run


async def _is_slow(world: World) -> bool:
    """Whether a receiver that acknowledges later than in the turn of the publish is listed as slow."""
    publisher, receiver = await world.connect("publisher"), await world.connect("receiver")
    await receiver.subscribe("slow", 1)
    await publisher.publish("slow", b"x", 1)
    packet = await receiver.take(p.Publish)
    await asyncio.sleep(0.01)  # what makes it slow
    receiver.acknowledge(packet)
    await receiver.ping()
    return len(world.running.node.parts.get(SlowSubscriptionsPart).found) > 0


@probe_text(
    "slow_subs",
    "slow_subs { enable = true, threshold = 5ms, expire_interval = 1m, top_k_num = 1, stats_type = response }",
)
async def slow_subs(world: World) -> AsyncIterator[None]:
    assert not await _is_slow(world)
    yield
    assert await _is_slow(world)


@probe_text(
    "diagnose.messages",
    'diagnose.messages { enable = true, topics = ["followed/#"], clients = [publisher], rate = "100/1m", '
    "settle_time = 30s, retention = 2h, max_bytes = 16MB, max_memory = 8MB }",
)
async def message_ways(world: World) -> AsyncIterator[None]:
    part = world.running.node.parts.get(MessageWaysPart)
    publisher, other = await world.connect("publisher"), await world.connect("other")
    await publisher.publish("followed/1", b"x", 1)
    recorded = {one.name: one.value for one in part.samples()}["message_ways.recorded"]
    yield
    for client, topic in ((publisher, "followed/1"), (publisher, "another"), (other, "followed/1")):
        await client.publish(topic, b"x", 1)
    await world.running.change()  # which has all that is under way written
    assert {one.name: one.value for one in part.samples()}["message_ways.recorded"] == recorded + 1


@probe_text("topic_metrics", 'topic_metrics = [{ topic = "counted" }]')
async def topic_metrics(world: World) -> AsyncIterator[None]:
    counted = world.running.node.parts.get(TopicMetricsPart).counted
    publisher = await world.connect("publisher")
    await publisher.publish("counted", b"x", 1)
    assert list(counted) == []
    yield
    await publisher.publish("counted", b"x", 1)
    assert [one.counts[0] for one in counted] == [1]


probe("sys_topics.sys_msg_interval", "1s")(_comes("$SYS/brokers/+/version"))
probe("sys_topics.sys_heartbeat_interval", "1s")(_comes("$SYS/brokers/+/uptime"))


@probe("sys_topics.allow_publish", "true")
async def allow_publish(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("$SYS/mine")
    await client.publish("$SYS/mine", b"x", 1)
    yield
    await client.publish("$SYS/mine", b"x", 1)
    assert await client.payloads() == [b"x"]


async def _make_every_event(world: World) -> None:
    """A client comes, subscribes, gets and acknowledges a message, loses one, has one without receiver, and leaves."""
    client = await world.connect("actor")
    entries = [p.SubscribeEntry("mine", 1, False, False, 0), p.SubscribeEntry("own", 1, True, False, 0)]
    client.send(p.Subscribe(1, entries, properties()))
    await client.take(p.Suback)
    await client.publish("mine", b"x", 1)
    client.acknowledge(await client.take(p.Publish))
    await client.publish("own", b"x", 1)
    await client.publish("nowhere", b"x", 1)
    client.send(p.Unsubscribe(2, ["mine"], properties()))
    await client.ping()
    await client.leave()


def _events(topic: str, *, are_default: bool = False) -> Run:
    async def run(world: World) -> AsyncIterator[None]:
        client = await world.connect()
        world.running.client("probe").is_superuser = True  # no others get events of clients
        await client.subscribe(topic)
        await _make_every_event(world)
        assert len(await client.payloads()) == are_default
        yield
        await _make_every_event(world)
        assert bool(await client.payloads()) is not are_default

    return run


for _event in ("connected", "disconnected", "subscribed", "unsubscribed"):
    _default = _event.endswith("connected")
    probe(f"sys_topics.sys_event_messages.client_{_event}", "false" if _default else "true")(
        _events(f"$SYS/brokers/+/clients/actor/{_event}", are_default=_default)
    )
for _event in (
    *("client_connected", "client_disconnected", "session_subscribed", "session_unsubscribed"),
    *("message_delivered", "message_acked", "message_dropped", "delivery_dropped"),
):
    probe(f"event_message.{_event}", "true")(_events(f"$events/{_event}"))


@probe("node.memory_limit", "64MB")
async def memory_limit(world: World) -> AsyncIterator[None]:
    yield  # the process that runs the tests has more
    client = await world.open()
    client.send_connect("probe")
    assert (await client.take(p.Connack)).code == rc.QUOTA_EXCEEDED
