"""What the log and alarms say of clients, as a part of a node."""

import logging
from collections.abc import Sequence
from typing import Final

from heliograph.broker import hooks
from heliograph.broker.hook_order import LOG
from heliograph.config import Config
from heliograph.events.client_log import ClientLog, ConflictWatch
from heliograph.node.drop_watch import DropWatch
from heliograph.node.kernel import KernelPart
from heliograph.node.log_part import level_of
from heliograph.observe.metric import Sample, counter, gauge, plain
from heliograph.parts import Change, Hook, HookedPart, each

_log: Final = logging.getLogger("heliograph.clients")


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

    _told: ClientLog
    _conflicts: ConflictWatch
    _drops: DropWatch

    def __init__(self, config: Config, kernel: KernelPart) -> None:
        super().__init__(kernel.broker.hooks)
        self._level = level_of(config.log)
        self._kernel = kernel

    async def start(self) -> None:
        """Tell what the level of the log allows."""
        kernel = self._kernel
        alarms, clock = kernel.alarms, kernel.context.clock
        self._told = ClientLog(_log, clock)
        self._conflicts = ConflictWatch(alarms, clock)
        self._drops = DropWatch(kernel.broker.drops, alarms, _log, clock)
        self.hook_in()

    async def check(self, new: Config) -> Change | None:
        """Tell what another level of the log allows, which is set by then."""
        return None if level_of(new.log) == self._level else Change(self.hook_in)

    def tick(self, uptime_us: int) -> None:
        """Look at those that drop, end alarms, and see whether another level is set for a while."""
        if _log.getEffectiveLevel() != self._level:
            self.hook_in()
        each((self._conflicts.tick, self._drops.tick), lambda tick: tick())

    def samples(self) -> list[Sample]:
        """Alarms of clients, and how many receivers drop."""
        return plain({**self._conflicts.statistics(), **self._drops.statistics()})

    def wanted(self) -> Sequence[Hook]:
        """What the level of the log allows, and what makes alarms."""
        self._level = _log.getEffectiveLevel()
        told = self._told
        tells_clients, tells_subscriptions = _log.isEnabledFor(logging.INFO), _log.isEnabledFor(logging.DEBUG)
        wanted = (
            (True, hooks.CLIENT_DISCONNECTED, self._conflicts.on_client_disconnected),
            (tells_clients, hooks.CLIENT_CONNECTED, told.on_client_connected),
            (tells_clients, hooks.CLIENT_DISCONNECTED, told.on_client_disconnected),
            (tells_clients, hooks.CLIENT_CHECK_AUTHZ_COMPLETE, told.on_check_authz_complete),
            (tells_subscriptions, hooks.SESSION_SUBSCRIBED, told.on_session_subscribed),
            (tells_subscriptions, hooks.SESSION_UNSUBSCRIBED, told.on_session_unsubscribed),
        )
        return [Hook(point, callback, LOG, _is_denial) for is_wanted, point, callback in wanted if is_wanted]


def _is_denial(what: str) -> bool:
    """Whether decisions of a kind are logged: what is denied, but not again while the connection remembers it."""
    return what == "deny"
