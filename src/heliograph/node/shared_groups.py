"""Durable shared groups of a node: opens their database and joins them to sessions, storage and broker."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from heliograph.broker import hooks
from heliograph.broker.hook_order import SHARED_GROUPS
from heliograph.broker.pubsub import Broker
from heliograph.config.settings import Config
from heliograph.config.storage import SharedGroupsConfig
from heliograph.durable_sessions.sessions import DurableSessions
from heliograph.node.metrics.storage import samples_of
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, plain
from heliograph.session.table import SessionTable
from heliograph.shared_groups.groups import DurableGroups, GroupMessages
from heliograph.shared_groups.membership import Declared
from heliograph.shared_groups.protocol import GroupName, Timers
from heliograph.storage.errors import StorageError
from heliograph.storage.health import Health
from heliograph.storage.interface import OnGrown
from heliograph.storage.state.interface import StateDatabase
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)

_RETRY_US: Final = 1_000_000
_ALARM: Final = "shared_groups_refused"
_UNREADABLE: Final = "the database of shared groups cannot be read, so their members get nothing yet"


class MessageDatabase(GroupMessages, Protocol):
    def subscribe(self, on_grown: OnGrown) -> Callable[[], None]: ...

    def newest_commit_us(self) -> int: ...


class NodeGroups:
    """The durable shared groups of a node; owned by the node.

    It is made before sessions are read, which it joins then, and is started afterwards. Groups begin when
    sessions are known and their own database can be read, which is tried again and again.
    """

    def __init__(
        self,
        groups: DurableGroups,
        state: StateDatabase,
        site_id: Callable[[], str],
        messages: MessageDatabase,
        broker: Broker,
        alarms: Alarms,
    ) -> None:
        self.health = Health(
            _log, alarms, _ALARM, "shared groups cannot be saved", "shared groups can be read and saved again"
        )
        self._groups = groups
        self._state = state
        self._site_id = site_id
        self._messages = messages
        self._broker = broker
        self._sessions: DurableSessions | None = None
        self._table: SessionTable | None = None
        self._fault: StorageError | None = None  # why groups are not known yet
        self._retry_due_us = 0
        groups.turns.faults = broker.faults
        broker.shared.keeper = groups.membership
        for name in (hooks.SESSION_TERMINATED, hooks.SESSION_DISCARDED):
            broker.hooks.point(name).add(groups.membership.on_session_ended, SHARED_GROUPS)
        self._unsubscribe = messages.subscribe(groups.on_grown)

    def use(self, settings: SharedGroupsConfig) -> None:
        set_timers(self._groups.timers, settings)
        self._groups.turns.report_s = settings.checkpoint_interval

    def join(self, sessions: DurableSessions) -> None:
        """Let durable sessions be members; called before they are read."""
        self._sessions = sessions
        self._groups.roster.sessions = sessions.saver
        sessions.saver.on_saved = self._groups.members.on_sessions_saved

    def start(self, table: SessionTable) -> None:
        """Take up every group where it was left, as soon as that can be known."""
        self._table = table
        self._start(table)

    def _start(self, table: SessionTable) -> None:
        if self._sessions is not None and not self._sessions.start.is_done:
            return
        try:
            self._groups.start(self._site_id(), self._messages.newest_commit_us(), table.knows)
        except StorageError as error:
            self.health.tell(error, _UNREADABLE)
            self._fault = error
            self._retry_due_us = int(self._broker.uptime_us) + _RETRY_US
            return
        self._fault = None

    def on_messages_committed(self, is_refused: bool = False) -> None:
        if is_refused:
            return
        with suppress(StorageError):  # it had nothing to store, and the database cannot be read now
            self._groups.turns.on_committed(self._messages.newest_commit_us())

    def tick(self) -> None:
        """Called after the tick of `DurableSessions`."""
        if not self._groups.is_started and self._table is not None and self._broker.uptime_us >= self._retry_due_us:
            self._start(self._table)
        self._groups.tick()
        self.health.tell(self._fault or self._groups.refusal)

    async def close(self) -> None:
        self._unsubscribe()
        await self._groups.close()

    def samples(self) -> list[Sample]:
        state = self._state
        return [
            *plain(self._groups.statistics()),
            *samples_of("shared_groups", state.statistics(), state.commit_times),
        ]

    def __repr__(self) -> str:
        return f"NodeGroups({self._groups!r})"


def open_shared_groups(
    config: Config,
    state: LocalState,
    site_id: Callable[[], str],
    messages: MessageDatabase,
    broker: Broker,
    begin_turn: Callable[[], object],
    alarms: Alarms,
) -> NodeGroups:
    """Keep the shared groups of a node from now on.

    Args:
        site_id: Gives the node's permanent id, which leases of leadership bear.
    """
    settings = config.durable_shared_groups
    try:
        state.open()
    except StorageError as error:
        _log.error("the database of shared groups cannot be opened [%s]: %s", error.code, error)
    timers = Timers()
    set_timers(timers, settings)
    declared = [
        Declared(GroupName(one.group, one.topic), one.start == "earliest") for one in settings.declared if one.group
    ]
    groups = DurableGroups(
        messages,
        state,
        asyncio.get_running_loop(),
        lambda: int(broker.now_us),
        begin_turn,
        timers,
        declared,
    )
    return NodeGroups(groups, state, site_id, messages, broker, alarms)


def set_timers(timers: Timers, settings: SharedGroupsConfig) -> None:
    timers.checkpoint_us = int(settings.checkpoint_interval * 1_000_000)
    timers.stall_us = int(settings.stall_timeout * 1_000_000)
    timers.revoke_timeout_us = int(settings.revoke_timeout * 1_000_000)
