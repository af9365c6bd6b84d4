"""A file system of its own that is soon full, for tests that root runs."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[Path]:
    """A file system of its own that is soon full."""
    path.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=False)
    if mounted.returncode:
        pytest.skip("a file system can only be mounted by root")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)
