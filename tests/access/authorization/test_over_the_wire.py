"""What clients may do, as they see it: every place where rights are asked about, in MQTT 3 and 5."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from access.authorization.world import World
from heliograph.access.acl.carried import carried_acl
from heliograph.broker import hooks
from heliograph.broker.actions import Action, Decision
from heliograph.broker.authentication import AuthStep, Grants
from heliograph.broker.client import ClientInfo
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.packets import properties

RULES = """
{deny, {user, "mallory"}, all, ["open/#"]}.
{allow, all, all, ["open/#"]}.
{allow, all, publish, ["own/${username}/#", "by/${clientid}"]}.
{allow, all, {publish, [{qos, [0, 1]}, {retain, false}]}, ["plain/#"]}.
{allow, all, {subscribe, [{qos, 0}]}, ["slow/#"]}.
{allow, all, all, [{eq, "exact/+"}]}.
{allow, {client, "watcher"}, subscribe, ["#"]}.
{deny, all, subscribe, ["$SYS/#"]}.
"""
NOTHING = 0x10


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with World(tmp_path, RULES) as node:
        yield node


@pytest.mark.parametrize("version", [p.V3_1_1, p.V5])
async def test_a_publish_that_is_denied_is_acknowledged_and_goes_nowhere(world: World, version: int) -> None:
    refused = rc.NOT_AUTHORIZED if version == p.V5 else 0
    watcher = await world.connect("watcher")
    await watcher.subscribe("#", 2)
    client = await world.connect("c", version=version, username="alice")
    assert [await client.publish("closed", b"x", qos) for qos in (0, 1, 2)] == [0, refused, refused]
    assert await client.publish("open/a", b"open", 1) in (0, NOTHING)
    assert await watcher.payloads() == [b"open"]


@pytest.mark.parametrize(("version", "refused"), [(p.V3_1_1, 0x80), (p.V5, rc.NOT_AUTHORIZED)])
async def test_each_filter_is_decided_on_its_own(world: World, version: int, refused: int) -> None:
    client = await world.connect("c", version=version)
    filters = ["open/#", "closed", "open/+/x", "#", "exact/+", "exact/a", "$SYS/#"]
    client.send(p.Subscribe(9, [p.SubscribeEntry(one, 1, False, False, 0) for one in filters], properties()))
    suback = await client.take(p.Suback)
    assert list(suback.codes) == [1, refused, 1, refused, 1, refused, refused]


async def test_of_a_shared_subscription_the_filter_counts(world: World) -> None:
    client = await world.connect("c")
    assert await client.subscribe("$share/g/open/#") == 0
    assert await client.subscribe("$share/open/closed") == rc.NOT_AUTHORIZED


async def test_qos_and_retain_flag_are_conditions(world: World) -> None:
    client = await world.connect("c")
    codes = [await client.publish("plain/a", b"x", qos, retain=retain) for qos, retain in ((1, False), (2, False))]
    assert [code == rc.NOT_AUTHORIZED for code in codes] == [False, True]
    assert await client.publish("plain/a", b"x", 1, retain=True) == rc.NOT_AUTHORIZED
    assert [await client.subscribe("slow/a", qos) for qos in (0, 1)] == [0, rc.NOT_AUTHORIZED]


async def test_the_topic_of_a_delayed_message_counts(world: World) -> None:
    client = await world.connect("c")
    assert await client.publish("$delayed/1/closed", b"x", 1) == rc.NOT_AUTHORIZED
    assert await client.publish("$delayed/1/open/a", b"x", 1) != rc.NOT_AUTHORIZED


async def test_a_will_is_decided_on_when_it_is_published(world: World) -> None:
    watcher = await world.connect("watcher")
    await watcher.subscribe("#")
    for topic in ("closed", "open/will"):
        client = await world.connect("c", will=p.Will(topic, topic.encode(), 0, False, properties()))
        await client.leave()
    assert await watcher.payloads() == [b"open/will"]


@pytest.mark.parametrize("name", ["+", "#", "a/+", "alice/#", "+/+", "${username}"])
async def test_what_a_name_holds_is_no_wildcard(world: World, name: str) -> None:
    client = await world.connect(name, username=name)
    assert await client.publish("own/bob/x", b"x", 1) == rc.NOT_AUTHORIZED
    assert await client.publish("own/alice/x", b"x", 1) == rc.NOT_AUTHORIZED
    assert await client.publish("by/bob", b"x", 1) == rc.NOT_AUTHORIZED
    assert await client.subscribe("own/#") == rc.NOT_AUTHORIZED


async def test_a_client_without_a_name_has_no_topic_of_that_name(world: World) -> None:
    client = await world.connect("c")
    for topic in ("own/undefined/x", "own//x", "own/${username}/x"):
        assert await client.publish(topic, b"x", 1) == rc.NOT_AUTHORIZED
    named = await world.connect("d", username="alice")
    assert await named.publish("own/alice/x", b"x", 1) != rc.NOT_AUTHORIZED


@pytest.mark.parametrize("version", [p.V3_1_1, p.V5])
async def test_a_client_that_is_denied_may_lose_its_connection(world: World, version: int) -> None:
    assert await world.change(world.settings() + "authorization.deny_action = disconnect")
    for act in ("publish", "subscribe"):
        client = await world.connect("c", version=version)
        if act == "publish":
            await client.publish("closed", b"x")
        else:
            entries = [p.SubscribeEntry(one, 0, False, False, 0) for one in ("open/#", "closed")]
            client.send(p.Subscribe(1, entries, properties()))
        told = await client.until_closed()
        assert (None if told is None else told.code) == (rc.NOT_AUTHORIZED if version == p.V5 else None)


async def test_a_superuser_is_not_asked_about(world: World) -> None:
    client = await world.connect("c", username="mallory")
    assert await client.publish("open/a", b"x", 1) == rc.NOT_AUTHORIZED
    world.client("c").is_superuser = True
    before = world.counts("file")
    assert await client.publish("closed", b"x", 1) != rc.NOT_AUTHORIZED
    assert await client.subscribe("#") == 0
    assert world.counts("file") == before


async def test_what_decided_is_told(world: World) -> None:
    told: list[tuple[str, str, str, str]] = []

    def note(client: ClientInfo, action: Action, topic: str, decision: Decision, _: object) -> None:
        told.append((action.kind, topic, decision.result, decision.source))

    await world.give("clientid", "c", "allow publish own")
    world.node.broker.hooks.point(hooks.CLIENT_CHECK_AUTHZ_COMPLETE).add(note)
    client = await world.connect("c")
    for topic in ("open/a", "own", "closed"):
        await client.publish(topic, b"x", 1)
    assert told == [
        ("publish", "open/a", "allow", "file"),
        ("publish", "own", "allow", "built_in_database"),
        ("publish", "closed", "deny", "default"),
    ]
    assert world.counts("file") == {"total": 3, "allow": 1, "nomatch": 2}
    assert world.counts("built_in_database") == {"total": 2, "allow": 1, "nomatch": 1}


def carrying(acl: object, expire_s: float | None = None) -> Callable[..., object]:
    """A callback of `client.authenticate` that gives every client an ACL, as a token does."""
    return lambda *_: (
        hooks.STOP,
        AuthStep(rc.SUCCESS, grants=Grants(acl=carried_acl(acl, expire_s, "jwt"))),
    )


async def test_a_map_that_a_client_carries_allows_nothing_else(world: World) -> None:
    authenticate = carrying({"pub": ["mine/${clientid}", "eq a/+"], "sub": ["mine/#"], "all": ["both"]})
    world.node.broker.hooks.client_authenticate.add(authenticate)
    client = await world.connect("c")
    for topic, allowed in (("mine/c", True), ("mine/d", False), ("a/b", False), ("both", True), ("open/a", False)):
        assert (await client.publish(topic, b"x", 1) != rc.NOT_AUTHORIZED) == allowed, topic
    for topic_filter, allowed in (("mine/+", True), ("both", True), ("#", False), ("open/#", False)):
        assert (await client.subscribe(topic_filter) != rc.NOT_AUTHORIZED) == allowed, topic_filter
    assert world.counts("file") == {}


async def test_behind_a_list_that_a_client_carries_sources_are_asked(world: World) -> None:
    rules = [
        {"permission": "deny", "action": "publish", "topic": "open/secret"},
        {"permission": "allow", "action": "publish", "topic": "closed", "qos": 1},
    ]
    world.node.broker.hooks.client_authenticate.add(carrying(rules))
    client = await world.connect("c")
    codes = [await client.publish(topic, b"x", qos) for topic, qos in (("open/secret", 1), ("closed", 1))]
    assert [code == rc.NOT_AUTHORIZED for code in codes] == [True, False]
    assert await client.publish("closed", b"x", 2) == rc.NOT_AUTHORIZED
    assert await client.publish("open/a", b"x", 1) != rc.NOT_AUTHORIZED
    assert world.counts("file") == {"total": 2, "allow": 1, "nomatch": 1}


async def test_what_a_client_carries_ends(world: World) -> None:
    world.node.broker.hooks.client_authenticate.add(carrying({"all": ["#"]}, 1.0))
    client = await world.connect("c")
    assert await client.publish("open/a", b"x", 1) == rc.NOT_AUTHORIZED
    assert await client.subscribe("open/a") == rc.NOT_AUTHORIZED
