"""The longest turns of the event loop, with what ran in them where that could be seen.

A thread looks at the loop's thread while a turn takes long: compiled code that keeps the interpreter to itself is not
seen, only who called it. Nothing is looked at while turns are short.
"""

import asyncio
import sys
import threading
import time
from collections import deque
from types import CodeType, FrameType
from typing import Final, NamedTuple

LONG_S: Final = 0.02  # of turns that are remembered
_LOOK_S: Final = 0.1  # between two looks of the thread; the loop gives a sign of life as often
_LATE_S: Final = 0.05  # so late is a sign of life in a turn that is looked at
_REMEMBERED: Final = 100
_FRAMES_MAX: Final = 6
_OURS: Final = "heliograph"
_RUNNERS: Final = ("asyncio.runners", "uvloop")  # what is further out runs the whole loop


class LongTurn(NamedTuple):
    """A turn that took long.

    Attributes:
        ended_us: When it ended, in microseconds since the epoch.
        seconds: How long it took at least.
        ran: What was seen to run in it, the innermost call first; empty for nothing.
    """

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
        """Begin to look at the running loop, and at the thread that calls this."""
        self._loop_thread = threading.get_ident()
        self.alive_at = time.monotonic()
        self._stop.clear()
        loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._look_on, args=(loop,), name="long turns", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None

    def alive(self, now: float, turn_s: float) -> None:
        """The loop goes on, and its last turn took so long."""
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
    """The innermost calls of our own code, and what they called."""
    told: list[str] = []
    while frame is not None and len(told) < _FRAMES_MAX:
        module = str(frame.f_globals.get("__name__", "?"))
        if module.startswith(_RUNNERS):
            break
        if module.startswith(_OURS) or not told:
            told.append(_call_of(module, frame.f_code))
        frame = frame.f_back
    return " < ".join(told)


def _call_of(module: str, code: CodeType) -> str:
    return f"{module.removeprefix(f'{_OURS}.')}.{code.co_qualname}"
