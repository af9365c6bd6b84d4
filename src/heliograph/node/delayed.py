"""Delayed messages on the disk: kept before they are acknowledged, read at a start, forgotten when published."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.parts import BansPart
from heliograph.broker import hook_order, hooks
from heliograph.broker.guid import IdSource
from heliograph.broker.message import Message
from heliograph.channel.context import ChannelContext
from heliograph.config.settings import Config
from heliograph.node import delayed_record as record
from heliograph.node.commit_join import CommitJoin
from heliograph.node.data_dir import DataDirectory
from heliograph.node.databases import Databases
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import clients as metrics
from heliograph.node.metrics.storage import COMMITS, samples_of
from heliograph.observe.alarms import Alarms
from heliograph.observe.metric import Sample, plain
from heliograph.parts import Change, Hook, HookedPart
from heliograph.policies.delayed import DelayedMessages
from heliograph.storage.disk import THIS_DISK
from heliograph.storage.errors import StorageError
from heliograph.storage.health import Health
from heliograph.storage.state.interface import OnStateCommitted, StateBatch, StateDatabase
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)

DELAYED: Final = "delayed"
_ALARM: Final = "delayed_messages_refused"
_PAGE: Final = 64


class StoredDelayed:
    """Keeps the delayed messages of a node; a `DelayedStore`, owned by the node.

    While the disk refuses, new messages are refused too, until a probe at a tick is taken.

    Args:
        state: The database; made by `open_state` when it is needed first.
        open_state: Opens it when needed. It may be out of order: it takes changes when it can.
        is_there: Whether there is one on the disk.
        call_soon: Calls its argument in a later turn of the event loop.
    """

    def __init__(
        self,
        delayed: DelayedMessages,
        open_state: Callable[[OnStateCommitted], StateDatabase],
        is_there: bool,
        join: CommitJoin,
        call_soon: Callable[[Callable[[], None]], object],
        alarms: Alarms,
    ) -> None:
        self._delayed = delayed
        self._open_state = open_state
        self._state: StateDatabase | None = None
        self._call_soon = call_soon
        self._follower = join.follow(DELAYED, lambda: self._state is not None and self._state.is_full)
        self._puts: deque[tuple[int, int]] = deque()  # ticket, number
        self._deletions: deque[tuple[int, list[bytes]]] = deque()  # ticket, keys
        self._forgotten: dict[bytes, None] = {}  # keys that are still to be deleted
        self._is_scheduled = False
        self._is_loaded = not is_there
        self.health = Health(_log, alarms, _ALARM, "delayed messages are refused", "delayed messages are taken again")
        delayed.store = self

    def put(self, number: int, due_at: int, message: Message) -> bool:
        if not self.health.is_good or not self._is_loaded:
            return False
        batch = StateBatch()
        batch.put(record.message_key(number), record.encode(due_at, message))
        try:
            ticket = self._database().submit(batch)
        except StorageError as error:
            self.health.tell(error)
            return False
        self._puts.append((ticket, number))
        self._follower.took(ticket)
        return True

    def forget(self, number: int) -> None:
        self._forgotten[record.message_key(number)] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._delete)

    def load(self) -> None:
        """Hold again what an earlier process held; tried again at each tick until it works."""
        if self._is_loaded:
            return
        count = 0
        held: list[tuple[int, record.DelayedRecord]] = []
        try:
            after = b""
            while page := self._database().scan(record.MESSAGE, after, _PAGE):
                after = page[-1][0]
                for key, value in page:
                    number = record.number_of(key)
                    try:
                        held.append((number, record.decode(value)))
                    except (ValueError, TypeError) as fault:
                        _log.error("delayed message %d on the disk cannot be read: %s", number, fault)
        except StorageError as error:
            self.health.tell(error)
            return
        for number, (due_at, message) in held:
            self._delayed.restore(number, due_at, message)
            count += 1
        self._is_loaded = True
        self.health.tell(None)
        if count:
            _log.info("%d delayed messages are held again", count)

    def tick(self) -> None:
        if self.health.is_good:
            return
        if not self._is_loaded:
            self.load()
            return
        self._forgotten[record.PROBE] = None
        self._delete()

    def samples(self) -> list[Sample]:
        if self._state is None:
            return []
        return samples_of(DELAYED, self._state.statistics(), self._state.commit_times)

    async def close(self) -> None:
        if self._state is not None:
            if self._forgotten:
                self._delete()
            await self._state.close()

    def _database(self) -> StateDatabase:
        if self._state is None:
            self._state = self._open_state(self._committed)
        return self._state

    def _delete(self) -> None:
        self._is_scheduled = False
        keys, self._forgotten = list(self._forgotten), {}
        if not keys:
            return
        batch = StateBatch()
        for key in keys:
            batch.delete(key)
        try:
            self._deletions.append((self._database().submit(batch), keys))
        except StorageError as error:
            self._forgotten.update(dict.fromkeys(keys))
            self.health.tell(error)

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        refused = []
        while self._puts and self._puts[0][0] <= ticket:
            _, number = self._puts.popleft()
            if error is not None:
                refused.append(number)
                self._forgotten[record.message_key(number)] = None  # the disk may have it all the same
        while self._deletions and self._deletions[0][0] <= ticket:
            _, keys = self._deletions.popleft()
            if error is not None:
                self._forgotten.update(dict.fromkeys(keys))
        if refused:
            self._delayed.refuse(refused)
        self.health.tell(error)
        self._follower.done(ticket, error)

    def __repr__(self) -> str:
        return f"StoredDelayed({self._state!r}, {len(self._puts)} wait for their commit)"


class DelayedPart(HookedPart):
    """Messages that are published later; owned by the node.

    Args:
        bans: Whose delayed messages are not published.
    """

    name = "delayed"
    metrics = (*metrics.DELAYED, *COMMITS)
    needs = ("kernel", "databases", "bans")
    roots = ("delayed", "durable_storage.delayed")

    messages: DelayedMessages
    _state: LocalState

    def __init__(
        self, config: Config, directory: DataDirectory, kernel: KernelPart, bans: BansPart, databases: Databases
    ) -> None:
        super().__init__(kernel.broker.hooks)
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._bans = bans
        self._databases = databases
        self._stored: StoredDelayed | None = None

    async def start(self) -> None:
        self.messages = make_delayed(self._config, self._kernel.context, self._bans.bans)
        self._databases.on_done.append(self.messages.on_committed)
        self._state = LocalState(self._directory.path, DELAYED)  # opened when it is needed
        self._use(self._config)

    async def check(self, new: Config) -> Change | None:
        """What is held already is published when it is due, whatever the settings say."""
        now = self._config
        if (new.delayed, new.durable_storage.delayed) == (now.delayed, now.durable_storage.delayed):
            return None
        return Change(lambda: self._use(new))

    def _use(self, config: Config) -> None:
        own, settings = config.durable_storage.delayed, config.delayed
        self._config = config
        self.messages.limit(settings.max_delayed_messages, settings.max_delayed_bytes)
        self._state.use(fsync=own.fsync, max_buffered_bytes=own.max_buffered_bytes)
        if self._stored is None and self._databases.is_open and is_stored(config):
            self._stored = _open_delayed(self._state, self.messages, self._databases.join, self._kernel.alarms)
        self.hook_in()

    async def stop(self) -> None:
        """Messages that are not on the disk are lost, which the log tells."""
        await super().stop()
        tell_lost(self.messages)
        if self._stored is not None:
            await self._stored.close()

    async def settled(self) -> None:
        """Wait until what was to be kept or forgotten so far is on the disk, or refused."""
        await self._state.settled()

    def tick(self, uptime_us: int) -> None:
        self.messages.tick(uptime_us)
        if self._stored is not None:
            self._stored.tick()

    def wanted(self) -> Sequence[Hook]:
        if not self._config.delayed.enable:
            return ()
        messages = self.messages
        return (Hook(hooks.MESSAGE_PUBLISH, messages.on_message_publish, hook_order.DELAYED, messages.wants),)

    def health(self) -> str:
        return "" if self._stored is None else str(self._stored.health)

    def samples(self) -> Iterator[Sample]:
        yield from plain(self.messages.statistics())
        if self._stored is not None:
            yield from self._stored.samples()


def make_delayed(config: Config, context: ChannelContext, bans: BanList) -> DelayedMessages:
    return DelayedMessages(
        context.broker,
        config.delayed.max_delayed_messages,
        config.delayed.max_delayed_bytes,
        IdSource(context.node, context.next_number()),
        context.defer,
        bans.is_banned,
        _log,
    )


def tell_lost(messages: DelayedMessages) -> None:
    lost = messages.clear()
    if lost:
        _log.warning("%d delayed messages were held and are lost: they are not stored", lost)


def is_stored(config: Config) -> bool:
    return config.delayed.enable and config.delayed.storage_type == "disc"


def _open_delayed(database: LocalState, delayed: DelayedMessages, join: CommitJoin, alarms: Alarms) -> StoredDelayed:
    def open_state(on_committed: OnStateCommitted) -> StateDatabase:
        database.listen(on_committed)
        try:
            database.open()
        except StorageError as error:
            _log.error("the database of delayed messages cannot be opened [%s]: %s", error.code, error)
        return database

    is_there = may_be_there(database.path)
    stored = StoredDelayed(delayed, open_state, is_there, join, asyncio.get_running_loop().call_soon, alarms)
    stored.load()
    return stored


def may_be_there(database: Path) -> bool:
    """Also if that cannot be known: opening it says why."""
    try:
        return THIS_DISK.is_there(database)
    except (OSError, StorageError):
        return True
