"""Replaces a directory by another: after a crash at any point one of the two is there.

RocksDB's databases are directories, and a rename cannot replace one that is not empty. Linux can exchange two names in
one step; where a file system cannot, there is a moment between two renames in which the place is empty.
"""

import ctypes
import errno
import os
import re
from pathlib import Path
from typing import Final

from heliograph.storage.durable_files import force_to_disk

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def swap_in(new: Path, path: Path, kept: Path) -> None:
    """Put a directory in the place of another, which is kept; durable when this returns.

    Args:
        path: Where it goes.
        kept: Where that which is there goes; it does not exist, but the directory above it does. Until the exchange
            the new one is there, so that a crash leaves the old one in its place and a whole copy beside it.

    Raises:
        OSError: It was not done.
    """
    os.rename(new, kept)
    force_to_disk(kept.parent)
    exchange(kept, path)
    for parent in (path.parent, kept.parent):
        force_to_disk(parent)


def finish_swap(path: Path, kept_in: Path) -> Path | None:
    """Bring a swap to its end that a crash cut off between two renames.

    Args:
        path: A place that is absent or empty.
        kept_in: Where the directories lie that `swap_in` kept; a time in UTC follows the name of the place in theirs.

    Returns:
        Where the old directory is now; None if nothing was ever kept.

    Raises:
        FileExistsError: Directories were kept, and none of them belongs to a swap that was cut off.
        OSError: It was not done.
    """
    stamped = re.compile(re.escape(path.name) + r"-\d{8}T\d{6}Z(\.old)?")
    found = sorted(kept_in.iterdir()) if kept_in.is_dir() else []
    kept = [entry for entry in found if stamped.fullmatch(entry.name)]
    for one in reversed(kept):
        aside = _aside(one)
        if aside in kept:
            os.rename(one, path)
            os.rename(aside, one)
            for parent in (path.parent, kept_in):
                force_to_disk(parent)
            return one
    if kept:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(kept[-1]))
    return None


def exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories, at once where the file system can."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number), str(one), None, str(other))
    aside = _aside(one)
    os.rename(other, aside)
    os.rename(one, other)  # until here the place is empty; see `finish_swap`
    os.rename(aside, one)


def _aside(kept: Path) -> Path:
    return kept.with_name(f"{kept.name}.old")
