"""An operator's afternoon: what goes wrong on a real broker is told in one line and by one alarm, which clears."""

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiomqtt
import pytest

from heliograph.cli.main import main
from heliograph.mqtt import packets as p
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from node.test_storage_alarm import Publisher
from support.process import NodeProcess
from support.small_disk import small_disk

pytestmark = [pytest.mark.service, pytest.mark.slow]

WAIT_S = 60.0
# How busy the machine is besides is no part of the afternoon.
MACHINE = "sysmon.os { cpu_check_interval = 1h, mem_check_interval = disabled }"
RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text(encoding="utf-8")


class Afternoon:
    """What an operator sees: the log, and alarms as they begin and end."""

    def __init__(self, node: NodeProcess, watcher: aiomqtt.Client) -> None:
        self._node = node
        self._watcher = watcher

    async def alarm(self, event: str, name: str) -> dict[str, object]:
        """Wait until an alarm begins (`activate`) or ends (`deactivate`)."""
        async with asyncio.timeout(WAIT_S):
            async for message in self._watcher.messages:
                assert isinstance(message.payload, bytes)
                fields = json.loads(message.payload)
                if (str(message.topic).rpartition("/")[2], fields["name"]) == (event, name):
                    return dict(fields)
        raise AssertionError("the connection ended")

    async def seen_later(self) -> set[str]:
        """The alarms that someone sees who subscribes now."""
        found: set[str] = set()
        async with aiomqtt.Client("127.0.0.1", self._node.port) as late:
            await late.subscribe("$SYS/brokers/+/alarms/active/#")
            await late.subscribe("end")
            await late.publish("end")
            async for message in late.messages:
                if message.topic.value == "end":
                    return found
                assert isinstance(message.payload, bytes)
                found.add(json.loads(message.payload)["name"])
        return found

    def lines(self, text: str) -> list[str]:
        """The lines of the log, of level warning or worse, in which a text is found."""
        log = self._node.log.read_text()
        return [line for line in log.splitlines() if text in line and re.search(r" (WARNING|ERROR) ", line)]

    async def happens_and_ends(self, name: str, line: str, end: str = "it has not ended yet") -> None:
        """Wait for the beginning of an alarm, and check that one line says what happened.

        Args:
            name: The alarm.
            line: What the line has in it.
            end: What the log says once it has ended, of one that may end at any moment.
        """
        await self.alarm("activate", name)
        assert name in await self.seen_later() or end in self._node.log.read_text()
        assert len(self.lines(line)) == 1, self._node.log.read_text()
        assert f"`{name.partition('/')[0]}" in RUNBOOK


@asynccontextmanager
async def afternoon(
    directory: Path, settings: str, *, reader: bool = False
) -> AsyncIterator[tuple[NodeProcess, Afternoon]]:
    """A broker process, watched."""
    with NodeProcess(directory, f"{MACHINE}\n{settings}", reader=reader) as node:
        async with aiomqtt.Client("127.0.0.1", node.port, identifier="watcher") as watcher:
            await watcher.subscribe("$SYS/brokers/+/alarms/#")
            yield node, Afternoon(node, watcher)
        assert node.stop() == 0
        log = node.log.read_text()
        assert "Traceback" not in log
        assert log.count(" starts as ") == log.count(" stopped after ") == 1


async def connect(port: int, clientid: str) -> asyncio.StreamWriter:
    """A connection whose CONNACK has come, and from which nothing more is read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(encode_packet(p.Connect(p.V5, clientid, True, 0, None, None, None, Properties()), p.V5))
    assert (await reader.readexactly(2))[0] >> 4 == p.CONNACK
    return writer


async def close(writers: list[asyncio.StreamWriter]) -> None:
    """Close connections, some of which the broker has closed already."""
    for writer in writers:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for writer in writers), return_exceptions=True)


def first_child(pid: int) -> int:
    """The process that another one has started."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


