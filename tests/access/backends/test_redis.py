"""`password_based:redis` with one server, a cluster, and a primary that sentinels name, as clients see it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256

import pytest
import pytest_asyncio
import redis

from heliograph.mqtt import reason_codes as rc
from support.access import WatchedNode
from support.redis import RedisCluster, RedisSentinel, RedisServer, redis_cluster, redis_sentinel, stoppable_redis

BACKEND = "authentication:password_based:redis"
USERS = {
    "alice": {"password_hash": sha256(b"saltsecret").hexdigest(), "salt": "salt"},
    "root": {"password_hash": sha256(b"toor").hexdigest().upper(), "is_superuser": "1"},
    "nohash": {"salt": "salt"},
}
CMD = "HMGET 'u:${username}' password_hash salt is_superuser"

pytestmark = [pytest.mark.service, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with stoppable_redis(tmp_path_factory.mktemp("redis")) as found:
        with found.client() as client:
            add_users(client)
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with redis_cluster(tmp_path_factory.mktemp("cluster")) as found:
        with found.client() as client:
            add_users(client)
        yield found


@pytest.fixture(scope="module")
def sentinel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSentinel]:
    with redis_sentinel(tmp_path_factory.mktemp("sentinel")) as found:
        with found.client() as client:
            add_users(client)
            client.wait(1, 10_000)
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedNode]:
    async with WatchedNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def add_users(client: "redis.Redis | redis.RedisCluster") -> None:
    for name, fields in USERS.items():
        for field, value in fields.items():
            client.hset(f"u:{name}", field, value)
    client.set("u:text", "no hash")


def authentication(more: str, cmd: str = CMD) -> str:
    return f'authentication = {{ mechanism = password_based, backend = redis, {more}, cmd = "{cmd}" }}'


def single(server: RedisServer, cmd: str = CMD) -> str:
    return authentication(f'server = "127.0.0.1:{server.port}", password = "{server.password}"', cmd)


async def test_what_the_node_keeps_of_a_user_is_its_hash_and_passwords_are_checked_each_time(
    node: WatchedNode, server: RedisServer
) -> None:
    cache = "\nauthentication_settings.node_cache.enable = true"
    assert await node.change(single(server) + cache)
    with server.client() as client:
        client.hset("u:carol", "password_hash", sha256(b"old").hexdigest())
        assert await node.connack("c", "carol", b"old") == rc.SUCCESS
        client.hset("u:carol", "password_hash", sha256(b"new").hexdigest())
        assert await node.connack("c", "carol", b"old") == rc.SUCCESS
        assert await node.connack("c", "carol", b"new") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.change(single(server))
        assert await node.connack("c", "carol", b"new") == rc.SUCCESS
        client.delete("u:carol")


async def test_users_of_one_server(node: WatchedNode, server: RedisServer) -> None:
    assert await node.change(single(server))
    await node.check_users()
    assert await node.connack("c", "nohash", b"secret") == rc.NOT_AUTHORIZED
    # What cannot be answered is left to the next authenticator, of which there is none.
    assert await node.connack("c", "text", b"secret") == rc.NOT_AUTHORIZED


async def test_tls(node: WatchedNode, server: RedisServer) -> None:
    place = f'server = "localhost:{server.tls_port}", password = "{server.password}"'
    assert await node.change(authentication(f'{place}, ssl {{ cacertfile = "{server.cafile}" }}'))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    # Its certificate is not signed by those whom the system trusts.
    assert await node.change(authentication(f"{place}, ssl {{ enable = true }}"))
    await node.until_alarm("activate", BACKEND)
    assert await node.change(authentication(f"{place}, ssl {{ verify = verify_none }}"))
    await node.until_alarm("deactivate", BACKEND)
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS


@pytest.mark.parametrize(
    "cmd",
    [
        CMD,
        "HGET u:${username} password_hash",
        "hget '${client_attrs.none}u:${username}' password_hash",
        "HMGET ${username} password_hash",
        "HMGET ${clientid}${password} password_hash password salt",
    ],
)
async def test_injections(node: WatchedNode, server: RedisServer, cmd: str) -> None:
    assert await node.change(single(server, cmd))
    await node.check_injections()
    with server.client() as client:
        assert client.dbsize() == len(USERS) + 1


async def test_what_is_no_placeholder_is_a_text_and_told(
    node: WatchedNode, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    with server.client() as client:
        client.hset("u:${nobody}", "password_hash", sha256(b"secret").hexdigest())
    assert await node.change(single(server, "HGET 'u:${nobody}' password_hash"))
    assert await node.connack("c", "anybody", b"secret") == rc.SUCCESS
    assert "${nobody} is no placeholder here" in caplog.text
    with server.client() as client:
        client.delete("u:${nobody}")


async def test_a_user_of_redis_with_few_rights(node: WatchedNode, server: RedisServer, cluster: RedisCluster) -> None:
    few = ("reset", "on", ">few", "~u:*", "+hmget")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "few", *few)
    user = 'username = few, password = "few"'
    assert await node.change(authentication(f'server = "127.0.0.1:{server.port}", {user}'))
    await node.check_users()
    for port in cluster.ports:
        with RedisServer(port).client() as client:
            client.execute_command("ACL", "SETUSER", "few", *few, "+cluster|slots", "+command")
    place = f'redis_type = cluster, servers = "127.0.0.1:{cluster.ports[0]}"'
    assert await node.change(authentication(f"{place}, {user}"))
    await node.check_users()


async def test_users_of_a_cluster(node: WatchedNode, cluster: RedisCluster) -> None:
    servers = f"127.0.0.1:9,127.0.0.1:{cluster.ports[1]}"
    more = f'redis_type = cluster, servers = "{servers}", password = "{cluster.password}"'
    assert await node.change(authentication(more))
    await node.check_users()


async def test_a_failover_while_clients_connect(node: WatchedNode, sentinel: RedisSentinel) -> None:
    servers = f'["127.0.0.1:9", "127.0.0.1:{sentinel.port}"]'
    more = f'redis_type = sentinel, servers = {servers}, sentinel = weather, password = "{sentinel.replica.password}"'
    assert await node.change(authentication(more))
    await node.check_users()
    with sentinel.patient():
        sentinel.primary.kill()
        codes = await asyncio.gather(*(node.connack(f"c{number}", "alice", b"secret") for number in range(20)))
        assert set(codes) == {rc.NOT_AUTHORIZED}
        await node.until_alarm("activate", BACKEND)
    await node.until_alarm("deactivate", BACKEND)
    await node.check_users()


async def test_a_server_that_stops_and_starts(
    node: WatchedNode, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert await node.change(single(server))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    assert server.stoppable is not None
    await node.check_outage(server.stoppable.stop, server.stoppable.start, BACKEND)
    await node.check_users()
    for secret in (server.password, "secret", "toor", USERS["alice"]["password_hash"]):
        assert secret not in caplog.text


async def test_a_password_that_the_server_does_not_take_is_an_alarm(
    node: WatchedNode, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "not the password"
    await node.check_refused_password(single(server).replace(server.password, wrong), BACKEND)
    assert wrong not in caplog.text


def source(server: RedisServer, cmd: str = "HGETALL 'acl:${username}'") -> str:
    return f'{{ type = redis, server = "127.0.0.1:{server.port}", password = "{server.password}", cmd = "{cmd}" }}'


async def test_topics_of_a_hash_are_allowed(
    node: WatchedNode, server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    topics = {
        "p/${clientid}": "publish",
        "s/+": "subscribe",
        "b/#": "all",
        "eq e/+/c": '{"action": "subscribe", "permission": "deny"}',
        "q": '{"action": "publish", "qos": [1], "retain": false}',
        "bad": "maybe",
        "worse": '{"action": "maybe"}',
    }
    with server.client() as client:
        for topic, value in topics.items():
            client.hset("acl:alice", topic, value)
    assert await node.change(node.asking(source(server)))
    await node.check_rights()
    client = await node.login("c", "alice")
    assert await client.publish("q", qos=1) == rc.SUCCESS
    assert await client.publish("q", qos=2) == rc.NOT_AUTHORIZED
    assert await client.publish("q", qos=1, retain=True) == rc.NOT_AUTHORIZED
    for topic in ("bad", "worse"):
        assert await client.publish(topic, qos=1) == rc.NOT_AUTHORIZED
    assert "it is left out" in caplog.text
    await client.leave()


async def test_only_some_fields_of_a_hash(node: WatchedNode, server: RedisServer) -> None:
    with server.client() as client:
        client.hset("acl:bob", "a", "all")
        client.hset("acl:bob", "b", "all")
    assert await node.change(node.asking(source(server, "HMGET acl:${username} a none")))
    client = await node.login("c", "bob")
    assert await client.publish("a", qos=1) == rc.SUCCESS
    assert await client.publish("b", qos=1) == rc.NOT_AUTHORIZED
    await client.leave()


async def test_rights_do_not_come_from_what_a_client_is_called(node: WatchedNode, server: RedisServer) -> None:
    assert await node.change(node.asking(source(server)))
    await node.check_named_rights()
