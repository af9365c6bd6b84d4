"""Times and sizes of a node's answers, for people."""

from datetime import UTC, datetime
from typing import Final

_SECOND_US: Final = 1_000_000
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")


def time_of(microseconds: int) -> str:
    """A time since the epoch; empty for 0."""
    if not microseconds:
        return ""
    try:
        return datetime.fromtimestamp(microseconds // _SECOND_US, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):  # there are no dates so late; one such row does not end a list
        return f"{microseconds // _SECOND_US} s after 1970"


def size_of(count: float) -> str:
    """Bytes in the largest unit of which there is one; empty where that is not known (-1)."""
    if count < 0:
        return ""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
