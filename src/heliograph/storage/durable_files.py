"""Files that are on the disk, whole, before anything depends on them."""

import os
from pathlib import Path


def write_durably(file: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a small file: a reader sees what was there before, or all of it, also after a power failure.

    Raises:
        OSError: It cannot be written; what was there before is still there, or all of the new one.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_name(f".{file.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # it may have other permissions
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(file)
    force_to_disk(file.parent)


def write_whole(file: Path, content: bytes) -> None:
    """Write a small file: a reader sees what was there before, or all of it; after a power failure it may be neither.

    Raises:
        OSError: It cannot be written; what was there before is still there.
    """
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        unfinished.write_bytes(content)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_bytes(content)
    os.replace(unfinished, file)


def force_to_disk(path: Path) -> None:
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
