"""Reports receivers that do not get their messages: a line for each client and reason, an alarm for full queues.

Looks twice a second at the list of receivers that began to drop (`broker.drops`); nothing is done for each message.
"""

from collections.abc import Callable
from logging import INFO, Logger
from typing import Final

from heliograph.broker.drops import DropLedger, Drops
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.lasting import LastingAlarms

ALARM: Final = "mqueue_overflow"
_QUIET_US: Final = 10_000_000
_TELL_US: Final = 60_000_000  # between two lines about one receiver
_LINES_A_MINUTE: Final = 60


class _Watched:
    """A receiver that is looked at."""

    def __init__(self, drops: Drops, now: int) -> None:
        self.drops = drops
        self.counts: dict[str, int] = {}  # at the last look
        self.told: dict[str, int] = {}  # in the log
        self.told_at: int | None = None
        self.last_at = now


class DropWatch:
    """Owned by `ClientLogPart`, which ticks it.

    Args:
        ledger: Where receivers are that began to drop.
        logger: Where lines go, a bounded number a minute.
        clock: Microseconds on the monotonic clock.
    """

    def __init__(
        self,
        ledger: DropLedger,
        alarms: Alarms,
        logger: Logger,
        clock: Callable[[], int],
    ) -> None:
        self._ledger = ledger
        self._log = BoundedLog(logger, clock, _LINES_A_MINUTE)
        self._clock = clock
        self._alarms = LastingAlarms(ALARM, alarms, clock, _QUIET_US, degrades=False)
        self._watched: list[_Watched] = []

    def tick(self) -> None:
        """Look at those that drop; forget those that do not any more."""
        now = self._clock()
        self._watched += [_Watched(drops, now) for drops in self._ledger.take()]
        self._watched = [watched for watched in self._watched if self._look(watched, now)]
        self._alarms.tick()

    def statistics(self) -> dict[str, int]:
        """How many receivers drop, and the alarms of full queues."""
        return {
            "delivery.droppers": len(self._watched),
            "delivery.droppers.unwatched": self._ledger.unwatched_count,
            **self._alarms.statistics(),
        }

    def _look(self, watched: _Watched, now: int) -> bool:
        """Whether it is to be looked at again."""
        counts = watched.drops.counts()
        if counts != watched.counts:
            before, watched.counts, watched.last_at = watched.counts, counts, now
            if any(counts[reason] > before.get(reason, 0) for reason in ("queue_full", "qos0_msg")):
                self._overflow(watched.drops.clientid, counts)
        is_over = now - watched.last_at >= _QUIET_US
        if watched.told_at is None or is_over or now - watched.told_at >= _TELL_US:
            self._tell(watched, now)
        if is_over:
            self._ledger.release(watched.drops)
        return not is_over

    def _overflow(self, clientid: str, counts: dict[str, int]) -> None:
        message = (
            f"client {clientid[:200]!r} takes its messages too slowly or is away: its queue is full and drops "
            "messages; raise mqtt.max_mqueue_len and max_mqueue_bytes, or let the client read faster"
        )
        self._alarms.happened(clientid, message, {"clientid": clientid, **counts})

    def _tell(self, watched: _Watched, now: int) -> None:
        fresh = {
            reason: count - watched.told.get(reason, 0)
            for reason, count in watched.counts.items()
            if count > watched.told.get(reason, 0)
        }
        watched.told_at, watched.told = now, watched.counts
        for reason, count in fresh.items():
            self._log.write(
                INFO, "%d messages for client %.200r were dropped: %s", count, watched.drops.clientid, reason
            )
