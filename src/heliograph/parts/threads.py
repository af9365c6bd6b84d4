"""Threads for work that would hold up the event loop: a bounded number, started when there is something to do."""

import threading
from collections import deque
from collections.abc import Callable
from itertools import count


class Threads:
    """The threads of one owner, started when they are first needed; `stop` lets them end.

    They are daemons: a step that hangs does not keep the process from ending.

    Args:
        begin: Called in each thread before its first step.
    """

    def __init__(self, threads_max: int, name: str, begin: Callable[[], object] = lambda: None) -> None:
        self._threads_max = threads_max
        self._name = name
        self._begin = begin
        self._numbers = count(1)
        self._running = 0
        self._idle = 0
        self._ready: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    def run(self, step: Callable[[], None]) -> None:
        """Call `step` in a thread, after those that wait already."""
        with self._changed:
            if self._stopped:
                return
            self._ready.append(step)
            if self._idle >= len(self._ready) or self._running >= self._threads_max:
                self._changed.notify()
                return
            self._running += 1
        self._start()

    def limit(self, threads_max: int) -> None:
        """Limit the number of threads; those that are too many end when they have nothing to do."""
        with self._changed:
            self._threads_max = threads_max
            missing = max(0, min(len(self._ready), threads_max - self._running))
            self._running += missing
            self._changed.notify_all()
        for _ in range(missing):
            self._start()

    def stop(self) -> None:
        """Let the threads end when they are done with what they do now; what waits is forgotten."""
        with self._changed:
            self._stopped = True
            self._ready.clear()
            self._changed.notify_all()

    def _start(self) -> None:
        threading.Thread(target=self._serve, name=f"{self._name}-{next(self._numbers)}", daemon=True).start()

    def _serve(self) -> None:
        self._begin()
        while (step := self._next()) is not None:
            step()

    def _next(self) -> Callable[[], None] | None:
        """What a thread does next; None if it is to end."""
        with self._changed:
            self._idle += 1
            while not self._ready and not self._stopped and self._running <= self._threads_max:
                self._changed.wait()
            self._idle -= 1
            if self._stopped or self._running > self._threads_max:
                self._running -= 1
                self._changed.notify()  # for what this one was woken for
                return None
            return self._ready.popleft()
