"""Bringing RocksDB's write-ahead log to the disk from another thread.

rocksdict holds the GIL while RocksDB syncs, which would stop the event loop for the length of an fsync. So commits are
written without sync, which takes them as far as the kernel, and the log files are synced here with `os.fdatasync`,
which releases the GIL. RocksDB's own order is kept: what a commit wrote lies in the newest log file at that time, and a
log file is only deleted after its content was synced elsewhere.
"""

import os
from pathlib import Path


class SyncRequest:
    """The files that hold what was written so far. Made in the thread that writes; `run` may run in any other."""

    def __init__(self, descriptors: list[int], directory: int | None) -> None:
        self._descriptors = descriptors
        self._directory = directory

    def run(self) -> None:
        """Wait until the disk has it all.

        Raises:
            OSError: It may not have.
        """
        for descriptor in self._descriptors:
            os.fdatasync(descriptor)
        if self._directory is not None:
            os.fsync(self._directory)


class LogFiles:
    """The log files of one open database: which of them hold commits that no sync has covered yet.

    Owned by the open database, used by the thread that writes.

    Args:
        path: The database's directory.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self._open: dict[str, int] = {}
        self._dirty: set[str] = set()
        self._new_file = False
        self._newest = ""

    def written(self) -> None:
        """Something was written: note the log file that has it, and forget those that are gone.

        Raises:
            OSError: The directory or a log file cannot be opened.
        """
        # Names are numbers with leading zeros, so the greatest name is the newest file.
        names = [name for name in os.listdir(self._path) if name.endswith(".log")]
        for name in names:
            if name not in self._open and name >= self._newest:
                self._open[name] = os.open(os.path.join(self._path, name), os.O_RDONLY)
                self._dirty.add(name)
                self._new_file = True
        if names:
            self._newest = max(names)
            self._dirty.add(self._newest)

    def sync_request(self) -> SyncRequest:
        """What must be synced so that everything written so far is on the disk."""
        descriptors = [self._open[name] for name in sorted(self._dirty)]
        return SyncRequest(descriptors, self._directory if self._new_file else None)

    def synced(self) -> None:
        """The last request was run and nothing was written since."""
        self._dirty.clear()
        self._new_file = False
        if len(self._open) > 1:
            for name in [name for name in self._open if name != self._newest]:
                os.close(self._open.pop(name))

    def close(self) -> None:
        """Close all files; no request may be running."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()
        os.close(self._directory)
