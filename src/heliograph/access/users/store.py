"""`UserStore`: the users of every built-in database of a node, in one state database.

Users are read from the database when a client logs in or an operator asks, and not held in memory: a million of them
cost a start nothing. A key is the chain and the authenticator, which together are a group, and then the user id.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Generic

import msgspec

from heliograph.access.users.records import UserRecordT, encode
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.state.awaited import AwaitedCommits
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

_USERS: Final = b"U"
_DELETED: Final = b"D"  # groups whose users are still being deleted
_PAGE: Final = 64
_SLICE: Final = 200


class UserExistsError(Exception):
    """There is a user of that id already."""


@dataclass(slots=True)
class ImportCounts:
    added: int = 0
    overwritten: int = 0
    kept: int = 0


class UserStore:
    """The database of users; owned by the node, and used in its event loop only. All methods raise `StorageError`."""

    def __init__(self, open_state: Callable[[], StateDatabase]) -> None:
        self._open_state = open_state
        self._state: StateDatabase | None = None
        self._commits: AwaitedCommits | None = None  # since the first of them
        self._purges: dict[bytes, asyncio.Task[None]] = {}  # by the group that is deleted, until it is
        self._again: set[bytes] = set()  # groups that were deleted once more meanwhile
        self._is_resumed = False  # purges that an earlier process did not end go on

    @property
    def state(self) -> StateDatabase:
        if self._state is None:
            self._state = self._open_state()
        if not self._is_resumed:
            deleted = self._state.scan(_DELETED)
            self._is_resumed = True
            for key, _ in deleted:
                self._purge(key[len(_DELETED) :])
        return self._state

    @property
    def opened(self) -> StateDatabase | None:
        return self._state

    def group(self, model: type[UserRecordT], chain: str, authenticator: str) -> "UserGroup[UserRecordT]":
        return UserGroup(self, model, chain, authenticator)

    def delete_group(self, chain: str, authenticator: str) -> None:
        """Delete the users of an authenticator that is gone, in turns of the event loop; no crash brings one back."""
        name = _group_name(chain, authenticator)
        batch = StateBatch()
        batch.put(_DELETED + name, b"")
        self.state.submit(batch)
        if not self._purge(name):
            self._again.add(name)

    async def commit(self, batch: StateBatch) -> None:
        """Make changes, and wait until they are on the disk."""
        if self._commits is None:
            self._commits = AwaitedCommits(self.state)
        await self._commits.commit(batch)

    def is_deleted(self, name: bytes) -> bool:
        """The users of a group are being deleted: none of them is there any more."""
        return name in self._purges

    async def purged(self, name: bytes) -> None:
        """Wait until the deleted users of a group are gone, so that those that come now stay."""
        _ = self.state  # goes on with what an earlier process did not end
        if name not in self._purges:
            return
        self._purge(name)  # again, if the database did not take it
        task = self._purges[name]
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()

    async def close(self) -> None:
        for task in self._purges.values():
            task.cancel()
        await asyncio.gather(*self._purges.values(), return_exceptions=True)
        if self._state is not None:
            await self._state.close()

    def _purge(self, name: bytes) -> bool:
        """False where that is under way."""
        before = self._purges.get(name)
        if before is not None and not before.done():
            return False
        task = asyncio.get_running_loop().create_task(self._delete_users(name), name="delete-users")
        task.add_done_callback(_on_purged)
        self._purges[name] = task
        return True

    async def _delete_users(self, name: bytes) -> None:
        is_due = True
        while is_due:
            self._again.discard(name)
            await self._delete_found(name)
            batch = StateBatch()
            batch.delete(_DELETED + name)
            await self.commit(batch)
            is_due = name in self._again  # what says so is on the disk again, behind that
        self._purges.pop(name)

    async def _delete_found(self, name: bytes) -> None:
        count = 0
        while page := self.state.scan(_USERS + name, limit=_SLICE):
            batch = StateBatch()
            for key, _ in page:
                batch.delete(key)
            count += len(page)
            await self.commit(batch)
        if count:
            chain, authenticator, _ = name.decode().split("\0")
            of = f" of {chain}" if chain else ""
            _log.warning("%d users of %s%s are deleted: it is no longer in the configuration", count, authenticator, of)


class UserGroup(Generic[UserRecordT]):
    """The users of one authenticator; a view of the store. All methods raise `StorageError`."""

    def __init__(self, store: UserStore, model: type[UserRecordT], chain: str, authenticator: str) -> None:
        self._store = store
        self._decoder = msgspec.msgpack.Decoder(model)
        self.chain = chain
        self.authenticator = authenticator
        self._name = _group_name(chain, authenticator)
        self._prefix = _USERS + self._name
        self._found_last = b""

    def open(self) -> None:
        """Open the database before a client waits for it; one that cannot be opened tries again when it is asked."""
        with suppress(StorageError):
            self._store.state.get(self._prefix)

    def health(self) -> str:
        state = self._store.opened
        is_open = state is None or state.statistics().get("open", 1)
        return "" if is_open else "the database of users cannot be opened; the log says why"

    def find(self, user_id: str) -> UserRecordT | None:
        key = self._key(user_id)
        found = self._store.state.get(key)
        if found is not None and not self._store.is_deleted(self._name):
            self._found_last = key
            return self._decoded(found)
        alike = self._store.state.get(self._found_last)  # as long as it takes where there is one
        if alike is not None:
            self._decoded(alike)
        return None

    async def add(self, user_id: str, record: UserRecordT) -> None:
        """On the disk when this returns; `UserExistsError` if there is one of that id."""
        await self._store.purged(self._name)  # nothing is waited for between the look and the write
        if self.find(user_id) is not None:
            raise UserExistsError
        await self.put(user_id, record)

    async def put(self, user_id: str, record: UserRecordT) -> None:
        """Add or change a user; it is on the disk when this returns."""
        await self._store.purged(self._name)
        batch = StateBatch()
        batch.put(self._key(user_id), encode(record))
        await self._store.commit(batch)

    async def delete(self, user_id: str) -> bool:
        """Delete a user, for good when this returns; False if there was none."""
        if self._store.state.get(self._key(user_id)) is None or self._store.is_deleted(self._name):
            return False
        batch = StateBatch()
        batch.delete(self._key(user_id))
        await self._store.commit(batch)
        return True

    def walk(self, after: str = "") -> Iterator[tuple[str, UserRecordT]]:
        """The users behind an id, in the order of their ids; users may come and go between any two of them."""
        last = self._key(after) if after else b""
        while page := self._store.state.scan(self._prefix, last, _PAGE):
            if self._store.is_deleted(self._name):
                return
            for key, value in page:
                yield key[len(self._prefix) :].decode("utf-8", "surrogatepass"), self._decoded(value)
            last = page[-1][0]

    async def take(self, users: Iterable[tuple[str, UserRecordT]], *, overwrite: bool) -> ImportCounts:
        """Take many users, in turns of the event loop; all are on the disk when this returns.

        Args:
            users: Checked by now. Of several with one id the last counts if users are overwritten, else the first.
            overwrite: Whether users that are there become as these say, or are kept.
        """
        await self._store.purged(self._name)
        counts = ImportCounts()
        waiting = iter(users)
        async for batch in self._batches(waiting, overwrite, counts):
            await self._store.commit(batch)
        return counts

    async def _batches(
        self, users: Iterator[tuple[str, UserRecordT]], overwrite: bool, counts: ImportCounts
    ) -> AsyncIterator[StateBatch]:
        batch = StateBatch()
        for user_id, record in users:
            key = self._key(user_id)
            is_there = batch.changes.get(key) is not None or self._store.state.get(key) is not None
            if is_there and not overwrite:
                counts.kept += 1
                continue
            counts.overwritten += is_there
            counts.added += not is_there
            batch.put(key, encode(record))
            if len(batch.changes) == _SLICE:
                yield batch
                batch = StateBatch()
        if batch:
            yield batch

    def _key(self, user_id: str) -> bytes:
        return self._prefix + user_id.encode("utf-8", "surrogatepass")

    def _decoded(self, value: bytes) -> UserRecordT:
        try:
            return self._decoder.decode(value)
        except msgspec.MsgspecError as error:
            raise StorageDamagedError(
                f"a user of {self.authenticator} cannot be read: {error}", database=self._store.state.name
            ) from None

    def __repr__(self) -> str:
        return f"UserGroup({self.chain or 'all listeners'}, {self.authenticator})"


def _on_purged(task: asyncio.Task[None]) -> None:
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _log.warning("users of an authenticator that is gone cannot be deleted now; they are not let in: %s", error)


def _group_name(chain: str, authenticator: str) -> bytes:
    return f"{chain}\0{authenticator}\0".encode()
