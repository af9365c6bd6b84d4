"""Sources of the type `nats` and NATS itself: streams, subjects, TLS, a killed process, a node that takes nothing."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from nats.aio.client import Client
from nats.js.api import ConsumerInfo, StreamConfig
from nats.js.errors import NotFoundError

from heliograph.settings.outbound import OutboundConfig
from support.certificates import Authority
from support.nats import Nats, nats_server
from support.running import RunningNode
from support.sources import WAIT_S, HeldNode, check_fault, has_state, held_source, is_connected, part_of, received
from support.waiting import until

pytestmark = [pytest.mark.service, pytest.mark.slow]

ALWAYS: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["in/#"]
"""
ACK_WAIT_S: Final = 2.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    async def stream(client: Client) -> None:
        await client.jetstream().add_stream(StreamConfig("PLANT", subjects=["plant.>"]))
        await client.jetstream().add_stream(StreamConfig("HELD", subjects=["held"]))

    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        running.ask(stream)
        yield running


async def publish(server: Nats, subject: str, values: list[bytes], headers: dict[str, str] | None = None) -> None:
    async def sent(client: Client) -> None:
        for value in values:
            await client.publish(subject, value, headers=headers or {"a": "b"})
        await client.flush()

    await server.answer(sent)


async def consumer(server: Nats, stream: str, name: str) -> ConsumerInfo | None:
    async def info(client: Client) -> ConsumerInfo | None:
        try:
            found: ConsumerInfo = await client.jetstream().consumer_info(stream, name)
        except NotFoundError:
            return None
        return found

    return await server.answer(info)


async def have(count: int, *nodes: HeldNode) -> None:
    """Wait until nodes have so many messages together, with those that were lost."""
    await until(lambda: sum(one.count for node in nodes for one in node.messages) == count, WAIT_S)


async def test_messages_of_streams_and_subjects_come_and_the_order_outlasts_a_kill(
    tmp_path: Path, server: Nats
) -> None:
    await publish(server, "plant.one", [b'{"n":1}'])
    login = f'server = "localhost:{server.port}", password = "s3cret"'
    settings = f"""
    connectors.nats {{
      far {{ {login}, username = all }}
      less {{ {login}, username = some }}
      wrong {{ server = "localhost:{server.port}", username = all, password = other }}
    }}
    sources.nats {{
      one {{
        connector = far
        parameters {{ subject = "plant.>", durable = d, deliver_policy = all, ack_wait = 1s }}
        local.topic = "in/${{topic}}"
      }}
      own {{ connector = far, parameters.subject = "plant.none" }}
      core {{
        connector = far, parameters {{ subject = "core.*", jetstream = false, queue_group = g }}
        local.topic = "in/${{topic}}/${{qos}}"
      }}
      absent {{ connector = far, parameters.subject = "no.such" }}
      denied {{ connector = less, parameters {{ subject = "denied.x", jetstream = false }} }}
      wrong {{ connector = wrong, parameters.subject = "plant.>" }}
    }}
    rule_engine.rules.read {{
      sql = \"\"\"SELECT payload.n AS n, topic, subject, headers, stream, sequence, qos
              FROM "$bridges/nats:one" WHERE sequence = 1 \"\"\"
      actions = [{{ function = republish, args {{ topic = "in/rows", payload = "${{.}}" }} }}]
    }}
    """
    async with RunningNode(tmp_path, ALWAYS, settings) as node:
        client = await node.connect("here")
        await client.subscribe("in/#", 1)
        first = dict(await received(client, 2))
        assert first["in/plant/one"] == b'{"n":1}'
        assert json.loads(first["in/rows"]) == {
            "n": 1,
            "topic": "plant/one",
            "subject": "plant.one",
            "headers": {"a": "b"},
            "stream": "PLANT",
            "sequence": 1,
            "qos": 1,
        }
        await is_connected(node, "nats:one", "nats:own", "nats:core")
        await has_state(node, "nats:absent", "disconnected", "no stream with the subject no.such")
        await has_state(node, "nats:denied", "disconnected", 'permissions violation for subscription to "denied.x"')
        await has_state(node, "nats:wrong", "disconnected", "Authorization Violation")
        sources = part_of(node)
        assert "other" not in sources.state("nats:wrong")[1]
        await publish(server, "core.a", [b"once"])
        assert await received(client, 1) == [("in/core/a/0", b"once")]
        await publish(server, "plant.one", [b"round"], {"heliograph-via": f"other, {sources.site}"})
        await until(lambda: sources.counts("nats:one").get("dropped.loop") == 1, WAIT_S)
        pid = sources.pid
        assert pid is not None
        values = [b"%d" % number for number in range(600)]
        await publish(server, "plant.one", values)
        found = await received(client, 200)
        os.kill(pid, signal.SIGKILL)
        while found[-1][1] != values[-1]:
            found += await received(client, 1)
        assert list(dict.fromkeys(value for _, value in found)) == values

        async def is_acknowledged() -> bool:
            info = await consumer(server, "PLANT", "d")
            return info is not None and info.ack_floor is not None and info.ack_floor.stream_seq == 602

        while not await is_acknowledged():
            pass
        own = f"heliograph-{sources.site}-own"
        assert await consumer(server, "PLANT", own) is not None
        assert await node.change(settings.replace('own { connector = far, parameters.subject = "plant.none" }', ""))
        while await consumer(server, "PLANT", own) is not None:
            pass
        assert "nats:own" not in (tmp_path / "data" / "sources" / "sources.log").read_text()


