"""Threads for rules that may block, so that the event loop never waits for one.

Each rule has a strand: its evaluations run one after another, in the order of the messages. A few threads serve all
strands in turn, so that a rule which waits for its timeout holds up itself and at most its share of the threads.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from heliograph.parts.threads import Threads

_WAITING_BYTES_MAX: Final = 64 << 20

Item = TypeVar("Item")
Result = TypeVar("Result")


class Strand(Generic[Item, Result]):
    """The evaluations of one rule, one at a time and in order. `put` is called in the event loop only.

    Args:
        work: Called in a thread; must not raise.
        done: Called with the item and its result through `hand_back`.
        hand_back: Has a callback called in the event loop; callable in any thread.
    """

    def __init__(
        self,
        threads: Threads,
        work: Callable[[Item], Result],
        done: Callable[[Item, Result], None],
        hand_back: Callable[[Callable[[], None]], object],
        waiting_max: int,
    ) -> None:
        self._threads = threads
        self._work = work
        self._done = done
        self._hand_back = hand_back
        self._waiting_max = waiting_max
        self._items: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._lock = threading.Lock()
        self._runs = False  # a thread has an item, or is about to take one
        self._works = 0  # items that a thread has taken and whose results are not delivered yet
        self._closed = False

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item, size: int = 0) -> bool:
        """Take an item; False if too many wait, or too large ones."""
        with self._lock:
            if self._closed or len(self._items) >= self._waiting_max:
                return False
            if self._items and self._bytes + size > _WAITING_BYTES_MAX:
                return False
            self._items.append((item, size))
            self._bytes += size
            begins, self._runs = not self._runs, True
        if begins:
            self._threads.run(self._step)
        return True

    def use(self, work: Callable[[Item], Result], done: Callable[[Item, Result], None], waiting_max: int) -> None:
        """Change how items are worked on; what runs ends as it began."""
        with self._lock:
            self._work, self._done, self._waiting_max = work, done, waiting_max

    def close(self) -> int:
        """Drop what waits, and the outcome of what runs; gives the number of evaluations that are lost."""
        with self._lock:
            self._closed = True
            lost = len(self._items) + self._works
            self._items.clear()
            return lost

    def _step(self) -> None:
        """In a thread: work on one item, and get in line again if there are more."""
        with self._lock:
            if not self._items:
                self._runs = False
                return
            item, size = self._items.popleft()
            self._bytes -= size
            work, done = self._work, self._done
            self._works += 1
        result = work(item)
        if not self._closed:
            try:
                self._hand_back(lambda: self._tell(done, item, result))
            except RuntimeError:  # the event loop is closed: the node has stopped
                return
        with self._lock:
            self._runs = bool(self._items)
        if self._runs:
            self._threads.run(self._step)

    def _tell(self, done: Callable[[Item, Result], None], item: Item, result: Result) -> None:
        with self._lock:
            self._works -= 1
        if not self._closed:
            done(item, result)
