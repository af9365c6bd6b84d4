"""What tests of sources ask of a node: if they are connected, and what they have published; a source without a node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from heliograph.control.proto_v1.sources import Delivered, SourceBatch, SourceMessage
from heliograph.mqtt import packets as p
from heliograph.node.sources import SourcesPart
from heliograph.outbound import Outbound
from heliograph.settings.outbound import OutboundConfig
from heliograph.sources.inlet import Inlet
from heliograph.sources.interface import SourceEnvironment, SourceError
from heliograph.sources.kinds import kind_of
from heliograph.sources.settings import OneSource
from heliograph.sources.worker import SourceWorker
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


class HeldNode:
    """In the place of a node: takes what a source brings when a test sets `takes`, and keeps it."""

    def __init__(self) -> None:
        self.takes = asyncio.Event()
        self.messages: list[SourceMessage] = []

    async def deliver(self, batch: SourceBatch) -> Delivered:
        """Wait, and take all."""
        await self.takes.wait()
        self.messages.extend(batch.messages)
        return Delivered(len(batch.messages), [], "")


@asynccontextmanager
async def held_source(kind: str, settings: dict[str, Any]) -> AsyncIterator[HeldNode]:
    """The node of a source that is connected; the source ends with the block, and is forgotten.

    Args:
        settings: As a node writes them for the process of sources.
    """
    node, changed = HeldNode(), asyncio.Event()
    worker = SourceWorker(
        f"{kind}:held", OneSource(kind=kind, settings=settings), node.deliver, changed.set, Outbound(), Path("unused")
    )
    worker.start()
    try:
        async with asyncio.timeout(WAIT_S):
            while worker.status != "connected":
                await changed.wait()
                changed.clear()
        yield node
    finally:
        await worker.stop(forget=True)


async def check_fault(kind: str, settings: dict[str, Any], outbound: OutboundConfig | None = None) -> str:
    """Why the test of a source fails; empty where it does not."""
    inlet = Inlet(f"{kind}:tested", HeldNode().deliver, lambda why: None)
    environment = SourceEnvironment(f"{kind}:tested", inlet, lambda: None, Outbound(outbound), Path("unused"))
    try:
        await kind_of(kind)(settings, environment).check()
    except SourceError as error:
        return str(error)
    return ""
