"""Every database of messages of a node: opened, written in group commits, kept small, and watched.

A database that cannot be opened or written refuses what it is for, which the log and an alarm say; the broker serves
everything else. The databases of sessions, shared groups and retained messages belong to their packages.
"""

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from heliograph.broker.faults import COMMITS
from heliograph.config.settings import Config
from heliograph.config.storage import MessagesConfig
from heliograph.node.commit_join import CommitJoin, Follower
from heliograph.node.data_dir import DataDirectory
from heliograph.node.kernel import KernelPart
from heliograph.node.metrics import storage as metrics
from heliograph.node.options import database_options
from heliograph.node.refusals import Refusals, is_anything_stored, refusal_code
from heliograph.node.storage_sink import CopyingSink, StorageSink
from heliograph.node.stored_messages import MESSAGES, OnCommitted, StoredMessages
from heliograph.observe.metric import Sample, counter
from heliograph.outbound import Outbound
from heliograph.parts import Change, Part, each, every
from heliograph.storage.columnar.node_databases import NodeDatabases
from heliograph.storage.errors import StorageDamagedError, StorageError

_log = logging.getLogger(__name__)

_SITE_ALARM: Final = "storage_site_id"


class _Copy:
    def __init__(self, stored: StoredMessages, follower: Follower, code: Callable[[], int]) -> None:
        self.stored = stored
        self.follower = follower
        self.code = code


