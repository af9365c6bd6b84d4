"""Bounded logging of what clients choose: a few lines a minute, the others counted; and short copies of long texts."""

import hashlib
import re
from collections.abc import Callable
from logging import WARNING, Logger
from typing import Final

_WINDOW_US: Final = 60_000_000
_LINES_MAX: Final = 10
_LINE_LENGTH_MAX: Final = 600  # a topic or client id may have 64 KiB
_CHARS_MAX: Final = 200
_TOKEN: Final = re.compile(r"(eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]*\.)[A-Za-z0-9_-]+")


class BoundedLog:
    """Writes lines to a logger, so many a minute; owned by the service that writes them.

    Args:
        clock: Microseconds on the monotonic clock.
        whole: A log that several share: where it is full, none of them is written.
    """

    def __init__(
        self,
        logger: Logger,
        clock: Callable[[], int],
        lines_max: int = _LINES_MAX,
        whole: "BoundedLog | None" = None,
    ) -> None:
        self._logger = logger
        self._clock = clock
        self._lines_max = lines_max
        self._whole = whole
        self._window = -1
        self._written = 0
        self._missed = 0
        self.last_line = ""
        self.last_line_at = 0

    def warn(self, text: str, *values: object) -> None:
        self.write(WARNING, text, *values)

    def write(self, level: int, text: str, *values: object) -> None:
        """Write a line, or count it if there were too many; values become text only if it is written."""
        if self._takes(level):
            line = text % values
            self.last_line = line if len(line) <= _LINE_LENGTH_MAX else f"{line[:_LINE_LENGTH_MAX]}..."
            self.last_line_at = self._clock()
            self._logger.log(level, "%s", self.last_line)

    def _takes(self, level: int) -> bool:
        """A line then counts; what the last minute left out is reported first."""
        window = self._clock() // _WINDOW_US
        if window != self._window:
            if self._missed:
                self._logger.log(level, "%d more lines like the last ones were not written", self._missed)
            self._window, self._written, self._missed = window, 0, 0
        if self._written >= self._lines_max:
            self._missed += 1
            return False
        if self._whole is not None and not self._whole._takes(level):
            return False  # that counts it
        self._written += 1
        return True


def short_text(text: str, chars_max: int = _CHARS_MAX) -> str:
    """A text, or of a longer one its beginning and a hash of all of it, so that two that differ stay apart."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}~{hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]}"


def shown_username(username: str | None) -> str | None:
    """A user name as people may see it: of a token (a JWT with `from = username`) all but its signature."""
    found = None if username is None else _TOKEN.fullmatch(username)
    return username if found is None else f"{found[1]}******"
