"""Brings rows of a side table to a sink, each once: which wait, as whose batch they go, and which have arrived.

A file of the table is one batch for the sink, whose identity is made of the file and of how often it was marked. So a
replay that is interrupted between the sink and the mark brings nothing twice to a sink that knows batches.
"""

import os
import pickle
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.rows import Rows
from heliograph.storage.durable_files import force_to_disk

#: The column with the time at which a row was replayed; null while it waits.
REPLAYED_AT: Final = "replayed_at"

#: The directory below that of all checkpoints that a replay of dead letters or late rows locks.
REPLAYS: Final = "@replay"

_REPLAYS: Final = b"heliograph.replays"
_CHUNK_ROWS: Final = 10_000


class ReplayedFile:
    """One file of a side table while its rows are replayed. Owned by the replay, which no other may run beside."""

    def __init__(self, file: Path) -> None:
        self.rows = pq.read_table(file)
        self._file = file
        self._kept_time = file.parent.stat()
        self._replays = int((self.rows.schema.metadata or {}).get(_REPLAYS, b"0"))

    def __repr__(self) -> str:
        return f"ReplayedFile({str(self._file)!r}, marked {self._replays} times)"

    def column(self, name: str) -> list[Any]:
        values: list[Any] = self.rows[name].to_pylist()
        return values

    @property
    def waiting(self) -> list[int]:
        return [number for number, at in enumerate(self.column(REPLAYED_AT)) if at is None]

    def owner(self, query: str, what: str) -> str:
        """Whose batch the rows are for the sink; `what` says which of the file's rows go where."""
        place = f"{what}:{self._file.parent.name}/{self._file.name}:{self._replays}"
        return str(uuid.uuid5(uuid.UUID(query), place))

    def refused_again(self, owner: str) -> "RefusedAgain":
        """What a sink refuses of a batch of this file, and refused in a replay that was killed before its mark."""
        return RefusedAgain(self._noted, owner)

    def mark(self, done: Collection[int], columns: Mapping[str, Sequence[Any]] | None = None) -> None:
        now, arrived = datetime.now(UTC), set(done)
        times = [now if number in arrived else at for number, at in enumerate(self.column(REPLAYED_AT))]
        marked = self.rows
        for name, values in {REPLAYED_AT: times, **(columns or {})}.items():
            place = marked.schema.get_field_index(name)
            marked = marked.set_column(place, name, pa.array(values, marked.schema.field(name).type))
        metadata = dict(marked.schema.metadata or {}) | {_REPLAYS: str(self._replays + 1).encode()}
        unfinished = self._file.with_name(f".{self._file.name}.unfinished")
        try:
            # Spark writes times in a form (INT96) that Arrow reads in nanoseconds, which Spark would not read.
            is_int96 = marked.schema.field(REPLAYED_AT).type == pa.timestamp("ns")
            pq.write_table(
                marked.replace_schema_metadata(metadata),
                unfinished,
                compression="zstd",
                use_deprecated_int96_timestamps=is_int96,
            )
            force_to_disk(unfinished)
            unfinished.rename(self._file)
            force_to_disk(self._file.parent)
            self._noted.unlink(missing_ok=True)
            # The age of a batch is that of its rows, not of their replay.
            os.utime(self._file.parent, ns=(self._kept_time.st_atime_ns, self._kept_time.st_mtime_ns))
        except OSError as error:
            raise SinkError(f"{self._file} cannot be written: {error}") from error

    @property
    def _noted(self) -> Path:
        return self._file.with_name(f".{self._file.name}.refused")


class RefusedAgain:
    """The rows that a sink refuses of a replay.

    Each is noted on disk at once: a sink that has committed does not bring its batch again after a kill, and so would
    not refuse them again, and they would be marked as replayed.
    """

    def __init__(self, noted: Path, owner: str) -> None:
        self._noted = noted
        self._owner = owner
        self._reasons: dict[str, str] = {}
        self._earlier: list[str] = []
        for row, reason in _noted_rows(noted, owner):
            self._earlier.append(_comparable(row))
            self._reasons[_comparable(row)] = reason
        self.count = len(self._earlier)

    def refuse(self, row: Mapping[str, Any], reason: str) -> None:
        comparable = _comparable(row)
        self._reasons[comparable] = reason
        if comparable in self._earlier:
            self._earlier.remove(comparable)  # the replay that was killed noted it
            return
        self.count += 1
        with self._noted.open("ab") as noted:
            pickle.dump((self._owner, dict(row), reason), noted)

    def reason_of(self, row: Mapping[str, Any]) -> str | None:
        """Why a row was refused; rows are found by their values as text."""
        return self._reasons.get(_comparable(row)) if self._reasons else None

    def among(self, rows: Rows, number: str) -> dict[int, str]:
        """The reasons by the numbers of rows (column `number`). Rows as the sinks have them: Spark's own differ."""
        found: dict[int, str] = {}
        for chunk in rows.chunks(_CHUNK_ROWS) if self._reasons else ():
            for index in range(chunk.num_rows):
                row = rows.row(chunk, index)
                of = row.pop(number)
                reason = self.reason_of(row)
                if reason is not None:
                    found[of] = reason
        return found


def _noted_rows(noted: Path, owner: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    with suppress(FileNotFoundError, EOFError, pickle.UnpicklingError), noted.open("rb") as file:
        while True:
            of, row, reason = pickle.load(file)
            if of == owner:
                yield row, reason


def _comparable(value: object) -> str:
    """A row as text that is the same however a sink has read it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{key}: {_comparable(item)}" for key, item in value.items())) + "}"
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(item, tuple) and len(item) == 2 for item in value)
        return _comparable(dict(value)) if is_map else "[" + ", ".join(map(_comparable, value)) + "]"
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)
