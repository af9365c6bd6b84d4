"""Ways around what was decided: names that only the authentication tells, and names that cannot be asked about."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path

import jwt
import pytest

from heliograph.access.authentication.stored_user import StoredUser
from heliograph.access.authorization.http import verdict_of_answer
from heliograph.access.backends.http import HttpAnswer, HttpQuestion
from heliograph.access.bans.ban_table import Ban
from heliograph.access.users.records import PasswordUser, ScramUser
from heliograph.access.users.scram import scram_keys
from heliograph.broker.authentication import AuthAttempt
from heliograph.mqtt import reason_codes as rc
from heliograph.node.access_records import UsersPart
from support.running import RunningNode
from support.scram import ScramClient
from support.webhook import Answer, webhook

NODE = 'listeners.tcp.default.bind = "127.0.0.1:0"'
SCRAM = "authentication = { mechanism = scram, backend = built_in_database }"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RunningNode]:
    async with RunningNode(tmp_path, NODE, SCRAM) as running:
        users = running.node.parts.get(UsersPart).users.group(ScramUser, "", "scram:built_in_database")
        keys = scram_keys("sha256", b"secret", b"salt", 4096)
        await users.take(
            [
                (name, ScramUser(keys.stored_key, keys.server_key, b"salt", 4096, "sha256"))
                for name in ("ann", "bob", "eve-1")
            ],
            overwrite=True,
        )
        yield running


async def test_a_banned_user_whose_name_only_the_authentication_tells_stays_out(node: RunningNode) -> None:
    bans = node.bans
    bans.add(Ban("username", "ann"))
    bans.add(Ban("username_re", "^eve"))
    for name, code in (("ann", rc.BANNED), ("eve-1", rc.BANNED), ("bob", rc.SUCCESS)):
        for username in (None, name):
            client = await node.open()
            assert await ScramClient("sha256", name, b"secret").connect(client, username) == code, (name, username)
    client = await node.open()
    assert await ScramClient("sha256", "ann", b"wrong").connect(client) == rc.NOT_AUTHORIZED  # nobody learns of the ban


async def test_a_ban_that_comes_later_counts_from_the_next_connect_on(node: RunningNode) -> None:
    for username in (None, "bob"):
        client, scram = await node.open(), ScramClient("sha256", "bob", b"secret")
        assert await scram.connect(client, username) == rc.SUCCESS
        node.bans.add(Ban("username", "bob"))
        assert await scram.renew(client) == rc.SUCCESS
        assert await scram.connect(await node.open(), username) == rc.BANNED
        node.bans.remove("username", "bob")


@pytest.mark.service
@pytest.mark.parametrize(
    ("request_settings", "clientid", "topic"),
    [
        ('url = "%s/${topic}"', "c", ".."),
        ('url = "%s/${topic}"', "c", "."),
        ('url = "%s/${clientid}"', "..", "secret"),
        ('url = "%s/", headers { topic = "${topic}" }', "c", "secret/\x01"),
        ('url = "%s/", headers { client = "${clientid}" }', "a\x1fb", "secret"),
        ('url = "%s/?topic=${topic}"', "c", "secret/" + "\u00e9" * 30_000),
        ('url = "%s/?topic=${topic}"', "c", "secret/" + "x" * 60_000),
    ],
)
async def test_what_cannot_be_asked_about_is_denied(
    tmp_path: Path, request_settings: str, clientid: str, topic: str
) -> None:
    with webhook() as service:
        service.answer = lambda request: Answer(200, {"Content-Type": "application/json"}, b'{"result": "deny"}')
        source = f"{{ type = http, method = get, {request_settings % service.url} }}"
        async with RunningNode(tmp_path, NODE, f"authorization {{ no_match = allow, sources = [ {source} ] }}") as node:
            client = await node.connect(clientid)
            assert await client.publish(topic, b"x", 1) == rc.NOT_AUTHORIZED
            assert await client.subscribe(topic, 1) == rc.NOT_AUTHORIZED


def test_a_request_that_is_too_large_for_the_service_denies() -> None:
    verdicts = {status: verdict_of_answer(HttpAnswer(status, None, b"")) for status in (204, 400, 404, 413, 414, 431)}
    assert verdicts == {204: "allow", 400: "nomatch", 404: "nomatch", 413: "deny", 414: "deny", 431: "deny"}


def test_what_holds_secrets_shows_none() -> None:
    secret = b"TOP-SECRET"
    shown = repr(
        (
            HttpQuestion("GET", f"http://x/?p={secret.decode()}", (("authorization", secret.decode()),), secret),
            PasswordUser(secret, secret),
            ScramUser(secret, secret, secret, 4096, "sha256"),
            StoredUser(secret, secret, False),
            AuthAttempt("method", secret, "user", secret),
        )
    )
    assert secret.decode() not in shown


async def test_a_token_in_the_place_of_a_user_name_is_in_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "a secret that is long enough for every hash"
    token = jwt.encode({"sub": "device"}, secret, "HS256")
    chain = f'authentication = {{ mechanism = jwt, from = username, secret = "{secret}" }}\naddress_limits.exempt = []'
    with caplog.at_level(logging.DEBUG):
        async with RunningNode(tmp_path, NODE, chain) as node:
            assert await node.connack("c", token) == rc.SUCCESS
            for _ in range(12):
                await node.connack("c", token[:-2])
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert token.rpartition(".")[0] in said
    assert token.rpartition(".")[2][:-2] not in said