async def test_while_the_node_takes_nothing_a_stream_waits_and_core_nats_counts_what_is_lost(
    tmp_path: Path, server: Nats
) -> None:
    common = {
        "host": "127.0.0.1",
        "port": server.port,
        "username": "all",
        "password": "s3cret",
        "queue_group": "",
        "stream": None,
        "durable": "held",
        "is_own": True,
        "deliver_policy": "all",
        "ack_wait": ACK_WAIT_S,
        "timeout": WAIT_S,
    }
    values = [b"%d" % number for number in range(300)]
    async with held_source("nats", {**common, "subject": "held", "jetstream": True}) as node:
        await publish(server, "held", values)
        await asyncio.sleep(ACK_WAIT_S * 1.5)  # beyond which the stream would send them again
        node.takes.set()
        await have(len(values), node)
        assert [one.payload for one in node.messages] == values
    assert await consumer(server, "HELD", "held") is None  # it was the source's own
    async with held_source("nats", {**common, "subject": "core", "jetstream": False}) as node:
        await publish(server, "core", [b"x"] * 3000)
        await publish(server, "core", [b"last"])
        node.takes.set()
        await have(3001, node)
        lost = [one for one in node.messages if one.fault]
        assert sum(one.count for one in lost) > 1000
        assert "queue_full: " in lost[0].fault
    grouped = {**common, "subject": "core", "jetstream": False, "queue_group": "g"}
    durable = {**common, "subject": "held", "jetstream": True, "durable": "both", "is_own": False}
    for settings, count in ((grouped, 100), (durable, 300)):
        async with held_source("nats", settings) as one, held_source("nats", settings) as other:
            one.takes.set()
            other.takes.set()
            if settings is grouped:
                await publish(server, "core", values[:count])
            await have(count, one, other)
    assert await consumer(server, "HELD", "both") is not None
    authority = Authority(tmp_path)
    certificate = authority.server()
    with nats_server(tmp_path, f'tls {{ cert_file = "{certificate}", key_file = "{certificate}" }}') as with_tls:
        tls = {"cacertfile": str(authority.cafile)}
        secure = {**common, "port": with_tls.port, "tls": tls, "subject": "core", "jetstream": False}
        assert await check_fault("nats", secure) == ""
        assert "certificate verify failed" in await check_fault("nats", {**secure, "tls": {}})
    denied = await check_fault("nats", secure, OutboundConfig(denied_ports=(str(with_tls.port),)))
    assert "outbound.denied_ports" in denied
