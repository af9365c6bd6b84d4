"""Attacks that prepare much work for one moment: delayed messages and wills that come due together."""

import asyncio
from collections.abc import AsyncIterator

from attack.frame import World, attack
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.packets import properties, publish

_EVER_S = 0xFFFFFFFF


@attack("20,000 delayed messages a second that come due together", growth_mib_max=512)
async def delayed(world: World) -> AsyncIterator[None]:
    publisher = await world.client("publisher")
    burst = publish("$delayed/1/late/t", b"x" * 16).data * world.size(20_000, 4_000)
    yield
    while True:
        publisher.send(burst)
        await asyncio.sleep(1.0)  # the pace of the attack


@attack("1,000 durable clients with wills vanish together, again and again")
async def wills(world: World) -> AsyncIterator[None]:
    count = world.size(1_000, 200)
    yield
    while True:
        connections = []
        for number in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", world.port)
            will = p.Will(f"w/{number}", b"gone", 1, False, properties(will_delay_interval=1))
            shown = properties(session_expiry_interval=_EVER_S)
            writer.write(encode_packet(p.Connect(p.V5, f"w{number}", False, 0, will, None, None, shown), p.V5))
            connections.append(writer)
        await asyncio.sleep(0.5)  # the pace of the attack
        for writer in connections:
            writer.transport.abort()
