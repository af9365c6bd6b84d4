"""A damaged database of state: the broker starts and serves everything that does not need it."""

import asyncio
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import aiomqtt
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from heliograph.cli.main import main
from heliograph.pipeline.datasource.client import MessageSelection, StorageClient
from heliograph.pipeline.errors import ReaderRefusedError
from heliograph.storage.engine import open_primary, records
from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_storage.flight.enable = false
durable_sessions.enable = true
durable_shared_groups.enable = true
retainer { enable = true, backend.storage_type = disc }
"""


async def test_the_broker_serves_what_needs_no_damaged_database(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS):
        pass
    places = ("state/sessions", "state/shared_groups", "keyed/retained")
    for place in places:
        for manifest in (tmp_path / "data" / place).glob("MANIFEST-*"):
            manifest.write_bytes(b"\xff\x00garbage" * 99)
    with NodeProcess(tmp_path, SETTINGS) as node:
        async with aiomqtt.Client("127.0.0.1", node.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.subscribe("t/#", qos=1)
            await client.publish("t/1", b"served", qos=1)
            assert (await anext(aiter(client.messages))).payload == b"served"
        said = node.log.read_text()
        for place in places:
            assert f"(database '{Path(place).name}', in {tmp_path / 'data' / place})" in said


@pytest.mark.parametrize(
    ("place", "told"),
    [("state/delayed", "delayed messages are refused"), ("pipeline", "the pipeline cannot be started")],
)
async def test_the_broker_serves_what_needs_no_directory_that_cannot_be_used(
    tmp_path: Path, place: str, told: str
) -> None:
    (tmp_path / "data" / place).parent.mkdir(parents=True)
    (tmp_path / "data" / place).write_text("no directory")
    settings = f'pipeline {{ enable = true, file = "{tmp_path}/rules.hocon" }}\nretainer.enable = false\n'
    with NodeProcess(tmp_path, settings, reader=True) as node:
        async with aiomqtt.Client("127.0.0.1", node.port) as client:
            await client.subscribe("t/#", qos=1)
            await client.publish("t/1", b"served", qos=1)
            assert (await anext(aiter(client.messages))).payload == b"served"
        assert node.stop() == 0
    assert told in node.log.read_text()


def kept_client(node: NodeProcess) -> aiomqtt.Client:
    """A client whose session is kept."""
    properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho has no types here
    properties.SessionExpiryInterval = 3600
    v5 = aiomqtt.ProtocolVersion.V5
    return aiomqtt.Client(
        "127.0.0.1", node.port, identifier="keeper", protocol=v5, clean_start=False, properties=properties
    )


async def publish(node: NodeProcess, text: bytes, *, retain: bool = False) -> None:
    """Publish a message to `t/1` that is stored."""
    async with aiomqtt.Client("127.0.0.1", node.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
        await client.publish("t/1", text, qos=1, retain=retain)


def without_current(path: Path) -> None:
    (path / "CURRENT").unlink()


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a node with something in each database: a session, a stored and a retained message."""
    directory = tmp_path_factory.mktemp("intact")

    async def fill() -> None:
        with NodeProcess(directory, SETTINGS) as node:
            async with kept_client(node) as keeper:
                await keeper.subscribe("t/#", qos=1)
            await publish(node, b"kept", retain=True)
            assert node.stop() == 0

    asyncio.run(fill())
    return directory / "data"


