"""Entries of the log as lines: text for people, JSON for programs."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "alert": logging.CRITICAL,
    "emergency": logging.CRITICAL,
}
"""Severities of `logging` by the names of levels."""

# What every entry has; the rest is what a caller gave as `extra`.
_STANDARD: Final = frozenset(
    {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message", "asctime", "color_message"}
)


class TextFormat(logging.Formatter):
    """`TIME LEVEL LOGGER: MESSAGE`, and a traceback below."""

    def __init__(self, timestamp_format: str = "auto", time_offset: str = "system") -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._timestamp_format = timestamp_format
        self._zone = _zone(time_offset)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        if self._timestamp_format != "auto":
            return str(_time(record, self._timestamp_format, self._zone))
        when = datetime.fromtimestamp(record.created, self._zone)
        return f"{when:%Y-%m-%d %H:%M:%S},{int(record.msecs):03d}"


class JsonFormat(logging.Formatter):
    """One object on one line: `time`, `level`, `logger`, `msg`, what the entry has besides, and `exception`."""

    def __init__(self, timestamp_format: str = "auto", time_offset: str = "system") -> None:
        super().__init__()
        self._timestamp_format = timestamp_format
        self._zone = _zone(time_offset)

    def format(self, record: logging.LogRecord) -> str:
        row: dict[str, object] = {
            "time": _time(record, self._timestamp_format, self._zone),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        row |= {name: value for name, value in vars(record).items() if name not in _STANDARD and name not in row}
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            row["stack"] = record.stack_info
        return json.dumps(row, ensure_ascii=False, default=str)


def format_of(formatter: str, timestamp_format: str, time_offset: str) -> logging.Formatter:
    return (JsonFormat if formatter == "json" else TextFormat)(timestamp_format, time_offset)


def _time(record: logging.LogRecord, timestamp_format: str, zone: tzinfo | None) -> str | int:
    if timestamp_format == "epoch":
        return int(record.created * 1_000_000)
    return datetime.fromtimestamp(record.created, zone).astimezone(zone).isoformat(timespec="microseconds")


def _zone(time_offset: str) -> tzinfo | None:
    """None is the system's, as `datetime` has it."""
    if time_offset == "system":
        return None
    if time_offset == "utc":
        return UTC
    hours, _, minutes = time_offset[1:].partition(":")
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    return timezone(-offset if time_offset.startswith("-") else offset)
