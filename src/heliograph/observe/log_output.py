"""Where the log of the process goes: standard error, and a file that is rotated by size.

One handler of the root logger writes to all places, so that a change of settings replaces them at once. A place that
cannot be written, such as a file on a full disk, loses lines and counts them; it disturbs nothing else.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from heliograph.observe.log_format import LEVELS, format_of

_FILE_MODE: Final = 0o600
_NOTHING: Final = logging.CRITICAL + 1


class LogTargetOptions(Protocol):
    @property
    def enable(self) -> bool: ...

    @property
    def level(self) -> str: ...

    @property
    def formatter(self) -> str: ...

    @property
    def timestamp_format(self) -> str: ...

    @property
    def time_offset(self) -> str: ...


class LogFileOptions(LogTargetOptions, Protocol):
    @property
    def path(self) -> str:
        """A relative one is in the data directory."""

    @property
    def rotation_size(self) -> int | None:
        """From which size on another is begun; None for never."""

    @property
    def rotation_count(self) -> int: ...


class LogOptions(Protocol):
    @property
    def console(self) -> LogTargetOptions: ...

    @property
    def file(self) -> LogFileOptions: ...


class LogFileError(Exception):
    code = "log_file"


class LogTarget:
    """One place where the log goes; owned by the output that uses it.

    Attributes:
        lost_count: Lines that could not be written.
        fault: Why the newest line could not be written; empty where it was.
    """

    def __init__(self, options: LogTargetOptions) -> None:
        self.level = LEVELS[options.level]
        self.lost_count = 0
        self.fault = ""
        self._format = format_of(options.formatter, options.timestamp_format, options.time_offset)

    def write(self, record: logging.LogRecord) -> None:
        try:
            self._put(self._format.format(record))
        except (
            OSError,
            ValueError,
            TypeError,
        ) as error:  # a full disk, a closed terminal, a line whose values do not fit
            self.lost_count += 1
            self.fault = (error.strerror if isinstance(error, OSError) else None) or str(error)
        else:
            self.fault = ""

    def tick(self) -> None: ...

    def close(self) -> None: ...

    def _put(self, line: str) -> None:
        raise NotImplementedError


class ConsoleTarget(LogTarget):
    def _put(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


class FileTarget(LogTarget):
    """A file, renamed to `FILE.1` at a size, `FILE.1` to `FILE.2`, and so on; `LogFileError` if it cannot be opened."""

    def __init__(self, options: LogFileOptions, data_dir: Path) -> None:
        super().__init__(options)
        self.path = data_dir / options.path
        self._size_max = options.rotation_size
        self._count = options.rotation_count
        self._file = -1
        self._size = 0
        self._is_cut = False  # the last line is not whole
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise LogFileError(f"log.file.path: {self.path} cannot be opened: {error.strerror}") from None

    def tick(self) -> None:
        """Open the file again where another program has renamed or deleted it."""
        try:
            is_ours = self._file >= 0 and os.path.samestat(os.fstat(self._file), self.path.stat())
        except OSError:
            is_ours = False
        if not is_ours:
            with suppress(OSError):  # the next line says so
                self._open()

    def close(self) -> None:
        """What is written later is lost."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _put(self, line: str) -> None:
        if self._file < 0:
            self._open()
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        if self._size_max is not None and self._size and self._size + len(data) > self._size_max:
            self._rotate()
        if self._is_cut:
            data = b"\n" + data
        written = os.write(self._file, data)
        self._size += written
        self._is_cut = written < len(data)
        if self._is_cut:
            raise OSError(0, "the disk took a part of a line only")

    def _open(self) -> None:
        self.close()
        self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _FILE_MODE)
        self._size = os.fstat(self._file).st_size
        self._is_cut = False

    def _rotate(self) -> None:
        for number in range(self._count - 1, 0, -1):
            source = self._numbered(number - 1)
            with suppress(FileNotFoundError):
                source.replace(self._numbered(number))
        if self._count == 1:
            self.path.unlink(missing_ok=True)
        self._open()

    def _numbered(self, number: int) -> Path:
        return self.path if number == 0 else self.path.with_name(f"{self.path.name}.{number}")


class LogOutput(logging.Handler):
    """The handler that writes the log of the process; installed by the command that runs a node."""

    def __init__(self) -> None:
        super().__init__()
        self._targets: tuple[LogTarget, ...] = ()
        self._lost_before = 0

    @staticmethod
    def installed() -> LogOutput | None:
        """None where another program decides about the log, such as a test."""
        return next((each for each in logging.getLogger().handlers if isinstance(each, LogOutput)), None)

    def use(self, targets: Sequence[LogTarget]) -> None:
        """The places before are closed."""
        before, self._targets = self._targets, tuple(targets)
        logging.getLogger().setLevel(lowest_level(targets))
        for target in before:
            self._lost_before += target.lost_count
            target.close()

    def set_level(self, level: str) -> None:
        """Until the settings change."""
        for target in self._targets:
            target.level = LEVELS[level]
        logging.getLogger().setLevel(lowest_level(self._targets))

    def emit(self, record: logging.LogRecord) -> None:
        for target in self._targets:
            if record.levelno >= target.level:
                target.write(record)

    def tick(self) -> None:
        for target in self._targets:
            target.tick()

    @property
    def lost_count(self) -> int:
        return self._lost_before + sum(target.lost_count for target in self._targets)

    @property
    def fault(self) -> str:
        """Why a place cannot be written now; empty while all can."""
        return "; ".join(
            f"{_name(target)} cannot be written: {target.fault}" for target in self._targets if target.fault
        )


def open_targets(options: LogOptions, data_dir: Path) -> list[LogTarget]:
    """Raises `LogFileError` if the file cannot be opened."""
    targets: list[LogTarget] = []
    if options.file.enable:
        targets.append(FileTarget(options.file, data_dir))
    if options.console.enable:
        targets.append(ConsoleTarget(options.console))
    return targets


def lowest_level(targets: Sequence[LogTarget]) -> int:
    return min((target.level for target in targets), default=_NOTHING)


def _name(target: LogTarget) -> str:
    return str(target.path) if isinstance(target, FileTarget) else "standard error"
