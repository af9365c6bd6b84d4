"""Changes of the configuration, and the audit log, as a part of a node."""

import time
from collections.abc import Callable
from typing import Final

from heliograph.broker import hooks
from heliograph.config import Config, Layers
from heliograph.config_changes.audit import AuditLog
from heliograph.config_changes.files import ConfigFiles
from heliograph.config_changes.held import HeldConfig
from heliograph.config_changes.manager import ConfigManager
from heliograph.config_changes.terms import Author
from heliograph.node import announcements
from heliograph.node.checked_config import startable_config
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.parts import Change, Part, Parts, Plan

AUDIT_FILE: Final = "audit.log"
_SIGNAL = Author("the owner of the process", "SIGHUP")


class ConfigChangesPart(Part):
    """Changes the configuration of the node that it is a part of; owned by the node.

    It starts last and stops first: while it runs, all parts do.

    Args:
        layers: What the node was started with; None where a program made its configuration, which can change it only by
            `Node.reload`.
        parts: All parts of the node.
        now_s: The time, in seconds since the epoch.

    Attributes:
        manager: What makes changes; None where there are no layers.
    """

    name = "config_changes"
    needs = ("data_dir", "kernel", "listeners")
    roots = ("log.audit",)

    def __init__(
        self,
        config: Config,
        layers: Layers | None,
        parts: Callable[[], Parts],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.manager: ConfigManager | None = None
        self._audit: AuditLog | None = None
        self._settings = config.log.audit
        self._layers = layers
        self._parts = parts
        self._now_s = now_s

    @property
    def audit(self) -> AuditLog:
        """The audit log of a node that has started."""
        assert self._audit is not None
        return self._audit

    async def start(self) -> None:
        """Find out which revision holds, and whether it is on trial."""
        parts = self._parts()
        kernel = parts.get(KernelPart)
        self._audit = AuditLog(parts.get(DataDirectory).path / AUDIT_FILE, self._settings, kernel.alarms, self._now_s)
        if self._layers is None:
            return

        def changed(revision: int, plan: Plan) -> None:
            announcements.tell_changed(plan)
            kernel.broker.hooks.run(hooks.CONFIG_CHANGED, (revision, plan.now))

        files = ConfigFiles(self._layers.cluster_file)
        held = HeldConfig(self._layers, files, parts, startable_config, kernel.alarms, changed, self._now_s)
        self.manager = ConfigManager(held, files, self.audit, kernel.alarms, self._now_s)
        await self.manager.start()

    async def stop(self) -> None:
        """Take no more changes; the one that is made comes to its end."""
        if self.manager is not None:
            await self.manager.stop()
        if self._audit is not None:
            await self._audit.stop()

    def tick(self, uptime_us: int) -> None:
        """Go back where a change was not confirmed in time."""
        if self.manager is not None:
            self.manager.tick()

    async def check(self, new: Config) -> Change | None:
        """Other limits of the audit log."""
        settings = new.log.audit
        return None if settings == self.audit.settings else Change(lambda: setattr(self.audit, "settings", settings))

    async def reload(self) -> bool:
        """Read all files again and apply what differs; whether that was done, the log says what or why not."""
        if self.manager is None:
            return False
        try:
            await self.manager.reload(_SIGNAL)
        except Exception as error:  # noqa: BLE001 - whatever it is, the node goes on as it is
            announcements.tell_refused(error.__cause__ if isinstance(error.__cause__, Exception) else error)
            return False
        return True
