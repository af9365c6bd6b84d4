"""Reads the audit log from its newest line on, in pieces that a thread has time for."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from heliograph.config_changes.audit import AuditRecord

_BLOCK: Final = 64 * 1024
_LINE_MAX: Final = 1 << 20
_decoder: Final = msgspec.json.Decoder(AuditRecord)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which lines are wanted; what is empty or None allows all.

    Attributes:
        who: What `who` holds somewhere.
        method: What the method begins with.
        is_done: Those that were carried out, or those that were not.
        since: The first time, as ISO 8601 in UTC with milliseconds.
        until: The last one.
    """

    who: str = ""
    method: str = ""
    is_done: bool | None = None
    since: str = ""
    until: str = ""

    def takes(self, record: AuditRecord) -> bool:
        """Whether a line is wanted."""
        return (
            self.who in record.who
            and record.method.startswith(self.method)
            and self.is_done in (None, record.outcome == "done")
            and (not self.until or record.at <= self.until)
        )


def newest_first(file: Path, wanted: AuditFilter) -> Iterator[list[AuditRecord]]:
    """The lines that are wanted, from the newest on: one list for each piece that was read, which may be empty.

    It ends at the first line before `since`. A line that cannot be read is passed over. Each step reads the disk.

    Raises:
        OSError: A file cannot be read.
    """
    seen: set[int] = set()
    number = 0
    while True:
        path = file if number == 0 else file.with_name(f"{file.name}.{number}")
        number += 1
        try:
            opened = path.open("rb")
        except FileNotFoundError:
            if number > 1:
                return
            continue  # it is being put aside
        with opened:
            inode = os.fstat(opened.fileno()).st_ino  # of what is read: another file may have its name by now
            if inode in seen:  # it was put aside while it was read
                continue
            seen.add(inode)
            for lines in _blocks(opened):
                records = [record for line in lines if (record := _record(line)) is not None]
                is_past = wanted.since and any(record.at < wanted.since for record in records)
                yield [one for one in records if wanted.takes(one) and one.at >= wanted.since]
                if is_past:
                    return


def _blocks(file: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a file from the last one on, those of each block together."""
    place = file.seek(0, 2)
    rest = b""
    while place > 0:
        size = min(_BLOCK, place)
        place -= size
        file.seek(place)
        first, *lines = (file.read(size) + rest).split(b"\n")
        if place == 0:
            lines.insert(0, first)
        rest = first if len(first) <= _LINE_MAX else b""
        yield lines[::-1]


def _record(line: bytes) -> AuditRecord | None:
    if not line:
        return None
    try:
        return _decoder.decode(line)
    except msgspec.MsgspecError:
        return None
