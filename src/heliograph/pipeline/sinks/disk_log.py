"""The sink `disk_log`: a line for each row in files of this machine, each micro-batch exactly once.

The files PATH.1, PATH.2, ... are written in turn, each up to a size; after the last the first is emptied and written
again. PATH.state says which one is written. Before a batch it says as well where the batch begins, and that is forced
to disk: one that was interrupted is cut off there before anything else is written. After the batch it names that batch
as the last of its query, and a batch that runs again finds itself there. A lock keeps other queries away meanwhile.
"""

import errno
import fcntl
import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from heliograph.pipeline.errors import SinkError
from heliograph.pipeline.sinks.interface import Guarantee, MicroBatch, RowSink, Written
from heliograph.pipeline.sinks.retry import Attempts, RetryPolicy, TransientError
from heliograph.pipeline.sinks.rows import PREFIX, Derived, Rows
from heliograph.settings.fields import required, section, setting
from heliograph.settings.kinds import Integer, NodePath, Size, Text
from heliograph.storage.durable_files import force_to_disk, write_durably

#: Where relative paths lie in the output directory.
DIRECTORY: Final = "disk_log"

_LINE: Final = "line"
_ENDS: Final = re.compile(r"\s*[\r\n]\s*")
_CHUNK_ROWS: Final = 10_000
_PASSING: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EAGAIN, errno.EMFILE, errno.ENFILE})


@dataclass(frozen=True, kw_only=True)
class DiskLogSink(RowSink):
    guarantee: ClassVar[Guarantee] = Guarantee.EXACTLY_ONCE

    path: str = required(
        NodePath(), f"Beginning of the names of files; a relative one lies in `{DIRECTORY}` of `--output`."
    )
    max_file_size: int = required(Size(1), "Bytes of a file at most, but a line longer than that is written whole.")
    max_file_number: int = required(Integer(1, 100_000), "How many files there are; then the first is written again.")
    template: str = setting(Text("a template"), "${.}", "Template of a line.")
    retry: RetryPolicy = section(RetryPolicy, "What is tried again, see above.")

    @property
    def target(self) -> str:
        return f"the files {self.path}.1 to .{self.max_file_number}"

    @property
    def derived(self) -> Sequence[Derived]:
        # A template over several lines is one line too, as JSON that people have written so.
        return (Derived(_LINE, _ENDS.sub(" ", self.template.strip("\r\n")), "template"),)

    def write(self, rows: Rows, batch: MicroBatch) -> Written:
        base = batch.output / DIRECTORY / self.path  # an absolute path stays
        attempts = Attempts(self.retry, tell=batch.tell_retry)
        figures = attempts.run(lambda: self._write_once(base, rows, batch))
        return Written(figures=figures | {"retries": attempts.retries})

    def fault(self) -> str | None:
        """Why files of an absolute path cannot be written; nothing is created."""
        found = Path(self.path).parent
        while not found.exists() and found != found.parent:
            found = found.parent
        if found.is_dir() and os.access(found, os.W_OK | os.X_OK):
            return None
        return f"{self.target}: {found} is no directory that may be written to"

    def _write_once(self, base: Path, rows: Rows, batch: MicroBatch) -> dict[str, int]:
        query = f"{batch.owner} {batch.query}"
        with _translated(self.target), _locked(base):
            state = _State.read(base)
            state.recover(base)
            if state.last.get(query, -1) >= batch.number:
                return {"rows": 0, "bytes": 0, "repeated": 1}
            count = size = 0
            with _Files(base, state, self.max_file_size, self.max_file_number) as files:
                for chunk in rows.chunks(_CHUNK_ROWS):
                    lines = [_one_line(line) + b"\n" for line in chunk.column(f"{PREFIX}{_LINE}").to_pylist()]
                    files.add(lines)
                    count += len(lines)
                    size += sum(map(len, lines))
                files.finish()
            state.last[query] = batch.number
            state.write(base)
        return {"rows": count, "bytes": size, "repeated": 0}


@dataclass
class _State:
    """What PATH.state holds.

    Attributes:
        number: Of the file that is written.
        begun_at: Where in it the batch begins that is being written; None where none is.
        last: The last batch of each query.
    """

    number: int = 1
    begun_at: int | None = None
    last: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, base: Path) -> "_State":
        try:
            found: dict[str, Any] = json.loads(_beside(base, "state").read_bytes())
            return cls(**found)
        except FileNotFoundError:
            return cls()
        except (ValueError, TypeError) as error:
            raise SinkError(
                f"{_beside(base, 'state')} is damaged ({error}): remove it, to begin at {base}.1"
            ) from error

    def write(self, base: Path) -> None:
        write_durably(_beside(base, "state"), json.dumps(vars(self)).encode())

    def recover(self, base: Path) -> None:
        """Cut off a batch that was interrupted."""
        file = _beside(base, str(self.number))
        if self.begun_at is not None and file.exists():
            os.truncate(file, min(self.begun_at, file.stat().st_size))


class _Files:
    """The files while a batch is written to them, for a ``with`` block. Nothing is buffered, or it could come late."""

    def __init__(self, base: Path, state: _State, size_max: int, count: int) -> None:
        self._base = base
        self._state = state
        self._size_max = size_max
        self._count = count
        self._number = state.number if state.number <= count else 1
        self._out = self._opened(os.O_APPEND)

    def __enter__(self) -> Self:
        self._state.number = self._number
        self._state.begun_at = os.fstat(self._out).st_size
        self._state.write(self._base)
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._out)

    def add(self, lines: Sequence[bytes]) -> None:
        size = os.fstat(self._out).st_size
        wanted: list[bytes] = []
        for line in lines:
            if size and size + len(line) > self._size_max:
                self._put(wanted)
                self._turn()
                size, wanted = 0, []
            wanted.append(line)
            size += len(line)
        self._put(wanted)

    def finish(self) -> None:
        """Force all of it to disk."""
        os.fsync(self._out)
        self._state.number = self._number
        self._state.begun_at = None

    def _put(self, lines: Sequence[bytes]) -> None:
        left = memoryview(b"".join(lines))
        while left:
            left = left[os.write(self._out, left) :]

    def _turn(self) -> None:
        os.fsync(self._out)
        self._number = self._number % self._count + 1
        if self._number == self._state.number:  # all that was before the batch is gone
            self._state.begun_at = 0
            self._state.write(self._base)
        following = self._opened(os.O_TRUNC)
        os.close(self._out)
        self._out = following

    def _opened(self, flag: int) -> int:
        file = _beside(self._base, str(self._number))
        is_new = not file.exists()
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | flag, 0o666)
        if is_new:
            force_to_disk(file.parent)
        return descriptor


def _one_line(text: bytes) -> bytes:
    """A text without ends of line. In JSON these are blanks; in other texts they are escaped as JSON has it."""
    if b"\n" not in text and b"\r" not in text:
        return text
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return text.replace(b"\r", b"\\r").replace(b"\n", b"\\n")
    return text.replace(b"\r", b" ").replace(b"\n", b" ")


def _beside(base: Path, suffix: str) -> Path:
    return base.with_name(f"{base.name}.{suffix}")


@contextmanager
def _locked(base: Path) -> Iterator[None]:
    base.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(_beside(base, "lock"), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def _translated(target: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        text = f"{target}: {error}"
        raise (TransientError if error.errno in _PASSING else SinkError)(text) from error
