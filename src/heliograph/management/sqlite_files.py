"""Tells an SQLite file that is damaged from one that cannot be used now."""

import sqlite3
from typing import Final

# The file is locked, the disk is full or fails, or permissions are missing: its rows are still there the next time.
_PASSING: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_AUTH,
    }
)


def is_damaged(error: sqlite3.Error) -> bool:
    """Whether an error says that the file is damaged, so that a new one has to replace it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF not in _PASSING  # the higher bits of an extended code give the details
