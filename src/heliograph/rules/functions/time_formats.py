"""Functions that write and read times of a format, with offsets from UTC.

Formats: %Y %m %d %H %M %S, fractions %N (9 digits), %6N and %3N, offsets %z (±hhmm), %:z (±hh:mm) and %::z
(±hh:mm:ss); everything else stands for itself. Years have four digits.
"""

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.functions.time import fraction_digits
from heliograph.rules.values import UNDEFINED, Value, describe

FAMILY: Final = Family("Times as text")

_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_OFFSET: Final = re.compile(r"([+-])([0-9]{2})(?::?([0-9]{2})|:([0-9]{2}):([0-9]{2}))")
_FIELD: Final = re.compile(r"%(?:[YmdHMSNz]|[36]N|::?z)")
_WIDTHS: Final = {
    "%Y": 4,
    "%m": 2,
    "%d": 2,
    "%H": 2,
    "%M": 2,
    "%S": 2,
    "%N": 9,
    "%6N": 6,
    "%3N": 3,
    "%z": 5,
    "%:z": 6,
    "%::z": 9,
}
_NEEDED: Final = ("%Y", "%m", "%d", "%H", "%M", "%S")
_FRACTIONS: Final = {"%N": 9, "%6N": 6, "%3N": 3}


def _offset_seconds(offset: Value, at_s: int | None = None) -> int:
    """The seconds that an offset is east of UTC; the host's is that of `at_s`, or of now."""
    if offset is UNDEFINED or offset in ("Z", "z"):
        return 0
    if type(offset) is int:
        return offset
    if offset == "local":
        return _local_offset(at_s)
    match = _OFFSET.fullmatch(offset) if isinstance(offset, str) else None
    if match is None:
        raise EvaluationFault(f"{describe(offset)} is no offset such as 'Z', '+01:00', '-0330', 'local' or 3600")
    sign, hours, minutes, other_minutes, seconds = match.groups()
    hour, minute, second = int(hours), int(minutes or other_minutes), int(seconds or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise EvaluationFault(f"there is no such offset as {describe(offset)}")
    total = hour * 3600 + minute * 60 + second
    return -total if sign == "-" else total


def _local_offset(at_s: int | None) -> int:
    try:
        return time.localtime(at_s).tm_gmtoff
    except (OverflowError, ValueError, OSError):
        raise EvaluationFault(f"{at_s} s is a time beyond what this machine knows the zone of") from None


@FAMILY.function("V offset", "I")
def timezone_to_offset_seconds(offset: Value) -> Value:
    """How many seconds an offset such as '+01:00', 'Z' or 'local' is ahead of UTC."""
    return _offset_seconds(offset)


@FAMILY.function("V offset", "I")
def timezone_to_second(offset: Value) -> Value:
    """The same as timezone_to_offset_seconds."""
    return _offset_seconds(offset)


@FAMILY.function("[S unit]", "S")
def now_rfc3339(unit: str | bytes = "second") -> Value:
    """The time now as RFC 3339 text in the zone of the host, with as many decimals as the unit has."""
    return _rfc3339(time.time_ns() // int(10 ** (9 - fraction_digits(unit))), fraction_digits(unit))


@FAMILY.function("I time[, S unit]", "S")
def unix_ts_to_rfc3339(timestamp: int, unit: str | bytes = "second") -> Value:
    """A time since the epoch as RFC 3339 text in the zone of the host, with as many decimals as the unit has."""
    return _rfc3339(timestamp, fraction_digits(unit))


def _rfc3339(timestamp: int, digits: int) -> str:
    fraction = {0: "", 3: ".%3N", 6: ".%6N", 9: ".%N"}[digits]
    seconds = timestamp // int(10**digits)
    return _written(timestamp, digits, _local_offset(seconds), f"%Y-%m-%dT%H:%M:%S{fraction}%:z")


@FAMILY.function("S unit, V offset, S format[, I time]", "S")
def format_date(unit: str | bytes, offset: Value, template: str | bytes, timestamp: int | None = None) -> Value:
    """A time (now, if none is given) as text of a format, shown in the local time of an offset."""
    digits = fraction_digits(unit)
    if timestamp is None:
        timestamp = time.time_ns() // int(10 ** (9 - digits))
    if isinstance(template, bytes):
        raise EvaluationFault(f"{describe(template)} is not valid UTF-8 text")
    return _written(timestamp, digits, _offset_seconds(offset, timestamp // int(10**digits)), template)


def _written(timestamp: int, digits: int, offset_s: int, template: str) -> str:
    seconds, rest = divmod(timestamp, int(10**digits))
    try:
        local = _EPOCH + timedelta(seconds=seconds + offset_s)
    except OverflowError:
        raise EvaluationFault(f"{timestamp} is a time outside of the years 1 to 9999") from None
    nanoseconds = f"{rest * 10 ** (9 - digits):09d}"
    size = abs(offset_s)
    hours, minutes = f"{'-' if offset_s < 0 else '+'}{size // 3600:02d}", f"{size // 60 % 60:02d}"
    fields = {
        "%Y": f"{local.year:04d}",
        "%m": f"{local.month:02d}",
        "%d": f"{local.day:02d}",
        "%H": f"{local.hour:02d}",
        "%M": f"{local.minute:02d}",
        "%S": f"{local.second:02d}",
        "%N": nanoseconds,
        "%6N": nanoseconds[:6],
        "%3N": nanoseconds[:3],
        "%z": hours + minutes,
        "%:z": f"{hours}:{minutes}",
        "%::z": f"{hours}:{minutes}:{size % 60:02d}",
    }
    return _FIELD.sub(lambda field: fields[field[0]], template)


@FAMILY.function("S unit, V offset_or_format, S format_or_text[, S text]", "I")
def date_to_unix_ts(
    unit: str | bytes, offset_or_format: Value, format_or_text: str | bytes, text: str | bytes | None = None
) -> Value:
    """The time since the epoch of a text of a format; an offset may stand between the unit and the format."""
    digits = fraction_digits(unit)
    offset: Value = UNDEFINED if text is None else offset_or_format
    template, written = (offset_or_format, format_or_text) if text is None else (format_or_text, text)
    if not isinstance(template, str) or not isinstance(written, str):
        raise EvaluationFault("the format and the text must be valid UTF-8 text")
    found = _read(template, written)
    for field in _NEEDED:
        if field not in found:
            raise EvaluationFault(f"{describe(written)} has no {field}, which a time needs")
    nanoseconds = _nanoseconds(found, written) - _offset_seconds(offset) * 10**9
    return int(nanoseconds // 10 ** (9 - digits))


def _read(template: str, text: str) -> dict[str, str]:
    """What a text says for each field; fields behind its end are left out."""
    found: dict[str, str] = {}
    at = place = 0
    for field in _FIELD.finditer(template):
        place += field.start() - at
        at = field.end()
        if place >= len(text):
            break
        piece = text[place : place + _WIDTHS[field[0]]]
        place += len(piece)
        if len(piece) < _WIDTHS[field[0]]:
            raise EvaluationFault(f"{describe(text)} ends within {field[0]}")
        found[field[0]] = piece
    return found


def _nanoseconds(found: dict[str, str], text: str) -> int:
    numbers: list[int] = []
    for field in _NEEDED:
        if not (found[field].isascii() and found[field].isdigit()):
            raise EvaluationFault(f"{describe(text)} has {describe(found[field])} where {field} must be")
        numbers.append(int(found[field]))
    year, month, day, hour, minute, second = numbers
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        raise EvaluationFault(f"there is no such time as {describe(text)}") from None
    if hour > 23 or minute > 59 or second > 59:
        raise EvaluationFault(f"there is no such time as {describe(text)}")
    seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    for field in ("%z", "%:z", "%::z"):
        if field in found:
            seconds -= _offset_seconds(found[field])
    fraction = 0
    for field, length in _FRACTIONS.items():
        if field in found:
            if not (found[field].isascii() and found[field].isdigit()):
                raise EvaluationFault(f"{describe(text)} has {describe(found[field])} where {field} must be")
            fraction = int(found[field]) * 10 ** (9 - length)
    return int(seconds * 10**9 + fraction)


@FAMILY.function("[I time[, S unit]]", "S")
def mongo_date(timestamp: int | None = None, unit: str | bytes = "millisecond") -> Value:
    """A time (now, if none is given) as MongoDB's shell writes it: ISODate(2024-02-23T07:00:00.123Z)."""
    digits = fraction_digits(unit)
    if timestamp is None:
        timestamp, digits = time.time_ns() // 1_000_000, 3
    milliseconds = timestamp * 10**3 // int(10**digits)
    try:
        moment = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise EvaluationFault(f"{timestamp} is a time outside of the years 1 to 9999") from None
    return f"ISODate({moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z)"
