"""The `local` backend: where the databases of messages of one node lie on its disk, one RocksDB each.

A database itself is in `local_database`; databases of state lie beside them, see `local_state`.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.disk import THIS_DISK, Disk
from heliograph.storage.engine import translated
from heliograph.storage.errors import UnknownDatabaseError
from heliograph.storage.interface import DatabaseOptions
from heliograph.storage.register import Register
from heliograph.storage.site import read_or_make_site_id

_FOLDER: Final = "storage"


def databases_path(data_dir: Path) -> Path:
    """Where the databases of a node lie."""
    return data_dir / _FOLDER


class LocalBackend:
    """The databases of one node. Lives as long as the node; owned by it.

    Args:
        data_dir: The node's data directory; created if it does not exist.
        reopen_interval_s: How long a database that failed is left alone before a write opens it again.
        disk: Where RocksDB's files lie.
        clock: Gives the time of commits in µs; the wall clock if None.
    """

    def __init__(
        self,
        data_dir: Path,
        reopen_interval_s: float = 1.0,
        disk: Disk = THIS_DISK,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self._path = databases_path(data_dir)
        self._reopen_interval_s = reopen_interval_s
        self._disk = disk
        self._clock = clock
        self._site_id: str | None = None

    @property
    def site_id(self) -> str:
        """This node's persistent random id, made at its first use.

        Raises:
            StorageError: It cannot be read or written.
        """
        if self._site_id is None:
            try:
                self._site_id = read_or_make_site_id(self._path)
            except OSError as error:
                raise translated(error, "", self._path) from error
        return self._site_id

    def database(self, name: str, options: DatabaseOptions) -> LocalDatabase:
        """A database that is not open yet, so that a node can run while it cannot be opened."""
        return LocalDatabase(
            name,
            self._path / name,
            options,
            lambda: self.site_id,
            reopen_interval_s=self._reopen_interval_s,
            disk=self._disk,
            clock=self._clock,
        )

    def open_db(self, name: str, options: DatabaseOptions) -> LocalDatabase:
        """Open a database, creating it if it does not exist.

        Raises:
            StorageError: It cannot be opened.
        """
        database = self.database(name, options)
        database.open()
        return database

    def drop_db(self, name: str) -> None:
        """Remove a database that is not open, with everything in it.

        Raises:
            UnknownDatabaseError: It does not exist.
            StorageError: Its files cannot be removed.
        """
        drop_database(self._path, name)

    def list_dbs(self) -> Sequence[str]:
        """The names of those that exist."""
        return existing_databases(self._path)


def drop_database(folder: Path, name: str) -> None:
    """Remove a database of a directory, whose files nobody has open.

    Raises:
        UnknownDatabaseError: It does not exist.
        StorageError: Its files cannot be removed.
    """
    names = existing_databases(folder)
    if name not in names:
        raise UnknownDatabaseError(f"there is no such database; there are: {', '.join(names)}", database=name)
    path = folder / name
    going = path.with_name(f".{name}.dropped")  # so that a crash does not leave half a database
    try:
        shutil.rmtree(going, ignore_errors=True)
        Register.of(path).remove(path)
        path.rename(going)
        shutil.rmtree(going)
    except OSError as error:
        raise translated(error, name, path) from error


def existing_databases(path: Path) -> list[str]:
    """The databases in a directory, by name."""
    if not path.is_dir():
        return []
    return sorted(entry.name for entry in path.iterdir() if entry.name[0] != "." and (entry / "CURRENT").is_file())
