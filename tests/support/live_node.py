"""A node in this process with the files of its configuration, for tests that change them while it runs."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from heliograph.config.layers import Sources
from heliograph.config_changes.audit import AuditLog
from heliograph.config_changes.files import recover
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Author
from heliograph.node import Node
from heliograph.node.checked_config import checked_config
from heliograph.node.config_changes import ConfigChangesPart

BASE = 'listeners.tcp.default.bind = "127.0.0.1:0"\ndurable_storage { messages.topics = [], flight.enable = false }\n'
ALICE = Author("alice (uid 1000)", "a test")


class LiveNode:
    """One node; owned by the test that starts it.

    Args:
        directory: Where its files are.
        settings: What its own file says.
        base: What lies below all others.
        now_s: The time of its changes, in seconds since the epoch.
    """

    def __init__(
        self, directory: Path, settings: str = "", base: str = BASE, now_s: Callable[[], float] = time.time
    ) -> None:
        self.now_s = now_s
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "node.conf"
        self.file.write_text(settings)
        (directory / "base.hocon").write_text(base)
        self.data_dir = directory / "data"
        self.configs = self.data_dir / "configs"
        self.node: Node

    async def start(
        self, environ: Mapping[str, str] | None = None, prepare: Callable[[Node], None] = lambda node: None
    ) -> Self:
        """Start it as `heliograph start` does.

        Args:
            prepare: Called with the node before its start.
        """
        recovered = recover if self.now_s is time.time else lambda data_dir: None  # a test with a clock does so itself
        layers = Sources(self.file, environ or {}, {"node.data_dir": str(self.data_dir)}).read(recovered)
        self.node = Node(checked_config(layers), None, layers, self.now_s)
        prepare(self.node)
        await self.node.start()
        return self

    async def stop(self) -> None:
        """Stop it."""
        await self.node.stop()

    @property
    def part(self) -> ConfigChangesPart:
        """The part that changes its configuration."""
        return self.node.parts.get(ConfigChangesPart)

    @property
    def manager(self) -> ConfigManager:
        """What changes its configuration."""
        assert self.part.manager is not None
        return self.part.manager

    @property
    def cluster(self) -> str:
        """What `cluster.hocon` says; empty while there is none."""
        file = self.configs / "cluster.hocon"
        return file.read_text() if file.exists() else ""

    async def audit(self) -> list[dict[str, object]]:
        """The lines of the audit log."""
        log: AuditLog = self.part.audit
        await log.stop()
        file = self.data_dir / "audit.log"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    async def port(self) -> int:
        """The port of its first listener."""
        await asyncio.sleep(0)
        return int(self.node.ready_line().partition("tcp://127.0.0.1:")[2].partition(",")[0])
