"""Attacks on the broker's memory: each makes it keep much for few bytes. `soak` has all of them at once."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Final

from attack.client import Client
from attack.frame import World, attack
from heliograph.mqtt import packets as p
from support.packets import publish

_EVER_S = 0xFFFFFFFF
_GROWTH_MIB = 400.0
LIMIT: Final = "node.memory_limit = 512MB"

Flood = Callable[[World, str], Coroutine[None, None, None]]


async def _subscriptions(world: World, name: str) -> None:
    client = await world.client(name)
    for first in itertools.count(step=1000):
        await client.subscribe([f"{name}/{number:012d}" for number in range(first, first + 1000)])


async def _durable_subscriptions(world: World, name: str) -> None:
    client = await world.client(name, expiry_s=_EVER_S)
    for first in itertools.count(step=1000):
        await client.subscribe([f"{name}/{number:012d}" for number in range(first, first + 1000)], 1)


async def _shared_groups(world: World, name: str) -> None:
    for number in itertools.count():
        client = await world.client(f"{name}-{number}", expiry_s=_EVER_S)
        await client.subscribe([f"$share/{name}{number}-{group}/t/#" for group in range(1000)], 1)


async def _delayed(world: World, name: str) -> None:
    await world.flood(await world.client(name), data=publish(f"$delayed/3600/{name}", bytes(1000)).data * 200)


async def _retained(world: World, name: str) -> None:
    client = await world.client(name)
    for first in itertools.count(step=200):
        data = b"".join(publish(f"{name}/{at}", bytes(200), retain=True).data for at in range(first, first + 200))
        await client.ask(data + publish("x", b"", 1, 1).data, p.PUBACK)


async def _qos2(world: World, name: str) -> None:
    for number in itertools.count():
        client = await world.client(f"{name}-{number}", expiry_s=_EVER_S)
        client.send(b"".join(publish("q", b"", 2, packet_id).data for packet_id in range(1, 1001)))
        await asyncio.sleep(0.02)  # the pace of the attack


async def _sessions(world: World, name: str) -> None:
    for number in itertools.count():
        client = await Client.connect(world.port, f"{name}-{number}", expiry_s=_EVER_S)
        await client.subscribe(["$not/stored"])
        await client.close()


async def _aliases(world: World, name: str) -> None:
    client = await world.client(name)
    for alias in range(1, 65_536):
        client.send(publish(f"{name}/{alias}/" + "x" * 200, b"", topic_alias=alias).data)
        if alias % 200 == 0:
            await asyncio.sleep(0.01)  # the pace of the attack


async def _silent_readers(world: World, name: str) -> None:
    readers = await world.crowd(name, 30, name, 0)
    for reader in readers:
        reader.stop_reading()
    await world.flood(await world.client(f"{name}-pub"), data=publish(name, bytes(100_000)).data)


async def _half_packets(world: World, name: str) -> None:
    for number in range(400):
        client = await world.client(f"{name}-{number}")
        client.send(publish(name, bytes(1_000_000)).data[:900_000])
        await asyncio.sleep(0.02)  # the pace of the attack


FLOODS: Final[tuple[Flood, ...]] = (
    _subscriptions,
    _durable_subscriptions,
    _shared_groups,
    _delayed,
    _retained,
    _qos2,
    _sessions,
    _aliases,
    _silent_readers,
    _half_packets,
)


async def go_on(world: World, flood: Flood) -> None:
    """One of them, as another client again and again: the broker refuses and closes."""
    for number in itertools.count():
        with contextlib.suppress(ConnectionError):
            await flood(world, f"{flood.__name__[1:]}{number}")
        await asyncio.sleep(0.1)  # the pace of the attack


@attack("every memory attack at once", settings=LIMIT, p99_ms_max=500.0, growth_mib_max=_GROWTH_MIB)
async def memory_soak(world: World) -> AsyncIterator[None]:
    yield
    await asyncio.gather(*[go_on(world, flood) for flood in FLOODS])
