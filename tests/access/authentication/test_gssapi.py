"""`gssapi:kerberos` with a KDC, as clients see it in enhanced authentication."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from heliograph.access.authentication.gssapi import Exchange
from heliograph.access.bans.ban_table import Ban
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.properties import AUTHENTICATION_DATA
from heliograph.settings.errors import ConfigError
from support.kerberos import REALM, SERVICE, Realm, kerberos
from support.packets import properties
from support.running import MqttClient, RunningNode

METHOD = "GSSAPI-KERBEROS"
LISTENER = 'listeners.tcp.default.bind = "127.0.0.1:0"'
NO_LAYER = b"\x01\0\0\0"

pytestmark = [pytest.mark.service, pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with kerberos(tmp_path_factory.mktemp("realm")) as found:
        found.user("alice", "secret")
        yield found


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path_factory.mktemp("node"), LISTENER) as running:
        assert await running.change(settings(realm))
        yield running


def settings(realm: Realm, principal: str = SERVICE) -> str:
    return (
        f'authentication = {{ mechanism = gssapi, backend = kerberos, principal = "{principal}", '
        f'keytab_file = "{realm.keytab}" }}'
    )


async def begin(node: RunningNode, data: bytes, username: str | None = None, method: str = METHOD) -> MqttClient:
    client = await node.open()
    client.send_connect("c", username=username, authentication_method=method, authentication_data=data)
    return client


async def answer(client: MqttClient) -> tuple[int, bytes]:
    """The reason code and the data of the next AUTH or CONNACK."""
    packet = await client.take(p.Packet, lambda one: isinstance(one, p.Auth | p.Connack))
    assert isinstance(packet, p.Auth | p.Connack)
    return packet.code, packet.properties.binaries.get(AUTHENTICATION_DATA, b"")


def send(client: MqttClient, data: bytes) -> None:
    client.send(p.Auth(rc.CONTINUE_AUTHENTICATION, properties(authentication_method=METHOD, authentication_data=data)))


async def finish(node: RunningNode, context: object, choice: bytes = NO_LAYER, username: str | None = None) -> int:
    """The whole exchange of a client with a ticket; the reason code of its CONNACK."""
    from gssapi import SecurityContext

    assert isinstance(context, SecurityContext)
    client = await begin(node, context.step() or b"", username)
    code, data = await answer(client)
    assert code == rc.CONTINUE_AUTHENTICATION
    assert not context.step(data)
    assert context.complete
    send(client, b"")
    code, data = await answer(client)
    assert code == rc.CONTINUE_AUTHENTICATION
    assert context.unwrap(data).message == NO_LAYER
    send(client, context.wrap(choice, False).message)
    code, _ = await answer(client)
    await client.leave()
    return code


@pytest.mark.parametrize("username", [None, "alice", f"alice@{REALM}"])
async def test_a_ticket_lets_its_client_in(node: RunningNode, realm: Realm, username: str | None) -> None:
    assert await finish(node, realm.context("alice", "secret"), username=username) == rc.SUCCESS


@pytest.mark.parametrize(
    ("name", "principal", "is_own"),
    [
        ("alice", f"alice@{REALM}", True),
        (f"alice@{REALM}", f"alice@{REALM}", True),
        ("alice@OTHER.TEST", "alice@OTHER.TEST", True),
        ("alice", "alice@OTHER.TEST", False),
        ("alice@OTHER.TEST", f"alice@{REALM}", False),
    ],
)
async def test_principals_of_other_realms_are_no_users_of_ours(name: str, principal: str, is_own: bool) -> None:
    assert Exchange(None, None, REALM).is_name_of(name, principal) == is_own


async def test_a_client_without_a_user_name_is_the_user_of_its_ticket(node: RunningNode, realm: Realm) -> None:
    bans = node.bans
    bans.add(Ban("username", "alice"))
    try:
        assert await finish(node, realm.context("alice", "secret")) == rc.BANNED
    finally:
        bans.remove("username", "alice")


async def test_a_ticket_is_for_its_own_user(node: RunningNode, realm: Realm) -> None:
    assert await finish(node, realm.context("alice", "secret"), username="bob") == rc.NOT_AUTHORIZED
    assert await finish(node, realm.context("alice", "secret"), NO_LAYER + b"bob") == rc.NOT_AUTHORIZED


async def test_security_layers_are_not_offered(node: RunningNode, realm: Realm) -> None:
    assert await finish(node, realm.context("alice", "secret"), b"\x04\0\0\0") == rc.NOT_AUTHORIZED


async def test_what_is_no_ticket_is_refused(node: RunningNode) -> None:
    for data in (b"x", b"\x60\x00", bytes(65_000)):
        assert (await answer(await begin(node, data)))[0] == rc.NOT_AUTHORIZED


async def test_other_methods_and_passwords_are_left_to_others(node: RunningNode) -> None:
    assert (await answer(await begin(node, b"n,,n=alice,r=x", method="SCRAM-SHA-256")))[0] != rc.SUCCESS
    assert await node.connack("c", "alice", b"secret") == rc.NOT_AUTHORIZED


async def test_a_token_of_another_exchange_is_refused(node: RunningNode, realm: Realm) -> None:
    context = realm.context("alice", "secret")
    client = await begin(node, context.step() or b"")
    context.step((await answer(client))[1])
    send(client, b"")
    await answer(client)
    send(client, b"\0" * 32)
    assert (await answer(client))[0] == rc.NOT_AUTHORIZED


async def test_keys_that_cannot_be_used_refuse_the_configuration(realm: Realm, tmp_path: Path) -> None:
    empty = tmp_path / "empty.keytab"
    empty.write_bytes(b"\x05\x02")
    node = RunningNode(tmp_path, LISTENER, settings(realm).replace(str(realm.keytab), str(empty)))
    with pytest.raises(Exception, match="cannot be used from"):
        await node.node.start()
    await node.node.stop()


@pytest.mark.parametrize("principal", ["mqtt", "mqtt/host", "mqtt@REALM"])
async def test_a_principal_names_service_host_and_realm(realm: Realm, tmp_path: Path, principal: str) -> None:
    with pytest.raises(ConfigError, match="principal"):
        RunningNode(tmp_path, LISTENER, settings(realm, principal))
