"""Reads the dead-letter table, whichever engine wrote it: counts letters, and shows them.

A letter that was replayed stays in the table with the time of it, until its retention ends. Each engine replays the
letters of its own queries: `heliograph.pipeline.side_outputs.letter_replay` those of Spark,
`heliograph.pipeline.runner.replay` those of actions without Spark.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq

from heliograph.pipeline.side_outputs.side_tables import files_in, queries_in, with_zone

_PAYLOAD_SHOWN: Final = 200


@dataclass
class LetterCount:
    rule: str
    cause: str
    waiting: int = 0
    replayed: int = 0
    newest: datetime | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        document = {item.name: getattr(self, item.name) for item in fields(self)}
        return document | {"newest": self.newest.isoformat() if self.newest is not None else None}

    def cells(self) -> tuple[str, ...]:
        newest = self.newest.isoformat(timespec="seconds") if self.newest is not None else ""
        return (self.rule, self.cause, f"{self.waiting:,}", f"{self.replayed:,}", newest, self.reason.split("\n")[0])


@dataclass(frozen=True)
class Letter:
    """One dead letter: its columns by name."""

    values: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As a JSON object; bytes that are no text are hexadecimal."""
        return {name: _plain(value) for name, value in self.values.items()}

    def to_text(self) -> str:
        of = self.to_json()
        replayed = f", replayed {of['replayed_at']}" if of["replayed_at"] else ""
        lines = [f"{of['refused_at']}  {of['cause']}: {of['reason']}{replayed}"]
        if of["topic"] is not None:
            lines.append(f"  message {of['guid']} of {of['clientid']} to {of['topic']}")
            lines.append(f"  stored {of['stored_at']} in {of['stream']}; payload {str(of['payload'])[:_PAYLOAD_SHOWN]}")
        if of["row"] is not None:
            lines.append(f"  row {of['row']}")
        return "\n".join(lines)


@dataclass
class Replayed:
    """What a replay came to: letters that the sink has, their rows, and the letters that stay."""

    letters: int = 0
    rows: int = 0
    kept: int = 0

    def to_json(self) -> dict[str, int]:
        return {"letters": self.letters, "rows": self.rows, "kept": self.kept}

    def to_text(self) -> str:
        return f"{self.letters:,} letters replayed, {self.rows:,} rows written, {self.kept:,} letters stay"


def count_letters(table: Path) -> list[LetterCount]:
    counts: dict[tuple[str, str], LetterCount] = {}
    for file in (file for query in queries_in(table) for file in files_in(query)):
        for row in pq.read_table(file, columns=["rule", "cause", "reason", "refused_at", "replayed_at"]).to_pylist():
            count = counts.setdefault((row["rule"], row["cause"]), LetterCount(row["rule"], row["cause"]))
            if row["replayed_at"] is not None:
                count.replayed += 1
                continue
            count.waiting += 1
            at = with_zone(row["refused_at"])
            if count.newest is None or at >= count.newest:
                count.newest, count.reason = at, row["reason"]
    return sorted(counts.values(), key=lambda count: (count.rule, count.cause))


def show_letters(table: Path, rule: str, limit: int, with_replayed: bool = False) -> Iterator[Letter]:
    shown = 0
    files = [file for query in queries_in(table) for file in files_in(query)]
    for file in sorted(files, key=lambda file: file.parent.stat().st_mtime_ns, reverse=True):
        for row in pq.read_table(file).to_pylist():
            if row["rule"] != rule or (row["replayed_at"] is not None and not with_replayed):
                continue
            if shown == limit:
                return
            shown += 1
            yield Letter(row)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8") if len(value) != 16 or value.isascii() else value.hex()
        except UnicodeDecodeError:
            return value.hex()
    if isinstance(value, datetime):
        return with_zone(value).isoformat()
    return dict(value) if isinstance(value, list) else value
