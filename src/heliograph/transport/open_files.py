"""A reserve of open files that connections leave free, for the files of storage, the reader's pipe and certificates.

Every connection is an open file. Without a reserve a flood of connections makes the storage of connected clients
fail.
"""

import os
import resource
from typing import Final

_RESERVE_MAX: Final = 256
_RESERVE_PART: Final = 8  # of the limit, where that is low


def limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 62) if soft == resource.RLIM_INFINITY else soft


def count() -> int:
    """About how many files are open: a new one gets the lowest number that is free."""
    try:
        following = os.open(os.devnull, os.O_RDONLY)
    except OSError:
        return limit()
    os.close(following)
    return following


def reserve(files_max: int) -> int:
    """How many of so many are kept from connections."""
    return min(_RESERVE_MAX, files_max // _RESERVE_PART)


class OpenFiles:
    """Whether there is a file for one more connection; owned by the acceptor of one listener.

    A new file gets the lowest number that is free, so one with a high number says how many are open, about. That
    of each new connection is checked: numbers that were freed in between tell nothing.
    """

    def __init__(self) -> None:
        files_max = limit()
        self._first_reserved = files_max - reserve(files_max)

    def is_reserved(self, descriptor: int) -> bool:
        """Whether a connection that got this number has a file that is kept for others."""
        return descriptor >= self._first_reserved

    def has_room(self, any_descriptor: int) -> bool:
        """Whether a connection may be taken.

        Args:
            any_descriptor: An open file, to see which number the next one would get.
        """
        try:
            following = os.dup(any_descriptor)
        except OSError:
            return False
        os.close(following)
        return following < self._first_reserved
