"""Probes of what decides who may do what, of limits of the whole node, and of clients that do not read."""

from collections.abc import AsyncIterator

from heliograph.access.bans.ban_table import Ban
from heliograph.broker.actions import Action
from heliograph.broker.client import ClientInfo
from heliograph.broker.hook_order import PLUGINS
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.clock import uptime_us
from heliograph.node.statistics import DisconnectsPart
from live_settings.table import World, probe, probe_text, zoned_probe_text
from support.running import MqttClient
from support.waiting import until


@probe("authorization.no_match", "deny")
async def no_match(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    assert await client.subscribe("t") == 0
    yield
    assert await client.subscribe("u") == rc.NOT_AUTHORIZED


@probe_text("authorization.deny_action", "authorization { no_match = deny, deny_action = disconnect }")
async def deny_action(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await client.publish("t", b"x")
    disconnect = await client.until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.NOT_AUTHORIZED


@probe("authorization.check_retained_source", "true")
async def check_retained_source(world: World) -> AsyncIterator[None]:
    hooks = world.running.node.broker.hooks

    def deny(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        return "stop", "deny" if action.kind == "publish" and topic == "kept" else decision

    client = await world.connect()
    await client.publish("kept", b"x", 1, retain=True)
    hooks.client_authorize.add(deny, PLUGINS)
    await client.subscribe("kept")
    assert await client.payloads() == [b"x"]
    yield
    await client.subscribe("kept")
    assert await client.payloads() == []
    hooks.client_authorize.remove(deny)
    await client.publish("kept", b"", 1, retain=True)


async def _asked(world: World, topics: tuple[str, ...]) -> AsyncIterator[int]:
    """How often callbacks are asked about these publishes of one client, before and after the change."""
    hooks, asked = world.running.node.broker.hooks, 0

    def count(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        nonlocal asked
        asked += 1
        return "ok", decision

    hooks.client_authorize.add(count, PLUGINS)
    client = await world.connect()
    try:
        while True:
            asked = 0
            for topic in topics:
                await client.publish(topic, b"x", 1)
            yield asked
    finally:
        hooks.client_authorize.remove(count)


@probe("authorization.cache.enable", "false")
async def cache_enable(world: World) -> AsyncIterator[None]:
    asked = _asked(world, ("a", "b", "a", "b"))
    assert await anext(asked) == 2
    yield
    assert await anext(asked) == 4


@probe("authorization.cache.max_size", "1")
async def cache_max_size(world: World) -> AsyncIterator[None]:
    asked = _asked(world, ("a", "b", "a", "b"))
    assert await anext(asked) == 2
    yield
    assert await anext(asked) == 4


@probe("authorization.cache.ttl", "1ms")
async def cache_ttl(world: World) -> AsyncIterator[None]:
    asked = _asked(world, ("a",) * 200)
    assert await anext(asked) == 1
    yield
    assert await anext(asked) > 1


@probe("authorization.cache.excludes", '["a", "x/#"]')
async def cache_excludes(world: World) -> AsyncIterator[None]:
    asked = _asked(world, ("a", "b", "a", "b"))
    assert await anext(asked) == 2
    yield
    assert await anext(asked) == 3


@probe("authorization.check_deliveries", "true")
async def check_deliveries(world: World) -> AsyncIterator[None]:
    hooks = world.running.node.broker.hooks

    def deny(client: ClientInfo, action: Action, topic: str, decision: object) -> object:
        return "stop", "deny" if action.kind == "subscribe" and topic == "in/secret" else decision

    hooks.client_authorize.add(deny, PLUGINS)
    client = await world.connect()
    await client.subscribe("in/+")
    await client.publish("in/secret", b"before")
    assert await client.payloads() == [b"before"]
    yield
    await client.publish("in/secret", b"after")
    assert await client.payloads() == []
    hooks.client_authorize.remove(deny)


@probe("broker.route_cache_size", "1")
async def route_cache_size(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    for topic in "abc":
        await client.publish(topic, b"", 1)
    assert world.number("routes.cached") > 1
    yield
    for topic in "abc":
        await client.publish(topic, b"", 1)
    assert world.number("routes.cached") == 1


@probe("broker.max_disconnected_sessions", "1")
async def max_disconnected_sessions(world: World) -> AsyncIterator[None]:
    await (await world.connect("first", session_expiry_interval=60)).leave()
    yield
    client = await world.open()
    client.send_connect("another", session_expiry_interval=60)
    assert (await client.take(p.Connack)).code == rc.QUOTA_EXCEEDED


@probe("broker.disconnect_history_size", "1")
async def disconnect_history_size(world: World) -> AsyncIterator[None]:
    history = world.running.node.parts.get(DisconnectsPart).history
    for name in ("first", "second"):
        await (await world.connect(name)).leave()
    await until(lambda: len(history) > 1)
    yield
    assert len(history) == 1


@probe("node.max_clock_jump", "2s")
async def max_clock_jump(world: World) -> AsyncIterator[None]:
    clock = world.running.node.broker.clock
    yield
    now = uptime_us()
    before = int(clock.at(now))
    clock.look(now, before + 10_000_000)
    assert int(clock.at(now)) == before


@probe("sys_topics.allow_publish", "true")
async def allow_publish(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    assert await client.publish("$SYS/x", b"", 1) == rc.NOT_AUTHORIZED
    yield
    assert await client.publish("$SYS/x", b"", 1) == rc.NO_MATCHING_SUBSCRIBERS


@probe("banned.max_entries", "1")
async def max_entries(world: World) -> AsyncIterator[None]:
    bans = world.running.bans
    assert bans.add(Ban("clientid", "bad"))
    yield
    assert not bans.add(Ban("clientid", "worse"))
    client = await world.open()
    client.send_connect("bad")
    assert (await client.take(p.Connack)).code == rc.BANNED
    assert bans.remove("clientid", "bad")


@probe_text("banned.bootstrap_file", 'banned.bootstrap_file = "DIRECTORY/bans.csv"')
async def bootstrap_file(world: World) -> AsyncIterator[None]:
    (world.directory / "bans.csv").write_text("as,who\nclientid,probe\n")
    yield
    client = await world.open()
    client.send_connect("probe")
    assert (await client.take(p.Connack)).code == rc.BANNED


async def _stuck(world: World) -> MqttClient:
    """A client that asks much and reads nothing."""
    client = await world.connect("stuck")
    await client.subscribe("flood")
    client.is_reading.clear()
    sender = await world.connect("sender")
    for _ in range(200):
        await sender.publish("flood", b"x" * 100_000)
    await sender.ping()
    client.send_bytes(b"\xc0\x00" * 10)
    await sender.ping()
    return client


async def _until_cut(world: World, before: float) -> None:
    counters = world.running.node.broker.counters
    await world.until(lambda: counters.connections_cut > int(before))


@zoned_probe_text("force_shutdown.max_heap_size", "max_heap_size = 64KB")
async def max_heap_size(world: World) -> AsyncIterator[None]:
    before = world.number("connections.force_shutdown")
    await _stuck(world)
    yield
    await _until_cut(world, before)


@zoned_probe_text("force_shutdown.max_mailbox_size", "max_mailbox_size = 1")
async def max_mailbox_size(world: World) -> AsyncIterator[None]:
    before = world.number("connections.force_shutdown")
    await _stuck(world)
    yield
    await _until_cut(world, before)


@probe_text(
    "force_shutdown.enable", "force_shutdown { enable = false, max_heap_size = 64KB }\nmqtt.idle_timeout = 1200ms"
)
async def force_shutdown(world: World) -> AsyncIterator[None]:
    before = world.number("connections.force_shutdown")
    yield
    client = await _stuck(world)
    await (await world.open()).until_closed()
    assert world.number("connections.force_shutdown") == before
    client.is_reading.set()
    await client.ping()
