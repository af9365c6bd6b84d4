"""The ticker of a node: how late its ticks come, and that they leave the event loop to others."""

import asyncio
from collections.abc import Callable, Iterator

from heliograph.config.settings import Config
from heliograph.node.clock import NodeClock
from heliograph.node.ticker import Ticker, TickLag
from support.cases import cases
from support.kernel import Kernel
from support.services import VirtualKernelPart


def lag_of(*late_s: float) -> TickLag:
    lag = TickLag()
    for one in late_s:
        lag.add(one)
    return lag


@cases(
    ("late_s", "lasting_s"),
    [
        ((), 0.0),
        ((1.5,), 0.0),
        ((0.0, 1.5), 0.0),
        ((1.5, 0.01), 0.01),
        ((1.5, 1.2), 1.2),
        ((1.2, 1.5, 1.4), 1.4),
        ((1.5, 0.0, 1.5), 0.0),
    ],
)
def test_a_single_tick_that_is_late_is_no_lasting_lag(late_s: tuple[float, ...], lasting_s: float) -> None:
    assert lag_of(*late_s).lasting_s == lasting_s


def test_the_last_and_the_latest_are_known() -> None:
    lag = lag_of(0.1, 1.5, 0.2)
    assert (lag.last_s, lag.longest_s) == (0.2, 1.5)


async def test_others_have_a_turn_between_parts_that_take_long() -> None:
    kernel = VirtualKernelPart(Config(), Kernel())
    kernel.clock = NodeClock(kernel.broker, kernel.alarms)
    now_us, seen, is_done = 0, list[str](), asyncio.Event()

    def ticks(_clock: Callable[[], int]) -> Iterator[tuple[str, str]]:
        nonlocal now_us
        for name, takes_us in (("quick", 10), ("slow", 200), ("last", 10)):
            seen.append(name)
            asyncio.get_running_loop().call_soon(seen.append, f"turn after {name}")
            now_us += takes_us
            yield name, ""
        is_done.set()

    ticker = Ticker(kernel, ticks)
    ticker.clock = lambda: now_us
    await ticker.start()
    async with asyncio.timeout(30):
        await is_done.wait()
    await ticker.stop()
    assert seen[:5] == ["quick", "slow", "turn after quick", "turn after slow", "last"]
