"""The rules of the built-in database on the disk: written by commands, read when a client needs them.

They are not held in memory, but for those of all clients: a node may have rules for a million clients, of which some
are connected, and what a connected client needs is kept with it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from heliograph.access.built_in_rules import record
from heliograph.access.built_in_rules.record import ALL, KINDS, Row
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.state.awaited import AwaitedCommits
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState

_log = logging.getLogger(__name__)

DATABASE: Final = "built_in_rules"
_PAGE: Final = 64
_RULES_OF_A_TURN: Final = 200  # so many are encoded before others have their turn


@dataclass(frozen=True, slots=True)
class OwnRules:
    """The rules of one client id, one user name or (without a name) all clients; their form is not checked here."""

    kind: str
    name: str
    rows: list[Row]


class BuiltInRules:
    """The rules of one node; owned by its part, from its opening to `close`. Used in the event loop's thread.

    Attributes:
        version: Rises with every change.
        on_change: Called after every change.
        fault: Why they could not be read the last time.
    """

    def __init__(self, state: LocalState) -> None:
        self.version = 0
        self.on_change: list[Callable[[], object]] = []
        self.fault = ""
        self._state = state
        self._is_open = False
        self._commits = AwaitedCommits(state)

    def open(self) -> None:
        """Open the database, if it is not open. One that cannot be opened is tried again with each question."""
        if self._is_open:
            return
        self._is_open = True
        try:
            self._state.open()
        except StorageError as error:
            _log.error("the database of built-in rules cannot be opened [%s]: %s", error.code, error)

    @property
    def is_open(self) -> bool:
        return self._is_open

    def get(self, kind: str, name: str = "") -> list[Row]:
        """`StorageError` if the database cannot be read now."""
        try:
            value = self._state.get(record.key_of(kind, name))
            rows = [] if value is None else self._decoded(kind, name, value)
        except StorageError as error:
            self.fault = str(error)
            raise
        self.fault = ""
        return rows

    async def put(self, changes: Iterable[OwnRules]) -> None:
        """Replace the rules of owners, all of them or none (`StorageError`); empty rows delete those of one.

        Returns when all of it is on the disk; it holds for all clients from then on.
        """
        batch, count = StateBatch(), 0
        for own in changes:
            count += 1 + len(own.rows)
            if count > _RULES_OF_A_TURN:
                await asyncio.sleep(0)
                count = 0
            key = record.key_of(own.kind, own.name)
            if own.rows:
                batch.put(key, record.encode(own.rows))
            else:
                batch.delete(key)
        if batch:
            await self._commit(batch)

    async def clear(self, kinds: Iterable[str] = KINDS) -> None:
        batch = StateBatch()
        for kind in kinds:
            batch.delete_prefix(record.prefix_of(kind))
        await self._commit(batch)

    def walk(self, kinds: Iterable[str] = KINDS) -> Iterator[OwnRules]:
        """By name within a kind; they may change between two of them."""
        for kind in kinds:
            prefix, after = record.prefix_of(kind), b""
            while page := self._state.scan(prefix, after, _PAGE):
                after = page[-1][0]
                for key, value in page:
                    name = record.read_key(key)[1]
                    yield OwnRules(kind, name, self._decoded(kind, name, value))

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._state.close()

    async def _commit(self, batch: StateBatch) -> None:
        try:
            await self._commits.commit(batch)
        finally:
            self._changed()  # also where the disk refused it: what is read from now on is what was there before

    def _changed(self) -> None:
        self.version += 1
        for listener in self.on_change:
            listener()

    def _decoded(self, kind: str, name: str, value: bytes) -> list[Row]:
        try:
            return record.decode(value)
        except ValueError as error:
            whose = "all clients" if kind == ALL else f"{kind} {name!r}"
            raise StorageDamagedError(
                f"the rules of {whose} cannot be read: {error}", database=DATABASE, path=self._state.path
            ) from error

    def __repr__(self) -> str:
        return f"BuiltInRules({self._state!r}, version {self.version})"
