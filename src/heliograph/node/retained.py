"""Retained messages of a node: opened where the configuration says, committed, swept, and watched.

While the disk refuses them, publishers of retained messages are refused, which the log and an alarm say; everything
else is served.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from heliograph.broker.retained import RetainedStore
from heliograph.config.retainer import RetainerConfig
from heliograph.config.settings import Config
from heliograph.config.storage import StateConfig
from heliograph.node.commit_join import CommitJoin
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import clients as metrics
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.node.options import retainer_options
from heliograph.node.refusals import Refusals, is_retained_on_disk
from heliograph.observe.alarms import UNTIL_START, Alarms
from heliograph.observe.bounded_log import BoundedLog
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Part
from heliograph.retainer.disk import DiskRetainer, RetainedCommits
from heliograph.retainer.memory import MemoryRetainer
from heliograph.retainer.retainer import Retainer
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.group_commit import CommitQueue
from heliograph.storage.health import Health
from heliograph.storage.keyed.changes import KeyedChange
from heliograph.storage.keyed.table import KeyedTable, keyed_path

_log = logging.getLogger(__name__)

RETAINED: Final = "retained"
_DAMAGE_ALARM: Final = "retained_messages_damaged"
_ALARM: Final = "storage_refuses_retained_messages"
_CHANGE_OVERHEAD_BYTES: Final = 400  # what a change costs in memory beside its key and record
_SWEPT_MAX: Final = 250
_SWEEP_AGAIN_S: Final = 0.02  # where more has expired than is forgotten at once


@dataclass(slots=True)
class _Awaited:
    ticket: int
    then: Callable[[StorageError | None], object]
    error: StorageError | None = None  # of a commit since it began to wait


class RetainedCommit(RetainedCommits):
    """The commit queue of the table, joined to the acknowledgements that wait for it.

    Args:
        table: The messages. It may be out of order: changes are refused until it works.
        alarms: Where alarms stand while it refuses them, and when they cannot be read.
    """

    def __init__(
        self, table: KeyedTable, join: CommitJoin, settings: StateConfig, refusals: Refusals, alarms: Alarms
    ) -> None:
        super().__init__()
        self._table = table
        self._refusals = refusals
        self._log = BoundedLog(_log, lambda: time.monotonic_ns() // 1000)
        self.store: RetainedStore | None = None  # what the broker asks
        self._alarms = alarms
        self.health = Health(
            _log, alarms, _ALARM, "retained messages are refused", "retained messages are taken again", self._changed
        )
        self._join = join
        self._follower = join.follow(RETAINED, lambda: self.is_full)
        self._awaited: deque[_Awaited] = deque()
        self._queue: CommitQueue[KeyedChange] = CommitQueue(
            table, self._committed, fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes
        )
        try:
            table.open()
        except StorageError as error:
            # Each tick tries again to open it, and changes are refused until that works.
            self.health.tell(error, "the database of retained messages cannot be opened")

    def submit(self, change: KeyedChange, awaited: bool) -> None:
        ticket = self._queue.take(change, change.size_bytes + _CHANGE_OVERHEAD_BYTES)
        if awaited:
            self._follower.took(ticket)

    def read_failed(self, error: StorageError) -> None:
        """Raise an alarm until the node starts again: nothing else tells subscribers what they miss."""
        self._log.write(logging.ERROR, "retained messages cannot be read [%s]: %s", error.code, error)
        if isinstance(error, StorageDamagedError):
            text = f"retained messages are not delivered: {error}. {UNTIL_START}"
            self._alarms.activate(_DAMAGE_ALARM, text, error.details())

    def when_durable(self, then: Callable[[StorageError | None], object]) -> None:
        """Call a function once when everything that was taken is durable, or with why some of it is not."""
        if self.is_idle():
            then(None)
        else:
            self._awaited.append(_Awaited(self._queue.touch(), then))

    def is_idle(self) -> bool:
        return self._queue.buffered_bytes == 0

    @property
    def is_full(self) -> bool:
        return self._queue.is_full

    def samples(self) -> list[Sample]:
        counts = {**self._queue.statistics(), **self._table.statistics()}
        return samples_of(RETAINED, counts, self._queue.commit_times)

    async def stop(self) -> None:
        await self._queue.close()
        self._join.unfollow(self._follower)
        self._table.close()

    def join(self, store: RetainedStore) -> None:
        """Make the broker refuse what is to be retained while that is so."""
        self.store = store
        store.refusal = self._refusals.code(RETAINED)

    def use(self, settings: StateConfig) -> None:
        self._queue.use(fsync=settings.fsync, max_buffered_bytes=settings.max_buffered_bytes)

    def try_again(self) -> None:
        if self.health.is_good:
            return
        try:
            self._table.check_usable()
        except StorageError:
            return
        self.health.tell(None)

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        self.health.tell(error)
        self._follower.done(ticket, error)
        for one in self._awaited:
            one.error = one.error or error
        while self._awaited and self._awaited[0].ticket <= ticket:
            first = self._awaited.popleft()
            first.then(first.error)

    def _changed(self, error: StorageError | None) -> None:
        self._refusals.tell(RETAINED, error)
        if self.store is not None:
            self.store.refusal = self._refusals.code(RETAINED)

    def __repr__(self) -> str:
        return f"RetainedCommit({self._queue!r})"


class RetainedMessages:
    """The retainer of a node, and the commits of messages on the disk."""

    def __init__(self, retainer: Retainer, commit: RetainedCommit | None) -> None:
        self.retainer = retainer
        self.commit = commit
        self._again: asyncio.TimerHandle | None = None

    def use(self, settings: RetainerConfig, database: StateConfig) -> None:
        self.retainer.use(retainer_options(settings))
        if self.commit is not None:
            self.commit.use(database)

    def tick(self) -> None:
        """Forget what has expired; go on with it soon where that is much."""
        if self.commit is not None:
            self.commit.try_again()
        if self._again is None:
            self._sweep()

    def samples(self) -> Iterator[Sample]:
        yield from plain(self.retainer.statistics())
        if self.commit is not None:
            yield from self.commit.samples()

    async def stop(self) -> None:
        if self._again is not None:
            self._again.cancel()
        if self.commit is not None:
            await self.commit.stop()

    def _sweep(self) -> None:
        self._again = None
        is_more = self.retainer.learn()
        is_more = self.retainer.sweep() >= _SWEPT_MAX or is_more
        if is_more and self.commit is not None:
            self._again = asyncio.get_running_loop().call_later(_SWEEP_AGAIN_S, self._sweep)

    def __repr__(self) -> str:
        return f"RetainedMessages({self.retainer!r})"


class RetainedPart(Part):
    """Retained messages of a node; owned by the node.

    They are opened when they are switched on first. Where they are switched off while the node runs, nothing more is
    retained or found; what there is stays open and expires, and is found again when they are switched on.
    """

    name = "retained"
    metrics = (*metrics.RETAINED, *COMMITS)
    needs = ("kernel", "databases", "commits")
    roots = ("retainer", "durable_storage.retained")

    def __init__(self, config: Config, directory: DataDirectory, kernel: KernelPart, databases: Databases) -> None:
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._databases = databases
        self._messages: RetainedMessages | None = None

    async def start(self) -> None:
        """A database that cannot be opened refuses what is to be retained, and the node starts."""
        if self._config.retainer.enable:
            self._messages = self._open(self._config)
            self._set_store()

    @property
    def retainer(self) -> Retainer | None:
        """None where none are retained."""
        return self._messages.retainer if self._messages is not None and self._config.retainer.enable else None

    async def stop(self) -> None:
        if self._messages is not None:
            await self._messages.stop()

    async def check(self, new: Config) -> Change | None:
        """`StorageError` if a database cannot be opened."""
        now = self._config
        if (new.retainer, new.durable_storage.retained) == (now.retainer, now.durable_storage.retained):
            return None
        if new.retainer.enable and self._messages is None:
            messages = self._open(new)
            if messages.commit is not None and (fault := messages.commit.health.error) is not None:
                messages.commit.health.tell(None)
                await messages.stop()
                raise fault
            self._messages = messages  # where the change is given up they stay open for the next one
        return Change(lambda: self._use(new))

    def _use(self, new: Config) -> None:
        self._config = new
        if self._messages is not None:
            self._messages.use(new.retainer, new.durable_storage.retained)
        self._set_store()

    def _set_store(self) -> None:
        """Make the broker retain messages, or not, as the settings say."""
        self._kernel.voice.publisher.states.set_store(self.retainer)

    def _open(self, config: Config) -> RetainedMessages:
        broker, options = self._kernel.broker, retainer_options(config.retainer)
        if not is_retained_on_disk(config):
            return RetainedMessages(MemoryRetainer(broker, options), None)
        table = KeyedTable(RETAINED, keyed_path(self._directory.path) / RETAINED, clock=lambda: int(broker.now_us))
        settings, databases = config.durable_storage.retained, self._databases
        commit = RetainedCommit(table, databases.join, settings, databases.refusals, self._kernel.alarms)
        retainer = DiskRetainer(broker, table, commit, options)
        commit.join(retainer)
        return RetainedMessages(retainer, commit)

    def tick(self, uptime_us: int) -> None:
        if self._messages is not None:
            self._messages.tick()

    def samples(self) -> Iterable[Sample]:
        return () if self._messages is None else self._messages.samples()

    def health(self) -> str:
        commit = None if self._messages is None else self._messages.commit
        return "" if commit is None else str(commit.health)

    def summary(self) -> str:
        if not self._config.retainer.enable:
            return ""
        count = 0 if self._messages is None else len(self._messages.retainer)
        return f"{count} retained messages {'on the disk' if is_retained_on_disk(self._config) else 'in memory'}"
