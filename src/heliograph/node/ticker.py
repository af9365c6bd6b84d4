"""Tells the parts of a node twice a second what time it is, and raises an alarm for those that cannot bear it."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final

from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.observe.lasting import LastingAlarms
from heliograph.parts import Part

_log = logging.getLogger(__name__)

ALARM: Final = "part_failing"
_TICK_S: Final = 0.5
_QUIET_US: Final = 10_000_000


class Ticker(Part):
    """Ticks the parts of one node; itself one of them, so that time stands before clients are told goodbye.

    Args:
        kernel: Whose clock is looked at.
        tick: Tells all parts the time; the names of those that raised, with what.
    """

    name = "ticker"
    needs = ("kernel", "listeners")

    def __init__(self, kernel: KernelPart, tick: Callable[[int], Mapping[str, str]]) -> None:
        self._kernel = kernel
        self._tick = tick
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="ticker")

    async def stop(self) -> None:
        """Tick nobody any more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        failing = LastingAlarms(ALARM, self._kernel.alarms, _log, uptime_us, _QUIET_US)
        while True:
            await asyncio.sleep(_TICK_S)
            for name, error in self._tick(self._kernel.clock.begin_turn()).items():
                failing.happened(name, f"the part {name} of the node fails when it is ticked: {error}", {"part": name})
            failing.tick()
