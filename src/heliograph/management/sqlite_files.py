"""What the errors of an SQLite file mean."""

import sqlite3
from typing import Final

# Another process has it, the disk is full or fails, it may not be used: what it holds is there the next time.
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
    """Whether a file that cannot be opened is no database of ours any more, which a new one is to replace."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
    return code & 0xFF not in _PASSING  # extended codes have their reasons above
