"""What a server of reads has read and given out."""

import threading


class ReadCounts:
    """What was read since a process began: rows and bytes of the blocks that were looked into, and rows given out.

    Owned by the server of reads; its threads share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows_read = self._bytes_read = self._rows_given = 0

    def add(self, rows_read: int, bytes_read: int, rows_given: int) -> None:
        """Count a batch."""
        with self._lock:
            self._rows_read += rows_read
            self._bytes_read += bytes_read
            self._rows_given += rows_given

    def counts(self) -> dict[str, int]:
        """The counts by name."""
        with self._lock:
            return {
                "rows_read": self._rows_read,
                "bytes_read": self._bytes_read,
                "rows_given": self._rows_given,
            }
