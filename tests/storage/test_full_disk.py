"""When a database on a full disk is opened again, and that what is too old goes as soon as it is."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from heliograph.storage import store as store_module
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.columnar.retention import GenerationRetention, RetentionOptions
from heliograph.storage.disk import Disk
from heliograph.storage.engine import Rdict
from heliograph.storage.errors import StorageFullError
from heliograph.storage.interface import DatabaseOptions
from storage.messages import MakeMessage
from support.cases import cases
from support.databases import open_database, store_batch

HOUR_US = 3_600_000_000


class FullDisk(Disk):
    """A disk with less room than a database may need; whether it can be opened all the same, a test says."""

    def __init__(self) -> None:
        self.is_full = False

    def open(self, path: Path, compression: str) -> Rdict:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().open(path, compression)

    def free_bytes(self, path: Path) -> int:
        return 0


@cases(("user", "expected"), [(0, 50 * 4096), (1000, 0)])
def test_root_has_the_reserve_of_a_file_system_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, user: int, expected: int
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_bfree=50, f_bavail=0, f_frsize=4096))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert Disk().free_bytes(tmp_path) == expected


def test_a_full_disk_is_tried_after_a_while_and_then_drops_what_is_too_old(
    monkeypatch: pytest.MonkeyPatch, data_dir: Path, make_message: MakeMessage
) -> None:
    disk = FullDisk()
    first = open_database(data_dir)
    store_batch(first, [make_message()])
    first.add_generation()
    later_us = max(one.until or 0 for one in first.list_generations()) + 2 * HOUR_US
    first.close()

    database = NodeDatabases(data_dir, disk=disk).database("messages", DatabaseOptions())
    retention = GenerationRetention(database, RetentionOptions(retention_us=HOUR_US))
    disk.is_full = True
    with pytest.raises(StorageFullError):
        database.open()
    disk.is_full = False
    with pytest.raises(StorageFullError):
        database.check_usable()
    retention.tick(later_us)  # finds it closed

    disk.is_full = True
    monkeypatch.setattr(store_module, "FULL_INTERVAL_S", -1.0)
    with pytest.raises(StorageFullError):
        database.open()
    disk.is_full = False
    database.check_usable()
    retention.tick(later_us)
    assert [one.until for one in database.list_generations()] == [None]
    database.close()
