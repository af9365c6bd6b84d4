"""The memory that the batches of all actions share, so that many busy actions together do not hold too much.

No action waits for others: one whose target is slow holds its batch for long. The less is free, the smaller batches
are, down to a size that each action may have.
"""

from threading import Lock
from typing import Final

# The runner holds the rows of a batch several times over while it makes requests of them: measured, large rows 4.5
# times, and small ones with up to 2 KiB each, as the objects of their JSON.
_TIMES: Final = 6
ROW_BYTES: Final = 256
"""What a row counts beside its own bytes."""
_BYTES_MAX: Final = (32 << 20) // _TIMES  # with some 30 MiB of the process 64 MiB, without libraries of targets
_LEAST_BYTES: Final = 64 << 10


class BatchMemory:
    """Bytes of rows for the batches of all actions; owned by the runner, and used by all threads."""

    def __init__(self, bytes_max: int = _BYTES_MAX, least_bytes: int = _LEAST_BYTES) -> None:
        self._lock = Lock()
        self._bytes_max = bytes_max
        self._least_bytes = least_bytes
        self._held = 0

    def change(self, before: int, wanted: int) -> int:
        """Exchange bytes for others: half of what is free at most; how many they are."""
        with self._lock:
            self._held -= before
            given = max(self._least_bytes, min(wanted, (self._bytes_max - self._held) // 2))
            self._held += given
            return given

    def hold(self, before: int, size: int) -> int:
        """Exchange bytes for others, whatever is free: a batch that was begun cannot be split."""
        with self._lock:
            self._held += size - before
            return size

    def __repr__(self) -> str:
        return f"BatchMemory({self._held} of {self._bytes_max} bytes)"


class BatchShare:
    """What of it the batch of one action has; owned by the thread of the action."""

    def __init__(self, memory: BatchMemory) -> None:
        self._memory = memory
        self._size = 0

    def take(self, wanted: int) -> int:
        """Take bytes for a batch: how many it may have, in the place of what it had."""
        self._size = self._memory.change(self._size, wanted)
        return self._size

    def keep(self, size: int) -> None:
        """Keep as many bytes as the rows of the batch are; 0 at its end."""
        self._size = self._memory.hold(self._size, size)

    def __repr__(self) -> str:
        return f"BatchShare({self._size} of {self._memory!r})"
