"""A lease held by a node for as long as it may rely on it, which is shorter than the coordinator keeps it.

A lease ends some time after its last renewal, by the coordinator's clock and at its leisure. Its holder counts from the
moment when it sent the renewal, by a clock that is never set and goes on while the machine sleeps. So it has stopped
before another node can begin, whatever delays and pauses lie between.
"""

import asyncio
import time
from typing import Final

from heliograph.cluster.coordination.interface import Coordinator, CoordinatorError, LeaseGoneError

_RENEWALS: Final = 3  # in the time of a lease
_PAUSE_MIN_S: Final = 0.05
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class HeldLease:
    """A lease that was granted; `run` renews it until it is lost.

    Args:
        coordinator: Who keeps it.
        lease: Its number there.
        ttl_s: How long it lasts from a renewal on.
        sent_s: When it was asked for, by `uptime_s`.

    Attributes:
        until_s: Until when it can be relied on, by `uptime_s`.
    """

    def __init__(self, coordinator: Coordinator, lease: int, ttl_s: int, sent_s: float) -> None:
        self.id = lease
        self.until_s = sent_s + ttl_s
        self._coordinator = coordinator
        self._ttl_s = ttl_s

    @property
    def is_held(self) -> bool:
        """Whether it can be relied on now: ask before each use, since a process may have been paused."""
        return uptime_s() < self.until_s

    async def run(self) -> str:
        """Renew it until it is lost; returns why."""
        problem = ""
        while self.is_held:
            left_s = self.until_s - uptime_s()
            pause_s = self._ttl_s / _RENEWALS if not problem else left_s / _RENEWALS
            await asyncio.sleep(max(_PAUSE_MIN_S, min(pause_s, left_s)))  # until a renewal is due
            sent_s = uptime_s()
            if sent_s >= self.until_s:
                break
            try:
                within_s = min(self.until_s - sent_s, self._ttl_s / _RENEWALS)
                async with asyncio.timeout(within_s):
                    await self._coordinator.keep(self.id, within_s)
            except LeaseGoneError as error:
                self.until_s = sent_s
                return str(error)
            except (CoordinatorError, TimeoutError) as error:
                problem = str(error) or "the coordinator did not answer in time"
            else:
                problem, self.until_s = "", sent_s + self._ttl_s
        return problem or "it could not be renewed in time"

    def __repr__(self) -> str:
        return f"HeldLease({self.id:x}, {self.until_s - uptime_s():.1f} s left)"


async def take_lease(coordinator: Coordinator, ttl_s: int) -> HeldLease:
    """A lease, held from now on. Raises `CoordinatorError`."""
    sent_s = uptime_s()
    granted = await coordinator.grant(ttl_s)
    return HeldLease(coordinator, granted.id, granted.ttl_s, sent_s)


def uptime_s() -> float:
    """Seconds of a clock that is never set, and that goes on while the machine sleeps, where there is such a one."""
    return time.clock_gettime(_CLOCK)
