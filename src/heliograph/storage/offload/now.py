"""Offload on command: all closed generations of a database of a stopped node, at once."""

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from heliograph.storage.columnar.block import OFFLOADED_VERSION
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.inspection import totals_of
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.retention import Usage
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.engine import Rdict, WriteBatch
from heliograph.storage.offload.commit import OffloadOptions
from heliograph.storage.offload.process import OffloadProcess
from heliograph.storage.offload.steps import Offload
from heliograph.storage.repair.message_database import node_is_stopped
from heliograph.storage.store import KeptInStore, Store

_AT_THE_END_OF_TIME: Final = 1 << 62  # when every closed generation is old enough


@dataclass(frozen=True, slots=True)
class OffloadReport:
    """What was offloaded, or would be: generations, and what they hold."""

    generations: int
    messages: int
    message_bytes: int
    dry_run: bool


def offload_due(data_dir: Path, name: str) -> OffloadReport:
    """What `now` would do; the node may be running."""
    with reading(data_dir, name) as (rocks, catalog):
        due = [one for one in catalog.generations() if one.info.until and one.info.layout_version < OFFLOADED_VERSION]
        totals = totals_of(rocks, [stream for one in due for stream in catalog.streams_in(one)])
    return OffloadReport(len({one.info.number for one in due}), totals.messages, totals.message_bytes, True)


def offload_now(data_dir: Path, name: str, target: str) -> OffloadReport:
    """Offload all closed generations, and finish what a crash left unfinished.

    Raises:
        StorageInUseError: The node runs.
        OffloadError: The target refuses; what was offloaded before is.
    """
    due = offload_due(data_dir, name)
    with node_is_stopped(data_dir, name):
        database = _StoppedDatabase(name, databases_path(data_dir) / name)
        try:
            asyncio.run(_offload(Offload(database, OffloadProcess(data_dir), OffloadOptions(target))))
        finally:
            database.close()
    return replace(due, dry_run=False)


async def _offload(offload: Offload) -> None:
    try:
        while await offload.step(_AT_THE_END_OF_TIME):
            pass
    finally:
        await offload.stop()


class _StoppedDatabase(KeptInStore):
    """A stopped node's database, as offload needs it."""

    def __init__(self, name: str, path: Path) -> None:
        self._catalog = Catalog(name, path)
        super().__init__(Store(name, path, "zstd", self._catalog.refresh))
        self.is_open = True
        self._store.open()

    def contents(self) -> tuple[Rdict, Catalog]:
        return self._store.usable(), self._catalog

    def rewrite(self, batch: WriteBatch) -> None:
        self._store.write(batch)

    def free(self, ranges: list[tuple[bytes, bytes]]) -> None:
        """Give the space of removed records back before anything else is done."""
        with self._store.reading() as rocks:
            for lower, upper in ranges:
                rocks.compact_range(lower, upper)

    def usage(self) -> Usage:
        """Its size does not matter: everything goes."""
        return Usage(0, 0, False, False)

    def close(self) -> None:
        self._store.close()
