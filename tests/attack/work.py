"""Attacks on the broker's time: each makes it do much for few bytes."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

from attack.client import Client
from attack.frame import World, attack
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from support.packets import publish

_EVER_S = 0xFFFFFFFF


@attack("PUBLISH of 1 MB that is all empty user properties, again and again")
async def user_properties(world: World) -> AsyncIterator[None]:
    packet = publish("attack/properties", user_property=[("", "")] * 200_000).data
    yield
    while True:  # a broker that refuses it closes the connection
        await world.flood(await world.client("attacker"), data=packet)


@attack("a message to a topic of 17 levels that 2^17 filters match, again and again")
async def plus_explosion(world: World) -> AsyncIterator[None]:
    levels = world.size(17, 14)
    subscriber, publisher = await world.client("subscriber"), await world.client("publisher")
    filters = ["/".join(each) for each in itertools.product("a+", repeat=levels)]
    await subscriber.subscribe(filters)
    yield
    await world.flood(publisher, data=publish("/".join("a" * levels), b"x" * 20).data)


@attack("a durable session with 20,000 subscriptions comes back again and again, one message waits each time")
async def reconnect(world: World) -> AsyncIterator[None]:
    count = world.size(20_000, 5_000)
    owner = await world.client("owner", expiry_s=_EVER_S)
    await owner.subscribe([f"attack/{number}" for number in range(count)], 1)
    publisher = await world.client("publisher")
    yield
    while True:
        await owner.close()
        await publisher.ask(publish("attack/1", b"x", 1, 1).data, p.PUBACK)
        owner = await world.client("owner", clean=False, expiry_s=_EVER_S)
        await asyncio.sleep(0.05)  # the pace of the attack


@attack("QoS 0 messages without payload and without subscribers, from 4 clients as fast as they are taken")
async def empty_messages(world: World) -> AsyncIterator[None]:
    clients = [await world.client(f"attacker-{number}") for number in range(4)]
    yield
    await world.flood(*clients, data=publish("t", b"").data * 10_000)


@attack("empty retained messages to ever new topics, from 4 clients as fast as they are taken")
async def retained(world: World) -> AsyncIterator[None]:
    clients = [await world.client(f"attacker-{number}") for number in range(4)]
    chunks = [
        b"".join(publish(f"r/{number}/{at}", b"x", retain=True).data for at in range(20_000)) for number in range(4)
    ]
    yield
    await asyncio.gather(*[client.flood(chunk) for client, chunk in zip(clients, chunks, strict=True)])


@attack("messages of 1 MB to 50 subscribers that do not read")
async def unread(world: World) -> AsyncIterator[None]:
    for number in range(world.size(50, 20)):
        subscriber = await world.client(f"subscriber-{number}")
        await subscriber.subscribe(["attack/unread"])
        subscriber.stop_reading()
    publisher = await world.client("publisher")
    yield
    await world.flood(publisher, data=publish("attack/unread", b"x" * 1_000_000).data)


@attack("small messages to 3,000 members of one filter, as fast as they are taken")
async def members(world: World) -> AsyncIterator[None]:
    await world.crowd("member", world.size(3_000, 500), "attack/members")
    publisher = await world.client("publisher")
    yield
    await world.flood(publisher, data=publish("attack/members", b"x").data * 100)


@attack("a message to 10,000 members of one filter each 10 ms")
async def members_paced(world: World) -> AsyncIterator[None]:
    await world.crowd("member", world.size(10_000, 1_000), "attack/members")
    publisher = await world.client("publisher")
    yield
    while True:
        publisher.send(publish("attack/members", b"x").data)
        await asyncio.sleep(0.01)  # the pace of the attack


@attack("8 clients that take each other's client id over, again and again")
async def takeover(world: World) -> AsyncIterator[None]:
    yield

    async def fight() -> None:
        while True:
            with contextlib.suppress(ConnectionError):
                client = await Client.connect(world.port, "fighter", clean=False, expiry_s=60)
                await asyncio.sleep(0)
                await client.close()

    await asyncio.gather(*[fight() for _ in range(8)])


@attack("QoS 2 messages to 50 durable sessions that acknowledge nothing, as fast as they are taken")
async def durable_qos2(world: World) -> AsyncIterator[None]:
    await world.crowd("durable", world.size(50, 20), "attack/durable", 2, expiry_s=_EVER_S)
    publisher = await world.client("publisher")
    chunk = b"".join(
        publish("attack/durable", b"x" * 100, 2, at).data + encode_packet(p.Ack(p.PUBREL, at, 0), p.V5)
        for at in range(1, 1000)
    )
    yield
    await world.flood(publisher, data=chunk)


@attack("messages to a topic that 3,000 durable shared groups of one client match")
async def shared_groups(world: World) -> AsyncIterator[None]:
    owner, publisher = await world.client("owner", expiry_s=_EVER_S), await world.client("publisher")
    await owner.subscribe([f"$share/g{number}/t/#" for number in range(world.size(3_000, 500))], 1)
    yield
    await world.flood(publisher, data=publish("t", b"x").data * 10)
