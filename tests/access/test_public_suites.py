"""What the public suites of mosquitto (test/broker 01-connect-*, 02-subscribe-*, 09-acl-*, 09-auth-*) and Paho
(client_test `test_subscribe_failure`) test about access, as tests of our own: each is named after theirs.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from heliograph.mqtt import packets as p
from heliograph.mqtt import properties as props
from heliograph.mqtt import reason_codes as rc
from support.packets import properties
from support.running import MqttClient, RunningNode

pytestmark = [pytest.mark.service, pytest.mark.asyncio(loop_scope="module")]

SETTINGS = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.anonymous { bind = "127.0.0.1:0", enable_authn = false }
listeners.tcp.own { bind = "127.0.0.1:0", authentication = [{ mechanism = jwt, secret = "a secret of its own, long" }] }
durable_storage { messages.topics = [], flight.enable = false }
authentication = [{ mechanism = password_based, backend = built_in_database, bootstrap_file = "DIRECTORY/users.csv" }]
authorization { no_match = deny, sources = [{ type = file, path = "DIRECTORY/acl.conf" }] }
"""
ACL = """
{allow, {username, "admin"}, all, ["#", "$SYS/#"]}.
{deny, all, all, ["nosubscribe", "topic/denied/#"]}.
{allow, {username, "readonly"}, subscribe, ["topic/#"]}.
{allow, {username, "writeonly"}, publish, ["topic/#"]}.
{allow, {user, "user"}, all, ["topic/#", "will/#", "user/${username}/#"]}.
{allow, {ipaddr, "127.0.0.1"}, subscribe, [{eq, "public"}]}.
"""
USERS = ("user", "admin", "readonly", "writeonly")
VERSIONS = [p.V3_1, p.V3_1_1, p.V5]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNode]:
    directory: Path = tmp_path_factory.mktemp("suites")
    lines = "".join(f"{name},password-{name},false\n" for name in USERS)
    (directory / "users.csv").write_text(f"user_id,password,is_superuser\n{lines}")
    (directory / "acl.conf").write_text(ACL)
    async with RunningNode(directory, SETTINGS.replace("DIRECTORY", str(directory))) as running:
        yield running


async def client_of(node: RunningNode, name: str, version: int = p.V5) -> MqttClient:
    """A user that is let in, whose client id is its name."""
    client = await node.open(version=version)
    client.send_connect(name, username=name, password=f"password-{name}".encode())
    assert (await client.take(p.Connack)).code == rc.SUCCESS
    return client


# --- mosquitto 01-connect-*


@pytest.mark.parametrize("version", VERSIONS)
async def test_01_connect_uname_password_success(node: RunningNode, version: int) -> None:
    assert await node.connack("c", "user", b"password-user", version=version) == rc.SUCCESS


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("username", "password", "code"),
    [
        ("user", b"password9", rc.BAD_USERNAME_OR_PASSWORD),  # 01-connect-uname-password-denied
        ("user", b"", rc.BAD_USERNAME_OR_PASSWORD),
        ("user", b"PASSWORD-USER", rc.BAD_USERNAME_OR_PASSWORD),
        ("user", b"password-admin", rc.BAD_USERNAME_OR_PASSWORD),
        ("user", None, rc.NOT_AUTHORIZED),  # 01-connect-uname-no-password-denied
        ("nobody", b"password-user", rc.NOT_AUTHORIZED),  # 01-connect-uname-password-denied, an unknown user
        ("User", b"password-user", rc.NOT_AUTHORIZED),
        ("", b"password-user", rc.NOT_AUTHORIZED),
        (None, None, rc.NOT_AUTHORIZED),  # 01-connect-anon-denied
    ],
)
async def test_01_connect_denied(
    node: RunningNode, version: int, username: str | None, password: bytes | None, code: int
) -> None:
    client = await node.open(version=version)
    client.send_connect("c", username=username, password=password)
    connack = await client.take(p.Connack)
    assert connack.code == code  # of MQTT 3, what its return code means
    assert not connack.session_present
    await client.until_closed()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("password", [b"password9", None])
