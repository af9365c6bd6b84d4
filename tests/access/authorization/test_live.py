"""Rights that change while clients are connected: rules, files, and the list of sources."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from access.authorization.world import World
from heliograph.access.authorization.file import AclFileError
from heliograph.access.built_in_rules.store import OwnRules
from heliograph.mqtt import reason_codes as rc
from heliograph.node import Node

DENIED = rc.NOT_AUTHORIZED


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path, '{deny, all, all, ["both"]}.\n{allow, all, all, ["file/#"]}.\n') as node:
        yield node


async def test_rules_of_the_client_id_come_before_those_of_the_name_and_of_all(world: World) -> None:
    await world.give("clientid", "c", "allow publish a", "deny publish b")
    await world.give("username", "alice", "deny publish a", "allow publish b", "allow publish c", "deny publish d")
    await world.give("all", "", "deny publish c", "allow publish d", "allow publish e")
    client = await world.connect("c", username="alice")
    found = [await client.publish(topic, b"x", 1) != DENIED for topic in "abcdef"]
    assert found == [True, False, True, False, True, False]
    other = await world.connect("d")
    assert [await other.publish(topic, b"x", 1) != DENIED for topic in "abde"] == [False, False, True, True]


async def test_a_change_of_rules_holds_at_once_and_ends_subscriptions(world: World) -> None:
    await world.give("all", "", "allow all t/#")
    client = await world.connect("c")
    assert await client.subscribe("t/#", 1) == 1
    assert await client.publish("t/a", b"first", 1) == 0
    assert await client.payloads() == [b"first"]
    await world.give("all", "", "allow publish t/#")
    publisher = await world.connect("d")
    assert await publisher.publish("t/a", b"second", 1) == 0x10
    assert await client.payloads() == []
    await world.built_in.clear()
    assert await client.publish("t/a", b"x", 1) == DENIED


async def test_rules_outlast_a_restart(world: World, tmp_path: Path) -> None:
    await world.give("username", "alice", "allow publish t")
    await world.node.stop()
    world.node = Node(world.load(world.settings()))
    await world.node.start()
    client = await world.connect("c", username="alice")
    assert await client.publish("t", b"x", 1) != DENIED
    assert [own.name for own in world.built_in.walk()] == ["alice"]


async def test_sources_change_places_while_clients_are_connected(world: World) -> None:
    await world.give("all", "", "allow all both")
    client = await world.connect("c")
    assert await client.publish("both", b"x", 1) == DENIED
    before = world.authorization.sources
    assert await world.change(world.settings("built_in_database", "file"))
    assert await client.publish("both", b"x", 1) != DENIED
    assert world.authorization.sources == before
    assert await world.change(world.settings("file"))
    assert await client.publish("both", b"x", 1) == DENIED
    assert await world.change("authorization { sources = [], no_match = allow }")
    assert await client.publish("both", b"x", 1) != DENIED
    assert await world.change(world.settings())
    assert await client.publish("both", b"x", 1) == DENIED


async def test_a_source_that_is_switched_off_is_skipped(world: World) -> None:
    client = await world.connect("c")
    assert await client.publish("file/a", b"x", 1) != DENIED
    assert await world.change(world.settings().replace("type = file", "type = file, enable = false"))
    assert await client.publish("file/a", b"x", 1) == DENIED
    states = {one.type: one.state for one in world.authorization.status()}
    assert states == {"file": "disabled", "built_in_database": "works"}


async def test_a_file_is_read_again_and_one_with_mistakes_is_refused(world: World) -> None:
    client = await world.connect("c")
    world.acl.write_text('{allow, all, all, ["other"]}.\n{oops}.\n')
    assert not await world.change(world.settings())
    assert await client.publish("file/a", b"x", 1) != DENIED
    world.acl.write_text('{allow, all, all, ["other"]}.\n')
    assert await world.change(world.settings())
    assert await client.publish("file/a", b"x", 1) == DENIED
    assert await client.publish("other", b"x", 1) != DENIED


async def test_a_file_that_is_missing_keeps_a_node_from_starting(tmp_path: Path) -> None:
    node = World(tmp_path, "")
    node.acl.unlink()
    with pytest.raises(AclFileError, match=r"acl\.conf'.*No such file"):
        await node.node.start()
    await node.node.stop()


async def test_without_the_default_file_nothing_is_checked(tmp_path: Path) -> None:
    async with World(tmp_path, "") as node:
        assert await node.change("")
        assert not node.node.broker.rights.is_checked
        assert [(one.type, one.state) for one in node.authorization.status()] == [("file", "no rules")]


async def test_decisions_are_remembered_until_they_are_too_old(world: World) -> None:
    client = await world.connect("c")
    for _ in range(3):
        await client.publish("file/a", b"x", 1)
        await client.publish("file/b", b"x", 1)
    assert world.counts("file") == {"total": 2, "allow": 2}
    assert await world.change(world.settings() + "authorization.cache.enable = false")
    for _ in range(3):
        await client.publish("file/a", b"x", 1)
        await client.publish("file/b", b"x", 1)
    assert world.counts("file")["total"] == 8


async def test_many_rules_are_set_at_once(world: World) -> None:
    row = {"permission": "allow", "action": "publish", "topic": "t/${clientid}"}
    await world.built_in.put(OwnRules("clientid", f"c{number}", [row]) for number in range(500))
    client = await world.connect("c321")
    assert await client.publish("t/c321", b"x", 1) != DENIED
    assert await client.publish("t/c1", b"x", 1) == DENIED
    assert sum(1 for _ in world.built_in.walk(["clientid"])) == 500
