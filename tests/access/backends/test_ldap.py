"""`password_based:ldap` with OpenLDAP, as clients see it."""

import base64
import logging
from collections.abc import AsyncIterator, Iterator
from hashlib import sha1

import pytest
import pytest_asyncio

from heliograph.mqtt import reason_codes as rc
from heliograph.settings.errors import ConfigError
from support.access import WatchedNode
from support.openldap import ADMIN, ADMIN_PASSWORD, BASE, OpenLdap, openldap

BACKEND = "authentication:password_based:ldap"
SSHA = "{SSHA}" + base64.b64encode(sha1(b"secretsalt").digest() + b"salt").decode()
HASH = "method { type = hash }"
BIND = "method { type = bind }"
USERS = f"ou=users,{BASE}"
BY_FILTER = f'base_dn = "{USERS}", filter = "(&(objectClass=mqttUser)(uid=${{username}}))"'
BY_NAME = f'base_dn = "uid=${{username}},{USERS}"'

FILTERS_THAT_CANNOT_BE = (
    "(uid=${username}", "uid=a", "((uid=a))", "(&)", "(uid=a)(cn=b)", "(uid=a)) ", "(!(a=b)(c=d))", "(=a)", "(uid)",
    "(uid=a(b)", "(uid=\\\\zz)", "(|(a=b)",
)  # fmt: skip

RIGHTS = (
    "mqttPublishTopic: p/${clientid}",
    "mqttSubscriptionTopic: s/+",
    "mqttPubSubTopic: b/#",
    'mqttAclRule: [{"permission": "allow", "action": "subscribe", "topic": "eq e/+/c"}, '
    '{"permission": "deny", "action": "all", "topic": "#"}]',
)

pytestmark = [pytest.mark.service, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLdap]:
    with openldap(tmp_path_factory.mktemp("openldap")) as found:
        found.user("alice", SSHA, "isSuperuser: FALSE", *RIGHTS, "mqttAclTtl: 1h")
        found.user("root", "{SHA}" + base64.b64encode(sha1(b"toor").digest()).decode(), "isSuperuser: TRUE")
        found.user("off", SSHA, "isEnabled: FALSE")
        found.user("late", SSHA, "mqttSubscriptionTopic: t", "mqttAclTtl: soon")
        found.user("wrong", SSHA, 'mqttAclRule: {"permission": "maybe"}')
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WatchedNode]:
    async with WatchedNode(tmp_path_factory.mktemp("node")) as running:
        yield running


def authentication(server: OpenLdap, method: str, search: str = BY_FILTER, more: str = "") -> str:
    return (
        f'authentication = {{ mechanism = password_based, backend = ldap, server = "127.0.0.1:{server.port}", '
        f'username = "{ADMIN}", password = "{ADMIN_PASSWORD}", {search}, {method} {more} }}'
    )


@pytest.mark.parametrize("search", [BY_FILTER, BY_NAME])
@pytest.mark.parametrize("method", [HASH, BIND])
async def test_users(node: WatchedNode, server: OpenLdap, method: str, search: str) -> None:
    assert await node.change(authentication(server, method, search))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    for wrong in (b"Secret", b"", b"\0", b"toor", bytes(65_535), b"\xff\0", "\u00ad".encode()):
        assert await node.connack("c", "alice", wrong) == rc.BAD_USERNAME_OR_PASSWORD
    for unknown in ("bob", "", None):
        assert await node.connack("c", unknown, b"secret") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "alice") == rc.NOT_AUTHORIZED
    assert await node.is_superuser("root", b"toor")
    assert not await node.is_superuser("alice", b"secret")
    assert await node.connack("c", "off", b"secret") == rc.NOT_AUTHORIZED
    assert await node.connack("c", "off", b"wrong") == rc.BAD_USERNAME_OR_PASSWORD


@pytest.mark.parametrize(
    "search", [BY_FILTER, BY_NAME, f'base_dn = "{USERS}", filter = "(uid=${{clientid}}${{password}})"']
)
@pytest.mark.parametrize("method", [HASH, BIND])
async def test_injections(node: WatchedNode, server: OpenLdap, method: str, search: str) -> None:
    assert await node.change(authentication(server, method, search))
    # A directory does not tell blanks around a name from none.
    await node.check_injections(but=(" alice", "alice "))


async def test_tls(node: WatchedNode, server: OpenLdap) -> None:
    plain, place = f'server = "127.0.0.1:{server.port}"', f'server = "localhost:{server.tls_port}"'
    tls = authentication(server, BIND).replace(plain, place)
    assert await node.change(tls.replace(BIND, f'{BIND}, ssl {{ cacertfile = "{server.cafile}" }}'))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    # Its certificate is not signed by those whom the system trusts.
    assert await node.change(tls.replace(BIND, f"{BIND}, ssl {{ enable = true }}"))
    await node.until_alarm("activate", BACKEND)
    assert await node.change(tls.replace(BIND, f"{BIND}, ssl {{ verify = verify_none }}"))
    await node.until_alarm("deactivate", BACKEND)
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS


