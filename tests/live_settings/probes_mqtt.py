"""Probes of what the root and zones say in `mqtt` of packets, connections and subscriptions."""

from collections.abc import AsyncIterator

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from live_settings.table import World, probe, probe_text, zoned_probe, zoned_probe_text

NAMES = tuple(f"probe{number}" for number in range(10))


@zoned_probe("mqtt.idle_timeout", "100ms")
async def idle_timeout(world: World) -> AsyncIterator[None]:
    silent = await world.open()
    yield
    await silent.until_closed()


@zoned_probe("mqtt.max_packet_size", "50")
async def max_packet_size(world: World) -> AsyncIterator[None]:
    told, other = await world.connect("told"), await world.connect(version=p.V3_1_1)
    yield
    await other.publish("t", b"x" * 100)
    await other.until_closed()
    await told.publish("t", b"x" * 100)
    await told.ping()


@zoned_probe("mqtt.max_clientid_len", "23")
async def max_clientid_len(world: World) -> AsyncIterator[None]:
    yield
    client = await world.open()
    client.send_connect("x" * 24)
    assert (await client.take(p.Connack)).code == rc.CLIENT_IDENTIFIER_NOT_VALID


@zoned_probe("mqtt.max_topic_levels", "3")
async def max_topic_levels(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.publish("a/b/c/d", b"", 1)
    yield
    await client.publish("a/b/c", b"", 1)
    await client.publish("a/b/c/d")
    disconnect = await client.until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.TOPIC_NAME_INVALID


@zoned_probe("mqtt.max_qos_allowed", "1")
async def max_qos_allowed(world: World) -> AsyncIterator[None]:
    told, other = await world.connect("told"), await world.connect(version=p.V3_1_1)
    yield
    assert await other.subscribe("t", 2) == 1
    await other.publish("t", b"", 1)
    other.send_bytes(b"\x34\x05\x00\x01t\x00\x09")
    await other.until_closed()
    await told.publish("t", b"", 2)


@zoned_probe("mqtt.max_topic_alias", "0")
async def max_topic_alias(world: World) -> AsyncIterator[None]:
    told = await world.connect("told")
    yield
    await told.publish("t", b"", topic_alias=3)
    await told.ping()
    client = await world.open()
    client.send_connect("probe")
    assert "Topic-Alias-Maximum" not in (await client.take(p.Connack)).properties.named()


@zoned_probe("mqtt.server_topic_alias", "0")
async def server_topic_alias(world: World) -> AsyncIterator[None]:
    before = await world.connect("told", topic_alias_maximum=5)
    await before.subscribe("t")
    yield
    client = await world.connect("probe", topic_alias_maximum=5)
    await client.subscribe("t")
    publisher = await world.connect("publisher")
    for _ in range(3):
        await publisher.publish("t", b"x")
    assert [(await before.take(p.Publish)).topic for _ in range(3)] == [b"t", b"t", b""]
    assert [(await client.take(p.Publish)).topic for _ in range(3)] == [b"t"] * 3


@zoned_probe("mqtt.max_user_properties", "1")
async def max_user_properties(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    await client.publish("t", b"", user_property=[("a", "b"), ("c", "d")])
    assert await client.until_closed() is not None


@zoned_probe("mqtt.retain_available", "false")
async def retain_available(world: World) -> AsyncIterator[None]:
    told, other = await world.connect("told"), await world.connect(version=p.V3_1_1)
    yield
    await other.publish("t", b"", retain=True)
    await other.until_closed()
    await told.publish("t", b"", 1, retain=True)


@zoned_probe("mqtt.wildcard_subscription", "false")
async def wildcard_subscription(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    assert await client.subscribe("a/+") == rc.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED


@zoned_probe("mqtt.shared_subscription", "false")
async def shared_subscription(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    assert await client.subscribe("$share/g/a") == rc.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED


async def _shares(world: World, publishers: int, messages: int) -> AsyncIterator[list[int]]:
    """How many messages each of two members gets, before and after the change."""
    members = [await world.connect(f"member{number}") for number in range(2)]
    for member in members:
        await member.subscribe("$share/g/shared/#")
    while True:
        senders = [await world.connect(name) for name in NAMES[:publishers]]
        for sender in senders:
            for _ in range(messages):
                await sender.publish("shared/t", b"x", 1)
        yield sorted([len(await member.payloads()) for member in members])


async def _sticky(world: World) -> AsyncIterator[None]:
    shares = _shares(world, 1, 4)
    assert await anext(shares) == [2, 2]
    yield
    assert await anext(shares) == [0, 4]


async def _sticky_by_topic(world: World) -> AsyncIterator[None]:
    shares = _shares(world, 10, 1)
    yield
    assert await anext(shares) == [0, 10]


probe("mqtt.shared_subscription_strategy", "sticky")(_sticky)
probe_text("broker.shared_subscription_group.NAME.strategy", "broker.shared_subscription_group.g.strategy = sticky")(
    _sticky
)
probe_text(
    "mqtt.shared_subscription_initial_sticky_pick",
    "mqtt { shared_subscription_strategy = sticky, shared_subscription_initial_sticky_pick = hash_topic }",
)(_sticky_by_topic)
probe_text(
    "broker.shared_subscription_group.NAME.initial_sticky_pick",
    "broker.shared_subscription_group.g { strategy = sticky, initial_sticky_pick = hash_topic }",
)(_sticky_by_topic)


@zoned_probe("mqtt.exclusive_subscription", "true")
async def exclusive_subscription(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    assert await client.subscribe("$exclusive/a") == rc.TOPIC_FILTER_INVALID
    yield
    assert await client.subscribe("$exclusive/a") == 0


@zoned_probe("mqtt.ignore_loop_deliver", "true")
async def ignore_loop_deliver(world: World) -> AsyncIterator[None]:
    client = await world.connect(version=p.V3_1_1)
    yield
    await client.subscribe("own")
    await client.publish("own", b"x", 1)
    assert await client.payloads() == []


@zoned_probe("mqtt.strict_mode", "true")
async def strict_mode(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.publish("a\x01", b"", 1)
    yield
    await client.publish("a\x01")
    assert await client.until_closed() is not None


@zoned_probe("mqtt.response_information", "here")
async def response_information(world: World) -> AsyncIterator[None]:
    yield
    client = await world.open()
    client.send_connect("probe", request_response_information=1)
    assert (await client.take(p.Connack)).properties.named()["Response-Information"] == "here"


@zoned_probe("mqtt.upgrade_qos", "true")
async def upgrade_qos(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    await client.subscribe("t", 1)
    yield
    await client.publish("t")
    assert (await client.take(p.Publish)).qos == 1


@zoned_probe_text("mqtt.keepalive_multiplier", "keepalive_multiplier = 100, idle_timeout = 2s")
async def keepalive_multiplier(world: World) -> AsyncIterator[None]:
    client = await world.connect(keepalive_s=1)
    yield
    await (await world.open()).until_closed()
    await client.ping()


@zoned_probe("mqtt.server_keepalive", "7")
async def server_keepalive(world: World) -> AsyncIterator[None]:
    yield
    client = await world.open()
    client.send_connect("probe")
    assert (await client.take(p.Connack)).properties.named()["Server-Keep-Alive"] == 7


@zoned_probe("mqtt.max_subscriptions", "1")
async def max_subscriptions(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    assert [await client.subscribe(name) for name in ("a", "b")] == [0, 0]
    yield
    assert [await client.subscribe(name) for name in ("b", "c")] == [0, rc.QUOTA_EXCEEDED]


@zoned_probe("mqtt.max_shared_subscriptions", "1")
async def max_shared_subscriptions(world: World) -> AsyncIterator[None]:
    client = await world.connect()
    yield
    assert [await client.subscribe(f"$share/g/{name}") for name in "ab"] == [0, rc.QUOTA_EXCEEDED]


@zoned_probe("mqtt.use_username_as_clientid", "true")
async def use_username_as_clientid(world: World) -> AsyncIterator[None]:
    yield
    one = await world.connect("one", username="joe")
    await world.connect("other", username="joe")
    disconnect = await one.until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.SESSION_TAKEN_OVER


@probe_text(
    "mqtt.client_attrs_init",
    "mqtt.client_attrs_init = [{ expression = username, set_as_attr = a }]\n"
    'listeners.tcp.probe.mountpoint = "${client_attrs.a}/"',
)
async def client_attrs_init(world: World) -> AsyncIterator[None]:
    watcher = await world.connect("watcher")
    await watcher.subscribe("joe/t")
    yield
    client = await world.connect(listener="tcp:probe", username="joe")
    await client.publish("t", b"x", 1)
    assert (await watcher.take(p.Publish)).payload == b"x"


async def _taken_over(world: World) -> None:
    """Two clients with the same certificate are one."""
    tls = world.tls(world.authority.client("joe"))
    one = await world.connect("one", listener="ssl:probe", tls=tls)
    await world.connect("other", listener="ssl:probe", tls=tls)
    disconnect = await one.until_closed()
    assert disconnect is not None
    assert disconnect.code == rc.SESSION_TAKEN_OVER


@probe("mqtt.peer_cert_as_clientid", "cn")
async def peer_cert_as_clientid(world: World) -> AsyncIterator[None]:
    yield
    await _taken_over(world)


@probe_text("mqtt.peer_cert_as_username", "mqtt { peer_cert_as_username = dn, use_username_as_clientid = true }")
async def peer_cert_as_username(world: World) -> AsyncIterator[None]:
    yield
    await _taken_over(world)
