"""Writes the dead letters of an action, in the table that Spark's queries have: each batch once, as one directory."""

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from heliograph.actions.fallback_calls import FallbackRow
from heliograph.actions.sinks import ROW
from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.files.definition import DeadLetterSettings
from heliograph.pipeline.runner.local_rows import MESSAGE_ID
from heliograph.pipeline.side_outputs.fallbacks import NodeFallbacks
from heliograph.pipeline.side_outputs.refused_rows import RefusedRow
from heliograph.storage.durable_files import force_to_disk
from heliograph.storage.message_columns import COLUMNS

_TIME: Final = pa.timestamp("us", tz="UTC")
_CAUSE: Final = "sink"
_PAYLOAD: Final = "payload"
_GUID: Final = "guid"
FALLBACK_COLUMNS: Final = ("topic", "clientid", _PAYLOAD, _GUID)
_FILE: Final = "part-00000.parquet"
_BEFORE: Final = {
    "rule": pa.string(),
    "cause": pa.string(),
    "reason": pa.string(),
    "query": pa.string(),
    "batch": pa.int64(),
    "refused_at": _TIME,
}
_BEHIND: Final = {"row": pa.string(), "replayed_at": _TIME}


class DeadLetters:
    """The letters of one action. Its state is on disk, so it can be made again at any time."""

    def __init__(self, output: Path, query: str, owner: str) -> None:
        self._directory = output / DeadLetterSettings().path / query
        self._query = query
        self._owner = owner

    def __repr__(self) -> str:
        return f"DeadLetters({self._query!r})"

    def keep(self, batch: int, refused: Sequence[RefusedRow], messages: Iterable[pa.RecordBatch], at_s: float) -> int:
        """Keep the letters of a batch, unless they are kept; returns how many there are.

        Args:
            messages: All messages of the batch, with all columns.
            at_s: Seconds since the epoch.
        """
        place = self._directory / f"{self._owner[:8]}-{batch:08d}"
        try:
            if not place.exists():
                letters = self._letters(batch, refused, messages, at_s)
                if letters is None:  # retention has removed the messages meanwhile
                    return 0
                self._write(place, letters)
            return sum(pq.read_metadata(file).num_rows for file in place.glob("*.parquet"))
        except OSError as error:
            raise SinkError(f"{place} cannot be written: {error}") from error

    def _letters(
        self, batch: int, refused: Sequence[RefusedRow], messages: Iterable[pa.RecordBatch], at_s: float
    ) -> pa.Table | None:
        refusals = _Refusals(refused)
        tables = []
        for chunk in messages:
            found = {index: one for index, one in enumerate(refusals.of(chunk)) if one is not None}
            if found:
                tables.append(self._table(batch, chunk.take(pa.array(found)), list(found.values()), at_s))
        return pa.concat_tables(tables) if tables else None

    def _table(self, batch: int, chosen: pa.RecordBatch, refused: Sequence[RefusedRow], at_s: float) -> pa.Table:
        count = len(refused)
        same: dict[str, Any] = {"rule": self._query, "cause": _CAUSE, "query": self._query, "batch": batch}
        same["refused_at"] = round(at_s * 1_000_000)
        values = {name: [value] * count for name, value in same.items()}
        values["reason"] = [one.reason for one in refused]
        values["row"] = [json.dumps({ROW: _text(one.row[ROW])}) for one in refused]
        values["replayed_at"] = [None] * count
        made = {name: pa.array(values[name], kind) for name, kind in (_BEFORE | _BEHIND).items()}
        own = {column.name: _plain(chosen.column(column.name)) for column in COLUMNS}
        return pa.table({name: made.get(name, own.get(name)) for name in (*_BEFORE, *own, *_BEHIND)})

    @staticmethod
    def _write(place: Path, letters: pa.Table) -> None:
        staging = place.with_name(f".{place.name}.unfinished")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(parents=True)
        pq.write_table(letters, staging / _FILE)
        force_to_disk(staging / _FILE)
        force_to_disk(staging)
        staging.rename(place)
        force_to_disk(place.parent)


def _plain(column: pa.Array) -> pa.Array:
    """A column as Spark has it: not encoded, and bytes of no fixed length."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.binary()) if pa.types.is_fixed_size_binary(column.type) else column


class _Refusals:
    """Finds refused rows among messages: by ids, and by payloads where Spark's query noted a row without one."""

    def __init__(self, refused: Sequence[RefusedRow]) -> None:
        self._by_id = {one.row[MESSAGE_ID]: one for one in refused if MESSAGE_ID in one.row}
        self._by_payload = {one.row[ROW]: one for one in refused if MESSAGE_ID not in one.row}

    def of(self, chunk: pa.RecordBatch) -> list[RefusedRow | None]:
        """For each message its row, None where that was not refused."""
        found = [self._by_id.get(one) for one in chunk.column(_GUID).to_pylist()]
        if not self._by_payload:
            return found
        payloads = chunk.column(_PAYLOAD).to_pylist()
        return [one or self._noted(payload) for one, payload in zip(found, payloads, strict=True)]

    def _noted(self, payload: bytes) -> RefusedRow | None:
        # A row that is text is its payload where that is UTF-8, and made of it otherwise.
        return self._by_payload.get(payload) or self._by_payload.get(_text(payload))


def _text(row: str | bytes) -> str:
    return row if isinstance(row, str) else row.decode("utf-8", "replace")


def given_to_fallbacks(
    fallbacks: NodeFallbacks, refused: Sequence[RefusedRow], messages: Iterable[pa.RecordBatch]
) -> tuple[list[RefusedRow], int]:
    """Give refused rows to fallback actions: those that are dead letters nevertheless, and how many are not.

    Args:
        messages: All messages of the batch, with the columns of `FALLBACK_COLUMNS`.
    """
    refusals = _Refusals(refused)
    rows: list[FallbackRow] = []
    given: list[RefusedRow] = []
    for chunk in messages:
        for message, one in zip(chunk.to_pylist(), refusals.of(chunk), strict=True):
            if one is not None:
                rows.append(FallbackRow(message["topic"], message["clientid"], message[_PAYLOAD]))
                given.append(RefusedRow({**one.row, MESSAGE_ID: message[_GUID]}, one.reason))
    found = fallbacks.give(rows)
    kept = [RefusedRow(given[number].row, f"{given[number].reason}; {reason}") for number, reason in found.items()]
    return kept, len(rows) - len(found)
