"""The local database and the reference pass the conformance kit."""

import time
from pathlib import Path

from reference.databases import ReferenceDatabase
from reference.storage import Database, StorageConformance
from support.databases import open_database


class TestLocal(StorageConformance):
    def open(self, data_dir: Path, name: str = "messages") -> Database:
        return open_database(data_dir, name)


class TestReference(StorageConformance):
    def setup_method(self) -> None:
        self.databases: dict[Path, ReferenceDatabase] = {}

    def open(self, data_dir: Path, name: str = "messages") -> Database:
        new = ReferenceDatabase(name, lambda: time.time_ns() // 1000)
        database = self.databases.setdefault(data_dir / name, new)
        database.open()
        return database
