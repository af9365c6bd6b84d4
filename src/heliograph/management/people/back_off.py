"""Who has to wait before the next try: user names and keys at an address, and addresses, whose tries failed."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from heliograph.access.bans.failed_logins import FailedLogins
from heliograph.access.bans.known_logins import KnownLogins
from heliograph.config.address_limits import LoginBackoff
from heliograph.management.web.addresses import place_of

# Passwords are few and guessable; wrong keys come from programs that do not have the new one.
LOGINS: Final = LoginBackoff(max_failures=5, max_failures_of_address=30, min_wait=1.0, max_wait=60.0)
# Who tries codes has the password, and three of a million count at a time: a day has some hundred tries, however slow.
CODES: Final = LoginBackoff(
    max_failures=5, max_failures_of_address=1_000_000, window_time=86_400.0, min_wait=1.0, max_wait=900.0
)
KEYS: Final = LoginBackoff(max_failures=100, max_failures_of_address=300, min_wait=1.0, max_wait=10.0)
EVERYWHERE: Final = "everywhere"  # the address of tries that count wherever they come from


def _clock() -> int:
    return time.monotonic_ns() // 1_000


class BackOff:
    """Counts tries that failed; owned by what checks them.

    A `device` is what a known one is counted by, apart from all others; empty for one that is not known.

    Args:
        clock: Microseconds on the monotonic clock.
        known_file: Where names that succeeded at their addresses are kept; None for nowhere.
    """

    def __init__(
        self, settings: LoginBackoff, clock: Callable[[], int] = _clock, known_file: Path | None = None
    ) -> None:
        self._failed = FailedLogins(settings, KnownLogins(known_file))
        self._clock = clock

    def may_try(self, address: str, name: str, device: bytes = b"") -> bool:
        """Whether a try is made, or has to wait."""
        return self._failed.may_try(place_of(address), name, self._clock(), device)

    def failed(self, address: str, name: str, device: bytes = b"") -> None:
        now_us = self._clock()
        self._failed.expire(now_us)
        self._failed.failed_login(place_of(address), address, name, now_us, device)

    def succeeded(self, address: str, name: str, device: bytes = b"") -> None:
        """A try succeeded: its failures are forgotten."""
        place, known = place_of(address), self._failed.known
        self._failed.succeeded(place, name, self._clock(), device)
        known.add(place, name)
        known.save()
