"""Ticks the parts of a node twice a second, and raises an alarm for a part that fails."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from heliograph.node.clock import uptime_us
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics.process import LOOP
from heliograph.observe.histogram import Histogram
from heliograph.observe.lasting import LastingAlarms
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Part

ALARM: Final = "part_failing"
_TICK_S: Final = 0.5
_QUIET_US: Final = 10_000_000
_LAG_BOUNDS_S: Final = (0.001, 0.005, 0.02, 0.1, 0.5, 2.0)


class TickLag:
    """How late ticks come; owned by the ticker, which measures each.

    Attributes:
        lasting_s: How late the last two ticks came at least. One turn that took long has ended when the next thing is
            asked of the loop; a loop that is late from tick to tick has no time.
    """

    def __init__(self) -> None:
        self.last_s = self.longest_s = self.lasting_s = 0.0

    def add(self, late_s: float) -> None:
        self.lasting_s = min(self.last_s, late_s)
        self.longest_s = max(self.longest_s, late_s)
        self.last_s = late_s


class Ticker(Part):
    """Ticks the parts of one node; itself one of them, so that time stops before clients are disconnected.

    Args:
        tick: Tells all parts the time; gives the names of those that raised, with what.

    Attributes:
        clock: What that is measured with, in microseconds.
    """

    name = "ticker"
    metrics = LOOP
    needs = ("kernel", "listeners")

    def __init__(self, kernel: KernelPart, tick: Callable[[int], Mapping[str, str]]) -> None:
        self._kernel = kernel
        self._tick = tick
        self._task: asyncio.Task[None] | None = None
        self.lag = TickLag()
        self.clock: Callable[[], int] = uptime_us
        self._lags = Histogram(_LAG_BOUNDS_S)

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="ticker")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def samples(self) -> list[Sample]:
        lags = {"loop.last_lag_s": round(self.lag.last_s, 6), "loop.longest_lag_s": round(self.lag.longest_s, 6)}
        return [*plain(lags), *self._lags.samples("loop.lag")]

    async def _run(self) -> None:
        failing = LastingAlarms(ALARM, self._kernel.alarms, uptime_us, _QUIET_US)
        while True:
            began_us = self.clock()
            await asyncio.sleep(_TICK_S)
            self.lag.add(max(0.0, (self.clock() - began_us) / 1e6 - _TICK_S))
            self._lags.add(self.lag.last_s)
            for name, error in self._tick(self._kernel.clock.begin_turn()).items():
                failing.happened(name, f"the part {name} of the node fails when it is ticked: {error}", {"part": name})
            failing.tick()
