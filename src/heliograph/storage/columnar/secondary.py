"""A database opened beside the process that writes it, for reading: by the reader process and by the command line."""

import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.engine import Rdict, is_absent, open_secondary, translated
from heliograph.storage.errors import GONE, StorageDamagedError, StorageError, UnknownDatabaseError
from heliograph.storage.register import Register

READERS: Final = ".readers"  # beside the databases: a directory for each process that reads, with RocksDB's notes


class ReadDatabase:
    """One database as a reader sees it. Owned by its reader; `current` keeps the threads that use it apart.

    Args:
        scratch: A directory for RocksDB's notes.
    """

    def __init__(self, name: str, path: Path, scratch: Path) -> None:
        self.name = name
        self.path = path
        self._scratch = scratch
        self._lock = threading.Lock()
        self._rocks: Rdict | None = None
        self._catalog = Catalog(name, path)

    @contextmanager
    def current(self) -> Iterator[tuple[Rdict, Catalog]]:
        """The database and its catalog with everything that the broker has written so far; others wait meanwhile."""
        with self._lock:
            try:
                rocks = self._caught_up_or_opened_anew()
                yield rocks, self._catalog
            except (StorageError, ValueError):
                raise
            except Exception as error:
                self._rocks = None
                raise translated(error, self.name, self.path) from error

    def _caught_up_or_opened_anew(self) -> Rdict:
        try:
            return self._caught_up()
        except StorageError:
            raise
        except Exception:  # noqa: BLE001 - the broker may have replaced files that were being looked for
            self._rocks = None
            return self._caught_up()

    def _caught_up(self) -> Rdict:
        if self._rocks is None:
            self._rocks = open_secondary(self.path, Path(tempfile.mkdtemp(dir=self._scratch)))
            self._catalog = Catalog(self.name, self.path)
        _catch_up(self._rocks, self.path)
        self._catalog.refresh(self._rocks)
        return self._rocks


def _catch_up(rocks: Rdict, path: Path) -> None:
    """Read what the primary has written.

    RocksDB reads its list of tables first and its logs then. A log that the primary moved into a table between the two
    is in neither, and what it held would be missing until the next time: so it is read again until no log came or went.
    """
    before = None
    while before != (before := _logs(path)):
        rocks.try_catch_up_with_primary()


def _logs(path: Path) -> frozenset[str]:
    return frozenset(name for name in os.listdir(path) if name.endswith(".log"))


@contextmanager
def reading(data_dir: Path, name: str) -> Iterator[tuple[Rdict, Catalog]]:
    """A database of a node, for the length of a block; it makes no difference whether the node runs."""
    path = databases_path(data_dir)
    check_exists(path, name)
    with (
        tempfile.TemporaryDirectory(prefix="heliograph-storage-") as scratch,
        ReadDatabase(name, path / name, Path(scratch)).current() as current,
    ):
        yield current


def is_gone(path: Path) -> bool:
    """Whether a database was made in a directory, and nothing is left there."""
    return is_absent(path) and Register.of(path).has(path)


def check_exists(path: Path, name: str) -> None:
    """Refuse a database with nothing to read."""
    if is_gone(path / name):
        raise StorageDamagedError(GONE, database=name, path=path / name)
    names = database_directories(path)
    if name not in names:
        listed = ", ".join(names) or "none"
        raise UnknownDatabaseError(f"there is no such database; there are: {listed}", database=name, path=path)


def database_directories(path: Path) -> list[str]:
    """The databases in a directory by name, also those that cannot be opened or are lost."""
    registered = set(Register(path.parent).names(path.name))
    if not path.is_dir():
        return sorted(registered)
    found = [entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    traces = ("CURRENT", "MANIFEST-*", "*.sst", "*.log")
    return sorted(registered | {entry.name for entry in found if any(any(entry.glob(one)) for one in traces)})
