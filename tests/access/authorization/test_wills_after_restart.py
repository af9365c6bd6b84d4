"""Wills that outlast the node are published only if their clients could have published them."""

from pathlib import Path

import jwt
import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from support.packets import properties
from support.running import RunningNode

NODE = """
listeners.tcp.default.bind = "127.0.0.1:0"
listeners.tcp.boss { bind = "127.0.0.1:0", enable_authn = false }
durable_storage.flight.enable = false
durable_sessions.enable = true
"""
SECRET = "a secret that is long enough for every hash"
RULES = """
{allow, {listener, "tcp:boss"}, all, all}.
{deny, {listener, "tcp:default"}, publish, ["secret/listener"]}.
{deny, {client_attr, "plant", "a"}, publish, ["secret/attribute"]}.
{deny, all, publish, ["secret/superuser"]}.
"""
OWN = {"pub": ["own/#"]}


def settings(directory: Path) -> str:
    rules = directory / "acl.conf"
    rules.write_text(RULES)
    return f"""
        authentication = {{ mechanism = jwt, secret = "{SECRET}" }}
        authorization {{ no_match = allow, sources = [ {{ type = file, path = "{rules}" }} ] }}
    """


@pytest.mark.parametrize(
    ("claims", "topic", "is_published"),
    [
        ({"acl": OWN}, "secret/x", False),
        ({"acl": OWN}, "own/x", True),
        ({}, "secret/x", True),
        ({}, "secret/listener", False),
        ({"client_attrs": {"plant": "a"}}, "secret/attribute", False),
        ({"client_attrs": {"plant": "b"}}, "secret/attribute", True),
        ({}, "secret/superuser", False),
        ({"is_superuser": True}, "secret/superuser", True),
    ],
)
async def test_a_will_is_published_by_the_rights_that_its_client_had(
    tmp_path: Path, claims: dict[str, object], topic: str, is_published: bool
) -> None:
    token = jwt.encode(claims, SECRET, "HS256").encode()
    async with RunningNode(tmp_path, NODE, settings(tmp_path)) as node:
        # Its session misses no will, however long the second start takes.
        boss = await node.connect("boss", listener="tcp:boss", session_expiry_interval=1000)
        await boss.subscribe("#", 1)
        for clientid, will_topic in (("c", topic), ("other", "last")):
            client = await node.open()
            will = p.Will(will_topic, will_topic.encode(), 1, False, properties(will_delay_interval=1))
            password = token if clientid == "c" else jwt.encode({}, SECRET, "HS256").encode()
            client.send_connect(clientid, username="u", password=password, will=will, session_expiry_interval=1000)
            assert (await client.take(p.Connack)).code == rc.SUCCESS
    async with RunningNode(tmp_path, NODE, settings(tmp_path)) as node:
        boss = await node.connect("boss", listener="tcp:boss", clean_start=False, session_expiry_interval=1000)
        await boss.take(p.Publish, lambda one: one.payload == b"last")
        if is_published:
            await boss.take(p.Publish, lambda one: one.payload == topic.encode())
        assert await boss.payloads() == []