@pytest.mark.parametrize("loss", [without_current, shutil.rmtree], ids=["CURRENT", "directory"])
async def test_databases_that_lost_files_are_refused_at_every_start_until_they_are_mended(
    tmp_path: Path, intact: Path, loss: Callable[[Path], object]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(intact, data)
    paths = [data / place for place in ("storage/messages", "state/sessions", "keyed/retained")]
    for path in paths:
        loss(path)
    left = [sorted(path.glob("*.sst")) for path in paths]
    for _ in range(2):
        with NodeProcess(tmp_path, SETTINGS) as node:
            said = node.log.read_text()
            assert "storage_damaged]" in said
            for path in paths:
                assert f"(database '{path.name}', in {path})" in said
                assert f"heliograph storage check --repair {path.name}" in said
            node.log.write_text("")
            await publish(node, b"other")
            assert node.stop() == 0
        assert [sorted(path.glob("*.sst")) for path in paths] == left
    for path in paths:
        assert main(["storage", "check", "--repair", path.name, "--data-dir", str(data)]) == 0
    with NodeProcess(tmp_path, SETTINGS) as node:
        assert "storage_damaged" not in node.log.read_text()
        async with kept_client(node) as keeper:
            if loss is without_current:
                assert (await anext(aiter(keeper.messages))).payload == b"kept"
            await keeper.publish("t/1", b"new", qos=1)


async def test_a_site_id_that_is_garbage_is_told_at_every_start(tmp_path: Path) -> None:
    with NodeProcess(tmp_path, SETTINGS) as node:
        assert node.stop() == 0
    file = tmp_path / "data" / "storage" / "site_id"
    site_id = file.read_text()
    file.write_text("garbage")
    for _ in range(2):
        with NodeProcess(tmp_path, SETTINGS) as node:
            async with aiomqtt.Client("127.0.0.1", node.port) as client:
                await client.subscribe("$SYS/brokers/+/alarms/#")
                assert "the file holds 'garbage'" in node.log.read_text()
            assert node.stop() == 0
        assert file.read_text() == "garbage"
    assert main(["storage", "check", "--repair", "--data-dir", str(tmp_path / "data")]) == 0
    assert file.read_text() == site_id


async def test_damage_that_a_reader_meets_is_told_by_the_broker(tmp_path: Path) -> None:
    settings = "retainer { enable = true, backend.storage_type = disc }"
    with NodeProcess(tmp_path, settings) as node:
        await publish(node, b"damaged")
        assert node.stop() == 0
    rocks = open_primary(tmp_path / "data/storage/messages", "zstd")
    key, value = next(records(rocks, b"B", b"C"))
    rocks.put(key, value[:-4] + b"\x07" + value[-3:])
    rocks.close()
    with NodeProcess(tmp_path, settings, reader=True) as node:
        async with aiomqtt.Client("127.0.0.1", node.port) as client:
            await client.subscribe("$SYS/brokers/+/alarms/#")
            with StorageClient(f"127.0.0.1:{node.flight_port}") as reader:
                selection = MessageSelection()
                (stream,) = reader.streams(selection)
                with pytest.raises(ReaderRefusedError):
                    await asyncio.to_thread(lambda: list(reader.read(selection, stream.stream)))
            async with asyncio.timeout(30):
                message = await anext(aiter(client.messages))
            assert isinstance(message.payload, bytes)
            assert json.loads(message.payload)["name"] == "stored_messages_damaged"
        assert node.stop() == 0
    line = next(line for line in node.log.read_text().splitlines() if "met damage" in line)
    assert re.match(r"\d{4}-\d\d-\d\d .* ERROR ", line)


async def test_retained_messages_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    settings = "durable_storage.flight.enable = false\nretainer { enable = true, backend.storage_type = disc }"
    with NodeProcess(tmp_path, settings) as node:
        async with aiomqtt.Client("127.0.0.1", node.port) as client:
            for number in range(300):
                await client.publish(f"r/{number:03}", os.urandom(400), qos=1, retain=True)
        assert node.stop() == 0
    for table in (tmp_path / "data/keyed/retained").glob("*.sst"):
        content = bytearray(table.read_bytes())
        if len(content) > 50_000:
            content[len(content) // 2] ^= 0xFF
            table.write_bytes(content)
    with NodeProcess(tmp_path, settings) as node:
        async with aiomqtt.Client("127.0.0.1", node.port) as client:
            await client.subscribe("$SYS/brokers/+/alarms/#")
            await client.subscribe("r/#")
            async with asyncio.timeout(30):
                async for message in client.messages:
                    if str(message.topic).startswith("$SYS"):
                        assert isinstance(message.payload, bytes)
                        assert json.loads(message.payload)["name"] == "retained_messages_damaged"
                        break
        assert node.stop() == 0
    assert node.log.read_text().count("retained messages cannot be read [storage_damaged]") >= 1
