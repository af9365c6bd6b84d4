"""Syncs RocksDB's write-ahead log in another thread.

rocksdict holds the GIL while RocksDB syncs, which would stop the event loop for the length of an fsync. So commits are
written without sync, which takes them as far as the kernel, and the log files are synced here with `os.fdatasync`,
which releases the GIL. RocksDB's own order is kept: what a commit wrote lies in the newest log file at that time, and a
log file is only deleted after its content was synced elsewhere.
"""

import os
from pathlib import Path


class SyncRequest:
    """The files that hold what was written so far. Made in the thread that writes; `run` may run in any other."""

    def __init__(self, descriptors: list[int], directory: int | None, write_count: int) -> None:
        self.descriptors = descriptors  # of the log files that it covers
        self.write_count = write_count  # how many writes it covers
        self.directory = directory

    def run(self) -> None:
        """Wait until the disk has it all; `OSError` if it may not have."""
        for descriptor in self.descriptors:
            os.fdatasync(descriptor)
        if self.directory is not None:
            os.fsync(self.directory)


class LogFiles:
    """The log files of one open database: which of them hold commits that no sync has covered yet.

    Owned by the open database, used by the thread that writes.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._open: dict[int, int] = {}  # file number -> descriptor
        self._dirty: set[int] = set()
        self._new_file = False
        self._newest = -1
        self._write_count = 0

    def written(self, *, may_be_new: bool = True) -> None:
        """Something was written: note the log file that has it.

        Args:
            may_be_new: Whether that may be a file that was not there before; looking takes 1 µs for each file.
        """
        self._write_count += 1
        for name in os.listdir(self._path) if may_be_new else ():
            if name.endswith(".log") and int(name[:-4]) > self._newest:
                self._add(int(name[:-4]), os.path.join(self._path, name))
        if self._open:
            self._newest = max(self._open)
            self._dirty.add(self._newest)

    def _add(self, number: int, path: str) -> None:
        try:
            self._open[number] = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return  # deleted since the directory was read: RocksDB has synced its content elsewhere
        self._dirty.add(number)
        self._new_file = True

    def sync_request(self) -> SyncRequest:
        """What must be synced so that everything written so far is on the disk."""
        descriptors = [self._open[number] for number in sorted(self._dirty)]
        return SyncRequest(descriptors, self._directory if self._new_file else None, self._write_count)

    def synced(self, write_count: int) -> None:
        """So many writes are on the disk; if there were more since, their log files stay to be synced."""
        if write_count != self._write_count:
            return
        self._dirty.clear()
        self._new_file = False
        for number in [number for number in self._open if number != self._newest]:
            os.close(self._open.pop(number))

    def close(self) -> None:
        """Close all files; no request may be running."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        os.close(self._directory)
