"""What tests of sources ask of a node: whether they are connected, and what they have published."""

import asyncio
from pathlib import Path
from typing import Final

from heliograph.mqtt import packets as p
from heliograph.node.sources import SourcesPart
from support.running import MqttClient, RunningNode
from support.waiting import until

WAIT_S: Final = 60.0
"""Beyond which a thing does not come; for a machine that is slow."""


def part_of(node: RunningNode) -> SourcesPart:
    """The sources of a node."""
    return node.node.parts.get(SourcesPart)


async def is_connected(node: RunningNode, *names: str) -> None:
    """Wait until they are."""
    sources = part_of(node)
    await until(lambda: all(sources.state(name) == ("connected", "") for name in names), WAIT_S)


async def has_state(node: RunningNode, name: str, status: str, reason: str) -> None:
    """Wait until a source has a status, and a reason with a text in it."""

    def is_so() -> bool:
        state = part_of(node).state(name)
        return state[0] == status and reason in state[1]

    await until(is_so, WAIT_S)


async def received(client: MqttClient, count: int) -> list[tuple[str, bytes]]:
    """So many messages, each acknowledged."""
    found = []
    for _ in range(count):
        async with asyncio.timeout(WAIT_S):
            packet = await client.take(p.Publish)
        if packet.qos:
            client.acknowledge(packet)
        found.append((packet.topic.decode(), bytes(packet.payload)))
    return found


def process_of(directory: Path) -> int:
    """The process that has the sources of a node: the only one that is given their file."""
    file = str(directory / "data" / "sources" / "settings.json").encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if file in (entry / "cmdline").read_bytes().split(b"\0"):
                    return int(entry.name)
            except OSError:  # it is gone
                continue
    return 0
