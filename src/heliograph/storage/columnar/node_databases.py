"""Where the databases of messages of one node lie on its disk, one RocksDB each, and the id of the node.

A database itself is in `database`; databases of state lie in a folder beside these, see `state.local`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.disk import THIS_DISK, Disk
from heliograph.storage.engine import translated
from heliograph.storage.interface import DatabaseOptions
from heliograph.storage.site import read_or_make_site_id

_FOLDER: Final = "storage"


def databases_path(data_dir: Path) -> Path:
    return data_dir / _FOLDER


class NodeDatabases:
    """Makes the databases of messages of one node. Lives as long as the node; owned by it.

    Args:
        reopen_interval_s: How long a database that failed is left alone before a write opens it again.
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
        """This node's persistent random id, made at its first use."""
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


def existing_databases(path: Path) -> list[str]:
    if not path.is_dir():
        return []
    return sorted(entry.name for entry in path.iterdir() if entry.name[0] != "." and (entry / "CURRENT").is_file())
