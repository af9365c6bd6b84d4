"""The kernel's lines in the log: connections that ended badly, callbacks that failed, faults of our own.

Clients can cause both as often as they like, so that of a flood so many lines are written and the others are counted.
"""

import logging
import time
from typing import Final

from heliograph.broker import hooks

_log = logging.getLogger(__name__)

_PROTOCOL_ERRORS_PER_S: Final = 20
_CAUSES_MAX: Final = 100  # distinct failures of callbacks; each is logged with its traceback


class _Budget:
    def __init__(self, lines_max: int) -> None:
        self._lines_max = lines_max
        self._second = 0
        self._count = 0

    def take(self) -> tuple[bool, int]:
        """Whether a line may be written, and how many of an earlier second were left out and not reported yet."""
        second, left_out = int(time.monotonic()), 0
        if second != self._second:
            left_out = max(0, self._count - self._lines_max)
            self._second, self._count = second, 0
        self._count += 1
        return self._count <= self._lines_max, left_out


class ProtocolErrorLog:
    def __init__(self) -> None:
        self._budget = _Budget(_PROTOCOL_ERRORS_PER_S)

    def __call__(self, peername: str, clientid: str, detail: str) -> None:
        may_write, left_out = self._budget.take()
        if left_out:
            _log.info("%d more connections ended by errors", left_out)
        if may_write:
            # Both may hold what the peer sent: 64 KiB, and several times that when it is escaped.
            _log.info("connection %s (client %.200r) ended: %.600s", peername, clientid, detail)


class _Causes:
    """What is broken fails with every message: causes that the log has already."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str, str, int]] = set()

    def is_new(self, name: str, error: Exception) -> bool:
        """A cause is a place in the code and a type of error; it is known from now on."""
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        file, line = ("", 0) if place is None else (place.tb_frame.f_code.co_filename, place.tb_lineno)
        cause = (name, type(error).__name__, file, line)
        if cause in self._known or len(self._known) >= _CAUSES_MAX:
            return False
        self._known.add(cause)
        return True


class FaultLog:
    """Logs contained faults, each cause once with its traceback; `faults.contained.BOUNDARY` counts them all."""

    def __init__(self) -> None:
        self._causes = _Causes()

    def __call__(self, boundary: str, error: Exception) -> None:
        if self._causes.is_new(boundary, error):
            _log.error(
                "a fault in %s was contained, and only what raised it is cut; further faults of this cause only count "
                "in faults.contained.%s",
                boundary,
                boundary,
                exc_info=error,
            )


class HookFailureLog:
    """Logs failed callbacks, each cause once; `hooks.failed.NAME` in the statistics counts them all."""

    def __init__(self) -> None:
        self._causes = _Causes()

    def __call__(self, name: str, error: Exception) -> None:
        if not self._causes.is_new(name, error):
            return
        outcome = "was skipped" if hooks.SPECS[name].fails == hooks.OPEN else "refuses its client"
        _log.error(
            "a callback of hook point %s failed and %s; further failures of this kind only count in hooks.failed.%s",
            name,
            outcome,
            name,
            exc_info=error,
        )
