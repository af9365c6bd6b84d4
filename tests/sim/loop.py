"""Virtual time, and event loops that live in it.

`Time` passes for a whole simulation, and a `Clock` is what one machine makes of it: it outlives processes. A
`VirtualLoop` is one process's event loop, and is dropped with it. Events of no machine (the network, what clients do)
wait in `Agenda`.
"""

import asyncio
import heapq
import inspect
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from itertools import count
from types import CoroutineType, SimpleNamespace
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack
from weakref import WeakSet

START_US: Final = 1_700_000_000_000_000

Ts = TypeVarTuple("Ts")
T = TypeVar("T")


class Time:
    """Microseconds since the simulation began."""

    def __init__(self) -> None:
        self.us = 0


class Clock:
    """The two clocks of a machine."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self.wall_us = START_US  # the wall clock at 0
        self.booted_us = -1_000_000

    @property
    def us(self) -> int:
        """The time of the simulation, which the machine does not know."""
        return self._time.us

    @property
    def uptime_us(self) -> int:
        """The clock that nobody sets; a machine that loses its power begins again."""
        return self._time.us - self.booted_us

    def module(self) -> SimpleNamespace:
        """What `import time` gives the code under test."""
        return SimpleNamespace(
            clock_gettime=lambda _clock: self.uptime_us / 1e6,
            thread_time=lambda: self.uptime_us / 1e6,
            monotonic=lambda: self.uptime_us / 1e6,
            monotonic_ns=lambda: self.uptime_us * 1000,
            perf_counter=lambda: self.uptime_us / 1e6,
            perf_counter_ns=lambda: self.uptime_us * 1000,
            time=lambda: (self._time.us + self.wall_us) / 1e6,
            time_ns=lambda: (self._time.us + self.wall_us) * 1000,
        )


class Agenda:
    """What happens some time, in order; at the same time, what was planned first."""

    def __init__(self, time: Time) -> None:
        self._time = time
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, us: int, event: Callable[[], None]) -> None:
        """Have something happen at a time."""
        heapq.heappush(self._events, (max(us, self._time.us), next(self._numbers), event))

    def after(self, us: int, event: Callable[[], None]) -> None:
        """Have something happen so much later."""
        self.at(self._time.us + us, event)

    @property
    def next_us(self) -> int | None:
        """When something happens next."""
        return self._events[0][0] if self._events else None

    def run_due(self) -> None:
        """Have everything happen whose time has come."""
        now = self._time.us
        while self._events and self._events[0][0] <= now:
            heapq.heappop(self._events)[2]()


class VirtualLoop(asyncio.AbstractEventLoop):
    """The event loop of one process; it turns when it is told to.

    Args:
        clock: The time; only `asyncio.sleep` and the like wait for it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[int, int, asyncio.TimerHandle]] = []
        self._numbers = count()
        self._sockets: set[socket.socket] = set()
        self._tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.failures: list[dict[str, Any]] = []  # what nobody caught

    def turn(self) -> None:
        """Run what is ready; what it makes ready waits for the next turn."""
        now = self._clock.us
        while self._timers and self._timers[0][0] <= now:
            self._ready.append(heapq.heappop(self._timers)[2])
        ready = self._ready
        for _ in range(len(ready)):
            if not ready:  # the process was killed
                return
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    @property
    def is_ready(self) -> bool:
        """Whether the next turn has something to do at once."""
        return bool(self._ready)

    @property
    def next_us(self) -> int | None:
        """When its next timer is due."""
        return self._timers[0][0] if self._timers else None

    def drop(self) -> None:
        """The process is gone: nothing of it runs again."""
        for task in self._tasks:
            coroutine = task.get_coro()
            if isinstance(coroutine, CoroutineType) and inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                coroutine.close()  # one that never began is no mistake here
        self._ready.clear()
        self._timers.clear()
        for one in self._sockets:
            one.close()
        self._sockets.clear()

    # --- what asyncio and the code under test ask of a loop

    def time(self) -> float:
        return self._clock.uptime_us / 1e6

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def add_reader(self, fd: Any, callback: Callable[[Unpack[Ts]], object], *args: *Ts) -> None:
        """Nothing comes: no program of a simulated machine uses the control socket, which ends with its process."""
        self._sockets.add(fd)

    def remove_reader(self, fd: Any) -> bool:
        self._sockets.remove(fd)
        return True

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        us = self._clock.us + max(0, round(delay * 1e6))
        timer = asyncio.TimerHandle(us / 1e6, callback, args, self, context)
        heapq.heappush(self._timers, (us, next(self._numbers), timer))
        return timer

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_later(when - self.time(), callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """A cancelled timer is passed over when its time comes."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, T], **named: Any) -> "asyncio.Task[T]":  # type: ignore[override]  # what the kernel calls with, and no more
        task = asyncio.Task(coro, loop=self, **named)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # killed processes leave tasks behind
        self._tasks.add(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.failures.append(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False


def new_loop(clock: Clock) -> VirtualLoop:
    """The loop of a process that begins."""
    return VirtualLoop(clock)  # type: ignore[abstract]  # it has no sockets, signals or subprocesses
