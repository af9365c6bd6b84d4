"""Where the keyed databases of a node lie: one RocksDB each, in a directory beside the databases of messages."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.backend import LocalBackend, drop_database, existing_databases
from heliograph.storage.disk import THIS_DISK, Disk
from heliograph.storage.interface import DatabaseOptions, KeyedOptions
from heliograph.storage.keyed.database import KeyedDatabase
from heliograph.storage.keyed.table import KeyedTable

_FOLDER: Final = "keyed"


def keyed_path(data_dir: Path) -> Path:
    """Where the keyed databases of a node lie."""
    return data_dir / _FOLDER


class KeyedBackend:
    """The keyed databases of one node. Lives as long as the node; owned by it.

    Args:
        data_dir: The node's data directory; created if it does not exist.
        options: How a new database learns topics; what the options of its opening say is for other layouts.
        clock: Gives the time of changes in µs; the wall clock if None.
        disk: Where RocksDB's files lie.
    """

    def __init__(
        self,
        data_dir: Path,
        options: KeyedOptions = KeyedOptions(),  # noqa: B008 - it cannot be changed
        clock: Callable[[], int] | None = None,
        disk: Disk = THIS_DISK,
    ) -> None:
        self._path = keyed_path(data_dir)
        self._options = options
        self._clock = clock
        self._disk = disk
        self._node = LocalBackend(data_dir)

    @property
    def site_id(self) -> str:
        """See `Backend.site_id`."""
        return self._node.site_id

    def table(self, name: str) -> KeyedTable:
        """The table of a database, not open yet, so that a node can run while it cannot be opened."""
        return KeyedTable(name, self._path / name, self._options, clock=self._clock, disk=self._disk)

    def open_db(self, name: str, options: DatabaseOptions) -> KeyedDatabase:
        """See `Backend.open_db`.

        Raises:
            StorageError: It cannot be opened.
        """
        table = self.table(name)
        table.open()
        return KeyedDatabase(table)

    def drop_db(self, name: str) -> None:
        """See `Backend.drop_db`.

        Raises:
            UnknownDatabaseError: It does not exist.
            StorageError: Its files cannot be removed.
        """
        drop_database(self._path, name)

    def list_dbs(self) -> Sequence[str]:
        """See `Backend.list_dbs`."""
        return existing_databases(self._path)
