"""Probes of policies: rewriting, automatic subscriptions, and clients that come and go."""

import time
from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from live_settings.table import Run, World, probe, probe_text, zoned_probe_text


@probe("rewrite", '[{ action = publish, source_topic = "in/#", re = "^in/(.+)$", dest_topic = "out/$1" }]')
async def rewrite(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("out/#")
    assert await client.publish("in/a", b"before", 1) == rc.NO_MATCHING_SUBSCRIBERS
    yield
    await client.publish("in/a", b"x", 1)
    assert await client.payloads() == [b"x"]


@probe("auto_subscribe.topics", '[{ topic = "own/${clientid}", qos = 1, rh = 2, rap = 1, nl = 1 }]')
async def auto_subscribe(world: World) -> AsyncIterator[None]:
    sender, before = await world.connect("sender"), await world.connect("before")
    await sender.publish("own/probe", b"retained", 1, retain=True)
    yield
    client = await world.connect()
    await client.publish("own/probe", b"its own", 1)
    await sender.publish("own/probe", b"x", 2, retain=True)
    message = await client.take(p.Publish)
    assert (message.payload, message.qos, message.retain) == (b"x", 1, True)
    assert await client.payloads() == []
    await sender.publish("own/before", b"x", 1)
    assert await before.payloads() == []
    await sender.publish("own/probe", b"", 1, retain=True)


def _flapping(said: str, comes: int, code: int) -> Run:
    """A probe whose client comes so often, and is answered with this code then."""

    async def run(world: World) -> AsyncIterator[None]:
        yield
        name = f"comes-{world.listener}-{comes}-{said}"
        for _ in range(comes):
            await (await world.connect(name)).leave()
        client = await world.open()
        client.send_connect(name)
        assert (await client.take(p.Connack)).code == code
        world.running.bans.remove("clientid", name)

    return run


zoned_probe_text("flapping_detect.enable", "enable = true, max_count = 2")(_flapping("on", 2, rc.BANNED))
zoned_probe_text("flapping_detect.max_count", "enable = true, max_count = 3")(_flapping("few", 1, rc.SUCCESS))
zoned_probe_text("flapping_detect.max_count", "enable = true, max_count = 3")(_flapping("count", 3, rc.BANNED))


@probe_text(
    "flapping_detect.window_time",
    "flapping_detect { enable = true, max_count = 2, window_time = 1s }\nmqtt.idle_timeout = 1200ms",
)
async def window_time(world: World) -> AsyncIterator[None]:
    yield
    await (await world.connect("seldom")).leave()
    await (await world.open()).until_closed()
    await world.connect("seldom")


@zoned_probe_text("flapping_detect.ban_time", "enable = true, max_count = 1, ban_time = 1h")
async def ban_time(world: World) -> AsyncIterator[None]:
    yield
    name = f"banned-{world.listener}"
    disconnect = await (await world.connect(name)).until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.ADMINISTRATIVE_ACTION
    bans = world.running.bans
    ban = bans.find("clientid", name)
    assert ban is not None
    assert ban.until_s is not None
    assert ban.until_s - time.time() > 3000  # it is 5 minutes by default
    bans.remove("clientid", name)
