"""Counts the connections that a listener turned away, and tells the log of them now and then.

One line for each would let a flood of bad connections fill the disk.
"""

import logging

_log = logging.getLogger(__name__)


class Tally:
    """What became of connections that were not served to their end; owned by a listener, which ticks it.

    Args:
        listener: The listener, as `tcp:default`.

    Attributes:
        refused: More than `max_connections`.
        denied: Not allowed by `access_rules`.
        failures: Their TLS, WebSocket or PROXY protocol was broken.
        timeouts: Their handshakes took too long.
        stalled: They did not read what they were sent.
    """

    def __init__(self, listener: str) -> None:
        self._listener = listener
        self.refused = 0
        self.denied = 0
        self.failures = 0
        self.timeouts = 0
        self.stalled = 0
        self._told = 0
        self._last_failure = ""

    def fail(self, reason: str) -> None:
        """A peer broke a protocol."""
        self.failures += 1
        self._last_failure = reason

    def tell(self) -> None:
        """Write into the log what came since the last time, as one line."""
        total = self.refused + self.denied + self.failures + self.timeouts + self.stalled
        if total == self._told:
            return
        _log.info(
            "listener %s closed %d connections (in all: %d refused, %d denied, %d failed, %d timed out, %d stalled)%s",
            self._listener,
            total - self._told,
            self.refused,
            self.denied,
            self.failures,
            self.timeouts,
            self.stalled,
            f"; last failure: {self._last_failure}" if self._last_failure else "",
        )
        self._told = total
        self._last_failure = ""

    def statistics(self) -> dict[str, int]:
        """The counts."""
        return {
            "refused_connections": self.refused,
            "denied_connections": self.denied,
            "handshake_failures": self.failures,
            "handshake_timeouts": self.timeouts,
            "send_timeouts": self.stalled,
        }
