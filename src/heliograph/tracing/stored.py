"""The files of traces: what they say of themselves, and their lines."""

import os
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson

from heliograph.tracing.text import text_of
from heliograph.tracing.trace import HIDDEN, JSON_LINES, TEXT_LINES

_HEAD_BYTES: Final = 4_096
_TAIL_BYTES: Final = 1_024
_LINES: Final = 50
_SLICE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class StoredTrace:
    """A trace as it is listed.

    Attributes:
        kind: What it is about: `client`, `topic` or `ip_address`.
        state: `running`, why it ended, or `interrupted` if its node ended before it.
        left_s: Seconds until it ends.
        dropped_count: Records that its file lacks.
        payload: What it shows of payloads.
        formatter: How people are shown its records.
        modified_at: When its file was written last, in seconds since the epoch; 0 while it is on.
    """

    name: str
    kind: str
    value: str
    state: str
    started_at: str
    left_s: int
    size: int
    dropped_count: int
    path: Path
    duration_s: int = 0
    payload: str = HIDDEN
    formatter: str = JSON_LINES
    modified_at: float = 0.0

    @classmethod
    def read(cls, path: Path) -> "StoredTrace":
        """What the file of an ended trace says; one that cannot be read has its file's name."""
        with path.open("rb") as file:
            head = _record(file.read(_HEAD_BYTES).partition(b"\n")[0])
            size = file.seek(0, os.SEEK_END)
            modified_at = os.fstat(file.fileno()).st_mtime
            file.seek(max(0, size - _TAIL_BYTES))
            tail = _record(file.read().rstrip(b"\n").rpartition(b"\n")[2])
        has_ended = tail.get("event") == "trace_ended"
        dropped, duration_s = tail.get("dropped", 0), head.get("duration_s", 0)
        return cls(
            str(head.get("name", path.name)),
            str(head.get("about", "")),
            str(head.get("value", "")),
            str(tail.get("why")) if has_ended else "interrupted",
            str(head.get("at", "")),
            0,
            size,
            dropped if isinstance(dropped, int) else 0,
            path,
            duration_s if isinstance(duration_s, int) else 0,
            str(head.get("payload", HIDDEN)),
            str(head.get("formatter", JSON_LINES)),
            modified_at,
        )


@dataclass(frozen=True, slots=True)
class TracePiece:
    """Some records of a trace as people are shown them; the next ones begin at `position`."""

    text: str
    position: int


def remove_oldest(folder: Path, bytes_max: int, newest: Path, running: Collection[Path]) -> list[str]:
    """Remove the oldest files of ended traces but the newest, until all fit; returns their names."""
    found: list[tuple[float, int, Path]] = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # it was deleted meanwhile
            stat = path.stat()
            if path not in running and path.is_file():
                found.append((stat.st_mtime, stat.st_size, path))
    total, removed = sum(size for _, size, _ in found), []
    for _, size, path in sorted(found):
        if total <= bytes_max:
            break
        if path == newest:
            continue
        path.unlink(missing_ok=True)
        total -= size
        removed.append(path.name)
    return removed


def piece_of(path: Path, position: int, size: int) -> TracePiece:
    """Some records of a file, whole ones, about so many bytes; none at its end."""
    is_text = StoredTrace.read(path).formatter == TEXT_LINES
    text: list[str] = []
    length = 0
    while length < size:
        lines, end = lines_of(path, position)
        if not lines:
            break
        for line in lines:
            if length and length + len(line) > size:
                return TracePiece("".join(text), position)
            shown = text_of(_record(line.encode())) if is_text else line
            text.append(f"{shown}\n")
            position += len(line.encode()) + 1
            length += len(line) + 1
        position = end
    return TracePiece("".join(text), position)


def stored_traces(folder: Path, count_max: int) -> list[StoredTrace]:
    """What the files of a folder say, of so many at the most."""
    found = []
    try:
        paths = sorted(folder.iterdir())[:count_max]
    except OSError:
        return []
    for path in paths:
        try:
            found.append(StoredTrace.read(path))
        except OSError:  # it was removed meanwhile, or is not one of ours
            continue
    return found


def lines_of(path: Path, at: int) -> tuple[list[str], int]:
    """Some whole lines of a file from a place on, and where the next ones begin.

    A line may be larger than a slice; then it comes alone. A file that was removed has none.
    """
    size = _SLICE_BYTES
    try:
        opened = path.open("rb")
    except FileNotFoundError:
        return [], at
    with opened as file:
        while True:
            file.seek(at)
            data = file.read(size)
            lines = data.split(b"\n")[:-1][:_LINES]
            if lines or len(data) < size:
                break
            size *= 2
    end = at + sum(len(line) + 1 for line in lines)
    return [line.decode("utf-8", "replace") for line in lines], end


def _record(line: bytes) -> dict[str, object]:
    try:
        record = orjson.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
