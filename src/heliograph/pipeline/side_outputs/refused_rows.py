"""The rows that a sink refuses of one batch, noted on disk until they are dead letters."""

import logging
import pickle
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from heliograph.pipeline.sinks.rows import UnreadableText

_log = logging.getLogger(__name__)

_LOGGED_MAX: Final = 10
_SPOOL: Final = "refused.pickle"


@dataclass(frozen=True)
class RefusedRow:
    """A row that a sink refused, and why."""

    row: Mapping[str, Any]
    reason: str

    @property
    def is_unreadable(self) -> bool:
        """Whether Python has no form of a value of the row, so that only its text is known."""
        return any(isinstance(value, UnreadableText) for value in self.row.values())


class RefusedRows:
    """The rows that a sink refuses of one micro-batch, collected on the driver.

    Each is noted on disk at once: a sink that has committed does not bring its batch again after a crash, and so would
    not refuse them again.
    """

    def __init__(self, query: str, directory: Path, batch: int, rows_max: int) -> None:
        self._query = query
        self._file = directory / _SPOOL
        self._batch = batch
        self._rows_max = rows_max
        self.kept = _spooled(self._file, batch)
        self.count = len(self.kept)
        self._earlier = list(self.kept)
        if not self.kept:
            self._file.unlink(missing_ok=True)

    def __repr__(self) -> str:
        return f"RefusedRows({self._query!r}, batch {self._batch}, {self.count})"

    def refuse(self, row: Mapping[str, Any], reason: str) -> None:
        """Note a row; what a sink calls as `MicroBatch.refuse`."""
        refusal = RefusedRow(dict(row), reason)
        if refusal in self._earlier:
            self._earlier.remove(refusal)  # the run of this batch that was interrupted noted it
            return
        self.count += 1
        if self.count <= _LOGGED_MAX:
            _log.warning("%s: the sink refuses a row: %s", self._query, reason)
        if len(self.kept) >= self._rows_max:
            return
        self.kept.append(refusal)
        with self._file.open("ab") as spool:
            pickle.dump((self._batch, refusal.row, refusal.reason), spool)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)


def _spooled(file: Path, batch: int) -> list[RefusedRow]:
    found: list[RefusedRow] = []
    with suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), file.open("rb") as spool:
        while True:
            number, row, reason = pickle.load(spool)
            if number == batch:
                found.append(RefusedRow(row, reason))
    return found
