"""Durable sessions as a part of a node, with the shared groups whose members they are."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from heliograph.config.settings import DEFAULT_ZONE, Config
from heliograph.config.storage import StateConfig
from heliograph.durable_sessions.sessions import DurableSessions
from heliograph.durable_sessions.taken import note_off
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import clients as metrics
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.node.options import channel_options
from heliograph.node.shared_groups import NodeGroups, open_shared_groups
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part, each, every
from heliograph.storage.errors import StorageError
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)


class SessionsPart(Part):
    """Durable sessions and durable shared groups of a node that stores messages; owned by the node.

    Either may be switched off; what is on the disk of sessions is then noted as old.
    """

    name = "sessions"
    metrics = (*metrics.SESSIONS, *COMMITS)
    needs = ("kernel", "databases")
    roots = (
        "durable_sessions",
        "zones.*.durable_sessions",
        "durable_shared_groups",
        "durable_storage.messages.topics",
        "durable_storage.sessions",
        "durable_storage.shared_groups",
    )

    def __init__(self, config: Config, directory: DataDirectory, kernel: KernelPart, databases: Databases) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._sessions: list[DurableSessions] = []  # the one that there is, where sessions are kept
        self._states: list[LocalState] = []  # their database
        self._groups: list[NodeGroups] = []  # likewise
        self._group_states: list[LocalState] = []  # their database
        self._saying_off: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Read what is needed at once; most sessions are read when their clients come."""
        config, databases, table = self._config, self._databases, self._kernel.context.sessions
        if not databases.is_open or not config.durable_storage.messages.topics:
            return
        if config.durable_shared_groups.enable:
            state = self._state("shared_groups", config.durable_storage.shared_groups)
            self._group_states.append(state)
            groups = open_shared_groups(
                config,
                state,
                lambda: databases.site_id,
                databases.messages.database,
                self._kernel.broker,
                self._kernel.clock.begin_turn,
                self._kernel.alarms,
            )
            self._groups.append(groups)
            databases.on_stored.append(lambda _, error: groups.on_messages_committed(error is not None))
        if config.durable_sessions.enable or any(zone.durable_sessions.enable for zone in config.zones.values()):
            self._open_sessions()
        elif (state := self._state("sessions", config.durable_storage.sessions)).path.exists():
            self._saying_off = asyncio.create_task(self._say_off(state), name="sessions-off")
        for groups in self._groups:
            groups.start(table)

    async def check(self, new: Config) -> Change | None:
        """`StorageError` if topics change, and sessions cannot be read."""
        changes: list[tuple[Callable[[], None], Callable[[], None]]] = []
        topics = new.durable_storage.messages.topics
        if topics != self._config.durable_storage.messages.topics:
            changes = [await sessions.prepare_topics(topics) for sessions in self._sessions]

        def apply() -> None:
            for use, _ in changes:
                use()
            self._use(new)

        def undo() -> None:
            for _, keep in changes:
                keep()

        return Change(apply, undo)

    def _use(self, config: Config) -> None:
        self._config, storage = config, config.durable_storage
        for sessions in self._sessions:
            sessions.use(config.durable_sessions, channel_options(config, DEFAULT_ZONE))
        for groups in self._groups:
            groups.use(config.durable_shared_groups)
        for states, own in ((self._states, storage.sessions), (self._group_states, storage.shared_groups)):
            for state in states:
                state.use(fsync=own.fsync, max_buffered_bytes=own.max_buffered_bytes)

    async def stop(self) -> None:
        """Groups first, whose members sessions are."""
        if self._saying_off is not None:
            await self._saying_off
        await every(self._both(), _close)

    async def settled(self) -> None:
        """Wait until what was to be saved of sessions so far is on the disk, or refused."""
        for state in self._states:
            await state.settled()

    def tick(self, uptime_us: int) -> None:
        ticks: list[Callable[[], None]] = [partial(sessions.tick, uptime_us) for sessions in self._sessions]
        each((*ticks, *(groups.tick for groups in self._groups)), lambda tick: tick())

    def samples(self) -> list[Sample]:
        found = [sample for groups in self._groups for sample in groups.samples()]
        for sessions, state in zip(self._sessions, self._states, strict=True):
            found += plain(sessions.statistics())
            found += samples_of("sessions", state.statistics(), state.commit_times)
        return found

    def health(self) -> str:
        return "; ".join(str(one.health) for one in self._both() if not one.health.is_good)

    def summary(self) -> str:
        if not self._sessions:
            return ""
        return f"{len(self._kernel.context.sessions)} sessions known so far"

    def _both(self) -> list[NodeGroups | DurableSessions]:
        return [*self._groups, *self._sessions]

    def _open_sessions(self) -> None:
        config, kernel, databases = self._config, self._kernel, self._databases
        state = self._state("sessions", config.durable_storage.sessions)
        try:
            state.open()
        except StorageError as error:
            _log.error("the database of sessions cannot be opened [%s]: %s", error.code, error)
        sessions = DurableSessions(
            config.durable_sessions,
            config.durable_storage.messages.topics,
            databases.messages.database,
            state,
            kernel.context.sessions,
            asyncio.get_running_loop(),
            kernel.clock.begin_turn,
            channel_options(config, DEFAULT_ZONE),
            kernel.alarms,
        )
        self._sessions.append(sessions)
        self._states.append(state)
        for groups in self._groups:
            groups.join(sessions)
        databases.on_stored.insert(0, lambda ticket, error: sessions.head.on_committed(ticket, error is not None))
        databases.on_done.append(lambda ticket, _own, _any: sessions.head.on_joined(ticket))
        sessions.start.load()

    def _state(self, name: str, own: StateConfig) -> LocalState:
        return LocalState(self._directory.path, name, fsync=own.fsync, max_buffered_bytes=own.max_buffered_bytes)

    async def _say_off(self, state: LocalState) -> None:
        """Note for a later start that sessions are not kept from now on, see `durable_sessions.taken`."""
        try:
            state.open()
            note_off(state, self._databases.messages.database.newest_commit_us())
        except StorageError as error:
            _log.warning("a start with sessions will take longer: it cannot be noted that they are off: %s", error)
        await state.close()


async def _close(one: NodeGroups | DurableSessions) -> None:
    await one.close()
