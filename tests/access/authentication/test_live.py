"""Authenticators that come, go and change while clients connect to a node that runs."""

import asyncio
import logging
import threading
from pathlib import Path

import jwt
import pytest

from heliograph.access.authentication.part import AuthenticationPart
from heliograph.access.users.records import PasswordUser
from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.node.access_records import UsersPart
from support.certificates import Authority
from support.running import RunningNode
from support.waiting import until
from support.webhook import Answer, Posted, webhook

NODE = 'listeners.tcp.default.bind = "127.0.0.1:0"'
SECRET = "a secret that is long enough for every hash"
BUILT_IN = "{ mechanism = password_based, backend = built_in_database %s }"
REFUSE = '{ mechanism = cinfo, checks = [ { is_match = "true", result = deny } ] }'


@pytest.mark.service
async def test_a_client_that_waits_is_answered_by_the_authenticator_that_it_waits_for(tmp_path: Path) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def answer(request: Posted) -> Answer:
        asked.set()
        go_on.wait(20)
        return Answer(204)

    with webhook() as service:
        service.answer = answer
        asks = f'mechanism = password_based, backend = http, method = get, url = "{service.url}"'
        chain = f"authentication = [ {{ {asks} }} ]"
        async with RunningNode(tmp_path, NODE, chain) as node:
            client = await node.open()
            client.send_connect("c", username="u", password=b"p")
            await asyncio.to_thread(asked.wait, 20)
            assert await node.change(f"authentication = [ {REFUSE} ]")
            assert await node.connack("other", "u", b"p") == rc.BAD_USERNAME_OR_PASSWORD
            go_on.set()
            assert (await client.take(p.Connack)).code == rc.SUCCESS
            await until(lambda: not node.node.parts.get(AuthenticationPart).health())


async def test_users_stay_while_their_authenticator_is_off_and_go_with_it(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, NODE, f"authentication = [ {BUILT_IN % ''} ]") as node:
        users = node.node.parts.get(UsersPart).users.group(PasswordUser, "", "password_based:built_in_database")
        await users.take([("ann", PasswordUser(b"plain", own=("plain", "disable", None, None, None)))], overwrite=True)
        assert await node.connack("c", "ann", b"plain") == rc.SUCCESS
        assert await node.change(f"authentication = [ {BUILT_IN % ', enable = false'}, {REFUSE} ]")
        assert await node.connack("c", "ann", b"plain") == rc.BAD_USERNAME_OR_PASSWORD
        assert await node.change(f"authentication = [ {BUILT_IN % ''} ]")
        assert await node.connack("c", "ann", b"plain") == rc.SUCCESS
        assert await node.change(f"authentication = [ {REFUSE} ]")
        assert await node.change(f"authentication = [ {BUILT_IN % ''} ]")
        assert await node.connack("c", "ann", b"plain") == rc.NOT_AUTHORIZED


async def test_a_key_file_is_read_again_with_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    chain = f'authentication = {{ mechanism = jwt, secret = "file://{file}" }}'
    old, new = (jwt.encode({}, secret, "HS256").encode() for secret in (SECRET, SECRET[::-1]))
    async with RunningNode(tmp_path, NODE, chain) as node:
        assert await node.connack("c", "u", old) == rc.SUCCESS
        members = node.node.parts.get(AuthenticationPart).chains()[""]
        assert await node.change(chain)
        assert node.node.parts.get(AuthenticationPart).chains()[""] == members
        file.write_text(SECRET[::-1] + "\n")
        assert await node.change(chain)
        assert await node.connack("c", "u", old) == rc.NOT_AUTHORIZED
        assert await node.connack("c", "u", new) == rc.SUCCESS
        file.unlink()
        assert not await node.change(chain)
        assert await node.connack("c", "u", new) == rc.SUCCESS


async def test_what_clients_bring_is_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chain = f'authentication = [ {{ mechanism = jwt, secret = "{SECRET}" }}, {BUILT_IN % ""} ]'
    token = jwt.encode({"exp": 1}, SECRET, "HS256")
    with caplog.at_level(logging.DEBUG):
        async with RunningNode(tmp_path, NODE, chain) as node:
            assert await node.connack("c", "u", token.encode()) == rc.BAD_USERNAME_OR_PASSWORD
            assert await node.connack("c", "u", b"pass-word") == rc.NOT_AUTHORIZED
            assert await node.change(f'authentication = {{ mechanism = jwt, secret = "{SECRET}", from = username }}')
    assert "authentication" in caplog.text
    assert not any(text in caplog.text for text in (SECRET, token, "pass-word"))


async def test_a_certificate_may_be_all_that_a_client_needs(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    tls = f'certfile = "{authority.server()}", cacertfile = "{authority.cafile}", verify = verify_peer'
    check = '{ is_match = ["str_eq(cert_common_name, clientid)", "str_eq(username, cert_subject)"], result = allow }'
    settings = f"""
      listeners.ssl.devices {{
        bind = "127.0.0.1:0", zone = devices, ssl_options {{ {tls} }}
        authentication = {{ mechanism = cinfo, checks = [ {check} ] }}
      }}
      zones.devices.mqtt {{ peer_cert_as_clientid = cn, peer_cert_as_username = dn }}
    """
    async with RunningNode(tmp_path, NODE, settings) as node:
        client = await node.connect("x", listener="ssl:devices", tls=authority.context(authority.client("device-1")))
        assert node.client("device-1").common_name == "device-1"
        await client.leave()
        other = await node.open("ssl:devices", tls=authority.context())
        other.send_connect("device-1", username="CN=device-1")
        assert (await other.take(p.Connack)).code == rc.NOT_AUTHORIZED
