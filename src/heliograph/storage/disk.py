"""The machine under storage, as far as storage cannot do without it: RocksDB, the files of its log, and a thread.

A database is given a `Disk` by whoever makes it, so that the same code runs on a disk that exists only in a simulation.
"""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from heliograph.storage.engine import Rdict, open_primary
from heliograph.storage.wal import LogFiles


class Aside(Protocol):
    """Work that goes on beside its beginner, as a thread does."""

    def start(self) -> None:
        """Begin."""

    def join(self) -> None:
        """Wait until it is done."""


class Disk:
    """The disk of this machine. What a simulation has instead overrides every method."""

    def open(self, path: Path, compression: str) -> Rdict:
        """Open a RocksDB for writing, creating it and the directories above it if they do not exist.

        Raises:
            Exception: RocksDB's own or the system's; see `engine.translated`.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        return open_primary(path, compression)

    def log_files(self, path: Path) -> LogFiles:
        """The log of a RocksDB that has just been opened.

        Raises:
            OSError: Its directory cannot be opened.
        """
        return LogFiles(path)

    def table_bytes(self, path: Path) -> int:
        """The size of the table files of a RocksDB, as the directory says it; 3 µs for each."""
        total = 0
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".sst"):
                    with suppress(FileNotFoundError):  # RocksDB has just removed it
                        total += entry.stat().st_size
        return total

    def aside(self, target: Callable[[], None], name: str) -> Aside:
        """Work to be begun, for what blocks without holding the GIL."""
        return threading.Thread(target=target, name=name, daemon=True)


THIS_DISK: Final = Disk()
