"""The newest entries of the log, for a process that fetches them."""

import logging
from traceback import format_exception
from typing import Final, NamedTuple

from heliograph.observe.log_format import LEVELS
from heliograph.observe.ring import Ring

_TEXT_MAX: Final = 8192


class LogEntry(NamedTuple):
    """One entry of the log; `error` is an exception with where it was raised."""

    at_ns: int
    level: int
    logger: str
    text: str
    error: str


class LogRing(logging.Handler):
    """Keeps the newest entries; a handler of the root logger while they are wanted.

    Args:
        text_max: So many characters of an entry, and of its exception.
    """

    def __init__(self, level: str, size_max: int, text_max: int = _TEXT_MAX) -> None:
        super().__init__(LEVELS[level])
        self._text_max = text_max
        self.entries: Ring[LogEntry] = Ring(size_max)

    def use(self, level: str, size_max: int) -> None:
        self.setLevel(LEVELS[level])
        self.entries.resize(size_max)

    def emit(self, record: logging.LogRecord) -> None:
        """One whose values do not fit is counted as dropped."""
        try:
            text = record.getMessage()[: self._text_max]
            error = "".join(format_exception(record.exc_info[1]))[-self._text_max :] if record.exc_info else ""
        except (TypeError, ValueError):
            self.entries.dropped_count += 1
            return
        self.entries.put(LogEntry(int(record.created * 1e9), record.levelno, record.name, text, error))
