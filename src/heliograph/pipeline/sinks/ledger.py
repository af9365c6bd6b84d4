"""What was written to a table, kept beside it: its owner, a manifest of each batch, and what is not ready yet."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.table_locations import TableLocation
from heliograph.storage.durable_files import write_durably

# Spark runs the last batch again at most; the others tell a person what was written when.
_MANIFESTS_KEPT: Final = 100


@dataclass(frozen=True)
class Manifest:
    """What one batch brings; it counts from the moment that this is on the disk.

    Attributes:
        files: Name in the table of each file, by its path below the bookkeeping.
    """

    batch: int
    rows: int
    rows_total: int
    files: Mapping[str, str]
    bytes: int = 0


class Ledger:
    """The bookkeeping of one table. Owned by one query of one driver; its state is on disk, so it can be made again.

    Args:
        backfill_of: The owner of the table, if a backfill writes: backfills have files and numbers of their own.
    """

    def __init__(self, place: TableLocation, owner: str, backfill_of: str | None = None) -> None:
        self._place = place
        self._table = place.bookkeeping
        self._directory = self._table if backfill_of is None else self._table / "guests" / owner
        self._owner = backfill_of or owner
        self.staging = self._directory / "staging"

    def claim(self, suffix: str) -> None:
        owner_file = self._table / "owner"
        if owner_file.exists():
            check_owner(self._place.shown, owner_file.read_text(), self._owner)
            return
        named = self._place.owner()
        if named is not None:
            check_owner(self._place.shown, named, self._owner)
        elif self._place.has_files(suffix):
            check_owner(self._place.shown, "something else", self._owner)
        self._place.set_owner(self._owner)
        write_durably(owner_file, self._owner.encode())

    def read(self, batch: int) -> Manifest | None:
        return _manifest(_file(self._directory, batch))

    def newest(self) -> Manifest | None:
        return _newest(self._directory)

    def rows_total(self) -> int:
        writers = [self._table, *(self._table / "guests").glob("*")]
        return sum(newest.rows_total for one in writers if (newest := _newest(one)) is not None)

    def record(self, manifest: Manifest) -> None:
        write_durably(_file(self._directory, manifest.batch), json.dumps(asdict(manifest)).encode())

    def settle(self) -> None:
        """Throw away what is staged, and the manifests of batches that are long done."""
        shutil.rmtree(self.staging, ignore_errors=True)
        for old in sorted(_batches(self._directory))[:-_MANIFESTS_KEPT]:
            _file(self._directory, old).unlink(missing_ok=True)

    def inside(self, path: str) -> Path:
        return self._directory / path


def _file(directory: Path, batch: int) -> Path:
    return directory / "batches" / f"{batch:08d}.json"


def _batches(directory: Path) -> list[int]:
    return [int(file.stem) for file in (directory / "batches").glob("*.json")]


def _manifest(file: Path) -> Manifest | None:
    try:
        fields: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    return Manifest(**fields)


def _newest(directory: Path) -> Manifest | None:
    newest = max(_batches(directory), default=None)
    return _manifest(_file(directory, newest)) if newest is not None else None


def check_owner(table: str, found: str, owner: str) -> None:
    if found != owner:
        raise SinkError(
            f"the table {table} was written by {found}, not by this checkpoint ({owner}), so this could repeat "
            "rows: give another --output, use the checkpoint that wrote it, or remove the table"
        )
