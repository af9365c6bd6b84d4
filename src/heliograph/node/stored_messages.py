"""One database of messages with what serves it: group commit, retention, compaction, offload, and whether it works."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from heliograph.config.storage import MessagesConfig
from heliograph.node.metrics import storage as metrics
from heliograph.node.options import compaction_options, offload_options, retention_options
from heliograph.node.refusals import Refusals
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample
from heliograph.outbound import Dialer
from heliograph.parts import every
from heliograph.storage.columnar.compaction import Compactor
from heliograph.storage.columnar.database import LocalDatabase
from heliograph.storage.columnar.retention import GenerationRetention
from heliograph.storage.errors import StorageError
from heliograph.storage.group_commit import GroupCommit
from heliograph.storage.health import Health
from heliograph.storage.offload.process import OffloadProcess
from heliograph.storage.offload.steps import Offload

_log = logging.getLogger(__name__)

MESSAGES: Final = "messages"
_ALARM: Final = "storage_refuses_messages"
_OFFLOAD_ALARM: Final = "storage_cannot_offload"

OnCommitted = Callable[[int, StorageError | None], None]


class StoredMessages:
    """One database of messages with what serves it; owned by `Databases`, which knows for which topics it is.

    Attributes:
        settings: Those in use.
    """

    def __init__(
        self,
        name: str,
        database: LocalDatabase,
        settings: MessagesConfig,
        on_committed: OnCommitted,
        refusals: Refusals,
        alarms: Alarms,
        dialer: Dialer,
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
        self._offload_health = Health(
            _log, alarms, self._name_of(_OFFLOAD_ALARM), "messages cannot be offloaded now", ""
        )
        self.settings = settings
        self._retention = GenerationRetention(database, retention_options(settings))
        self._compactor: Compactor | None = None
        self._compact(settings)
        process = OffloadProcess(database.path.parent.parent, dialer=dialer)
        self._offload = Offload(database, process, offload_options(settings), self._offload_health.tell)
        database.fetch, database.fetch_few = self._offload.fetch, self._offload.fetch_few
        try:
            database.open()
        except StorageError as error:
            # Each tick tries again to open it, and publishes that need it are refused until that works.
            self.health.tell(error, f"the database {name} cannot be opened")
        self.group = GroupCommit(
            database, self._committed, fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes
        )

    def use(self, settings: MessagesConfig) -> None:
        before, self.settings = self.settings, settings
        if retention_options(settings) != retention_options(before):
            self._retention.use(retention_options(settings))
        if settings.compaction != before.compaction:
            self._compact(settings)
        if offload_options(settings) != offload_options(before):
            self._offload.use(offload_options(settings))
        self.group.use(fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes)

    def _compact(self, settings: MessagesConfig) -> None:
        options = compaction_options(settings)
        if options is None:
            if self._compactor is not None:
                self._compactor.stop()
        elif self._compactor is None:
            self._compactor = Compactor(self.database, options)
            self._compactor.start()
        else:
            self._compactor.use(options)

    def tick(self, wall_us: int) -> None:
        """Close and drop generations that are due; see whether it can be written again after a fault."""
        if not self.health.is_good:
            self._try_again()
        self._retention.tick(wall_us)
        self._offload.tick(wall_us)

    @asynccontextmanager
    async def unchanging(self) -> AsyncIterator[None]:
        """Close the current generation after what was taken so far; meanwhile closed ones may be dropped, and do not
        change otherwise.

        Raises:
            StorageError: The database does not work.
        """
        await self._offload.hold()
        try:
            await self.group.settled()
            if not self.database.usage().current_is_empty:
                self.database.add_generation()
            _, catalog = self.database.contents()
            held = [one for one in catalog.generations() if one.info.until is not None and not one.is_leaving]
            for generation in held:
                generation.is_leaving = True
            try:
                yield
            finally:
                for generation in held:
                    generation.is_leaving = False
        finally:
            self._offload.release()

    async def commit(self) -> None:
        """Commit what was taken, and take nothing more; the database stays open."""
        if self._compactor is not None:
            self._compactor.stop()
        await self.group.close()
        await self._offload.stop()

    async def close(self) -> None:
        await every((self.commit, self._close), lambda step: step())

    def end_alarms(self) -> None:
        """It is closed while the node goes on: it refuses nothing any more."""
        for health in (self.health, self._offload_health):
            health.tell(None)

    async def _close(self) -> None:
        self.database.close()

    def samples(self) -> list[Sample]:
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
