"""Functions of time. A unit is 'second', 'millisecond', 'microsecond' or 'nanosecond'."""

import re
import time
from datetime import UTC, date, datetime, timedelta
from typing import Final

from heliograph.rules.errors import EvaluationFault
from heliograph.rules.functions.definition import Family
from heliograph.rules.values import Value, describe

FAMILY: Final = Family("Time")

_DIGITS_BY_UNIT: Final[dict[str | bytes, int]] = {"second": 0, "millisecond": 3, "microsecond": 6, "nanosecond": 9}
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_USUAL_FORM: Final = "9999-99-99T99:99:99Z"
_DIGITS_TO_NINE: Final = str.maketrans("012345678", "999999999")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def fraction_digits(unit: str | bytes) -> int:
    """How many decimals of a second a unit has."""
    digits = _DIGITS_BY_UNIT.get(unit)
    if digits is None:
        raise EvaluationFault(f"the unit must be one of {', '.join(map(str, _DIGITS_BY_UNIT))}, not {describe(unit)}")
    return digits


@FAMILY.function("[S unit]", "I")
def now_timestamp(unit: str | bytes = "second") -> Value:
    """The time now, since the epoch; the unit is 'second' unless given."""
    return time.time_ns() // int(10 ** (9 - fraction_digits(unit)))


@FAMILY.function("S text[, S unit]", "I")
def rfc3339_to_unix_ts(text: str | bytes, unit: str | bytes = "second") -> Value:
    """The time of an RFC 3339 text since the epoch; fractions finer than the unit are cut off."""
    digits = fraction_digits(unit)
    return timestamp_of_rfc3339(text, digits)


def timestamp_of_rfc3339(text: str | bytes, digits: int) -> int:
    """The time of an RFC 3339 text since the epoch, in units of `10 ** -digits` seconds."""
    if isinstance(text, str) and len(text) == len(_USUAL_FORM) and text.translate(_DIGITS_TO_NINE) == _USUAL_FORM:
        try:
            # A tenth of the time of what follows, for the form that most devices send.
            return (datetime.fromisoformat(text) - _EPOCH) // _SECOND * int(10**digits)
        except ValueError:
            raise EvaluationFault(f"there is no such time as {describe(text)}") from None
    match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise EvaluationFault(f"{describe(text)} is no RFC 3339 time such as '2026-01-31T23:59:59.5+01:00'")
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, offset_hours, offset_minutes = match.groups()[6:]
    try:
        days = date(year, month, day).toordinal() - _EPOCH_DAY
    except ValueError:
        days = None
    offset = 0 if sign is None else int(offset_hours) * 60 + int(offset_minutes)
    in_range = hour < 24 and minute < 60 and second < 60 and (sign is None or offset_minutes < "60" > offset_hours)
    if days is None or not in_range or offset >= 24 * 60:
        raise EvaluationFault(f"there is no such time as {describe(text)}")
    if sign == "+":
        offset = -offset
    seconds = days * 86_400 + hour * 3_600 + (minute + offset) * 60 + second
    return int(seconds * 10**digits + int(((fraction or "") + "0" * digits)[:digits] or 0))