async def test_clients_fight_a_subscriber_stalls_and_the_reader_dies(tmp_path: Path) -> None:
    async with afternoon(tmp_path, "mqtt.max_mqueue_len = 10", reader=True) as (node, seen):
        # Two clients with one client id, each of which comes back when the other took its place.
        twins = [await connect(node.port, "twin") for _ in range(6)]
        await seen.happens_and_ends("clientid_conflict/twin", "several clients use the client id 'twin'")
        assert "clientid_conflict/twin" in await seen.seen_later()

        # A subscriber that reads nothing: its window fills up, then its queue.
        stalled = await connect(node.port, "stalled")
        entry = p.SubscribeEntry("t", 1, False, False, 0)
        stalled.write(encode_packet(p.Subscribe(1, [entry], Properties()), p.V5))
        async with aiomqtt.Client("127.0.0.1", node.port) as publisher:
            for number in range(100):
                await publisher.publish("t", str(number), qos=1)
        await seen.happens_and_ends("mqueue_overflow/stalled", "client 'stalled' takes its messages too slowly")

        reader = first_child(node.pid)
        os.kill(reader, signal.SIGKILL)
        ended, again = f"the storage reader (process {reader}) ended with code -9", "the storage reader serves again"
        await seen.happens_and_ends("storage_reader_down", ended, again)
        await seen.alarm("deactivate", "storage_reader_down")

        for name in ("mqueue_overflow/stalled", "clientid_conflict/twin"):
            if name in await seen.seen_later():
                await seen.alarm("deactivate", name)
        assert await seen.seen_later() == set()
        assert "messages for client 'stalled' were dropped: queue_full" in node.log.read_text()
        await close([*twins, stalled])


async def test_the_disk_fills_up(tmp_path: Path) -> None:
    settings = 'durable_storage { flight.enable = false, messages.topics = ["t/#"] }'
    with small_disk(tmp_path / "data", "24m") as disk:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(16 << 20))
        async with afternoon(tmp_path, settings) as (node, seen):
            publisher = await Publisher.connect(node.port)
            filler = os.urandom(200_000)
            while not await publisher.publish(b"t/x", filler):
                pass
            await seen.happens_and_ends("storage_refuses_messages", "the database messages refuses messages")
            ballast.unlink()
            async with asyncio.timeout(WAIT_S):
                while await publisher.publish(b"t/x", b"x"):
                    pass
            await seen.alarm("deactivate", "storage_refuses_messages")
            assert "storage_refuses_messages" not in await seen.seen_later()
            await publisher.close()


async def test_files_are_damaged(tmp_path: Path) -> None:
    settings = 'durable_storage { flight.enable = false, messages.topics = ["t/#"] }'
    with NodeProcess(tmp_path, settings) as node:
        publisher = await Publisher.connect(node.port)
        for _ in range(10):
            assert await publisher.publish(b"t/x", b"kept") in (0, 0x10)
        await publisher.close()
        assert node.stop() == 0
    node.log.unlink()
    for manifest in (tmp_path / "data" / "storage" / "messages").glob("MANIFEST-*"):
        manifest.write_bytes(b"\xff\x00garbage" * 99)
    async with afternoon(tmp_path, settings) as (node, seen):
        assert "storage_refuses_messages" in await seen.seen_later()
        assert len(seen.lines("the database messages cannot be opened [storage_damaged]")) == 1
    assert "storage check --repair" in RUNBOOK
    assert main(["storage", "check", "--repair", "--data-dir", str(tmp_path / "data")]) == 0
    node.log.unlink()
    async with afternoon(tmp_path, settings) as (node, seen):
        assert await seen.seen_later() == set()
        publisher = await Publisher.connect(node.port)
        assert await publisher.publish(b"t/x", b"x") in (0, 0x10)
        await publisher.close()


CLOCK = """
import os, time
real = time.time_ns
def time_ns():
    try:
        return real() + int(open(os.environ["CLOCK_OFFSET"]).read() or 0) * 10**9
    except OSError:
        return real()
time.time_ns = time_ns
time.time = lambda: time_ns() / 1e9
"""


async def test_the_clock_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's wall clock is set ahead by a day and back again; the machine's is left alone."""
    (tmp_path / "sitecustomize.py").write_text(CLOCK)
    offset = tmp_path / "offset"
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CLOCK_OFFSET", str(offset))
    async with afternoon(tmp_path, "durable_storage.flight.enable = false") as (_, seen):
        offset.write_text("86400")
        await seen.happens_and_ends("clock_jumped_ahead", "the wall clock jumped ahead by 86400")
        offset.write_text("0")
        await seen.alarm("deactivate", "clock_jumped_ahead")
        assert await seen.seen_later() == set()
