"""The file of one trace: bounded, of one JSON object a line, written in a thread so that no turn waits for the disk."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Final

import orjson

_FLUSH_S: Final = 0.1
_BUFFERED_MAX: Final = 4_194_304  # bytes that wait for the disk; further records are dropped and counted
_ENDING_BYTES: Final = 1_024  # of the bound, for the lines that say that it was met, and what was dropped
_FULL: Final = "its file has reached max_size"


class TraceFile:
    """Takes records and writes them; owned by its trace.

    What a slow or full disk does not take is dropped, counted in `dropped_count`, and reported by a line in the file as
    soon as that can be written.

    Args:
        bytes_max: How large the file becomes at the most.
        on_full: Called, once, when the next record would make it larger.

    Attributes:
        dropped_count: Records that it lacks.
        fault: Why the disk did not take the last ones; empty if it did.
    """

    def __init__(self, path: Path, executor: Executor, bytes_max: int, on_full: Callable[[str], object]) -> None:
        self.path = path
        self.size = 0
        self.dropped_count = 0
        self.fault = ""
        self._executor = executor
        self._bytes_max = bytes_max
        self._on_full = on_full
        self._loop = asyncio.get_running_loop()
        self._fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._lines: list[bytes] = []
        self._buffered = 0  # bytes of them, and of what is being written
        self._noted_count = 0  # of the dropped ones, as the file says
        self._is_scheduled = False
        self._is_full = False
        self._writing: asyncio.Future[str] | None = None
        self._changes: list[asyncio.Future[None]] = []  # of those that wait for more

    def put(self, record: Mapping[str, object]) -> None:
        """Take a record, or drop it where there is no room."""
        if self._is_full:
            return
        line = _line(record)
        if self.size + self._buffered + len(line) > self._bytes_max - _ENDING_BYTES:
            self._is_full = True
            self._on_full(_FULL)
        elif self._buffered + len(line) > _BUFFERED_MAX:
            self.dropped_count += 1
        else:
            self._add(line)

    def end(self, record: Mapping[str, object]) -> None:
        """Take the last record, for which there always is room."""
        self._is_full = True
        self._add(_line(record))

    async def close(self) -> None:
        while self._lines or self._writing is not None:
            await self.flushed()
        os.close(self._fd)
        self._wake()

    async def flushed(self) -> None:
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._lines and self._writing is None:
            self._flush()
        if self._writing is not None:
            await asyncio.wait([self._writing])

    async def changed(self) -> None:
        """Wait until there is more in it, or it is closed."""
        change: asyncio.Future[None] = self._loop.create_future()
        self._changes.append(change)
        try:
            await change
        finally:
            if change in self._changes:
                self._changes.remove(change)

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._buffered += len(line)
        if not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(_FLUSH_S, self._on_time)

    def _on_time(self) -> None:
        self._is_scheduled = False
        if self._lines and self._writing is None:
            self._flush()

    def _flush(self) -> None:
        lines, self._lines = self._lines, []
        if self.dropped_count > self._noted_count:
            lines.insert(0, _line({"event": "records_dropped", "count": self.dropped_count, "reason": self.fault}))
            self._buffered += len(lines[0])
        dropped, data = self.dropped_count, b"".join(lines)
        writing = self._loop.run_in_executor(self._executor, _write, self._fd, data, self.size)
        self._writing = writing
        writing.add_done_callback(lambda done: self._on_written(done.result(), len(lines), len(data), dropped))

    def _on_written(self, fault: str, count: int, size: int, dropped: int) -> None:
        self._writing = None
        self._buffered -= size
        self.fault = fault
        if fault:
            self.dropped_count += count - (dropped > self._noted_count)
        else:
            self.size += size
            self._noted_count = dropped
        self._wake()
        if self._lines and not self._is_scheduled:
            self._is_scheduled = True
            self._loop.call_later(_FLUSH_S, self._on_time)

    def _wake(self) -> None:
        changes, self._changes = self._changes, []
        for change in changes:
            if not change.done():
                change.set_result(None)


def _line(record: Mapping[str, object]) -> bytes:
    return orjson.dumps(record, default=repr) + b"\n"


def _write(fd: int, data: bytes, at: int) -> str:
    """Write all of it at a place, or nothing; in a thread. Why it could not be written, empty if it was."""
    try:
        view, end = memoryview(data), at
        while view:
            written = os.pwrite(fd, view, end)
            view, end = view[written:], end + written
    except OSError as error:
        with contextlib.suppress(OSError):  # the next one is written over it
            os.ftruncate(fd, at)
        return error.strerror or type(error).__name__
    return ""
