"""Times as the API writes and reads them: RFC 3339 with milliseconds and the local offset."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

from fastapi import Depends, Request

from heliograph.management.web.errors import ApiError


async def _now_s(request: Request) -> float:
    now_s: float = request.app.state.now_s()
    return now_s


#: The time of a request, in seconds since the epoch.
NowDep = Annotated[float, Depends(_now_s)]


def rfc3339(time_us: int) -> str:
    """A time in microseconds since the epoch."""
    seconds, rest_us = divmod(time_us, 1_000_000)
    until_seconds, offset = _of_second(seconds)
    return f"{until_seconds}.{rest_us // 1000:03}{offset}"


@lru_cache(maxsize=4096)  # pages of clients have a few thousand times, and many of the same second
def _of_second(seconds: int) -> tuple[str, str]:
    text = datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(timespec="seconds")
    return text[:19], text[19:]


def read_time_us(text: str, name: str) -> int:
    """Microseconds since the epoch of RFC 3339, or of milliseconds since the epoch.

    Raises:
        ApiError: 400, it is neither.
    """
    if text.isascii() and text.isdigit():
        return int(text) * 1000
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # a plus sign in a query is a blank
    except ValueError:
        raise ApiError(
            400, "INVALID_PARAMETER", f"{name}: found {text[:100]!r}; a time as 2026-01-31T12:00:00Z, or milliseconds"
        ) from None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1_000_000)
