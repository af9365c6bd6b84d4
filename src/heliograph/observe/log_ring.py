"""The newest entries of the log, for a process that fetches them."""

import logging
from traceback import format_exception
from typing import Final, NamedTuple

from heliograph.observe.log_format import LEVELS
from heliograph.observe.ring import Ring

_TEXT_MAX: Final = 8192


class LogEntry(NamedTuple):
    """One entry of the log.

    Attributes:
        at_ns: Nanoseconds since the epoch.
        level: Its severity, as `logging` has it.
        logger: Which module wrote it.
        error: The exception that it is about, with where it was raised; empty for none.
    """

    at_ns: int
    level: int
    logger: str
    text: str
    error: str


class LogRing(logging.Handler):
    """Keeps the newest entries; a handler of the root logger while they are wanted.

    Args:
        text_max: So many characters of an entry, and of its exception.

    Attributes:
        entries: What it keeps.
    """

    def __init__(self, level: str, size_max: int, text_max: int = _TEXT_MAX) -> None:
        super().__init__(LEVELS[level])
        self._text_max = text_max
        self.entries: Ring[LogEntry] = Ring(size_max)

    def use(self, level: str, size_max: int) -> None:
        """Keep other entries, and another number of them."""
        self.setLevel(LEVELS[level])
        self.entries.resize(size_max)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep an entry; one whose values do not fit is counted as dropped."""
        try:
            text = record.getMessage()[: self._text_max]
            error = "".join(format_exception(record.exc_info[1]))[-self._text_max :] if record.exc_info else ""
        except (TypeError, ValueError):
            self.entries.dropped_count += 1
            return
        self.entries.put(LogEntry(int(record.created * 1e9), record.levelno, record.name, text, error))
