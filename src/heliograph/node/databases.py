"""Every database of messages of a node: opened, written in group commits, kept small, and watched.

A database that cannot be opened or written refuses what it is for, which the log and an alarm say; the broker serves
everything else. The databases of sessions, shared groups and retained messages belong to those who keep state there.
"""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from heliograph.broker.faults import COMMITS, Faults
from heliograph.config import Config, MessagesConfig, PipelineAction
from heliograph.node.commit_join import CommitJoin
from heliograph.node.options import compaction_options, database_options, offload_options, retention_options
from heliograph.node.refusals import Refusals
from heliograph.node.retained import is_on_disc
from heliograph.node.sink import CopyingSink, StorageSink
from heliograph.observe.alarms import Alarms
from heliograph.storage.columnar.compaction import Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.columnar.retention import Retention
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.group_commit import GroupCommit
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
    """

    def __init__(
        self,
        name: str,
        database: LocalDatabase,
        settings: MessagesConfig,
        on_committed: OnCommitted,
        refusals: Refusals,
    ) -> None:
        self.name = name
        self.database = database
        self._on_committed = on_committed
        self._refusals = refusals
        self._error: StorageError | None = None  # why nothing is stored, while that is so
        self._alarms: Alarms | None = None
        self._retention = Retention(database, retention_options(settings))
        compaction = compaction_options(settings)
        self._compactor = None if compaction is None else Compactor(database, compaction)
        if self._compactor is not None:
            self._compactor.start()
        process = OffloadProcess(database.path.parent.parent)
        self._offload = Offload(database, process, offload_options(settings), self._tell_offload)
        database.fetch, database.fetch_few = self._offload.fetch, self._offload.fetch_few
        try:
            database.open()
        except StorageError as error:
            # Each tick tries again to open it, and publishes that need it are refused until that works.
            _log.error("the database %s cannot be opened [%s]: %s", name, error.code, error)
            self._error = error
            refusals.tell(name, error)
        self.group = GroupCommit(
            database, self._committed, fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes
        )

    def report_to(self, alarms: Alarms) -> None:
        """Raise an alarm while messages are refused."""
        self._alarms = alarms
        if self._error is not None:
            self._alarm(self._error)

    def tick(self, wall_us: int) -> None:
        """Close and drop generations that are due; see whether it can be written again after a fault."""
        if self._error is not None:
            self._try_again()
        self._retention.tick(wall_us)
        self._offload.tick(wall_us)

    async def stop(self) -> None:
        """Commit what was taken, and take nothing more; the database stays open."""
        if self._compactor is not None:
            self._compactor.stop()
        await self.group.close()
        await self._offload.stop()

    def statistics(self) -> dict[str, float]:
        """Counts of the database and of everything around it."""
        counts: dict[str, float] = dict(self.group.statistics())
        counts.update(self.database.statistics())
        counts.update(self._retention.statistics())
        if self._compactor is not None:
            counts.update(self._compactor.statistics())
        counts.update(self._offload.statistics())
        return counts

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        # A commit that had nothing to store says nothing of a database that is closed.
        try:
            if (error is None) != (self._error is None) and (error is not None or self.database.is_open):
                self._tell(error)
        finally:  # publishers wait for it
            self._on_committed(ticket, error)

    def _try_again(self) -> None:
        try:
            self.database.check_usable()
        except StorageError:
            return
        self._tell(None)

    def _tell(self, error: StorageError | None) -> None:
        self._error = error
        self._refusals.tell(self.name, error)
        if error is not None:
            _log.error("the database %s refuses messages [%s]: %s", self.name, error.code, error)
            self._alarm(error)
            return
        _log.warning("the database %s takes messages again", self.name)
        if self._alarms is not None:
            self._alarms.deactivate(self._alarm_name)

    def _alarm(self, error: StorageError) -> None:
        if self._alarms is not None:
            self._alarms.activate(self._alarm_name, str(error), error.details())

    def _tell_offload(self, error: StorageError | None) -> None:
        if self._alarms is None:
            return
        name = self._name_of(_OFFLOAD_ALARM)
        if error is None:
            self._alarms.deactivate(name)
        else:
            self._alarms.activate(name, str(error), {"code": error.code, "database": self.name})

    @property
    def _alarm_name(self) -> str:
        return self._name_of(_ALARM)

    def _name_of(self, alarm: str) -> str:
        return alarm if self.name == MESSAGES else f"{alarm}_{self.name}"

    def __repr__(self) -> str:
        return f"StoredMessages({self.group!r})"


class Databases:
    """The databases of messages of one node, from its start to its stop; owned by the node.

    Args:
        on_stored: Called when `messages` has a ticket, or refuses it: whoever replays it may go on.
        on_done: Called when everything that was tied to a ticket is durable or refused: it may be acknowledged.
        clock: Gives the node's time in microseconds since the epoch.
        refusals: Told of databases that refuse messages.
        faults: Where answers to commits that raise are contained.
    """

    def __init__(
        self,
        config: Config,
        data_dir: Path,
        on_stored: OnCommitted,
        on_done: OnCommitted,
        clock: Callable[[], int],
        refusals: Refusals,
        faults: Faults,
    ) -> None:
        self._faults = faults
        backend = NodeDatabases(data_dir, clock=clock)
        self._backend = backend
        storage = config.durable_storage
        self._on_stored = on_stored
        self._refusals = refusals
        self.messages = self._open(backend, MESSAGES, storage.messages, self._stored)
        self._site_fault = self._check_site()
        self.join = CommitJoin(self.messages.group, on_done, faults)
        self._others = []
        copies = []
        for name, settings in storage.databases.items():
            follower = self.join.follow(name)
            other = self._open(backend, name, settings, follower.done)
            self._others.append(other)
            copies.append((other.group, settings.topics, follower, partial(refusals.code, name)))
        topics, group = storage.messages.topics, self.messages.group
        code = partial(refusals.code, MESSAGES)
        self.sink = StorageSink(group, topics, self.join, code)
        if copies:
            self.sink = CopyingSink(group, topics, self.join, copies, code)

    @property
    def site_id(self) -> str:
        """The node's permanent id.

        Raises:
            StorageError: It cannot be read or made.
        """
        return self._backend.site_id

    @property
    def names(self) -> list[str]:
        """The databases."""
        return [one.name for one in self._all()]

    def report_to(self, alarms: Alarms) -> None:
        """Raise an alarm for each database while it refuses messages."""
        fault = self._site_fault
        if fault is not None:
            alarms.activate(_SITE_ALARM, str(fault), {"code": fault.code, "path": str(fault.path or "")})
        for one in self._all():
            one.report_to(alarms)

    def tick(self, wall_us: int) -> None:
        """Do what is due.

        Args:
            wall_us: Microseconds since the epoch.
        """
        for one in self._all():
            one.tick(wall_us)

    async def stop(self) -> None:
        """Commit what was taken, and take nothing more; what is stored can still be read."""
        for one in self._all():
            await one.stop()

    def close(self) -> None:
        """Close every database."""
        for one in self._all():
            one.database.close()

    def statistics(self) -> dict[str, float]:
        """Counts of `messages` as `storage.*`, those of further databases as `storage.NAME.*`."""
        counts = {f"storage.{name}": value for name, value in self.messages.statistics().items()}
        for other in self._others:
            counts.update({f"storage.{other.name}.{name}": value for name, value in other.statistics().items()})
        return counts

    def _open(
        self, backend: NodeDatabases, name: str, settings: MessagesConfig, on_committed: OnCommitted
    ) -> StoredMessages:
        database = backend.database(name, database_options(settings))
        return StoredMessages(name, database, settings, on_committed, self._refusals)

    def _check_site(self) -> StorageError | None:
        """Why it is not known who this node is."""
        messages = self.messages.database
        fault: StorageError | None = None
        try:
            site_id = self._backend.site_id
            if messages.is_open and (noted := messages.contents()[1].site) != site_id:
                problem = f"site_id says that this node is {site_id}, and the database that it is {noted}"
                fault = StorageDamagedError(problem, database=MESSAGES, path=messages.path)
        except StorageDamagedError as error:
            fault = error
        except StorageError:  # the disk refuses something, which whoever needs the id tells
            return None
        if fault is not None:
            _log.error("the id of this node is in doubt [%s]: %s", fault.code, fault)
        return fault

    def _stored(self, ticket: int, error: StorageError | None) -> None:
        self._faults.run(COMMITS, partial(self._on_stored, ticket, error))
        self.join.done(ticket, error)

    def _all(self) -> list[StoredMessages]:
        return [self.messages, *self._others]

    def __repr__(self) -> str:
        return f"Databases({self._all()})"


def is_needed(config: Config) -> bool:
    """Whether a node keeps any message, or anything that waits for messages to be kept."""
    storage = config.durable_storage
    return bool(storage.messages.topics or storage.databases or is_on_disc(config) or _has_rows(config))


def _has_rows(config: Config) -> bool:
    """Whether a rule hands its rows to the pipeline, which reads what is stored."""
    rules = config.rule_engine.rules.values()
    return any(isinstance(action, PipelineAction) for rule in rules for action in rule.actions)
