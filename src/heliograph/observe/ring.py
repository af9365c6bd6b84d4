"""What waits to be fetched from a node: so many items, of which the oldest give way to new ones."""

from collections import deque
from collections.abc import Iterator
from threading import Lock
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Ring(Generic[Item]):
    """Numbers what is put into it, from 1 on, and keeps the newest until their reader confirms them.

    Any thread may put items into it.

    Attributes:
        dropped_count: Items that gave way before they were fetched.
    """

    def __init__(self, size_max: int) -> None:
        self.dropped_count = 0
        self._size_max = size_max
        self._items: deque[Item] = deque()
        self._first = 1  # the number of the oldest one
        self._fetched = 0  # the number of the newest one that was fetched
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._items)

    def put(self, item: Item) -> None:
        with self._lock:
            self._items.append(item)
            self._shrink(self._size_max)

    def resize(self, size_max: int) -> None:
        """Keep so many at the most from now on."""
        with self._lock:
            self._size_max = size_max
            self._shrink(size_max)

    def release(self, number: int) -> None:
        """Items up to this number are not needed any more."""
        with self._lock:
            while self._items and self._first <= number:
                self._items.popleft()
                self._first += 1

    def after(self, number: int, count: int) -> Iterator[tuple[int, Item]]:
        """Items behind a number with their own; new ones may come, and old ones go, between any two of them."""
        for _ in range(count):
            with self._lock:
                number = max(number + 1, self._first)
                if number - self._first >= len(self._items):
                    return
                self._fetched = max(self._fetched, number)
                item = self._items[number - self._first]
            yield number, item

    def clear(self) -> None:
        """Forget all; numbers go on."""
        with self._lock:
            self._first += len(self._items)
            self._items.clear()

    def _shrink(self, size: int) -> None:
        while len(self._items) > size:
            self._items.popleft()
            if self._first > self._fetched:
                self.dropped_count += 1
            self._first += 1
