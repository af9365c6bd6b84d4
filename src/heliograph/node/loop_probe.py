"""How long turns of the event loop take: ten times a second one of them is measured from its begin to its end.

What comes while the loop is in a turn waits for the end of it. A timer begins a measurement, and what it has called in
the next turn ends it. That the timer itself came late shows a long turn that fell between two of them.

`TurnWatch` has a thread that looks at the loop's thread while a turn takes long: compiled code that keeps the
interpreter to itself is not seen, only its caller. Nothing is looked at while turns are short.
"""

import asyncio
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Final, NamedTuple

import uvloop

from heliograph.observe.histogram import Histogram

_PROBE_S: Final = 0.1
_REMEMBERED_S: Final = 60
_BOUNDS_S: Final = (0.0001, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.1, 0.5, 2.0)
LONG_S: Final = 0.02  # of turns that are remembered
_LOOK_S: Final = 0.1  # between two looks of the thread; the loop gives a sign of life as often
_LATE_S: Final = 0.05  # so late is a sign of life in a turn that is looked at
_REMEMBERED: Final = 100
_FRAMES_MAX: Final = 6
_OURS: Final = "heliograph"
_RUNNERS: Final = ("asyncio.runners", "uvloop")  # what is further out runs the whole loop


@dataclass(frozen=True, slots=True)
class LoopTurns:
    """How long turns took, in seconds."""

    mean_s: float = 0.0
    longest_s: float = 0.0


class TurnCount:
    """What the probe has found since one reader looked last; owned by that reader."""

    def __init__(self) -> None:
        self._sum_s = self._longest_s = 0.0
        self._count = 0

    def add(self, turn_s: float, late_s: float) -> None:
        """`late_s` is how late the timer before the turn was."""
        self._sum_s += turn_s
        self._longest_s = max(self._longest_s, turn_s, late_s)
        self._count += 1

    def take(self) -> LoopTurns:
        """What was found since the last call."""
        found = LoopTurns(self._sum_s / max(1, self._count), self._longest_s)
        self._sum_s = self._longest_s = 0.0
        self._count = 0
        return found


class RecentTurns:
    """The longest turn of each of the last seconds, for any number of readers; owned by the probe."""

    def __init__(self) -> None:
        self._seconds: deque[tuple[int, float]] = deque(maxlen=_REMEMBERED_S)

    def add(self, at_s: float, turn_s: float) -> None:
        second = int(at_s)
        if self._seconds and self._seconds[-1][0] == second:
            turn_s = max(turn_s, self._seconds.pop()[1])
        self._seconds.append((second, turn_s))

    def longest_s(self, seconds: int) -> float:
        """The longest of so many last seconds; 0 where none was measured."""
        since = time.monotonic() - seconds
        return max((turn_s for second, turn_s in self._seconds if second + 1 > since), default=0.0)


class LoopProbe:
    """Measures the event loop from `start` to `stop`; owned by the part `sysmon`.

    Attributes:
        recent: Those of the last minute.
        watch: Those that took long, and what ran in them.
    """

    def __init__(self) -> None:
        self.turns = Histogram(_BOUNDS_S)
        self.recent = RecentTurns()
        self.watch = TurnWatch()
        self._counts: list[TurnCount] = []
        self._next: asyncio.Handle | None = None
        self._began = self._late_s = 0.0

    def count(self) -> TurnCount:
        """Counts from now on, for one more reader."""
        made = TurnCount()
        self._counts.append(made)
        return made

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        if isinstance(loop, uvloop.Loop):  # the loops of simulations take no real time, and there are hundreds of them
            self.watch.start()
        self._wait(loop)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.watch.stop()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = loop.call_later(_PROBE_S, self._begin, loop, time.monotonic() + _PROBE_S)

    def _begin(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        self._began = time.monotonic()
        self._late_s = max(0.0, self._began - due)
        self._next = loop.call_soon(self._end, loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        now = time.monotonic()
        turn_s = now - self._began
        self.turns.add(turn_s)
        self.recent.add(now, max(turn_s, self._late_s))
        self.watch.alive(now, max(turn_s, self._late_s))
        for count in self._counts:
            count.add(turn_s, self._late_s)
        self._wait(loop)


class LongTurn(NamedTuple):
    """A turn that took at least `seconds` and ended at `ended_us` of the epoch; `ran` has the innermost call first."""

    ended_us: int
    seconds: float
    ran: str


class TurnWatch:
    """Remembers turns that took long, and looks at what runs in them; owned by `LoopProbe`, from `start` to `stop`.

    The thread ends with the loop too, which the node of a test may leave without an end of its own.

    Attributes:
        alive_at: When the loop gave its last sign of life, on the monotonic clock.
        turns: Those that took long, the newest last.
    """

    def __init__(self) -> None:
        self.alive_at = 0.0
        self.turns: deque[LongTurn] = deque(maxlen=_REMEMBERED)
        self._loop_thread = 0
        self._ran = ""
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Look at the running loop, and at the thread that calls this."""
        self._loop_thread = threading.get_ident()
        self.alive_at = time.monotonic()
        self._stop.clear()
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._look_on, args=(loop,), name="long turns", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def alive(self, now: float, turn_s: float) -> None:
        self.alive_at = now
        ran, self._ran = self._ran, ""
        if turn_s >= LONG_S:
            self.turns.append(LongTurn(time.time_ns() // 1000, round(turn_s, 4), ran))

    def _look_on(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stop.wait(_LOOK_S) and not loop.is_closed():
            if time.monotonic() - self.alive_at > _LOOK_S + _LATE_S:
                frame = sys._current_frames().get(self._loop_thread)
                self._ran = "" if frame is None else _calls_of(frame)

    def __repr__(self) -> str:
        return f"TurnWatch({len(self.turns)} long turns)"


def _calls_of(frame: FrameType | None) -> str:
    calls: list[str] = []
    while frame is not None and len(calls) < _FRAMES_MAX:
        module = str(frame.f_globals.get("__name__", "?"))
        if module.startswith(_RUNNERS):
            break
        if module.startswith(_OURS) or not calls:
            calls.append(_call_of(module, frame.f_code))
        frame = frame.f_back
    return " < ".join(calls)


def _call_of(module: str, code: CodeType) -> str:
    return f"{module.removeprefix(f'{_OURS}.')}.{code.co_qualname}"
