"""Sources of the type `mqtt`: what comes from a real mosquitto, and what peers do that are hostile or broken."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from heliograph.mqtt import packets as p
from support.mosquitto import free_port, mosquitto
from support.running import MqttClient, RunningNode
from support.sources import WAIT_S, has_state, is_connected, part_of, received
from support.waiting import until

pytestmark = [pytest.mark.service, pytest.mark.slow]

ALWAYS: Final = """
listeners.tcp.default.bind = "127.0.0.1:0"
durable_storage.messages.topics = ["in/#"]
mqtt.max_packet_size = 100KB
"""
CONNACK: Final = b"\x20\x02\x00\x00"

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def far_client(port: int, clientid: str) -> MqttClient:
    """A client of the broker elsewhere."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), p.V5)
    client.send_connect(clientid)
    assert (await client.take(p.Connack)).code == 0
    return client


async def has_session(port: int, clientid: str) -> bool:
    """Whether the broker elsewhere keeps messages for a client."""
    client = MqttClient(*await asyncio.open_connection("127.0.0.1", port), p.V5)
    client.send_connect(clientid, clean_start=False)
    connack = await client.take(p.Connack)
    client.close()
    await client.until_closed()
    return connack.session_present


async def publish_once(port: int, topic: str, payloads: Sequence[bytes]) -> None:
    """Publish at QoS 2, by the command of mosquitto: it ends when all are acknowledged."""
    command = ("mosquitto_pub", "-p", str(port), "-t", topic, "-q", "2", "-l")
    process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
    await process.communicate(b"\n".join(payloads) + b"\n")
    assert process.returncode == 0


async def test_messages_are_published_here_and_read_by_rules(tmp_path: Path) -> None:
    """Kept as they came, mapped by templates, by a shared subscription; and all that is sent while we are away."""
    port = free_port()
    settings = f"""
    connectors.mqtt.far {{ server = "127.0.0.1:{port}", proto_ver = v5 }}
    connectors.mqtt.old {{ server = "127.0.0.1:{port}", proto_ver = v4 }}
    sources.mqtt.plain {{ connector = far, parameters {{ topic = "a/#", qos = 2 }}, local.topic = "in/${{topic}}" }}
    sources.mqtt.mapped {{
      connector = old, parameters.topic = "$share/g/b/+"
      local {{ topic = "in/b/${{payload.n}}", payload = "${{topic}} ${{qos}}", qos = 0, retain = true }}
    }}
    sources.mqtt.bad {{ connector = far, parameters.topic = "a/1", local.topic = "in/#" }}
    rule_engine.rules.read {{
      sql = \"\"\"SELECT topic, payload.n AS n, pub_props, server FROM "$sources/mqtt:plain" WHERE topic = 'a/1' \"\"\"
      actions = [{{ function = republish, args {{ topic = "in/rows", payload = "${{.}}" }} }}]
    }}
    """
    with mosquitto(tmp_path, f"listener {port} 127.0.0.1\n"):
        async with RunningNode(tmp_path, ALWAYS, settings) as node:
            await is_connected(node, "mqtt:plain", "mqtt:mapped", "mqtt:bad")
            client, far = await node.connect("here"), await far_client(port, "there")
            await client.subscribe("in/#", 1)
            assert await far.publish("a/1", b'{"n":1}', 1) == 0
            first = await received(client, 2)
            assert ("in/a/1", b'{"n":1}') in first
            (row,) = (json.loads(payload) for topic, payload in first if topic == "in/rows")
            mark = ("heliograph-via", row.pop("pub_props")["User-Property"]["heliograph-via"])
            assert row == {"topic": "a/1", "n": 1, "server": f"127.0.0.1:{port}"}
            assert await far.publish("a/round", b"", 1, user_property=[("x", "y"), mark]) == 0  # it was here before
            assert await far.publish("b/x", b'{"n":7}', 1) == 0
            assert await received(client, 1) == [("in/b/7", b"b/x 1")]
            late = await node.connect("late")
            await late.subscribe("in/b/#")
            assert await received(late, 1) == [("in/b/7", b"b/x 1")]  # it is retained here
            sources = part_of(node)
            await until(lambda: sources.counts("mqtt:bad")["received"], WAIT_S)
            assert sources.counts("mqtt:bad") == {"received": 1, "dropped": 1, "dropped.topic_invalid": 1}
            assert "in/#" in sources.last_error("mqtt:bad")
            await until(lambda: sources.counts("mqtt:plain").get("dropped.loop") == 1, WAIT_S)
            pid = sources.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            payloads = [b"%d" % number for number in range(50)]
            await publish_once(port, "a/kept", payloads)
            kept: list[bytes] = []
            while len(kept) < len(payloads):  # one of `mapped` may come again, whose acknowledgement was under way
                kept += [payload for topic, payload in await received(client, 1) if topic == "in/a/kept"]
            assert kept == payloads
            assert sources.pid not in (None, pid)
            assert await node.change(settings.replace("sources.mqtt.plain {", "sources.mqtt.plain { enable = false,"))
            assert sources.state("mqtt:plain") == ("disconnected", "the source is disabled")
            assert await far.publish("a/kept", b"meanwhile", 1) == 0
            assert await node.change(settings)
            assert await received(client, 1) == [("in/a/kept", b"meanwhile")]
            place = Path(f"/proc/{sources.pid}")
            assert await node.change("")
            await until(lambda: not place.exists(), WAIT_S)
            far.close()
            await far.until_closed()
            assert not await has_session(port, f"heliograph-{sources.site}-plain")


