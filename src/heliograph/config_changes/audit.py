"""The audit log: a line of JSON for each action and each refused attempt, in files that are rotated by size and time.

What callers can do as often as they like, publishing and being refused, has files of its own: it pushes no change out.
Of what is pushed out, the last line of each caller is kept.

An action does not wait for its line, and is done also where the disk does not take it: then an alarm begins, and the
next line that is written says how many are missing before it.

It is read from its newest line on, in pieces that a thread has time for.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from heliograph.config.log import AuditLogConfig
from heliograph.observe.alarms import Alarms
from heliograph.rpc.methods import DONE, REFUSED, Action
from heliograph.settings.url_secrets import without_url_secrets

ALARM: Final = "audit_log_not_written"
_WAITING_MAX: Final = 10_000
_MODE: Final = 0o600
_BLOCK: Final = 64 * 1024
_LINE_MAX: Final = 1 << 20
_TEXT_MAX: Final = 300  # characters of each text of the arguments
_ITEMS_MAX: Final = 50  # of each list of them
_MESSAGE_MAX: Final = 2_000
_DEPTH_MAX: Final = 6
_KEPT_MAX: Final = 2_000  # more than the users and keys that may be
_TOGETHER_S: Final = 1.0
_READ: Final = 200  # lines of a step
# What is done as often as a caller likes.
_APART: Final = frozenset({"messages.publish", REFUSED})
# What a command or a request does in parts, which are one line.
_IN_PARTS: Final = frozenset({"users.import", "retainer.import"})


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
        self._apart = _apart(file)
        self._parts: AuditRecord | None = None  # a line that may become that of further parts
        self._parts_end: asyncio.TimerHandle | None = None
        self._alarms = alarms
        self._now_s = now_s
        self._waiting: list[AuditRecord] = []
        self._missing = 0
        self._begun_s: dict[Path, float] = {}  # when the first line of a file was written
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
        args = {name: _shortened(value) for name, value in action.args.items()}
        who, message = _short(action.who, _TEXT_MAX), _short(action.message, _MESSAGE_MAX)
        line = AuditRecord(at, who, action.origin, action.method, action.outcome, args, message)
        if line.method in _IN_PARTS and line.outcome == DONE:
            self._hold(line)
            return
        self._put_parts()
        self._put(line)

    def _hold(self, line: AuditRecord) -> None:
        """Keep a line for a moment: the next part of the same work takes its place, and says how many it were."""
        count, before = 1, self._parts
        if before is not None:
            named = {name: value for name, value in before.args.items() if name != "requests"}
            if (line.who, line.origin, line.method, line.args) == (before.who, before.origin, before.method, named):
                done = before.args["requests"]
                assert isinstance(done, int)
                count, self._parts = done + 1, None
        self._put_parts()
        self._parts = msgspec.structs.replace(line, args={**line.args, "requests": count})
        self._parts_end = asyncio.get_running_loop().call_later(_TOGETHER_S, self._put_parts)

    def _put_parts(self) -> None:
        if self._parts_end is not None:
            self._parts_end.cancel()
            self._parts_end = None
        if self._parts is not None:
            line, self._parts = self._parts, None
            self._put(line)

    def _put(self, line: AuditRecord) -> None:
        self._waiting.append(line)
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write(), name="audit log")

    async def written(self) -> None:
        """Wait until all lines of before are written, or cannot be."""
        self._put_parts()
        if self._writing is not None:
            await asyncio.shield(self._writing)

    async def stop(self) -> None:
        await self.written()

    async def _write(self) -> None:
        while self._waiting:
            records, self._waiting = self._waiting, []
            if self._missing:
                records[0] = msgspec.structs.replace(records[0], missing=self._missing)
            try:
                await asyncio.to_thread(self._append_all, records)
            except OSError as error:
                self._missing += len(records)
                text = f"{self.file} cannot be written: {error.strerror}. Actions are done all the same"
                if self.settings.enable:  # else no later line would end the alarm
                    self._alarms.activate(ALARM, text, {"file": str(self.file)})
            else:
                self._missing = 0
                self._alarms.deactivate(ALARM)
        self._writing = None

    def _append_all(self, records: list[AuditRecord]) -> None:
        for file, is_apart in ((self.file, False), (self._apart, True)):
            if content := b"".join(_line(one) for one in records if (one.method in _APART) is is_apart):
                self._append(file, content)

    def _append(self, file: Path, content: bytes) -> None:
        if file.exists():
            is_full = file.stat().st_size + len(content) > self.settings.rotation_size
            if is_full or self._is_of_an_earlier_time(file):
                self._rotate(file)
        with open(file, "ab", opener=_open_closed_to_others) as out:
            begin = out.tell()
            try:
                out.write(content)
                out.flush()
            except OSError:
                out.truncate(begin)  # half a line would spoil the next one
                raise

    def _is_of_an_earlier_time(self, file: Path) -> bool:
        interval_s = self.settings.rotation_interval
        if interval_s is None:
            return False
        if file not in self._begun_s:
            self._begun_s[file] = _first_line_s(file)
        return self._begun_s[file] // interval_s < self._now_s() // interval_s

    def _rotate(self, file: Path) -> None:
        self._begun_s.pop(file, None)
        kept = self.settings.rotation_count
        if (oldest := _numbered(file, kept)).exists():
            if file == self.file:
                _keep_last_of_each(oldest, _kept(file))
            oldest.unlink()
        for number in range(kept - 1, 0, -1):
            if _numbered(file, number).exists():
                _numbered(file, number).replace(_numbered(file, number + 1))
        file.replace(_numbered(file, 1))

    def __repr__(self) -> str:
        return f"AuditLog({self.file})"


def audit_files(file: Path) -> list[Path]:
    """All files of a log that are there: of changes and of what is apart, with those that were rotated."""
    found = (path for one in (file, _apart(file)) for path in (one, *sorted(file.parent.glob(f"{one.name}.*"))))
    return [path for path in found if path.is_file()]


def _apart(file: Path) -> Path:
    return file.with_stem(f"{file.stem}_apart")


def _first_line_s(file: Path) -> float:
    with file.open("rb") as lines:
        record = _record(lines.readline(_LINE_MAX).rstrip(b"\n"))
    try:
        return file.stat().st_mtime if record is None else datetime.fromisoformat(record.at).timestamp()
    except ValueError:  # it was written by hand
        return file.stat().st_mtime


def _numbered(file: Path, number: int) -> Path:
    return file.with_name(f"{file.name}.{number}")


def _kept(file: Path) -> Path:
    """Where the last line of each caller is, of files that are gone."""
    return file.with_name(f"{file.name}.last")


def _keep_last_of_each(going: Path, kept: Path) -> None:
    last: dict[str, AuditRecord] = {}
    for file in (kept, going):
        if not file.exists():
            continue
        with file.open("rb") as lines:
            for line in lines:
                if (record := _record(line)) is not None:
                    name = record.who.rpartition(" from ")[0] or record.who  # without address and id of the request
                    last.pop(name, None)
                    last[name] = record
    temporary = kept.with_name(f"{kept.name}.new")
    with open(temporary, "wb", opener=_open_closed_to_others) as out:
        out.writelines(_line(one) for one in sorted(last.values(), key=lambda one: one.at)[-_KEPT_MAX:])
    temporary.replace(kept)


def _short(text: str, most: int) -> str:
    text = without_url_secrets(text)
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def _shortened(value: object, depth: int = 0) -> object:
    """A value of arguments without most of what is long in it: a line is short whatever a caller sends."""
    if isinstance(value, str):
        return _short(value, _TEXT_MAX)
    if isinstance(value, dict | list | tuple) and depth == _DEPTH_MAX:
        return "..."
    if isinstance(value, dict):
        few = dict(islice(value.items(), _ITEMS_MAX))
        return {_short(str(name), _TEXT_MAX): _shortened(one, depth + 1) for name, one in few.items()}
    if isinstance(value, list | tuple):
        few_items = [_shortened(one, depth + 1) for one in value[:_ITEMS_MAX]]
        return few_items if len(value) <= _ITEMS_MAX else [*few_items, f"... ({len(value):,} in all)"]
    return value


def _line(record: AuditRecord) -> bytes:
    try:
        return msgspec.json.encode(record) + b"\n"
    except UnicodeEncodeError:  # the name of a file that is no UTF-8
        return json.dumps(msgspec.to_builtins(record)).encode() + b"\n"


def _open_closed_to_others(path: str, flags: int) -> int:
    return os.open(path, flags, _MODE)


_decoder: Final = msgspec.json.Decoder(AuditRecord)


def all_newest_first(file: Path, since: str = "") -> Iterator[list[AuditRecord]]:
    """The lines of changes and of what is apart, from the newest on, some at a time. Each step reads the disk."""
    lines = ((record for records in newest_first(one, since) for record in records) for one in (file, _apart(file)))
    merged = heapq.merge(*lines, key=lambda record: record.at, reverse=True)
    while some := list(islice(merged, _READ)):
        yield some


def newest_first(file: Path, since: str = "") -> Iterator[list[AuditRecord]]:
    """The lines of one log, from the newest on: one list for each piece that was read, which may be empty.

    It ends at the first line before `since`, a time as lines have it. A line that cannot be read is passed over. Each
    step reads the disk.
    """
    seen: set[int] = set()
    number = 0
    is_last = False
    while not is_last:
        path = file if number == 0 else _numbered(file, number)
        if number > 0 and not path.exists():
            path, is_last = _kept(file), True
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
