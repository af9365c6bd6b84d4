"""Changes of the configuration, and the audit log, as a part of a node.

What makes them is loaded at the first request: a start does not need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from heliograph.broker import hooks
from heliograph.config.layers import Layers
from heliograph.config.log import AuditLogConfig
from heliograph.config.settings import Config
from heliograph.node import announcements
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.observe.metric import Sample, gauge, plain
from heliograph.parts import Change, Part, Parts, Plan

if TYPE_CHECKING:
    from heliograph.config_changes.audit import AuditLog
    from heliograph.config_changes.manager import ConfigManager

AUDIT_FILE: Final = "audit.log"


class ConfigChangesPart(Part):
    """Changes the configuration of the node that it is a part of; owned by the node.

    It starts last and stops first: while it runs, all parts do.

    Args:
        layers: What the node was started with; None where a program made its configuration, which can change it only by
            `Node.reload`.
    """

    name = "config_changes"
    metrics = (gauge("config.revision", "The revision of the configuration, once something has asked the node."),)
    needs = ("data_dir", "kernel", "listeners")
    roots = ("log.audit", "node.tls_dir")  # the latter is read where changes are checked

    def __init__(
        self,
        config: Config,
        layers: Layers | None,
        parts: Callable[[], Parts],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._manager: ConfigManager | None = None
        self._audit: AuditLog | None = None
        self._settings = config.log.audit
        self._layers = layers
        self._parts = parts
        self._now_s = now_s

    @property
    def audit(self) -> AuditLog:
        if self._audit is None:
            from heliograph.config_changes.audit import AuditLog

            parts = self._parts()
            file, alarms = parts.get(DataDirectory).path / AUDIT_FILE, parts.get(KernelPart).alarms
            self._audit = AuditLog(file, self._settings, alarms, self._now_s)
        return self._audit

    @property
    def manager(self) -> ConfigManager | None:
        if self._manager is None and self._layers is not None:
            self._manager = self._made(self._layers)
        return self._manager

    async def start(self) -> None:
        """Go on waiting where a change is on trial."""
        if self._layers is not None and self._layers.cluster_file.with_name("unconfirmed.json").exists():
            self._manager = self._made(self._layers)

    async def stop(self) -> None:
        if self._manager is not None:
            await self._manager.stop()
        if self._audit is not None:
            await self._audit.stop()

    def tick(self, uptime_us: int) -> None:
        """Go back where a change was not confirmed in time."""
        if self._manager is not None:
            self._manager.tick()

    def samples(self) -> list[Sample]:
        return [] if self._manager is None else plain({"config.revision": self._manager.revision})

    def _made(self, layers: Layers) -> ConfigManager:
        from heliograph.config_changes.files import ConfigFiles
        from heliograph.config_changes.held import HeldConfig
        from heliograph.config_changes.manager import ConfigManager
        from heliograph.node.checked_config import startable_config

        parts = self._parts()
        kernel = parts.get(KernelPart)

        def changed(revision: int, plan: Plan) -> None:
            announcements.tell_changed(plan)
            kernel.broker.hooks.run(hooks.CONFIG_CHANGED, (revision, plan.now))

        files = ConfigFiles(layers.cluster_file)
        held = HeldConfig(layers, files, parts, startable_config, kernel.alarms, changed, self._now_s)
        return ConfigManager(held, files, self.audit, kernel.alarms, self._now_s)

    async def check(self, new: Config) -> Change | None:
        settings = new.log.audit
        return None if settings == self._settings else Change(lambda: self._limit(settings))

    def _limit(self, settings: AuditLogConfig) -> None:
        self._settings = settings
        if self._audit is not None:
            self._audit.use(settings)

    async def reload(self) -> bool:
        """Whether files were read again and applied; the log says what or why not."""
        if self.manager is None:
            return False
        from heliograph.config_changes.terms import Author

        try:
            await self.manager.reload(Author("the owner of the process", "SIGHUP"))
        except Exception as error:  # noqa: BLE001 - whatever it is, the node goes on as it is
            announcements.tell_refused(error.__cause__ if isinstance(error.__cause__, Exception) else error)
            return False
        return True
