"""The log of a program beside a node: its standard error, a file that is put aside as `FILE.1` at a size.

The file is the standard error, and not one of our own, so that it also has what an interpreter or a library says that
ends the process.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

LOG_BYTES_MAX: Final = 16 * 1024 * 1024

_STDOUT: Final = 1
_STDERR: Final = 2


def log_to_stderr(file: Path, bytes_max: int = LOG_BYTES_MAX) -> None:
    """Log there from now on; the file is rotated where it is the standard error."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        handlers=[_RotatedStderr(file, bytes_max)],
    )


def put_aside(file: Path) -> None:
    """Keep a log as the one before; that of before is gone."""
    file.replace(file.with_suffix(".log.1"))


class _RotatedStderr(logging.StreamHandler):  # type: ignore[type-arg] # generic for mypy alone
    def __init__(self, file: Path, bytes_max: int) -> None:
        super().__init__(sys.stderr)
        self._file = file
        self._bytes_max = bytes_max

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        with suppress(OSError):  # it grows on then
            found = os.fstat(_STDERR)
            if found.st_size > self._bytes_max and os.path.samestat(found, self._file.stat()):
                self._rotate()

    def _rotate(self) -> None:
        put_aside(self._file)
        following = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            for descriptor in (_STDOUT, _STDERR):
                os.dup2(following, descriptor)
        finally:
            os.close(following)
