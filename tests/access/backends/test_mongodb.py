"""`password_based:mongodb` with a server of its wire protocol, as clients see it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256

import pytest
import pytest_asyncio

from heliograph.mqtt import reason_codes as rc
from heliograph.settings.errors import ConfigError
from support.access import WatchedNode
from support.mongodb import REPLICA_SET, MongoServer, mongodb

BACKEND = "authentication:password_based:mongodb"
HASH = sha256(b"saltsecret").hexdigest()
FILTER = '{ username = "${username}" }'

pytestmark = [
    pytest.mark.service,
    pytest.mark.asyncio(loop_scope="module"),
    # The library leaves a socket to the garbage collector where a connection is cancelled that is being opened.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MongoServer]:
    with mongodb(tmp_path_factory.mktemp("mongodb")) as found:
        found.insert(
            "users",
            {"username": "alice", "password_hash": HASH, "salt": "salt"},
            {"username": "root", "password_hash": sha256(b"toor").hexdigest(), "is_superuser": True},
            {"username": "nohash", "salt": "salt"},
            {"username": 5, "password_hash": sha256(b"secret").hexdigest()},
        )
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedNode]:
    async with WatchedNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def authentication(server: MongoServer, more: str = "", query: str = FILTER) -> str:
    place = more or f'server = "127.0.0.1:{server.port}"'
    return (
        f"authentication = {{ mechanism = password_based, backend = mongodb, {place}, database = {server.database}, "
        f'username = "{server.user}", password = "{server.password}", '
        f'ssl {{ cacertfile = "{server.cafile}" }}, collection = users, filter = {query} }}'
    )


async def test_users_of_one_server(node: WatchedNode, server: MongoServer) -> None:
    assert await node.change(authentication(server))
    await node.check_users()
    # A document without a hash is left to the next authenticator, and a text is no number.
    assert await node.connack("c", "nohash", b"secret") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "5", b"secret") == rc.NOT_AUTHORIZED


async def test_users_of_a_replica_set(node: WatchedNode, server: MongoServer) -> None:
    more = f'mongo_type = rs, servers = "127.0.0.1:{server.port}", replica_set_name = {REPLICA_SET}'
    assert await node.change(authentication(server, more))
    await node.check_users()


@pytest.mark.parametrize(
    "query",
    [
        FILTER,
        '{ "$or" = [ { username = "${username}" }, { clientid = "${clientid}" } ] }',
        '{ username = { "$eq" = "${username}" }, "$nor" = [ { username = "${password}" } ] }',
        '{ username = { "$in" = ["${username}", "${clientid}"] } }',
    ],
)
async def test_injections(node: WatchedNode, server: MongoServer, query: str) -> None:
    assert await node.change(authentication(server, query=query))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    await node.check_injections()


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ('{ username = { "$regex" = "^${username}" } }', "may have no placeholders"),
        ('{ "$where" = "this.username == \'${username}\'" }', "may have no placeholders"),
        ('{ "$expr" = { "$eq" = ["$username", "${username}"] } }', "may have no placeholders"),
        ('{ "${username}" = 1 }', "names of fields may have no placeholders"),
        ("5", "expected an object"),
    ],
)
async def test_filters_that_would_be_read_as_more_than_values(
    node: WatchedNode, server: MongoServer, query: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        node.load(authentication(server, query=query))


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ("mongo_type = single", "needs server"),
        ("mongo_type = rs, servers = a", "replica_set_name is needed"),
        ("mongo_type = sharded, server = a", "needs servers"),
        ("server = a, use_legacy_protocol = auto", "leave use_legacy_protocol out"),
        ("server = a, w_mode = safe", "leave it out"),
        ("server = a, topology { pool_size = 8 }", "there is no topology"),
        ("mongo_type = sharded, servers = [a, b], srv_record = true", "one host"),
    ],
)
async def test_settings_that_do_not_go_together(
    node: WatchedNode, server: MongoServer, more: str, problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        node.load(authentication(server, more))


async def test_a_server_that_nobody_known_has_signed_for_is_an_alarm(node: WatchedNode, server: MongoServer) -> None:
    wrong = authentication(server).replace(f'cacertfile = "{server.cafile}"', "enable = true")
    assert await node.change(wrong)
    await node.until_alarm("activate", BACKEND)
    assert await node.change(wrong.replace("enable = true", "verify = verify_none"))
    await node.until_alarm("deactivate", BACKEND)
    async with asyncio.timeout(30):  # where the machine has much to do, the first connection comes too late
        while await node.connack("c", "alice", b"secret") != rc.SUCCESS:
            pass
    await node.forget_alarms()


async def test_a_server_that_stops_and_starts(
    node: WatchedNode, server: MongoServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    assert await node.change(authentication(server))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    await node.check_outage(server.server.stop, server.server.start, BACKEND)
    await node.check_users()
    for secret in (server.password, "secret", "toor", HASH):
        assert secret not in caplog.text


async def test_a_password_that_the_server_does_not_take_is_an_alarm(
    node: WatchedNode, server: MongoServer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "not the password"
    await node.check_refused_password(authentication(server).replace(server.password, wrong), BACKEND)
    assert wrong not in caplog.text


def source(server: MongoServer, more: str = "") -> str:
    return (
        f'{{ type = mongodb, server = "127.0.0.1:{server.port}", database = {server.database}, '
        f'username = "{server.user}", password = "{server.password}", '
        f'ssl {{ cacertfile = "{server.cafile}" }}, collection = rules, '
        f'filter = {{ username = "${{username}}" }} {more} }}'
    )


async def test_documents_are_rules(node: WatchedNode, server: MongoServer, caplog: pytest.LogCaptureFixture) -> None:
    rules = (
        {"permission": "deny", "action": "publish", "topics": ["b/secret", "b/other"]},
        {"permission": "allow", "action": "publish", "topic": "p/${clientid}"},
        {"permission": "allow", "action": "subscribe", "topics": ["s/+", "eq e/+/c"]},
        {"permission": "perhaps"},
        {"permission": "allow", "action": "all", "topic": "b/#", "qos": [0, 1]},
    )
    server.insert("rules", *({"username": "alice", **rule} for rule in rules))
    assert await node.change(node.asking(source(server)))
    await node.check_rights()
    client = await node.login("c", "alice")
    assert await client.publish("b/secret", qos=1) == rc.NOT_AUTHORIZED
    assert await client.publish("b/x", qos=2) == rc.NOT_AUTHORIZED
    await client.leave()
    assert "it is left out" in caplog.text


async def test_only_some_documents(node: WatchedNode, server: MongoServer) -> None:
    rules = [{"username": "bob", "permission": "allow", "action": "all", "topic": topic} for topic in "abc"]
    server.insert("rules", *rules)
    assert await node.change(node.asking(source(server, ", skip = 1, limit = 1")))
    client = await node.login("c", "bob")
    codes = [await client.publish(topic, qos=1) for topic in "abc"]
    assert codes == [rc.NOT_AUTHORIZED, rc.SUCCESS, rc.NOT_AUTHORIZED]
    await client.leave()


async def test_rights_do_not_come_from_what_a_client_is_called(node: WatchedNode, server: MongoServer) -> None:
    assert await node.change(node.asking(source(server)))
    await node.check_named_rights(but=("bob",))
