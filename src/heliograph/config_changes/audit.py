"""The audit log: a line of JSON for each action and each refused attempt, in a file that is rotated by size.

An action does not wait for its line, and is done also where the disk does not take it: then an alarm begins, and the
next line that is written says how many are missing before it.

It is read from its newest line on, in pieces that a thread has time for.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from heliograph.config.log import AuditLogConfig
from heliograph.observe.alarms import Alarms
from heliograph.rpc.methods import Action

ALARM: Final = "audit_log_not_written"
_WAITING_MAX: Final = 10_000
_MODE: Final = 0o600
_BLOCK: Final = 64 * 1024
_LINE_MAX: Final = 1 << 20


class AuditRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line.

    Attributes:
        at: ISO 8601 in UTC.
        message: What went wrong, for people.
        missing: How many lines could not be written before this one.
    """

    at: str
    who: str
    origin: str
    method: str
    outcome: str
    args: Mapping[str, object] = msgspec.field(default_factory=dict)
    message: str = ""
    missing: int = 0


class AuditLog:
    """Writes the audit log of one node; owned by the part of the configuration's changes.

    Args:
        settings: Its limits.
    """

    def __init__(self, file: Path, settings: AuditLogConfig, alarms: Alarms, now_s: Callable[[], float]) -> None:
        self.settings = settings
        self.file = file
        self._alarms = alarms
        self._now_s = now_s
        self._waiting: list[AuditRecord] = []
        self._missing = 0
        self._writing: asyncio.Task[None] | None = None

    def use(self, settings: AuditLogConfig) -> None:
        """Other limits; where nothing is written any more, nothing fails either."""
        self.settings = settings
        if not settings.enable:
            self._alarms.deactivate(ALARM)

    def record(self, action: Action) -> None:
        """The line is written some time after this returns."""
        if not self.settings.enable:
            return
        if len(self._waiting) >= _WAITING_MAX:
            self._missing += 1
            return
        at = datetime.fromtimestamp(self._now_s(), UTC).isoformat(timespec="milliseconds")
        line = AuditRecord(at, action.who, action.origin, action.method, action.outcome, action.args, action.message)
        self._waiting.append(line)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="audit log")

    async def written(self) -> None:
        """Wait until all lines of before are written, or cannot be."""
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def stop(self) -> None:
        await self.written()

    async def _write(self) -> None:
        while self._waiting:
            records, self._waiting = self._waiting, []
            if self._missing:
                records[0] = msgspec.structs.replace(records[0], missing=self._missing)
            content = b"".join(map(_line, records))
            try:
                await asyncio.to_thread(self._append, content)
            except OSError as error:
                self._missing += len(records)
                text = f"{self.file} cannot be written: {error.strerror}. Actions are done all the same"
                if self.settings.enable:  # else no later line would end the alarm
                    self._alarms.activate(ALARM, text, {"file": str(self.file)})
            else:
                self._missing = 0
                self._alarms.deactivate(ALARM)
        self._writing = None

    def _append(self, content: bytes) -> None:
        if self.file.exists() and self.file.stat().st_size + len(content) > self.settings.rotation_size:
            self._rotate()
        with open(self.file, "ab", opener=_open_closed_to_others) as out:
            begin = out.tell()
            try:
                out.write(content)
                out.flush()
            except OSError:
                out.truncate(begin)  # half a line would spoil the next one
                raise

    def _rotate(self) -> None:
        kept = self.settings.rotation_count
        self._numbered(kept).unlink(missing_ok=True)
        for number in range(kept - 1, 0, -1):
            if self._numbered(number).exists():
                self._numbered(number).replace(self._numbered(number + 1))
        self.file.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.file.with_name(f"{self.file.name}.{number}")

    def __repr__(self) -> str:
        return f"AuditLog({self.file})"


def _line(record: AuditRecord) -> bytes:
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        return json.dumps(msgspec.to_builtins(record)).encode() + b"\n"


def _open_closed_to_others(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


_decoder: Final = msgspec.json.Decoder(AuditRecord)


def newest_first(file: Path, since: str = "") -> Iterator[list[AuditRecord]]:
    """The lines, from the newest on: one list for each piece that was read, which may be empty.

    It ends at the first line before `since`, a time as lines have it. A line that cannot be read is passed over. Each
    step reads the disk.
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
                yield [one for one in records if one.at >= since]
                if any(record.at < since for record in records):
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
