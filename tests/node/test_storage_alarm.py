"""A disk that fills up in the middle of commits, and files that cannot be written: what clients and operators see."""

import asyncio
import json
import os
import subprocess
from pathlib import Path

import aiomqtt
import pytest

from heliograph.mqtt import packets as p
from heliograph.mqtt import reason_codes as rc
from heliograph.mqtt.encode import encode_packet
from heliograph.mqtt.properties import Properties
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.interface import Batch
from support.databases import open_database
from support.process import NodeProcess
from support.small_disk import small_disk
from support.wire import varint

pytestmark = [pytest.mark.service, pytest.mark.slow]

WAIT_S = 30.0
ALARMS = "$SYS/brokers/+/alarms/#"
SETTINGS = 'durable_storage { flight.enable = false, messages.topics = ["t/#"] }'


def remount(path: Path, how: str) -> None:
    """Make a file system read-only, or writable again."""
    subprocess.run(["mount", "-o", f"remount,{how}", str(path)], check=True)


class Publisher:
    """Publishes at QoS 1 and reads reason codes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0
        self.reason = b""  # the properties of the last acknowledgement

    @classmethod
    async def connect(cls, port: int) -> "Publisher":
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(encode_packet(p.Connect(p.V5, "publisher", True, 0, None, None, None, Properties()), p.V5))
        publisher = cls(reader, writer)
        assert (await publisher.packet())[0] == p.CONNACK
        return publisher

    async def publish(self, topic: bytes, payload: bytes) -> int:
        """Publish one message and wait for its reason code."""
        return (await self.publish_all([(topic, payload, False)]))[0]

    async def publish_all(self, messages: list[tuple[bytes, bytes, bool]]) -> list[int]:
        """Publish messages (topic, payload, retain) at once: their reason codes."""
        numbers, data = [], b""
        for topic, payload, retain in messages:
            self._number = self._number % 65535 + 1
            numbers.append(self._number.to_bytes(2, "big"))
            body = len(topic).to_bytes(2, "big") + topic + numbers[-1] + b"\0" + payload
            data += bytes([0x32 | retain]) + varint(len(body)) + body
        self._writer.write(data)
        codes = []
        for number in numbers:
            kind, content = await self.packet()
            assert (kind, content[:2]) == (p.PUBACK, number)
            codes.append(content[2] if len(content) > 2 else 0)
            self.reason = content[3:]
        return codes

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def packet(self) -> tuple[int, bytes]:
        async with asyncio.timeout(WAIT_S):
            (first,) = await self._reader.readexactly(1)
            length = shift = 0
            while True:
                (digit,) = await self._reader.readexactly(1)
                length |= (digit & 0x7F) << shift
                shift += 7
                if digit < 0x80:
                    return first >> 4, await self._reader.readexactly(length)


async def next_alarm(watcher: aiomqtt.Client) -> tuple[str, dict[str, object]]:
    """What the next message about the alarm of messages says: its topic's last level and its fields."""
    async with asyncio.timeout(WAIT_S):
        async for message in watcher.messages:
            assert isinstance(message.payload, bytes)
            fields = json.loads(message.payload)
            # Sessions on the disk have an alarm of their own; those that go on are below `active` too.
            event = str(message.topic).rpartition("/")[2]
            if fields["name"] == "storage_refuses_messages" and event != fields["name"]:
                return event, fields
    raise AssertionError("the connection ended")


def stored_numbers(data_dir: Path) -> list[int]:
    """The numbers with which the payloads on the disk begin."""
    database = open_database(data_dir)
    found: list[int] = []
    for stream in database.get_streams("#"):
        iterator = database.make_iterator(stream.id, "#")
        while isinstance(batch := database.next(iterator, 100), Batch) and batch.messages:
            found += [int(message.payload[:8]) for message in batch.messages]
            iterator = batch.iterator
    database.close()
    return found