async def test_a_password_of_placeholders_that_is_empty_never_binds(node: WatchedNode, server: OpenLdap) -> None:
    """The server of these tests lets a bind without a password succeed, as many do."""
    bind = 'method { type = bind, bind_password = "${client_attrs.none}" }'
    assert await node.change(authentication(server, bind))
    assert await node.connack("c", "alice", b"secret") == rc.BAD_USERNAME_OR_PASSWORD


async def test_a_client_carries_the_rights_of_its_entry(node: WatchedNode, server: OpenLdap) -> None:
    rights = (
        ", publish_attribute = mqttPublishTopic, subscribe_attribute = mqttSubscriptionTopic, "
        "acl_rule_attribute = mqttAclRule, acl_ttl_attribute = mqttAclTtl"
    )
    assert await node.change(authentication(server, HASH, more=rights))
    client = await node.login("c", "alice", b"secret")
    assert await client.publish("p/c", qos=1) == rc.SUCCESS
    assert await client.publish("p/d", qos=1) == rc.NOT_AUTHORIZED
    assert await client.subscribe("p/c") == rc.NOT_AUTHORIZED
    # Rights that cannot be read are no rights.
    for user in ("late", "wrong"):
        assert await node.connack("c", user, b"secret") == rc.BAD_USERNAME_OR_PASSWORD
    await client.leave()


@pytest.mark.parametrize(
    "search",
    [
        'base_dn = "users"',
        'base_dn = "ou=users,,dc=x"',
        'base_dn = "${username}"',
        *(f'base_dn = "{USERS}", filter = "{text}"' for text in FILTERS_THAT_CANNOT_BE),
    ],
)
async def test_searches_that_cannot_be(node: WatchedNode, server: OpenLdap, search: str) -> None:
    with pytest.raises(ConfigError, match=r"base_dn|filter"):
        node.load(authentication(server, HASH, search))


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("method { type = bind, password_attribute = a }", "has no password_attribute"),
        ('method { type = hash, bind_password = "${password}" }', "has no bind_password"),
        ("method { type = other }", "hash or bind"),
    ],
)
async def test_methods_that_cannot_be(node: WatchedNode, server: OpenLdap, method: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        node.load(authentication(server, method))


@pytest.mark.parametrize("method", [HASH, BIND])
async def test_a_server_that_stops_and_starts(
    node: WatchedNode, server: OpenLdap, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    caplog.set_level(logging.DEBUG)
    assert await node.change(authentication(server, method))
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    await node.check_outage(server.server.stop, server.server.start, BACKEND)
    assert await node.connack("c", "alice", b"secret") == rc.SUCCESS
    for secret in (ADMIN_PASSWORD, "secret", SSHA):
        assert secret not in caplog.text


async def test_a_password_that_the_server_does_not_take_is_an_alarm(
    node: WatchedNode, server: OpenLdap, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "not the password"
    await node.check_refused_password(authentication(server, HASH).replace(ADMIN_PASSWORD, wrong), BACKEND)
    assert wrong not in caplog.text


def source(server: OpenLdap, search: str = BY_FILTER) -> str:
    place = f'server = "127.0.0.1:{server.port}", username = "{ADMIN}", password = "{ADMIN_PASSWORD}"'
    return f"{{ type = ldap, {place}, {search} }}"


@pytest.mark.parametrize("search", [BY_FILTER, BY_NAME])
async def test_attributes_of_an_entry_are_rights(node: WatchedNode, server: OpenLdap, search: str) -> None:
    assert await node.change(node.asking(source(server, search)))
    await node.check_rights()
    await node.check_named_rights(but=(" alice", "alice "))


async def test_rights_while_the_server_is_away(node: WatchedNode, server: OpenLdap) -> None:
    assert await node.change(node.asking(source(server)))
    client = await node.login("c", "alice")
    assert await client.publish("p/c", qos=1) == rc.SUCCESS
    server.server.stop()
    assert await client.publish("b/x", qos=1) == rc.SUCCESS
    late = await node.login("d", "alice")
    assert await late.publish("p/d", qos=1) == rc.NOT_AUTHORIZED
    await node.until_alarm("activate", "authorization:ldap")
    server.server.start()
    await node.until_alarm("deactivate", "authorization:ldap")
    assert await node.connack("e", "alice") == rc.SUCCESS
    await client.leave()
    await late.leave()
