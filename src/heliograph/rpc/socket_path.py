"""Paths of Unix sockets, which the system takes up to a length only."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CONTROL_SOCKET: Final = "control.sock"  # of a node, in its data directory
PATH_BYTES_MAX: Final = 107  # what `sockaddr_un` holds


class PathTooLongError(OSError):
    """A path is too long for a Unix socket, and there is no way around it."""


@contextmanager
def short_path(path: Path) -> Iterator[Path]:
    """A path that the system takes, while the context lasts: the same, or one through its open directory."""
    length = len(os.fsencode(path))
    if length <= PATH_BYTES_MAX:
        yield path
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        opened = Path(f"/proc/self/fd/{directory}")
        if not opened.exists():
            text = f"a path of {length} bytes is too long for a Unix socket, which takes {PATH_BYTES_MAX}"
            raise PathTooLongError(36, f"{text}; choose a shorter node.data_dir")
        yield opened / path.name
    finally:
        os.close(directory)