async def test_a_disk_that_fills_up_refuses_tells_and_resumes(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", "24m") as disk, NodeProcess(tmp_path, SETTINGS) as node:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(16 << 20))
        publisher = await Publisher.connect(node.port)
        async with aiomqtt.Client("127.0.0.1", node.port, identifier="watcher") as watcher:
            await watcher.subscribe(ALARMS)
            acknowledged: list[int] = []
            filler = os.urandom(200_000)
            refused = 0
            for number in range(1000):
                code = await publisher.publish(b"t/x", b"%08d" % number + filler)
                if code:
                    refused = code
                    break
                acknowledged.append(number)
            assert refused == rc.QUOTA_EXCEEDED
            event, alarm = await next_alarm(watcher)
            assert (event, alarm["name"], alarm["activated"]) == ("activate", "storage_refuses_messages", True)
            details = alarm["details"]
            assert isinstance(details, dict)
            assert (details["code"], details["database"]) == ("storage_full", "messages")
            assert await publisher.publish(b"other", b"") == rc.NO_MATCHING_SUBSCRIBERS
            ballast.unlink()
            number = 1000
            async with asyncio.timeout(WAIT_S):
                while await publisher.publish(b"t/x", b"%08d" % number) == rc.QUOTA_EXCEEDED:
                    number += 1
            acknowledged.append(number)
            event, alarm = await next_alarm(watcher)
            assert (event, alarm["name"], alarm["activated"]) == ("deactivate", "storage_refuses_messages", False)
        await publisher.close()
        assert node.stop() == 0
        assert "Traceback" not in node.log.read_text()
        stored = stored_numbers(node.data_dir)
        assert set(acknowledged) <= set(stored)
        assert stored == sorted(stored)


async def test_files_that_cannot_be_written_refuse_tell_and_resume(tmp_path: Path) -> None:
    storage = databases_path(tmp_path / "data")
    with small_disk(storage, "64m"):
        remount(storage, "ro")
        with NodeProcess(tmp_path, SETTINGS) as node:
            publisher = await Publisher.connect(node.port)
            async with aiomqtt.Client("127.0.0.1", node.port, identifier="watcher") as watcher:
                await watcher.subscribe(ALARMS)
                assert await publisher.publish(b"t/x", b"%08d" % 1) == rc.QUOTA_EXCEEDED
                assert await publisher.publish(b"other", b"") == rc.NO_MATCHING_SUBSCRIBERS
                assert "storage_read_only" in node.log.read_text()
                remount(storage, "rw")
                async with asyncio.timeout(WAIT_S):
                    while await publisher.publish(b"t/x", b"%08d" % 2) == rc.QUOTA_EXCEEDED:
                        continue
                event, alarm = await next_alarm(watcher)
                assert (event, alarm["name"]) == ("activate", "storage_refuses_messages")  # retained
                event, alarm = await next_alarm(watcher)
                assert (event, alarm["name"]) == ("deactivate", "storage_refuses_messages")
            await publisher.close()
            assert node.stop() == 0
        assert stored_numbers(tmp_path / "data") == [2]


async def test_what_cannot_be_stored_is_refused_before_anybody_gets_it(tmp_path: Path) -> None:
    with small_disk(tmp_path / "data", "40m") as disk, NodeProcess(tmp_path, SETTINGS) as node:
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(30 << 20))
        publisher = await Publisher.connect(node.port)
        async with (
            aiomqtt.Client("127.0.0.1", node.port, identifier="watcher") as watcher,
            aiomqtt.Client("127.0.0.1", node.port, identifier="reader") as reader,
        ):
            await watcher.subscribe(ALARMS)
            number = 0
            while not await publisher.publish(b"t/x", b"%08d" % number + os.urandom(200_000)):
                number += 1
            _, alarm = await next_alarm(watcher)
            details = alarm["details"]
            assert isinstance(details, dict)
            needed = details["needed_bytes"]
            logs = sum(file.stat().st_size for file in databases_path(node.data_dir).glob("messages/*.log"))
            assert needed <= min(logs, 32 << 20) + (1 << 20)
            assert f"{needed:,} bytes are free" in node.log.read_text()
            await reader.subscribe("t/#")
            for _ in range(20):
                assert await publisher.publish(b"t/x", b"refused") == rc.QUOTA_EXCEEDED
            assert b"storage is full" in publisher.reason
            # Room for everything that it says it needs, and no more.
            found = os.statvfs(disk)
            os.truncate(ballast, ballast.stat().st_size - (needed - found.f_bavail * found.f_frsize) - 4096)
            event, _ = await next_alarm(watcher)
            assert event == "deactivate"
            assert await publisher.publish(b"t/x", b"00009999") == rc.SUCCESS
            # What was refused was not delivered, so a publisher that repeats does not double.
            assert (await anext(aiter(reader.messages))).payload == b"00009999"
        await publisher.close()
        assert node.stop() == 0


async def test_a_refusal_of_the_retained_database_is_for_retained_messages_only(tmp_path: Path) -> None:
    settings = f"{SETTINGS}\nretainer {{ enable = true, backend.storage_type = disc }}"
    with NodeProcess(tmp_path, settings) as node:
        assert node.stop() == 0
    (tmp_path / "data/keyed/retained/CURRENT").unlink()
    plain, kept = (b"t/x", b"00000001", False), (b"t/y", b"00000002", True)
    with NodeProcess(tmp_path, settings) as node:
        publisher = await Publisher.connect(node.port)
        refused = rc.UNSPECIFIED_ERROR
        for _ in range(3):
            assert await publisher.publish_all([plain, kept, plain, kept]) == [0, refused, 0, refused]
        await publisher.close()