async def test_01_connect_uname_password_denied_no_will(
    node: RunningNode, version: int, password: bytes | None
) -> None:
    """A client that is refused has its will published neither at the refusal nor later."""
    watcher = await client_of(node, "admin")
    await watcher.subscribe("will/#")
    will = p.Will("will/test", b"refused", 1, True, properties())
    client = await node.open(version=version)
    client.send_connect("refused", username="user", password=password, will=will)
    assert (await client.take(p.Connack)).code != rc.SUCCESS
    await client.until_closed()
    accepted = await node.open(version=version)
    will = p.Will("will/test", b"accepted", 1, False, properties())
    accepted.send_connect("accepted", username="user", password=b"password-user", will=will)
    assert (await accepted.take(p.Connack)).code == rc.SUCCESS
    accepted.close()
    assert (await watcher.take(p.Publish)).payload == b"accepted"
    assert await watcher.payloads() == []
    await watcher.leave()


@pytest.mark.parametrize("version", VERSIONS)
async def test_01_connect_refused_takes_no_session_over(node: RunningNode, version: int) -> None:
    """Who has a wrong password disconnects nobody, and learns nothing of a session by that client id."""
    mine = await client_of(node, "user")
    assert await node.connack("user", "user", b"wrong", version=version) != rc.SUCCESS
    await mine.ping()
    await mine.leave()


@pytest.mark.parametrize("version", VERSIONS)
async def test_01_connect_listener_allow_anonymous(node: RunningNode, version: int) -> None:
    """Listeners side by side: one lets everybody in, one asks for a user, one has users of its own."""
    listeners = ("tcp:default", "tcp:anonymous", "tcp:own")

    async def codes(username: str | None, password: bytes | None) -> list[bool]:
        return [
            await node.connack("c", username, password, listener=one, version=version) == rc.SUCCESS
            for one in listeners
        ]

    assert await codes(None, None) == [False, True, False]
    assert await codes("user", b"password-user") == [True, True, False]
    assert await codes("user", b"wrong") == [False, True, False]


async def test_01_connect_auto_id_of_an_anonymous_client(node: RunningNode) -> None:
    client = await node.open("tcp:anonymous")
    client.send_connect("")
    connack = await client.take(p.Connack)
    assert connack.code == rc.SUCCESS
    assert props.ASSIGNED_CLIENT_IDENTIFIER in connack.properties.strings
    client = await node.open("tcp:default")
    client.send_connect("")
    connack = await client.take(p.Connack)
    assert connack.code == rc.NOT_AUTHORIZED
    assert props.ASSIGNED_CLIENT_IDENTIFIER not in connack.properties.strings


async def test_09_auth_bad_method(node: RunningNode) -> None:
    client = await node.open()
    client.send_connect("c", username="user", password=b"password-user", authentication_method="basic")
    assert (await client.take(p.Connack)).code in (rc.BAD_AUTHENTICATION_METHOD, rc.NOT_AUTHORIZED)
    await client.until_closed()


# --- mosquitto 09-acl-*, Paho test_subscribe_failure


@pytest.mark.parametrize("version", VERSIONS)
async def test_subscribe_failure(node: RunningNode, version: int) -> None:
    """Paho: a subscription that is not allowed is answered 0x87 (MQTT 3.1.1: 0x80), and those beside it hold."""
    client = await client_of(node, "user", version)
    filters = ("nosubscribe", "topic/a", "topic/denied/x", "other/#", "topic/+", "$SYS/#")
    client.send(p.Subscribe(1, [p.SubscribeEntry(one, 1, False, False, 0) for one in filters], properties()))
    refused = rc.NOT_AUTHORIZED if version == p.V5 else rc.UNSPECIFIED_ERROR
    expected = [refused, 1, refused, refused, 1, refused]
    suback = await client.take(p.Suback)
    assert list(suback.codes) == expected
    admin = await client_of(node, "admin")
    for topic in ("nosubscribe", "topic/a", "topic/denied/x", "other/x"):
        assert await admin.publish(topic, topic.encode(), 1) in (rc.SUCCESS, rc.NO_MATCHING_SUBSCRIBERS)
    assert set(await client.payloads()) == {b"topic/a"}
    await client.leave()
    await admin.leave()


