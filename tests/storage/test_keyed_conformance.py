"""The keyed layout, and the reference that keeps only the newest message of a topic, pass the kit for such layouts."""

from pathlib import Path

from heliograph.storage.interface import Backend
from heliograph.storage.keyed.backend import KeyedBackend
from reference.backend import ReferenceBackend
from reference.keyed_storage import KeyedConformance


class TestKeyed(KeyedConformance):
    def make_backend(self, data_dir: Path) -> Backend:
        return KeyedBackend(data_dir)


class TestReference(KeyedConformance):
    def make_backend(self, data_dir: Path) -> Backend:
        return ReferenceBackend(newest_only=True)
