"""Keeps samples in a file, the older ones farther apart; blocking, so that it is called in threads."""

import json
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from heliograph.management.history.sample import HistorySample, merged
from heliograph.management.sqlite_files import is_damaged

FILE: Final = "history.sqlite3"

_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
KEPT_MS: Final = 7 * _DAY_MS
# Samples of at least this age are so far apart, the oldest first.
THINNED: Final = ((3 * _DAY_MS, 10 * _MINUTE_MS), (_DAY_MS, 5 * _MINUTE_MS), (_HOUR_MS, _MINUTE_MS))

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS samples (
  node TEXT NOT NULL, at_ms INTEGER NOT NULL, sample TEXT NOT NULL, PRIMARY KEY (node, at_ms)
) WITHOUT ROWID
"""


class HistoryStore:
    """The samples of all nodes; owned by the program, from `open` to `close`.

    Args:
        path: The file. One that is damaged is put aside, and another one begun.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None

    def open(self) -> None:
        """Open the file.

        Raises:
            OSError: It cannot be made.
            sqlite3.Error: It cannot be used.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._database = self._connect()
        except sqlite3.DatabaseError as error:
            if not is_damaged(error):
                raise
            self._path.replace(self._path.with_suffix(".damaged"))
            self._database = self._connect()

    def close(self) -> None:
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                database.close()

    def add(self, node: str, sample: HistorySample) -> None:
        """Keep a sample, in the place of one of the same time.

        Raises:
            sqlite3.Error: It cannot be kept.
        """
        with self._lock, self._used() as database:
            row = (node, sample.at_ms, json.dumps(dict(sample.values)))
            database.execute("INSERT OR REPLACE INTO samples VALUES (?, ?, ?)", row)

    def read(self, node: str, since_ms: int) -> list[HistorySample]:
        """The samples of a node from a time on, oldest first.

        Raises:
            sqlite3.Error: They cannot be read.
        """
        with self._lock:
            database = self._used()
            query = "SELECT at_ms, sample FROM samples WHERE node = ? AND at_ms >= ? ORDER BY at_ms"
            return _samples(database.execute(query, (node, since_ms)).fetchall())

    def each(self, node: str, since_ms: int, take: Callable[[int, Mapping[str, int]], None]) -> None:
        """Give the samples of a node from a time on one after the other, oldest first.

        Raises:
            sqlite3.Error: They cannot be read.
        """
        with self._lock:
            query = "SELECT at_ms, sample FROM samples WHERE node = ? AND at_ms >= ? ORDER BY at_ms"
            for at_ms, text in self._used().execute(query, (node, since_ms)):
                take(at_ms, json.loads(text))

    def clear(self) -> None:
        with self._lock, self._used() as database:
            database.execute("DELETE FROM samples")

    def thin(self, now_ms: int) -> None:
        """Forget what is too old, and join samples that are nearer than their age asks for.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        with self._lock, self._used() as database:
            ahead_ms = now_ms + _DAY_MS  # of a clock that was set back since
            database.execute("DELETE FROM samples WHERE at_ms < ? OR at_ms > ?", (now_ms - KEPT_MS, ahead_ms))
            nodes = [str(row[0]) for row in database.execute("SELECT DISTINCT node FROM samples")]
            for node in nodes:
                oldest_ms = now_ms - KEPT_MS
                for age_ms, apart_ms in THINNED:
                    until_ms = (now_ms - age_ms) // apart_ms * apart_ms
                    _join(database, node, oldest_ms, until_ms, apart_ms)
                    oldest_ms = until_ms

    def _used(self) -> sqlite3.Connection:
        if self._database is None:
            raise sqlite3.OperationalError("the history is not open")
        return self._database

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(self._path, check_same_thread=False)
        try:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute("PRAGMA auto_vacuum = FULL")
            database.execute("PRAGMA cache_size = -256")  # KiB: it is read rarely
            database.execute(_TABLE)
        except sqlite3.DatabaseError:
            database.close()
            raise
        return database

    def __repr__(self) -> str:
        return f"HistoryStore({self._path})"


def _samples(rows: Sequence[tuple[int, str]]) -> list[HistorySample]:
    return [HistorySample(at_ms, json.loads(text)) for at_ms, text in rows]


def _join(database: sqlite3.Connection, node: str, since_ms: int, until_ms: int, apart_ms: int) -> None:
    """Let the samples of a node in a span of time be so far apart."""
    query = "SELECT at_ms, sample FROM samples WHERE node = ? AND at_ms >= ? AND at_ms < ? ORDER BY at_ms"
    found = _samples(database.execute(query, (node, since_ms, until_ms)).fetchall())
    for _, group in groupby(found, key=lambda one: one.at_ms // apart_ms):
        members = list(group)
        if len(members) == 1:
            continue
        joined = merged(members)
        database.executemany(
            "DELETE FROM samples WHERE node = ? AND at_ms = ?", [(node, one.at_ms) for one in members[:-1]]
        )
        row = (json.dumps(dict(joined.values)), node, joined.at_ms)
        database.execute("UPDATE samples SET sample = ? WHERE node = ? AND at_ms = ?", row)