@pytest.mark.parametrize("version", VERSIONS)
async def test_09_acl_access_variants(node: RunningNode, version: int) -> None:
    """Who may only read publishes nothing, and who may only write receives nothing."""
    reader, writer = await client_of(node, "readonly", version), await client_of(node, "writeonly", version)
    assert await reader.subscribe("topic/readonly/#", 1) == 1
    refused = rc.NOT_AUTHORIZED if version == p.V5 else rc.UNSPECIFIED_ERROR
    assert await writer.subscribe("topic/readonly/#", 1) == refused
    told = await reader.publish("topic/readonly/x", b"no", 1)
    assert told == (rc.NOT_AUTHORIZED if version == p.V5 else rc.SUCCESS)
    await reader.publish("topic/readonly/x", b"no", 0)
    assert await writer.publish("topic/readonly/x", b"yes", 1) == rc.SUCCESS
    assert (await reader.take(p.Publish)).payload == b"yes"
    assert await reader.payloads() == []
    assert await writer.payloads() == []
    await reader.leave()
    await writer.leave()


async def test_09_acl_pattern_is_of_its_own_user(node: RunningNode) -> None:
    client = await client_of(node, "user")
    assert await client.subscribe("user/user/#") == 0
    for other in ("user/admin/#", "user/+/#", "user/#", "+/user/#", "user/user"):
        assert await client.subscribe(other) == (0 if other == "user/user" else rc.NOT_AUTHORIZED)
    await client.leave()


async def test_09_acl_eq_is_no_wildcard(node: RunningNode) -> None:
    client = await client_of(node, "readonly")
    assert [await client.subscribe(one) for one in ("public", "+", "public/#")] == [0, rc.NOT_AUTHORIZED, 0x87]
    await client.leave()


@pytest.mark.parametrize("version", VERSIONS)
async def test_09_acl_will_that_is_not_allowed_is_not_published(node: RunningNode, version: int) -> None:
    watcher = await client_of(node, "admin")
    await watcher.subscribe("#")
    for topic in ("topic/denied/will", "other/will", "will/allowed"):
        client = await node.open(version=version)
        will = p.Will(topic, topic.encode(), 0, False, properties())
        client.send_connect("dies", username="user", password=b"password-user", will=will)
        assert (await client.take(p.Connack)).code == rc.SUCCESS
        client.close()
        await client.until_closed()
    assert (await watcher.take(p.Publish)).payload == b"will/allowed"
    assert await watcher.payloads() == []
    await watcher.leave()


async def test_09_acl_change(node: RunningNode, tmp_path: Path) -> None:
    """Rules that change hold for clients that are connected."""
    client = await client_of(node, "user")
    assert await client.subscribe("topic/a", 1) == 1
    admin = await client_of(node, "admin")
    (tmp_path / "acl.conf").write_text('{allow, {username, "admin"}, all, ["#"]}.')
    changed = f'authorization.sources = [{{ type = file, path = "{tmp_path}/acl.conf" }}]'
    assert await node.change(changed)
    try:
        assert await client.subscribe("topic/b", 1) == rc.NOT_AUTHORIZED
        assert await client.publish("topic/b", b"x", 1) == rc.NOT_AUTHORIZED
        await admin.publish("topic/a", b"late", 1)
        assert await client.payloads() == []
    finally:
        assert await node.change()
    assert await client.subscribe("topic/b", 1) == 1
    await client.leave()
    await admin.leave()
