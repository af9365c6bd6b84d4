"""Files that are on the disk, whole, before anything depends on them."""

import os
from pathlib import Path


def write_durably(file: Path, content: bytes) -> None:
    """Write a small file: a reader sees what was there before, or all of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.write_bytes(content)
    force_to_disk(unfinished)
    unfinished.rename(file)
    force_to_disk(file.parent)


def force_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
