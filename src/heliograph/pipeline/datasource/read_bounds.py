"""The options ``start`` and ``end``: words, times of storing and offsets, and what cannot be meant by them.

A time of storing is a number of microseconds since the epoch. Numbers are given in milliseconds and seconds elsewhere,
and would read everything or nothing here, so one that fits those better is refused with all its readings.
"""

import os
import time
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from heliograph.pipeline.datasource.offsets import Offset, parse_offset
from heliograph.pipeline.errors import OptionError

EARLIEST: Final = "earliest"
LATEST: Final = "latest"

#: Where the read begins or ends: a word, microseconds since the epoch, or an offset.
ReadBound = int | str | Offset

#: The time zone of the Spark session that the source was registered with, in the environment of Spark's workers.
SESSION_ZONE: Final = "HELIOGRAPH_SESSION_TIME_ZONE"

_TIME_VALID: Final = (
    "earliest, latest, a time such as 2026-01-31T00:00:00Z, microseconds since the epoch, or an offset as JSON"
)
_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_YEAR_2000_S: Final = 946_684_800
_YEAR_10000_S: Final = 253_402_300_800
_MICROSECONDS: Final = 1_000_000
#: What one unit is called, and how many of it make a second.
_UNITS: Final = (("microseconds", _MICROSECONDS), ("milliseconds", 1_000), ("seconds", 1))
_NANOSECONDS: Final = 1_000_000_000
#: Clocks of two machines differ.
_CLOCKS_DIFFER_S: Final = 300
#: A stream may wait for a time that comes.
_STREAM_WAITS_S: Final = 366 * 86_400


def parse_bound(option: str, text: str, zone: tzinfo | None) -> ReadBound:
    """What the option ``start`` or ``end`` says; without a zone, a time that names none is refused."""
    if text.lstrip().startswith("{"):
        return parse_offset(option, text)
    if text in (EARLIEST, LATEST):
        return text
    if text.isascii() and text.isdigit():
        return _checked_number(option, int(text))
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(option, text, _TIME_VALID) from None
    if time.tzinfo is None:
        if zone is None:
            raise OptionError(option, text, f"a time with its zone, such as {text}Z, or come with the option timeZone")
        time = time.replace(tzinfo=zone)
    return max(0, (time - _EPOCH) // timedelta(microseconds=1))


def parse_zone(text: str | None) -> tzinfo | None:
    """The time zone of the option ``timeZone``, or that of the session; None where neither is known."""
    name = text if text is not None else os.environ.get(SESSION_ZONE)
    if name is None:
        return None
    try:
        # Spark takes offsets as well, as +02:00.
        return datetime.fromisoformat(f"2026-01-01T00:00{name}").tzinfo if name[:1] in "+-" else ZoneInfo(name)
    except (ValueError, KeyError, OSError):
        raise OptionError("timeZone", name, "a time zone such as Europe/Berlin, UTC or +02:00") from None


def check_span(start: ReadBound, end: ReadBound) -> None:
    """Refuse a span that ends before it begins."""
    if isinstance(start, int) and isinstance(end, int) and start > end:
        raise OptionError("start", _iso(start), f"before end, which is {_iso(end)}")


def check_not_ahead(start: ReadBound, *, is_stream: bool) -> None:
    """Refuse a start in the future, where nothing can be stored; for a stream, one more than a year ahead."""
    ahead_s = _STREAM_WAITS_S if is_stream else _CLOCKS_DIFFER_S
    now = time.time()
    if isinstance(start, int) and start > (now + ahead_s) * _MICROSECONDS:
        valid = "a time of the next year at most" if is_stream else "a time that has been"
        raise OptionError("start", _iso(start), f"{valid}: it is {_iso(int(now * _MICROSECONDS))} now")


def _checked_number(option: str, number: int) -> int:
    seconds = number // _MICROSECONDS
    if seconds >= _YEAR_10000_S or (seconds < _YEAR_2000_S and number >= _YEAR_2000_S):
        readings = [f"{_iso(number * _MICROSECONDS // of_second)} in {unit}" for unit, of_second in _UNITS]
        if seconds >= _YEAR_10000_S:
            readings.append(f"{_iso(number * _MICROSECONDS // _NANOSECONDS)} in nanoseconds")
        raise OptionError(
            option, str(number), f"microseconds since the epoch. It is {', '.join(readings)}: give the one you mean"
        )
    return number


def _iso(microseconds: int) -> str:
    if microseconds >= _YEAR_10000_S * _MICROSECONDS:
        return "beyond the year 9999"
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
