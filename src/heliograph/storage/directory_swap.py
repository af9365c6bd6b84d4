"""Putting one directory in the place of another, so that after a crash at any point there is one of the two.

RocksDB's databases are directories, and a rename cannot replace one that is not empty. Linux can exchange two names in
one step; where a file system cannot, there is a moment between two renames in which the place is empty.
"""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


def swap_in(new: Path, path: Path, kept: Path) -> None:
    """Put a directory in the place of another, which is kept; durable when this returns.

    Args:
        new: What is complete and on the disk.
        path: Where it goes.
        kept: Where that which is there goes; it does not exist, but the directory above it does. Until the exchange
            the new one is there, so that a crash leaves the old one in its place and a whole copy beside it.

    Raises:
        OSError: It was not done.
    """
    os.rename(new, kept)
    sync_directory(kept.parent)
    _exchange(kept, path)
    for parent in (path.parent, kept.parent):
        sync_directory(parent)


def sync_directory(path: Path) -> None:
    """Have the disk know the names in a directory.

    Raises:
        OSError: It may not.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number not in _UNSUPPORTED:
        raise OSError(number, os.strerror(number), str(one), None, str(other))
    aside = one.with_name(f"{one.name}.old")
    os.rename(other, aside)
    os.rename(one, other)
    os.rename(aside, one)