async def test_a_wrong_password_is_the_reason_of_an_alarm_until_it_is_right(tmp_path: Path) -> None:
    port = free_port()
    passwords = tmp_path / "passwords"
    passwords.write_text("me:right\n")
    process = await asyncio.create_subprocess_exec("mosquitto_passwd", "-U", str(passwords))
    assert await process.wait() == 0
    settings = f"""
    connectors.mqtt.far {{ server = "127.0.0.1:{port}", username = me, password = wrong }}
    sources.mqtt.one {{ connector = far, parameters.topic = "a/#" }}
    """
    secured = f"allow_anonymous false\npassword_file {passwords}\n"
    with mosquitto(tmp_path, f"listener {port} 127.0.0.1\n", secured):
        async with RunningNode(tmp_path, ALWAYS, settings) as node:
            await has_state(node, "mqtt:one", "disconnected", "not authorized")
            assert await node.change(settings.replace("wrong", "right"))
            await is_connected(node, "mqtt:one")


@asynccontextmanager
async def peers(*conversations: Conversation) -> AsyncIterator[list[int]]:
    """Servers that each have a conversation of their own with those who connect; their ports."""
    async with AsyncExitStack() as stack:
        ports = []
        for talk in conversations:
            server = await asyncio.start_server(talk, "127.0.0.1", 0)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            ports.append(int(server.sockets[0].getsockname()[1]))
        yield ports


async def packet_of(reader: asyncio.StreamReader) -> bytes:
    """One packet of a client whose length is less than 128."""
    head = await reader.readexactly(2)
    return head + await reader.readexactly(head[1])


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, code: int = 1) -> None:
    await packet_of(reader)
    writer.write(CONNACK)
    subscribe = await packet_of(reader)
    writer.write(b"\x90\x03" + subscribe[2:4] + bytes([code]))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await accept(reader, writer)
    writer.close()


async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await accept(reader, writer, 0x80)
    await silent(reader, writer)


async def senseless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await accept(reader, writer)
    writer.write(b"\x30\x04\x00\x02\xff\xfe")  # a topic that is no UTF-8
    await silent(reader, writer)


def remaining(length: int) -> bytes:
    encoded = b""
    while True:
        length, digit = divmod(length, 128)
        encoded += bytes([digit | (0x80 if length else 0)])
        if not length:
            return encoded


async def test_what_peers_do_wrong_is_said_and_harms_nothing(tmp_path: Path) -> None:
    acknowledged: list[bytes] = []
    done = asyncio.Event()

    async def oversized(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send more than a frame to the node holds, more than the node takes, and what it takes."""
        await accept(reader, writer)
        for number, size in enumerate((9_000_000, 200_000, 10), 1):
            body = b"\x00\x01t" + number.to_bytes(2, "big")
            writer.write(b"\x32" + remaining(len(body) + size) + body)
            for _ in range(size // 100_000):
                writer.write(bytes(100_000))
                await writer.drain()
            writer.write(bytes(size % 100_000))
        while len(acknowledged) < 3:
            acknowledged.append(await packet_of(reader))
        done.set()
        await silent(reader, writer)

    async with peers(silent, closing, refusing, senseless, oversized) as ports:
        names = ("silent", "closing", "refusing", "senseless", "oversized")
        settings = "\n".join(
            f'connectors.mqtt.{name} {{ server = "127.0.0.1:{port}", proto_ver = v4 }}\n'
            f'sources.mqtt.{name} {{ connector = {name}, parameters.topic = "t", local.topic = "in/${{topic}}"\n'
            f"  resource_opts.start_timeout = 500ms }}"
            for name, port in zip(names, ports, strict=True)
        )
        async with RunningNode(tmp_path, ALWAYS, settings) as node:
            client = await node.connect("here")
            await client.subscribe("in/#", 1)
            sources = part_of(node)
            async with asyncio.timeout(WAIT_S):
                await done.wait()
            assert acknowledged == [b"\x40\x02\x00" + bytes([number]) for number in (1, 2, 3)]
            assert await received(client, 1) == [("in/t", bytes(10))]
            counts = sources.counts("mqtt:oversized")
            assert counts == {"received": 3, "dropped": 2, "dropped.packet_too_large": 2}
            for name, reason in (
                ("silent", "does not answer within 0.5 s"),
                ("closing", "closed the connection"),
                ("refusing", "refuses the subscription to t"),
                ("senseless", "breaks the protocol"),
            ):
                await has_state(node, f"mqtt:{name}", "disconnected", reason)
            await client.ping()


async def test_a_source_is_slowed_and_what_was_not_stored_is_not_acknowledged(tmp_path: Path) -> None:
    """A window of 4: the peer gets no acknowledgement while the node takes nothing, and all of them later."""
    arrived: asyncio.Queue[bytes] = asyncio.Queue()

    async def eager(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await accept(reader, writer)
        for number in range(1, 41):
            writer.write(b"\x32\x07\x00\x01t" + number.to_bytes(2, "big") + b"%02d" % number)
        for _ in range(40):
            arrived.put_nowait(await packet_of(reader))
        await silent(reader, writer)

    async with peers(eager) as (port,):
        settings = f"""
        connectors.mqtt.far {{ server = "127.0.0.1:{port}", proto_ver = v4, max_inflight = 4 }}
        sources.mqtt.one {{ connector = far, parameters.topic = "t", local.topic = "in/${{topic}}" }}
        """
        async with RunningNode(tmp_path, ALWAYS, settings) as node:
            client = await node.connect("here")
            await client.subscribe("in/#", 1)
            assert await received(client, 40) == [("in/t", b"%02d" % number) for number in range(1, 41)]
            async with asyncio.timeout(WAIT_S):
                packets: Sequence[bytes] = [await arrived.get() for _ in range(40)]
            assert packets == [b"\x40\x02" + number.to_bytes(2, "big") for number in range(1, 41)]
