"""A node: starts what it is made of, and stops it again; what that is, `parts` lists."""

import asyncio
import gc
import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Final

from heliograph import __version__
from heliograph.broker.hooks import Hooks
from heliograph.config.layers import Layers
from heliograph.config.settings import Config
from heliograph.node import announcements
from heliograph.node.config_changes import ConfigChangesPart
from heliograph.node.kernel import KernelPart
from heliograph.node.management import ManagementPart
from heliograph.node.options import make_broker
from heliograph.node.parts import make_parts
from heliograph.node.reports import FaultLog, HookFailureLog
from heliograph.node.rules import RulesPart
from heliograph.parts import Parts
from heliograph.rules.engine.engine import RuleEngine

_log = logging.getLogger(__name__)

_SLOW_CLIENTS_LOGGED: Final = 20
# A commit's worker thread must not wait 5 ms for the interpreter while the loop is busy.
_SWITCH_INTERVAL_S: Final = 0.0005
# Nothing on a message's way is part of a cycle, and a collection of a full broker takes long: let it be rare. One of
# young objects takes 1 to 3 ms for 10,000 of them, which is what the first two numbers make of it.
_GC_THRESHOLDS: Final = (2_000, 4, 12_500)


class Node:
    """One broker process: owns everything in it from `start` to `stop`.

    Args:
        reader_process: The process of its storage reader, if that is launched already.
        layers: What the configuration was made of, so that it can be changed while the node runs.

    Attributes:
        broker: The kernel, there before the start, so that callbacks can be added to its hook points.
        parts: What the node is made of.
    """

    def __init__(
        self,
        config: Config,
        reader_process: asyncio.subprocess.Process | None = None,
        layers: Layers | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.broker = make_broker(config, Hooks(HookFailureLog()))
        self.broker.faults.on_fault = FaultLog()
        made = make_parts(config, self.broker, lambda: self.parts, reader_process)
        changes = ConfigChangesPart(config, layers, lambda: self.parts, now_s)
        self.parts = Parts(config, self.broker.faults, [*made, changes])

    async def start(self) -> None:
        """Start every part, listeners last; if one cannot start, those before it are stopped, and its error raised."""
        tune_interpreter()
        await self.parts.start()
        announcements.tell_parts(self.parts.summary())

    async def stop(self) -> None:
        """Stop accepting, say goodbye, commit what was taken, stop all that runs. Nothing to do before a start."""
        began, is_running = time.monotonic(), self.parts.is_running
        failed = await self.parts.stop()
        if is_running:
            announcements.tell_stopped(time.monotonic() - began, failed)

    def begin_management(self) -> None:
        """No client waits for it."""
        self.parts.get(ManagementPart).begin()

    def ready_line(self) -> str:
        return f"heliograph {__version__} is ready: {', '.join(self.parts.places()) or 'no listener is enabled'}"

    def statistics(self) -> dict[str, float]:
        return self.parts.statistics()

    def dashboard_line(self) -> str:
        """Where the dashboard is to be served, as the end of a line; empty where that is not known before."""
        places = self.parts.get(ManagementPart).coming_places
        return f"; the dashboard comes at {', '.join(places)}" if places else ""

    @property
    def rules(self) -> RuleEngine:
        return self.parts.get(RulesPart).engine

    def log_statistics(self) -> None:
        """Log every counter that is not zero, the clients with most drops, and the parts that do not work."""
        numbers = {name: value for name, value in sorted(self.statistics().items()) if value}
        _log.info("statistics %s", json.dumps(numbers))
        slow = self.parts.get(KernelPart).context.sessions.most_dropped(_SLOW_CLIENTS_LOGGED)
        _log.info("dropped messages by client %s", json.dumps(slow))
        _log.info("parts that cannot do their work %s", json.dumps(self.parts.health()))

    async def reload(self, config: Config) -> bool:
        """Apply of another configuration what a running node can apply; the log says what, and what needs a restart.

        Certificates, and other files that settings name, are read again whether settings differ or not.

        Returns:
            Whether it was applied; if not, nothing of it was, and the log says why.
        """
        try:
            plan = await self.parts.check(config)
        except Exception as error:  # noqa: BLE001 - whatever parts say, the node goes on as it is
            announcements.tell_refused(error)
            return False
        self.parts.apply(plan)
        self.parts.settle(plan)
        announcements.tell_changed(plan)
        return True

    async def read_again(self) -> bool:
        """Read all files of the configuration again, and apply what differs; the log says what, or why not."""
        return await self.parts.get(ConfigChangesPart).reload()


def tune_interpreter() -> None:
    """Set up the process for a node: how often threads take turns, and when garbage is looked for."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
