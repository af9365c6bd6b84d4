"""Alarms of what clients cause: each begins with the first occurrence and ends when there was none for a while.

So many of a kind go on at a time: clients that come in thousands must not use up the room that other alarms have. What
finds no room is only counted.
"""

from collections.abc import Callable, Mapping
from logging import INFO, WARNING, Logger
from typing import Final

from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.short_text import short_text

_ACTIVE_MAX: Final = 100
_LINES_A_MINUTE: Final = 30


class LastingAlarms:
    """The alarms of one kind; owned by the service that raises them.

    Args:
        kind: What their names begin with; the rest names the client.
        logger: Where beginnings and ends are logged, a bounded number of them a minute.
        quiet_us: How long nothing must have happened before an alarm ends.
    """

    def __init__(self, kind: str, alarms: Alarms, logger: Logger, clock: Callable[[], int], quiet_us: int) -> None:
        self._kind = kind
        self._alarms = alarms
        self._log = BoundedLog(logger, clock, _LINES_A_MINUTE)
        self._clock = clock
        self._quiet_us = quiet_us
        self._last: dict[str, int] = {}  # when it happened last, by client; the one that is quiet longest first
        self._missed = 0

    def happened(self, who: str, message: str, details: Mapping[str, object]) -> None:
        """It happened to a client: raise the alarm unless it goes on, and tell the log then.

        Args:
            message: What is wrong and what to do.
        """
        who = short_text(who)
        if self._last.pop(who, None) is None:
            if len(self._last) >= _ACTIVE_MAX or not self._alarms.activate(f"{self._kind}/{who}", message, details):
                self._missed += 1
                return
            self._log.write(WARNING, "%s", message)
        self._last[who] = self._clock()

    def goes_on(self, who: str) -> bool:
        """Whether the alarm of a client goes on."""
        return short_text(who) in self._last

    def tick(self) -> None:
        """End the alarms of clients for which it did not happen for a while."""
        until = self._clock() - self._quiet_us
        while self._last:
            who = next(iter(self._last))
            if self._last[who] > until:
                return
            del self._last[who]
            self._alarms.deactivate(f"{self._kind}/{who}")
            self._log.write(INFO, "alarm %s/%.200s has ended", self._kind, who)

    def statistics(self) -> dict[str, int]:
        """How many go on, and how many found no room."""
        return {f"{self._kind}.active": len(self._last), f"{self._kind}.missed": self._missed}
