"""A damaged database of state: the broker starts and serves everything that does not need it."""

from pathlib import Path

import aiomqtt
import pytest

from support.process import NodeProcess

pytestmark = [pytest.mark.service, pytest.mark.slow]

SETTINGS = """
durable_storage.flight.enable = false
durable_sessions.enable = true
durable_shared_groups.enable = true
retainer { enable = true, backend.storage_type = disc }
"""


@pytest.mark.parametrize(("folder", "name"), [("state", "sessions"), ("state", "shared_groups"), ("keyed", "retained")])
async def test_the_broker_serves_what_needs_no_damaged_database(tmp_path: Path, folder: str, name: str) -> None:
    with NodeProcess(tmp_path, SETTINGS):
        pass
    database = tmp_path / "data" / folder / name
    for manifest in database.glob("MANIFEST-*"):
        manifest.write_bytes(b"\xff\x00garbage" * 99)
    with NodeProcess(tmp_path, SETTINGS) as node:
        async with aiomqtt.Client("127.0.0.1", node.port, protocol=aiomqtt.ProtocolVersion.V5) as client:
            await client.subscribe("t/#", qos=1)
            await client.publish("t/1", b"served", qos=1)
            assert (await anext(aiter(client.messages))).payload == b"served"
        assert "storage_damaged" in node.log.read_text()
