"""The interface of storage to the machine: RocksDB, the files of its log, and a thread.

The creator of a database passes it a `Disk`, so that the same code runs on the fake disk of the simulation.
"""

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from heliograph.storage.durable_files import force_to_disk
from heliograph.storage.engine import MEMTABLE_BYTES, Rdict, is_absent, open_primary
from heliograph.storage.errors import GONE, StorageDamagedError
from heliograph.storage.register import Register
from heliograph.storage.wal import LogFiles, SyncRequest


class Aside(Protocol):
    """Work that goes on beside its beginner, as a thread does."""

    def start(self) -> None: ...

    def join(self) -> None: ...


class Disk:
    """The disk of this machine. What a simulation has instead overrides every method."""

    def open(self, path: Path, compression: str) -> Rdict:
        """Open a RocksDB for writing, creating it and the directories above it if there never was one.

        Raises:
            StorageDamagedError: There was one, and nothing is left of it.
        """
        if is_absent(path):
            if self.is_known(path):
                raise StorageDamagedError(GONE, database=path.name, path=path)
            _create(path, compression)
        return open_primary(path, compression)

    def is_there(self, path: Path) -> bool:
        """Whether a database is there, or was made and must be."""
        return not is_absent(path) or self.is_known(path)

    def is_known(self, path: Path) -> bool:
        """Whether a database was made there before, so that there must be something."""
        return Register.of(path).has(path)

    def note(self, path: Path, content: SyncRequest) -> None:
        """A database was made there, or came from an earlier version: it is not made again.

        Args:
            content: What must be on the disk before.
        """
        with suppress(OSError):  # it can be used all the same, and the next opening tries again
            if path.is_dir():
                content.run()
                Register.of(path).add(path)

    def first_generation(self, path: Path) -> int:
        """The number of the first generation of a database that is being made."""
        return Register.of(path).first_generation(path)

    def log_files(self, path: Path) -> LogFiles:
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

    def free_bytes(self, path: Path) -> int:
        """What the file system of a database has left for this process; very much where that is not known."""
        try:
            found = os.statvfs(path)
        except OSError:
            return _UNKNOWN_BYTES
        blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail  # root may write what is kept in reserve, too
        return blocks * found.f_frsize

    def needed_bytes(self, path: Path) -> int:
        """How much room a database that ran out of it needs to be opened and written again.

        RocksDB writes what its log has, which is a memtable as a rule, to a table, and begins another log.
        """
        logs = 0
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                if entry.name.endswith(".log"):
                    with suppress(FileNotFoundError):
                        logs += entry.stat().st_size
        return min(logs, MEMTABLE_BYTES) + _SPARE_BYTES

    def aside(self, target: Callable[[], None], name: str) -> Aside:
        """A thread for work that blocks without holding the GIL; the caller starts it."""
        return threading.Thread(target=target, name=name, daemon=True)


_UNKNOWN_BYTES: Final = 1 << 62
_SPARE_BYTES: Final = 1 << 20  # for the list of tables, the new log and a few commits
THIS_DISK: Final = Disk()


def _create(path: Path, compression: str) -> None:
    """Make an empty database beside its place and move it there, so that a crash leaves either none or a whole one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    open_primary(draft, compression).close()
    draft.rename(path)
    force_to_disk(path.parent)
