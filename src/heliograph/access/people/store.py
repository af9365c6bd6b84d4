"""Users and API keys on the disk of a node, and the bootstrap file of keys. They are few: none is held in memory."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from heliograph.access.people.api_keys import FileKey, file_keys
from heliograph.access.people.names import PeopleError
from heliograph.access.people.records import (
    API_KEY,
    REVISION,
    USER,
    ManagementUser,
    RecordT,
    StoredApiKey,
    decode,
    decode_revision,
    encode,
    key_of,
)
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.state.awaited import AwaitedCommits
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)
DATABASE: Final = "people"
_PAGE: Final = 64
_DESCRIPTION: Final = "Bootstrapped From File"


class PeopleStore:
    """The users and API keys of one node; owned by its part, and used in the event loop's thread.

    Each change gets the next revision, which is on the disk with it. What `put` and `delete` submit is seen by the next
    `find`, so a check and its change are one if nothing is awaited between them. All raise `StorageError`.
    """

    def __init__(self, state: LocalState, is_there: Callable[[], bool]) -> None:
        self._state = state
        self._is_there = is_there
        self._is_open = False
        self._commits = AwaitedCommits(state)

    @property
    def is_open(self) -> bool:
        return self._is_open

    @property
    def revision(self) -> int:
        """The number of the last change; 0 before the first."""
        value = self._get(REVISION)
        return 0 if value is None else decode_revision(value)

    def find_user(self, name: str) -> ManagementUser | None:
        value = self._get(key_of(USER, name))
        return None if value is None else self._decoded(ManagementUser, name, value)

    def find_key(self, name: str) -> StoredApiKey | None:
        value = self._get(key_of(API_KEY, name))
        return None if value is None else self._decoded(StoredApiKey, name, value)

    def users(self) -> Iterator[tuple[str, ManagementUser]]:
        """They may change between two of them."""
        return self._walk(USER, ManagementUser)

    def api_keys(self) -> Iterator[tuple[str, StoredApiKey]]:
        """They may change between two of them."""
        return self._walk(API_KEY, StoredApiKey)

    async def put_user(self, name: str, record: ManagementUser, *, ends_tokens: bool = True) -> ManagementUser:
        """Keep a user; on the disk when this returns. Its tokens end with `ends_tokens`: it gets a new version."""
        batch, revision = self._batch()
        if ends_tokens:
            record = msgspec.structs.replace(record, version=revision)
        batch.put(key_of(USER, name), encode(record))
        await self._commits.commit(batch)
        return record

    async def put_keys(self, records: Mapping[str, StoredApiKey], gone: Iterable[str] = ()) -> None:
        """Keep keys by their names, delete those that are `gone`; all is on the disk when this returns, or nothing."""
        batch, _ = self._batch()
        for name in gone:
            batch.delete(key_of(API_KEY, name))
        for name, record in records.items():
            batch.put(key_of(API_KEY, name), encode(record))
        await self._commits.commit(batch)

    async def delete(self, kind: bytes, name: str) -> None:
        """Delete a user or a key, for good when this returns."""
        batch, _ = self._batch()
        batch.delete(key_of(kind, name))
        await self._commits.commit(batch)

    async def close(self) -> None:
        if self._is_open:
            await self._state.close()

    def _batch(self) -> tuple[StateBatch, int]:
        self._open()
        revision = self.revision + 1
        batch = StateBatch()
        batch.put(REVISION, revision.to_bytes(8))
        return batch, revision

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open = True
        try:
            self._state.open()
        except StorageError as error:  # each use of it tries again
            _log.error("the database of users and API keys cannot be opened [%s]: %s", error.code, error)

    def _get(self, key: bytes) -> bytes | None:
        return self._state.get(key) if self._can_read() else None

    def _can_read(self) -> bool:
        if not self._is_open and self._is_there():
            self._open()
        return self._is_open

    def _walk(self, kind: bytes, model: type[RecordT]) -> Iterator[tuple[str, RecordT]]:
        after = b""
        while page := self._state.scan(kind, after, _PAGE) if self._can_read() else []:
            after = page[-1][0]
            for key, value in page:
                name = key[len(kind) :].decode()
                yield name, self._decoded(model, name, value)

    def _decoded(self, model: type[RecordT], name: str, value: bytes) -> RecordT:
        try:
            return decode(model, value)
        except msgspec.MsgspecError as error:
            raise StorageDamagedError(f"{name!r} cannot be read: {error}", database=DATABASE) from None

    def __repr__(self) -> str:
        return f"PeopleStore({self._state!r})"


async def load_keys(store: PeopleStore, file: str, now_s: int) -> int:
    """How many were new or changed. A fault is logged, and ends it."""
    try:
        found = await asyncio.to_thread(_read, file)
        records, gone = _changes(store, found, now_s)
        if records:
            await store.put_keys(records, gone)
            _log.info("%d API keys of %s are new or changed", len(records), file)
    except StorageError as error:
        _log.error("api_key.bootstrap_file: its keys cannot be kept [%s]: %s", error.code, error)
        return 0
    return len(records)


def _read(file: str) -> dict[str, FileKey]:
    """The keys up to the first mistake; of several lines for one key the last counts."""
    found: dict[str, FileKey] = {}
    try:
        for key in file_keys(file):
            found[key.api_key] = key
    except PeopleError as error:
        _log.error("api_key.bootstrap_file: %s. The keys before it are taken, those behind it are not", error)
    return found


def _changes(store: PeopleStore, found: Mapping[str, FileKey], now_s: int) -> tuple[dict[str, StoredApiKey], list[str]]:
    """What is to be kept of the keys of a file, and the names of kept keys that go for it."""
    kept = {record.api_key: (name, record) for name, record in store.api_keys()}
    records: dict[str, StoredApiKey] = {}
    gone: list[str] = []
    for key in found.values():
        wanted = StoredApiKey(key.api_key, key.secret_hash, _DESCRIPTION, key.role, True, None, now_s)
        name, record = kept.get(key.api_key, (key.name, None))
        if record is not None and name == key.name and msgspec.structs.replace(record, created_s=now_s) == wanted:
            continue
        records[key.name] = wanted
        if name != key.name:
            gone.append(name)
    return records, gone
