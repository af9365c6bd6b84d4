"""Events of clients name every client with its user and address: only those get them that a rule allows it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from access.authorization.world import World
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.running import MqttClient

EVENTS = "event_message.client_connected = true\nsys_topics.sys_msg_interval = disabled\n"
RULES = """
{allow, {user, "dash"}, subscribe, ["$SYS/#", "$events/#"]}.
{allow, {user, "one"}, subscribe, ["$SYS/+/+/clients/one/#"]}.
"""


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path, RULES) as node:
        assert await node.change(node.settings(no_match="allow") + EVENTS)
        yield node


async def topics(client: MqttClient) -> list[str]:
    """What came, without the heartbeat."""
    return [one for one in await client.topics() if not one.endswith(("/uptime", "/datetime"))]


@pytest.mark.parametrize("version", [p.V3_1_1, p.V5])
async def test_no_client_subscribes_to_them_that_no_rule_allows_it(world: World, version: int) -> None:
    refused = rc.NOT_AUTHORIZED if version == p.V5 else 0x80
    client = await world.connect("c", username="bob", version=version)
    for one in (
        *("$events/#", "$events/client_connected", "$SYS/+/+/clients/#", "$SYS/brokers/+/clients/+/connected"),
        *("$share/g/$events/#", "$SYS/brokers/n/clients"),
    ):
        assert await client.subscribe(one) == refused, one
    for one in ("$SYS/brokers/+/alarms/#", "$SYS/#", "clients/#", "events/#"):
        assert await client.subscribe(one) == 0, one
    assert world.node.broker.counters.authz_no_match == 9  # the shared filter is remembered
    allowed = await world.connect("d", username="dash", version=version)
    assert await allowed.subscribe("$events/#") == await allowed.subscribe("$SYS/+/+/clients/#") == 0


async def test_a_broader_filter_brings_them_to_those_only_that_a_rule_allows_them(world: World) -> None:
    got: dict[str, list[str]] = {}
    watchers = {name: await world.connect(f"of-{name}", username=name) for name in ("bob", "one", "dash")}
    for client in watchers.values():
        for one in ("$SYS/#", "$SYS/brokers/+/+/#", "$share/g/$SYS/#"):
            assert await client.subscribe(one) == 0
    dropped = world.node.broker.counters.snapshot()["delivery.dropped"]
    await world.connect("one", username="x")
    for name, client in watchers.items():
        got[name] = sorted(await topics(client))
    assert got["bob"] == []
    assert len(got["one"]) >= 2
    assert len(got["dash"]) >= 2
    assert all(one.endswith("/clients/one/connected") for one in got["one"] + got["dash"])
    assert len(got["one"] + got["dash"]) == 5  # of the shared group one
    assert world.node.broker.counters.snapshot()["delivery.dropped"] == dropped


async def test_a_subscription_ends_with_the_rule_that_allowed_it(world: World) -> None:
    client = await world.connect("d", username="dash", clean_start=False, session_expiry_interval=60)
    assert await client.subscribe("$events/#") == 0
    assert await world.change("authorization.sources = []\n" + EVENTS)
    await world.connect("c")
    assert await topics(client) == []


async def test_a_superuser_gets_them(world: World) -> None:
    client = await world.connect("c", username="bob")
    world.client("c").is_superuser = True
    assert await client.subscribe("$events/#") == await client.subscribe("$SYS/#") == 0
    await world.connect("d")
    assert len(await topics(client)) == 2
