"""Erases what files have: the arguments of lines of the audit log, and dead letters."""

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyarrow import parquet

from heliograph.config_changes.audit import audit_files
from heliograph.storage.durable_files import force_to_disk, write_durably
from heliograph.storage.erasure.subject import ErasureSubject

_LETTER_COLUMNS: Final = {"cause", "refused_at", "clientid", "topic", "stored_at"}
_CHUNK: Final = 1 << 20


def erase_audit(file: Path, subject: ErasureSubject, *, is_tried: bool) -> int:
    """Take arguments and messages out of lines that are about the subject; how many lines. The lines stay."""
    count = 0
    for path in audit_files(file):
        changed = 0
        lines = path.read_bytes().split(b"\n")
        for number, line in enumerate(lines):
            new = _without_arguments(line, subject)
            if new is not None:
                lines[number] = new
                changed += 1
        if changed and not is_tried:
            write_durably(path, b"\n".join(lines), 0o600)
        count += changed
    return count


def _without_arguments(line: bytes, subject: ErasureSubject) -> bytes | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or not (record.get("args") or record.get("message")):
        return None
    if record.get("args") == {"erased": True} or not _is_about(record, subject):
        return None
    record["args"] = {"erased": True}
    record.pop("message", None)
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()


def _is_about(record: dict[str, Any], subject: ErasureSubject) -> bool:
    if subject.before_us is not None:
        return datetime.fromisoformat(str(record["at"])).timestamp() * 1_000_000 < subject.before_us
    texts = _texts([record.get("args"), record.get("message", "")])
    if subject.topics is not None:
        return any(map(subject.topics.matches, texts)) or any(text == subject.topics.text for text in texts)
    word = re.compile(rf"(?<![\w-]){re.escape(subject.clientid or '')}(?![\w-])")
    return any(word.search(text) for text in texts)


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in _texts(one)]
    if isinstance(value, list):
        return [text for one in value for text in _texts(one)]
    return []


def erase_letters(directory: Path, subject: ErasureSubject, *, is_tried: bool) -> int:
    """Take dead letters out of their files; how many. Other files are left alone."""
    count = 0
    for file in sorted(directory.rglob("*.parquet")):
        if not _LETTER_COLUMNS.issubset(parquet.read_schema(file).names):
            continue
        table = parquet.read_table(file)
        times = table["stored_at"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
        rows = zip(table["clientid"].to_pylist(), table["topic"].to_pylist(), times, strict=True)
        taken = [topic is not None and subject.takes(client, topic, time) for client, topic, time in rows]
        if not any(taken):
            continue
        count += sum(taken)
        if is_tried:
            continue
        left = table.filter(pa.array([not one for one in taken]))
        if left.num_rows:
            unfinished = file.with_name(f".{file.name}.unfinished")
            parquet.write_table(left, unfinished)
            force_to_disk(unfinished)
            unfinished.replace(file)
        else:
            file.unlink()
        force_to_disk(file.parent)
    return count


def files_naming(directory: Path, name: str, is_left_out: Callable[[Path], bool]) -> Iterator[Path]:
    """The files below a directory whose bytes have a name."""
    wanted = name.encode()
    for folder, _, names in os.walk(directory):
        for file in sorted(Path(folder) / one for one in names):
            if file.is_file() and not is_left_out(file) and _has(file, wanted):
                yield file


def _has(file: Path, wanted: bytes) -> bool:
    rest = b""
    with file.open("rb") as opened:
        while piece := opened.read(_CHUNK):
            if wanted in rest + piece:
                return True
            rest = piece[-len(wanted) :]
    return False
