"""An HTTP service that says what clients may do, through clients of a node that runs."""

import asyncio
import json
from pathlib import Path

import pytest

from heliograph.mqtt import reason_codes as rc
from heliograph.node.kernel import KernelPart
from support.running import RunningNode
from support.webhook import Answer, Posted, webhook

pytestmark = pytest.mark.service

NODE = 'listeners.tcp.default.bind = "127.0.0.1:0"'
BODY = """
  clientid = "${clientid}", username = "${username}", action = "${action}", topic = "${topic}", qos = "${qos}"
  retain = "${retain}", access = "${access}", peerhost = "${peerhost}", password = "${password}"
"""


def settings(url: str, more: str = "") -> str:
    """A node whose clients may do what the service says, and nothing else."""
    source = f'{{ type = http, method = post, url = "{url}/${{zone}}", body {{ {BODY} }} {more} }}'
    return f"authorization {{ no_match = deny, sources = [ {source} ] }}"


async def test_each_action_is_asked_about_and_decisions_are_remembered(tmp_path: Path) -> None:
    def answer(request: Posted) -> Answer:
        asked = json.loads(request.body)
        if asked["topic"] == "no/content":
            return Answer(204)
        said = "allow" if asked["topic"].startswith("own/") else "deny" if asked["topic"] == "denied" else "ignore"
        return Answer(200, {"Content-Type": "application/json"}, json.dumps({"result": said}).encode())

    with webhook() as service:
        service.answer = answer
        async with RunningNode(tmp_path, NODE, settings(service.url)) as node:
            client = await node.connect("c", username="u")
            assert await client.subscribe("own/#", 1) == 1
            assert await client.publish("own/a", b"x", 1, retain=True) == rc.SUCCESS
            assert await client.publish("no/content", b"x", 1) in (rc.SUCCESS, rc.NO_MATCHING_SUBSCRIBERS)
            assert await client.publish("denied", b"x", 1) == rc.NOT_AUTHORIZED
            assert await client.publish("other", b"x", 1) == rc.NOT_AUTHORIZED
            assert await client.subscribe("denied") == rc.NOT_AUTHORIZED
            count = len(service.requests)
            assert await client.publish("own/a", b"x", 1, retain=True) == rc.SUCCESS
            assert len(service.requests) == count
            first, second = (json.loads(request.body) for request in service.requests[:2])
            common = {"clientid": "c", "username": "u", "peerhost": "127.0.0.1", "password": "${password}", "qos": "1"}
            assert first == common | {"action": "subscribe", "topic": "own/#", "access": "1", "retain": ""}
            assert second == common | {"action": "publish", "topic": "own/a", "access": "2", "retain": "true"}
            assert service.requests[0].path == "/default"


async def test_answers_that_the_node_keeps_are_for_all_clients_and_within_limits_that_change(tmp_path: Path) -> None:
    with webhook() as service:
        body = '{ action = "${action}", topic = "${topic}" }'
        source = f'{{ type = http, method = post, url = "{service.url}", body {body} }}'
        always = f"{NODE}\nauthorization {{ no_match = deny, cache.enable = false, sources = [ {source} ] }}"

        async def asked(*topics: str) -> int:
            count = len(service.requests)
            for topic in topics:
                for client in clients:
                    assert await client.publish(topic, b"x", 1) != rc.NOT_AUTHORIZED
            return len(service.requests) - count

        async with RunningNode(tmp_path, always) as node:
            clients = [await node.connect(name) for name in ("a", "b")]
            assert await asked("t", "t") == 4
            assert await node.change("authorization.node_cache.enable = true")
            assert await asked("t", "t", "u", "t") == 2
            assert await node.change("authorization.node_cache { enable = true, max_count = 1 }")
            assert await asked("t", "u", "t") == 3
            assert await node.change("authorization.node_cache { enable = true, max_memory = 100B }")
            assert await asked("t", "t") == 4
            assert await node.change("authorization.node_cache { enable = true, cache_ttl = 1ms }")
            assert await asked("new") > 0
            await asyncio.sleep(0.002)  # until what is kept is too old
            assert await asked("new") > 0


async def test_a_service_that_is_down_decides_nothing(tmp_path: Path) -> None:
    async with RunningNode(tmp_path, NODE, settings("http://127.0.0.1:9")) as node:
        client = await node.connect("c")
        assert await client.subscribe("own/a") == rc.NOT_AUTHORIZED
        alarms = [alarm.name for alarm in node.node.parts.get(KernelPart).alarms.active()]
        assert "backend_down/authorization:http" in alarms
