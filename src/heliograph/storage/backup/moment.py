"""The moment that a backup shows: all databases as they are in one turn of the event loop, which only looks at them.

A RocksDB is tables, which never change, and a few files that only grow: its log, and its list of tables (MANIFEST). The
process that makes the backup links the tables and opens the other files. Then the node notes in one turn how long
each of these is. If no list of tables changed between the linking and that turn, and no file is new, the links are all
the tables that the lists name, and the files up to these lengths are the databases of that turn. Otherwise the process
links again.

RocksDB's own checkpoint says the same, but it syncs, and `rocksdict` holds the GIL meanwhile: the loop stood for up to
170 ms.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from heliograph.storage.backup.errors import BackupFailedError

Positions = dict[str, tuple[int, int]]
"""Of each file that is no table, relative to the data directory: its inode, and how long it is."""

IMMUTABLE: Final = (".sst", ".blob", ".parquet")
OF_A_PROCESS: Final = ("LOCK", "LOG")  # of RocksDB: a lock, and lines for its developers
DATABASES: Final = ("storage", "state", "keyed")
REGISTER: Final = "databases"
_LOG: Final = ".log"
_CHUNK_BYTES: Final = 1 << 20


def positions(data_dir: Path, names: Iterable[str]) -> Positions:
    """Look at files of databases; 2 µs for each."""
    found: Positions = {}
    for name in names:
        with suppress(FileNotFoundError):
            status = os.stat(f"{data_dir}/{name}")
            found[name] = (status.st_ino, status.st_size)
    return found


class LinkedDatabases:
    """Links to the databases of a node that runs, beside it. Owned by the process that makes a backup.

    Args:
        work: An empty directory of the same file system.
    """

    def __init__(self, data_dir: Path, work: Path) -> None:
        self._data_dir = data_dir
        self._work = work
        self._before: Positions = {}
        self._open: dict[str, int] = {}

    def link(self) -> list[str]:
        """Link what there is now; after an earlier call, what is new.

        Returns:
            The names of the files that the node must look at, in this order.
        """
        self._close()
        self._before = positions(self._data_dir, _not_tables(self._data_dir))
        for name in self._before:
            with suppress(FileNotFoundError):
                self._open[name] = os.open(self._data_dir / name, os.O_RDONLY)
        for directory in database_directories(self._data_dir):
            target = self._work / directory.relative_to(self._data_dir)
            target.mkdir(parents=True, exist_ok=True)
            for name in os.listdir(directory):
                if name.endswith(IMMUTABLE):
                    with suppress(FileNotFoundError, FileExistsError):  # merged since; linked before
                        os.link(directory / name, target / name)
        return list(self._before)

    def are_those_of(self, moment: Positions) -> bool:
        """Whether the links have all that the databases were at a moment after them."""
        opened = {name: os.fstat(descriptor).st_ino for name, descriptor in self._open.items()}
        return (
            _without_logs(moment) == _without_logs(self._before)
            and all(opened.get(name) == inode for name, (inode, _) in moment.items())
            and self._before.keys() >= set(_not_tables(self._data_dir))
        )

    def complete(self, moment: Positions) -> None:
        """Copy what grows, as it was at the moment."""
        for name, (_, size) in moment.items():
            target = self._work / name
            status = os.fstat(self._open[name])
            with target.open("wb") as out:
                position = 0
                while position < size:
                    chunk = os.pread(self._open[name], min(_CHUNK_BYTES, size - position), position)
                    if not chunk:
                        raise BackupFailedError(f"{self._data_dir / name} became shorter while it was read")
                    out.write(chunk)
                    position += len(chunk)
            target.chmod(stat.S_IMODE(status.st_mode))
        self._close()

    def _close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def __repr__(self) -> str:
        return f"LinkedDatabases({self._data_dir}, {len(self._open)} files that grow)"


def database_directories(data_dir: Path) -> Iterator[Path]:
    """The directories of the databases below a data directory, or below what is made as one."""
    for folder in DATABASES:
        if (data_dir / folder).is_dir():
            yield from (one for one in sorted((data_dir / folder).iterdir()) if _is_database(one))


def is_saved(path: Path) -> bool:
    """Whether a file belongs in a backup, and not to a process that has a database open."""
    return not _is_of_a_process(path.name)


def _is_of_a_process(name: str) -> bool:
    return name.partition(".")[0] in OF_A_PROCESS


def _is_database(path: Path) -> bool:
    return path.is_dir() and not path.name.startswith(".")


def _not_tables(data_dir: Path) -> Iterator[str]:
    """The files that grow or are replaced. Logs come before the list of tables: it grows before a log is removed."""
    yield REGISTER
    for directory in database_directories(data_dir):
        for name in sorted(os.listdir(directory)):
            if not name.endswith(IMMUTABLE) and not _is_of_a_process(name) and (directory / name).is_file():
                yield f"{directory.parent.name}/{directory.name}/{name}"


def _without_logs(files: Positions) -> Positions:
    """Those that must not change; logs may: what they have more is left out."""
    return {name: position for name, position in files.items() if not name.endswith(_LOG)}
