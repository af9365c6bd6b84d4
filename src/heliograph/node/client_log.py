"""What the log and alarms say of clients, and of receivers that do not get their messages, as a part of a node.

Looks twice a second at the list of receivers that began to drop (`broker.drops`); nothing is done for each message.
"""

import logging
from collections.abc import Callable, Sequence
from logging import INFO, Logger
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.drops import DropLedger, Drops
from heliograph.broker.hook_order import LOG
from heliograph.config.settings import Config
from heliograph.events.client_log import ClientLog, ConflictWatch
from heliograph.node.kernel import KernelPart
from heliograph.node.log_part import level_of
from heliograph.observe.alarms import Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.lasting import LastingAlarms
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart, each

_log: Final = logging.getLogger("heliograph.clients")
ALARM: Final = "mqueue_overflow"
_QUIET_US: Final = 10_000_000
_TELL_US: Final = 60_000_000  # between two lines about one receiver
_LINES_A_MINUTE: Final = 60


class _Watched:
    def __init__(self, drops: Drops, now: int) -> None:
        self.drops = drops
        self.counts: dict[str, int] = {}  # at the last look
        self.logged: dict[str, int] = {}  # in the log
        self.logged_at: int | None = None
        self.last_at = now


class DropWatch:
    """Looks at receivers that began to drop; owned by `ClientLogPart`, which ticks it."""

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
        now = self._clock()
        self._watched += [_Watched(drops, now) for drops in self._ledger.take()]
        self._watched = [watched for watched in self._watched if self._look(watched, now)]
        self._alarms.tick()

    def statistics(self) -> dict[str, int]:
        return {
            "delivery.droppers": len(self._watched),
            "delivery.droppers.unwatched": self._ledger.unwatched_count,
            **self._alarms.statistics(),
        }

    def _look(self, watched: _Watched, now: int) -> bool:
        counts = watched.drops.counts()
        if counts != watched.counts:
            before, watched.counts, watched.last_at = watched.counts, counts, now
            if any(counts[reason] > before.get(reason, 0) for reason in ("queue_full", "qos0_msg")):
                self._overflow(watched.drops.clientid, counts)
        is_over = now - watched.last_at >= _QUIET_US
        if watched.logged_at is None or is_over or now - watched.logged_at >= _TELL_US:
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
            reason: count - watched.logged.get(reason, 0)
            for reason, count in watched.counts.items()
            if count > watched.logged.get(reason, 0)
        }
        watched.logged_at, watched.logged = now, watched.counts
        for reason, count in fresh.items():
            self._log.write(
                INFO, "%d messages for client %.200r were dropped: %s", count, watched.drops.clientid, reason
            )


class ClientLogPart(HookedPart):
    """Logs clients that come and go, fight over a client id, or do not get their messages; owned by the node."""

    name = "client_log"
    metrics = (
        gauge("clientid_conflict.active", "Clients that take each other's client id over and over."),
        counter("clientid_conflict.missed", "Of these, those that found no room for an alarm."),
        gauge("delivery.droppers", "Receivers that do not get all of their messages."),
        counter("delivery.droppers.unwatched", "Of these, those that found no room to be watched."),
        gauge("mqueue_overflow.active", "Clients whose queues are full."),
        counter("mqueue_overflow.missed", "Of these, those that found no room for an alarm."),
    )
    needs = ("log", "kernel", "commits")
    roots = ("log",)

    _client_log: ClientLog
    _conflicts: ConflictWatch
    _drops: DropWatch

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._level = level_of(config.log)
        self._kernel = kernel

    async def start(self) -> None:
        kernel = self._kernel
        alarms, clock = kernel.alarms, kernel.context.clock
        self._client_log = ClientLog(_log, clock)
        self._conflicts = ConflictWatch(alarms, clock)
        self._drops = DropWatch(kernel.broker.drops, alarms, _log, clock)
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        return None if level_of(new.log) == self._level else Change(self.hook_in)

    def tick(self, uptime_us: int) -> None:
        if _log.getEffectiveLevel() != self._level:
            self.hook_in()
        each((self._conflicts.tick, self._drops.tick), lambda tick: tick())

    def samples(self) -> list[Sample]:
        return plain({**self._conflicts.statistics(), **self._drops.statistics()})

    def wanted(self) -> Sequence[Hook]:
        self._level = _log.getEffectiveLevel()
        log = self._client_log
        tells_clients, tells_subscriptions = _log.isEnabledFor(logging.INFO), _log.isEnabledFor(logging.DEBUG)
        wanted = (
            (True, hooks.CLIENT_DISCONNECTED, self._conflicts.on_client_disconnected),
            (tells_clients, hooks.CLIENT_CONNECTED, log.on_client_connected),
            (tells_clients, hooks.CLIENT_DISCONNECTED, log.on_client_disconnected),
            (tells_clients, hooks.CLIENT_CHECK_AUTHZ_COMPLETE, log.on_check_authz_complete),
            (tells_subscriptions, hooks.SESSION_SUBSCRIBED, log.on_session_subscribed),
            (tells_subscriptions, hooks.SESSION_UNSUBSCRIBED, log.on_session_unsubscribed),
        )
        return [Hook(point, callback, LOG, _is_denial) for is_wanted, point, callback in wanted if is_wanted]


def _is_denial(what: str) -> bool:
    """What is denied, but not again while the connection remembers it."""
    return what == "deny"
