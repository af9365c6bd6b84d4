"""The register of the databases of a data directory."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from heliograph.storage.register import Register


def test_what_is_noted_at_the_same_time_is_all_noted(tmp_path: Path) -> None:
    names = [f"db{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: Register(tmp_path).add(tmp_path / "storage" / name), names))
        assert Register(tmp_path).names("storage") == sorted(names)
        list(threads.map(lambda name: Register(tmp_path).remove(tmp_path / "storage" / name), names[::2]))
    assert Register(tmp_path).names("storage") == sorted(names[1::2])
