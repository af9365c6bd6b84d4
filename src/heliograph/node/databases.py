"""Every database of messages of a node: opened, written in group commits, kept small, and watched.

A database that cannot be opened or written refuses what it is for, which the log and an alarm say; the broker serves
everything else. The databases of sessions, shared groups and retained messages belong to their packages.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from heliograph.broker.faults import COMMITS
from heliograph.config import Config, MessagesConfig
from heliograph.node.commit_join import CommitJoin
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import storage as metrics
from heliograph.node.options import compaction_options, database_options, offload_options, retention_options
from heliograph.node.refusals import Refusals, refusal_code
from heliograph.node.storage_sink import CopyingSink, StorageSink
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample
from heliograph.parts import Part, each, every
from heliograph.storage.columnar.compaction import Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.columnar.retention import GenerationRetention
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.health import Health
from heliograph.storage.offload.process import OffloadProcess
from heliograph.storage.offload.steps import Offload

_log = logging.getLogger(__name__)

MESSAGES: Final = "messages"
_ALARM: Final = "storage_refuses_messages"
_SITE_ALARM: Final = "storage_site_id"
_OFFLOAD_ALARM: Final = "storage_cannot_offload"

OnCommitted = Callable[[int, StorageError | None], None]


class StoredMessages:
    """One database of messages with what serves it; owned by `Databases`.

    Args:
        on_committed: Called for each ticket of its group commit, in order.
        refusals: Told while it refuses messages.
        alarms: Where an alarm stands while it refuses them.

    Attributes:
        health: Whether it takes messages.
    """

    def __init__(
        self,
        name: str,
        database: LocalDatabase,
        settings: MessagesConfig,
        on_committed: OnCommitted,
        refusals: Refusals,
        alarms: Alarms,
    ) -> None:
        self.name = name
        self.database = database
        self._on_committed = on_committed
        self.health = Health(
            _log,
            alarms,
            self._name_of(_ALARM),
            f"the database {name} refuses messages",
            f"the database {name} takes messages again",
            partial(refusals.tell, name),
        )
        offload_health = Health(_log, alarms, self._name_of(_OFFLOAD_ALARM), "messages cannot be offloaded now", "")
        self._retention = GenerationRetention(database, retention_options(settings))
        compaction = compaction_options(settings)
        self._compactor = None if compaction is None else Compactor(database, compaction)
        if self._compactor is not None:
            self._compactor.start()
        process = OffloadProcess(database.path.parent.parent)
        self._offload = Offload(database, process, offload_options(settings), offload_health.tell)
        database.fetch, database.fetch_few = self._offload.fetch, self._offload.fetch_few
        try:
            database.open()
        except StorageError as error:
            # Each tick tries again to open it, and publishes that need it are refused until that works.
            self.health.tell(error, f"the database {name} cannot be opened")
        self.group = GroupCommit(
            database, self._committed, fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes
        )

    def tick(self, wall_us: int) -> None:
        """Close and drop generations that are due; see whether it can be written again after a fault."""
        if not self.health.is_good:
            self._try_again()
        self._retention.tick(wall_us)
        self._offload.tick(wall_us)

    async def commit(self) -> None:
        """Commit what was taken, and take nothing more; the database stays open."""
        if self._compactor is not None:
            self._compactor.stop()
        await self.group.close()
        await self._offload.stop()

    async def close(self) -> None:
        """Close the database, whatever becomes of what was taken."""
        await every((self.commit, self._close), lambda step: step())

    async def _close(self) -> None:
        self.database.close()

    def samples(self) -> list[Sample]:
        """Counts of the database and of everything around it."""
        counts: dict[str, float] = dict(self.group.statistics())
        counts.update(self.database.statistics())
        counts.update(self._retention.statistics())
        if self._compactor is not None:
            counts.update(self._compactor.statistics())
        counts.update(self._offload.statistics())
        return metrics.samples_of(self.name, counts, self.group.commit_times)

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        # A commit that had nothing to store says nothing of a database that is closed.
        try:
            if error is not None or self.database.is_open:
                self.health.tell(error)
        finally:  # publishers wait for it
            self._on_committed(ticket, error)

    def _try_again(self) -> None:
        try:
            self.database.check_usable()
        except StorageError:
            return
        self.health.tell(None)

    def _name_of(self, alarm: str) -> str:
        return alarm if self.name == MESSAGES else f"{alarm}_{self.name}"

    def __repr__(self) -> str:
        return f"StoredMessages({self.group!r})"


class Databases(Part):
    """The databases of messages of one node, open from its start to its stop; owned by the node.

    Attributes:
        messages: The main one, `messages`.
        join: What acknowledgements wait for.
        sink: Takes messages from the broker.
        refusals: Which databases of the node refuse messages now.
        on_stored: Called when `messages` has a ticket, or refuses it: replays may go on.
        on_done: Called when everything that was tied to a ticket is durable or refused: with the ticket, whether
            `messages` refused what only it keeps, and whether any database did. Channels were told before.
    """

    name = "databases"
    metrics = (*metrics.COMMITS, *metrics.MESSAGES)
    needs = ("kernel",)
    roots = ("durable_storage.messages", "durable_storage.databases")

    messages: StoredMessages
    join: CommitJoin
    sink: StorageSink
    refusals: Refusals

    def __init__(self, config: Config, directory: DataDirectory, kernel: KernelPart) -> None:
        self._settings = config.durable_storage
        self._directory = directory
        self._kernel = kernel
        self._all: list[StoredMessages] = []
        self.on_stored: list[OnCommitted] = []
        self.on_done: list[Callable[[int, bool, bool], object]] = []

    async def start(self) -> None:
        """Open them; one that cannot be opened refuses messages, and the others take them."""
        kernel, storage = self._kernel, self._settings
        backend = self._backend = NodeDatabases(self._directory.path, clock=kernel.clock.now_us)
        refusals = self.refusals = Refusals(kernel.broker)
        messages = self.messages = self._open(backend, MESSAGES, storage.messages, self._stored)
        self._check_site()
        self.join = CommitJoin(messages.group, self._done, kernel.broker.faults)
        copies = []
        for name, settings in storage.databases.items():
            follower = self.join.follow(name)
            other = self._open(backend, name, settings, follower.done)
            copies.append((other.group, settings.topics, follower, partial(refusals.code, name)))
        topics, group = storage.messages.topics, messages.group
        code = partial(refusals.code, MESSAGES)
        self.sink = StorageSink(group, topics, self.join, code)
        if copies:
            self.sink = CopyingSink(group, topics, self.join, copies, code)
        kernel.broker.set_sink(self.sink)
        with suppress(StorageError):  # reported where it is needed
            kernel.clock.expect_after(messages.database.newest_commit_us())

    async def stop(self) -> None:
        """Close every database."""
        await every(self._all, StoredMessages.close)

    async def commit(self) -> None:
        """Commit what was taken, and take nothing more; what is stored can still be read."""
        await every(self._all, StoredMessages.commit)

    def tick(self, uptime_us: int) -> None:
        """Do what is due."""
        now_us = int(self._kernel.broker.now_us)
        each(self._all, lambda one: one.tick(now_us))

    @property
    def stored(self) -> Sequence[StoredMessages]:
        """All of them that are open, or should be."""
        return self._all

    def health(self) -> str:
        """Which of them refuse messages, and why."""
        return "; ".join(f"{one.name}: {one.health}" for one in self._all if not one.health.is_good)

    def summary(self) -> str:
        """Their names."""
        return f"messages in {', '.join(one.name for one in self._all)}"

    @property
    def site_id(self) -> str:
        """The node's permanent id.

        Raises:
            StorageError: It cannot be read or made.
        """
        return self._backend.site_id

    def samples(self) -> list[Sample]:
        """Counts of each database."""
        return [sample for one in self._all for sample in one.samples()]

    def _open(
        self, backend: NodeDatabases, name: str, settings: MessagesConfig, on_committed: OnCommitted
    ) -> StoredMessages:
        database = backend.database(name, database_options(settings))
        stored = StoredMessages(name, database, settings, on_committed, self.refusals, self._kernel.alarms)
        self._all.append(stored)
        return stored

    def _check_site(self) -> None:
        """Say so if it is not known who this node is."""
        messages = self.messages.database
        try:
            site_id = self._backend.site_id
            if messages.is_open and (noted := messages.contents()[1].site) != site_id:
                problem = f"site_id says that this node is {site_id}, and the database that it is {noted}"
                raise StorageDamagedError(problem, database=MESSAGES, path=messages.path)
        except StorageDamagedError as fault:
            _log.error("the id of this node is in doubt [%s]: %s", fault.code, fault)
            details = {"code": fault.code, "path": str(fault.path or "")}
            self._kernel.alarms.activate(_SITE_ALARM, str(fault), details)
        except StorageError:
            return  # the disk refuses something, which is reported where the id is needed

    def _stored(self, ticket: int, error: StorageError | None) -> None:
        run = self._kernel.broker.faults.run  # one that raises does not keep the commit from the others
        for told in self.on_stored:
            run(COMMITS, partial(told, ticket, error))
        self.join.done(ticket, error)

    def _done(self, ticket: int, error: StorageError | None) -> None:
        own, context = self.join.own_error, self._kernel.context
        has_room, reason = not self.sink.is_filling(), "" if error is None else error.reason
        context.commits.done(ticket, refusal_code(own), has_room, refusal_code(error), reason)
        for told in (*self.on_done, context.sessions.on_committed):
            self._kernel.broker.faults.run(COMMITS, partial(told, ticket, own is not None, error is not None))

    def __repr__(self) -> str:
        return f"Databases({self._all})"


class CommitsPart(Part):
    """Commits at the stop what the databases took, while what waits for it still runs; owned by the node."""

    name = "commits"
    needs = ("databases", "sessions", "delayed")

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def stop(self) -> None:
        """Commit what was taken, and take nothing more."""
        await self._databases.commit()
