"""The clocks of a node: reads those of the machine, and reports when the wall clock is set.

`broker.clock` decides what time it is; what it found goes to the log, to alarms and to counters here.
"""

import logging
import time
from typing import Final

from heliograph.broker import clock
from heliograph.broker.pubsub import Broker
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog

_log = logging.getLogger(__name__)

AHEAD: Final = "clock_jumped_ahead"
BEHIND: Final = "clock_set_back"
_ADVICE: Final = "Check what sets the clock of this machine (NTP)"


class NodeClock:
    """Tells the broker the time; owned by the node's kernel."""

    def __init__(self, broker: Broker, alarms: Alarms) -> None:
        self._broker = broker
        self._alarms = alarms
        self._log = BoundedLog(_log, uptime_us)
        self._active: set[str] = set()  # alarms
        self._stored_us = 0  # the time of a stored message that is ahead of the clock; 0 for none
        self._counts = {"jumps.ahead": 0, "jumps.back": 0, "jumps.followed": 0}

    def begin_turn(self) -> int:
        """Look at both clocks, and tell the broker the time; returns the uptime."""
        uptime = uptime_us()
        event = self._broker.clock.look(uptime, time.time_ns() // 1000)
        self._broker.begin_turn(uptime)
        if event != clock.NOTHING:
            self._tell(event)
        if self._stored_us and self._stored_us <= self._broker.now_us:
            self._stored_us = 0
            self._end(BEHIND)
        return uptime

    def now_us(self) -> int:
        return int(self._broker.clock.at(uptime_us()))

    def expect_after(self, stored_us: int) -> None:
        """Warn if the wall clock at the start is behind the time of the newest stored message."""
        behind_us = stored_us - self._broker.now_us
        if behind_us < clock.JUMP_US:
            return
        self._stored_us = stored_us
        text = (
            f"the wall clock is {_s(behind_us)} s behind the newest stored message: it is wrong now, or it was ahead "
            f"when that was stored. What is new is stored under later times until the clock has passed it. {_ADVICE}"
        )
        self._counts["jumps.back"] += 1
        self._log.warn("%s", text)
        self._begin(BEHIND, text)

    def statistics(self) -> dict[str, float]:
        numbers: dict[str, float] = {f"clock.{name}": count for name, count in self._counts.items()}
        numbers["clock.error_s"] = round(int(self._broker.clock.error_us) / 1e6, 1)
        return numbers

    def _tell(self, event: int) -> None:
        error, bound_s = int(self._broker.clock.error_us), _s(int(self._broker.clock.jump_max_us))
        if event == clock.JUMPED:
            self._counts["jumps.ahead"] += 1
            self._end(BEHIND)
            text = (
                f"the wall clock jumped ahead by {_s(error)} s, and the node's time goes on without it: it is followed "
                f"after it stayed there for {bound_s} s (node.max_clock_jump). {_ADVICE}"
            )
            self._log.warn("%s", text)
            self._begin(AHEAD, text)
        elif event == clock.FOLLOWED:
            self._counts["jumps.followed"] += 1
            self._counts["jumps.ahead"] += AHEAD not in self._active
            self._end(AHEAD)
            self._log.warn("the wall clock jumped ahead by %s s, and the node's time with it. %s", _s(error), _ADVICE)
        elif event == clock.SET_BACK:
            self._counts["jumps.back"] += 1
            self._end(AHEAD)
            text = (
                f"the wall clock was set back: the node's time is {_s(-error)} s ahead of it, and with it received_at "
                f"and stored_at. It runs slower by one part in 64 until the wall clock has caught up. {_ADVICE}"
            )
            self._log.warn("%s", text)
            self._end(BEHIND)
            self._begin(BEHIND, text)
        elif event == clock.RETURNED:
            self._end(AHEAD)
            self._log.warn("the wall clock is back from a jump ahead that the node did not follow")
        elif event == clock.CAUGHT_UP:
            self._end(BEHIND)
            self._log.warn("the wall clock has caught up with the node's time")

    def _begin(self, name: str, text: str) -> None:
        self._active.add(name)
        details = {"error_s": _s(int(self._broker.clock.error_us))}
        self._alarms.activate(name, text, details, degrades=False)  # to start again would not help

    def _end(self, name: str) -> None:
        if name in self._active:
            self._active.remove(name)
            self._alarms.deactivate(name)

    def __repr__(self) -> str:
        return f"NodeClock({self._broker.clock!r}, {self._counts})"


def uptime_us() -> int:
    return time.monotonic_ns() // 1000


def _s(us: int) -> float:
    return round(us / 1e6, 1)
