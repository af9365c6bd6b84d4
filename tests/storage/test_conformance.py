"""The local backend and the reference pass the conformance kit."""

from pathlib import Path

from heliograph.storage.columnar.backend import LocalBackend
from heliograph.storage.interface import Backend
from reference.backend import ReferenceBackend
from reference.storage import StorageConformance


class TestLocal(StorageConformance):
    def make_backend(self, data_dir: Path) -> Backend:
        return LocalBackend(data_dir)


class TestReference(StorageConformance):
    deletes = True

    def make_backend(self, data_dir: Path) -> Backend:
        return ReferenceBackend()
