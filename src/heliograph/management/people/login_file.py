"""The file of the management process that outlasts it: logins, failures since the last one, and the key of devices."""

import logging
import sqlite3
from pathlib import Path
from typing import Any, Final

from heliograph.management.sqlite_files import is_damaged

_log = logging.getLogger(__name__)

_TABLES: Final = {
    "tokens": "hash BLOB PRIMARY KEY, username TEXT NOT NULL, version TEXT NOT NULL, role TEXT NOT NULL,"
    " created_s REAL NOT NULL, used_s REAL NOT NULL",
    "failures": "username TEXT, kind TEXT, count INTEGER NOT NULL, since_s REAL NOT NULL, PRIMARY KEY (username, kind)",
    "keys": "name TEXT PRIMARY KEY, value BLOB NOT NULL",
}


class LoginFile:
    """A file of SQLite that is read once and then written; owned by `Logins`.

    One that cannot be read or written costs its rows their restart, and nothing else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._database: sqlite3.Connection | None = None
        self._rows: dict[str, list[Any]] = {}
        self._open()

    def rows(self, table: str) -> list[Any]:
        """The rows that were there at the start; given once."""
        return self._rows.pop(table, [])

    def execute(self, statement: str, values: tuple[object, ...]) -> None:
        if self._database is None:
            return
        try:
            self._database.execute(statement, values)
        except sqlite3.Error as error:
            _log.warning("%s is not written: %s", self._path, error)

    def put(self, table: str, row: tuple[object, ...]) -> None:
        """Write a row, in the place of one with the same key."""
        self.execute(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * len(row))})", row)

    def close(self) -> None:
        if self._database is not None:
            self._database.close()

    def _open(self) -> None:
        try:
            self._load()
        except (sqlite3.Error, OSError) as error:
            if isinstance(error, sqlite3.Error) and is_damaged(error):
                _log.warning("%s is damaged and replaced by an empty file, logins have ended: %s", self._path, error)
                self._replace()
            else:
                _log.warning("%s cannot be used, logins end with this process: %s", self._path, error)

    def _replace(self) -> None:
        try:
            self._path.unlink(missing_ok=True)
            self._load()
        except (sqlite3.Error, OSError) as error:
            _log.warning("%s cannot be used, logins end with this process: %s", self._path, error)

    def _load(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path.touch(mode=0o600)
        database = sqlite3.connect(self._path, isolation_level=None, timeout=1.0)
        try:
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA journal_mode = TRUNCATE")
            for table, columns in _TABLES.items():
                database.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) WITHOUT ROWID")
                self._rows[table] = database.execute(f"SELECT * FROM {table}").fetchall()
        except sqlite3.Error:
            self._rows.clear()
            database.close()
            raise
        self._database = database
