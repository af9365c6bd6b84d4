"""Ticks the parts of a node twice a second, and raises an alarm for a part that fails.

Some parts a turn of the loop: all of them at once would hold up the messages that come meanwhile.
"""

import asyncio
from collections.abc import Callable, Iterator
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
_TURN_US: Final = 100  # after so long the parts that are left are ticked in another turn
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
        ticks: Tells the parts the time, which it is given, one by one; yields the name of each, and what it raised.

    Attributes:
        clock: What that is measured with, in microseconds.
    """

    name = "ticker"
    metrics = LOOP
    needs = ("kernel", "listeners")

    def __init__(self, kernel: KernelPart, ticks: Callable[[Callable[[], int]], Iterator[tuple[str, str]]]) -> None:
        self._kernel = kernel
        self._ticks = ticks
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
            turn_us = self.clock()
            for name, error in self._ticks(self._kernel.clock.begin_turn):
                if error:
                    text = f"the part {name} of the node fails when it is ticked: {error}"
                    failing.happened(name, text, {"part": name})
                if self.clock() - turn_us >= _TURN_US:
                    await asyncio.sleep(0)
                    turn_us = self.clock()
            failing.tick()