class Databases(Part):
    """The databases of messages of one node; owned by the node.

    They are opened with the first setting that has anything stored, and stay open then, but for those beside `messages`
    that are no longer configured.

    Attributes:
        sink: Takes messages from the broker.
        refusals: Which databases of the node refuse messages now.
        on_stored: Called when `messages` has a ticket, or refuses it: replays may go on.
        on_done: Called when everything that was tied to a ticket is durable or refused: with the ticket, whether
            `messages` refused what only it keeps, and whether any database did. Channels were called before.
    """

    name = "databases"
    metrics = (
        counter("messages.persisted", "Messages that were stored, once for each database that keeps them."),
        *metrics.COMMITS,
        *metrics.MESSAGES,
    )
    needs = ("kernel",)
    roots = ("durable_storage.messages", "durable_storage.databases")

    messages: StoredMessages
    join: CommitJoin
    sink: StorageSink
    refusals: Refusals

    def __init__(
        self, config: Config, directory: DataDirectory, kernel: KernelPart, outbound: Outbound | None = None
    ) -> None:
        self._outbound = outbound or Outbound(config.outbound)
        self._config = config
        self._directory = directory
        self._kernel = kernel
        self._all: list[StoredMessages] = []
        self._copies: dict[str, _Copy] = {}
        self._closing: dict[str, asyncio.Task[None]] = {}
        self.is_open = False
        self.on_stored: list[OnCommitted] = []
        self.on_done: list[Callable[[int, bool, bool], object]] = []

    async def start(self) -> None:
        """A database that cannot be opened refuses messages, and the others take them."""
        self._backend = NodeDatabases(self._directory.path, clock=self._kernel.clock.now_us)
        self.refusals = Refusals(self._kernel.broker)
        if is_anything_stored(self._config):
            self._open_messages(self._config)
            for name, settings in self._config.durable_storage.databases.items():
                self._copies[name] = self._open_copy(name, settings)
            self._use(self._config)

    async def stop(self) -> None:
        await asyncio.gather(*self._closing.values(), return_exceptions=True)
        await every(self._all, StoredMessages.close)

    async def check(self, new: Config) -> Change | None:
        """New databases are opened now, which may raise `StorageError`."""
        now = self._config
        is_opening = not self.is_open and is_anything_stored(new)
        if not is_opening and new.durable_storage == now.durable_storage:
            return None
        if is_opening:  # where the change is given up it stays open for the next one
            self._open_messages(new)
        opened: dict[str, _Copy] = {}
        made: set[str] = set()  # of these, those that were not on the disk
        try:
            for name, settings in new.durable_storage.databases.items() if self.is_open else ():
                if name not in self._copies:
                    opened[name] = await self._open_new(name, settings, made)
        except BaseException:
            self._close_copies(opened, made)
            raise

        def apply() -> None:
            self._copies.update(opened)
            self._use(new)

        return Change(apply, lambda: self._close_copies(opened, made))

    def _use(self, config: Config) -> None:
        self._config, storage = config, config.durable_storage
        if not self.is_open:
            return
        self.messages.use(storage.messages)
        gone = {name: copy for name, copy in self._copies.items() if name not in storage.databases}
        copies = []
        for name, settings in storage.databases.items():
            copy = self._copies[name]
            copy.stored.use(settings)
            copies.append((copy.stored.group, settings.topics, copy.follower, copy.code))
        topics, group, code = storage.messages.topics, self.messages.group, partial(self.refusals.code, MESSAGES)
        self.sink = StorageSink(group, topics, self.join, code)
        if copies:
            self.sink = CopyingSink(group, topics, self.join, copies, code)
        self._kernel.broker.set_sink(self.sink)
        for name in gone:
            del self._copies[name]
        self._close_copies(gone)

    async def commit(self) -> None:
        """Commit what was taken, and take nothing more; what is stored can still be read."""
        await every([*self._all], StoredMessages.commit)  # one that is being closed leaves the list meanwhile

    def tick(self, uptime_us: int) -> None:
        now_us = int(self._kernel.broker.now_us)
        each(self._all, lambda one: one.tick(now_us))

    @property
    def fullness(self) -> float:
        """Of the fullest queue of commits; 1 is full."""
        return max((one.group.fullness for one in self._all), default=0.0)

    @property
    def stored(self) -> Sequence[StoredMessages]:
        return self._all

    def health(self) -> str:
        return "; ".join(f"{one.name}: {one.health}" for one in self._all if not one.health.is_good)

    def summary(self) -> str:
        return f"messages in {', '.join(one.name for one in self._all)}" if self._all else ""

    @property
    def site_id(self) -> str:
        """The node's permanent id; `StorageError` if it cannot be read or made."""
        return self._backend.site_id

    @property
    def short_site(self) -> str:
        """What tells this node from others in what it sends, which has little room; also without storage."""
        try:
            return self.site_id[:8]
        except StorageError:  # which is reported where the whole id is needed
            return hashlib.sha256(self._config.node.name.encode()).hexdigest()[:8]

    def samples(self) -> list[Sample]:
        found = [sample for one in self._all for sample in one.samples()]
        persisted = sum(sample.value for sample in found if sample.name == "storage.messages")
        return [Sample("messages.persisted", persisted), *found]

    def _open_messages(self, config: Config) -> None:
        kernel = self._kernel
        self.messages = self._open(MESSAGES, config.durable_storage.messages, self._stored)
        self._check_site()
        self.join = CommitJoin(self.messages.group, self._done, kernel.broker.faults)
        self.sink = StorageSink(self.messages.group, (), self.join)
        self.is_open = True
        with suppress(StorageError):  # reported where it is needed
            kernel.clock.expect_after(self.messages.database.newest_commit_us())

    def _open_copy(self, name: str, settings: MessagesConfig) -> _Copy:
        follower = self.join.follow(name)
        return _Copy(self._open(name, settings, follower.done), follower, partial(self.refusals.code, name))

    async def _open_new(self, name: str, settings: MessagesConfig, made: set[str]) -> _Copy:
        """Open a database while the node runs, after one of that name is closed."""
        if (closing := self._closing.get(name)) is not None:
            await asyncio.wait([closing])
        if not self._backend.database(name, database_options(settings)).path.exists():
            made.add(name)
        copy = self._open_copy(name, settings)
        if (fault := copy.stored.health.error) is not None:
            copy.stored.health.tell(None)
            self._close_copies({name: copy}, made)
            raise fault
        return copy

    def _close_copies(self, copies: Mapping[str, _Copy], made: Collection[str] = ()) -> None:
        """Close databases, when what they took is committed; nothing more is handed to them.

        Args:
            made: Those that are removed too: made for a change that is not made, they have never taken anything.
        """
        for name, copy in copies.items():
            closing = self._close_copy(name, copy, name in made)
            self._closing[name] = asyncio.get_running_loop().create_task(closing, name=f"close-{name}")

    async def _close_copy(self, name: str, copy: _Copy, is_removed: bool) -> None:
        try:
            await copy.stored.close()
            if is_removed:
                await asyncio.to_thread(shutil.rmtree, copy.stored.database.path, ignore_errors=True)
        except StorageError as error:
            _log.error("the database %s is not closed in order [%s]: %s", copy.stored.name, error.code, error)
        finally:
            copy.stored.end_alarms()
            self.join.unfollow(copy.follower)
            self._all.remove(copy.stored)
            del self._closing[name]

    def _open(self, name: str, settings: MessagesConfig, on_committed: OnCommitted) -> StoredMessages:
        database = self._backend.database(name, database_options(settings))
        path = MESSAGES if name == MESSAGES else f"databases.{name}"
        dialer = self._outbound.dialer(f"durable_storage.{path}.offload")
        stored = StoredMessages(name, database, settings, on_committed, self.refusals, self._kernel.alarms, dialer)
        self._all.append(stored)
        return stored

    def _check_site(self) -> None:
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
        for listener in self.on_stored:
            run(COMMITS, partial(listener, ticket, error))
        self.join.done(ticket, error)

    def _done(self, ticket: int, error: StorageError | None) -> None:
        own, context = self.join.own_error, self._kernel.context
        has_room, reason = not self.sink.is_filling(), "" if error is None else error.reason
        context.commits.done(ticket, refusal_code(own), has_room, refusal_code(error), reason)
        for listener in (*self.on_done, context.sessions.wills.on_committed):
            self._kernel.broker.faults.run(COMMITS, partial(listener, ticket, own is not None, error is not None))

    def __repr__(self) -> str:
        return f"Databases({self._all})"


class CommitsPart(Part):
    """Commits at the stop what the databases took, while what waits for it still runs."""

    name = "commits"
    needs = ("databases", "sessions", "delayed")

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def stop(self) -> None:
        await self._databases.commit()
