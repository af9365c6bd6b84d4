"""Counts the connections that a listener turned away, and tells the log of them.

Each that failed has a line with its peer's address, so many a minute; now and then a line tells all counts.
"""

import logging
from collections.abc import Callable
from typing import Final

from heliograph.observe.bounded_log import BoundedLog

_log = logging.getLogger(__name__)


_LINES_A_MINUTE: Final = 60


class ListenerCounters:
    """What became of connections that were not served to their end; owned by a listener, which ticks it.

    Attributes:
        refused: More than `max_connections`.
        denied: Not allowed by `access_rules`.
        failures: Their TLS, WebSocket or PROXY protocol was broken.
        timeouts: Their handshakes took too long.
        stalled: They did not read what they were sent.
    """

    def __init__(self, listener: str, clock: Callable[[], int]) -> None:
        self._listener = listener
        self._log = BoundedLog(_log, clock, _LINES_A_MINUTE)
        self.refused = 0
        self.denied = 0
        self.failures = 0
        self.timeouts = 0
        self.stalled = 0
        self._logged = 0

    def fail(self, peername: str, reason: str) -> None:
        self.failures += 1
        self._log.write(
            logging.INFO,
            "listener %s: connection of %s failed: %s",
            self._listener,
            peername or "an unknown peer",
            reason,
        )

    def time_out(self, peername: str, what: str) -> None:
        self.timeouts += 1
        self._log.write(
            logging.INFO,
            "listener %s: connection of %s is closed, its %s took too long",
            self._listener,
            peername or "an unknown peer",
            what,
        )

    def tell(self) -> None:
        """Write into the log what came since the last time, as one line."""
        total = self.refused + self.denied + self.failures + self.timeouts + self.stalled
        if total == self._logged:
            return
        _log.info(
            "listener %s closed %d connections (in all: %d refused, %d denied, %d failed, %d timed out, %d stalled)",
            self._listener,
            total - self._logged,
            self.refused,
            self.denied,
            self.failures,
            self.timeouts,
            self.stalled,
        )
        self._logged = total

    def statistics(self) -> dict[str, int]:
        return {
            "refused_connections": self.refused,
            "denied_connections": self.denied,
            "handshake_failures": self.failures,
            "handshake_timeouts": self.timeouts,
            "send_timeouts": self.stalled,
        }
