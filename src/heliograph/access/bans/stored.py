"""Bans on the disk: those that are made while a node runs outlast its restart.

A ban holds from the moment at which it is made; it is written in the next turn of the event loop, together with others.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from heliograph.access.bans.ban_list import BanList
from heliograph.access.bans.ban_table import Ban, BanError, key_of
from heliograph.observe.alarms import Alarms
from heliograph.storage.errors import StorageError
from heliograph.storage.health import Health
from heliograph.storage.state.interface import StateBatch, StateDatabase

_log = logging.getLogger(__name__)

BAN: Final = b"B"  # what its keys begin with
_ALARM: Final = "bans_not_stored"
_PAGE: Final = 1024


class _Record(msgspec.Struct, array_like=True):
    reason: str
    by: str
    at_s: int
    until_s: int | None


class StoredBans:
    """Keeps the bans of a node on its disk; a `BanStore`, owned by the node.

    While the disk refuses, bans hold in memory and are written again at each tick. While those of an earlier process
    cannot be read, the list refuses all clients: it does not know the bans.
    """

    def __init__(self, bans: BanList, open_state: Callable[[], StateDatabase], is_there: bool, alarms: Alarms) -> None:
        self._bans = bans
        self._open_state = open_state
        self._state: StateDatabase | None = None
        self._changes: dict[bytes, bytes | None] = {}  # that are not submitted
        self._submitted: deque[tuple[int, dict[bytes, bytes | None]]] = deque()  # tickets and what they are for
        self._waiting: list[tuple[int, asyncio.Future[StorageError | None]]] = []
        self._is_scheduled = False
        self.health = Health(_log, alarms, _ALARM, "bans cannot be stored", "bans are stored again")
        bans.store = self
        bans.is_complete = not is_there

    @property
    def state(self) -> StateDatabase | None:
        return self._state

    def load(self) -> None:
        """Load the bans of an earlier process; tried again at each tick until it works."""
        if self._bans.is_complete:
            return
        found: list[tuple[bytes, bytes]] = []
        try:
            state, after = self._database(), b""
            while page := state.scan(BAN, after, _PAGE):
                found += page
                after = page[-1][0]
        except StorageError as error:
            self.health.tell(error, "bans cannot be read, and no client is let in until they can")
            return
        for key, value in found:
            if key not in self._changes:  # what was decided since then counts
                self._restore(key, value)
        self._bans.is_complete = True
        self.health.tell(None)
        if found:
            _log.info("bans that were made before: %d", len(found))

    def put(self, ban: Ban) -> None:
        record = _Record(ban.reason, ban.by, ban.at_s, ban.until_s)
        self._change(_key(ban.kind, ban.who), msgspec.msgpack.encode(record))

    def forget(self, kind: str, who: str) -> None:
        self._change(_key(kind, who), None)

    async def saved(self) -> StorageError | None:
        self._submit()
        if self._changes:
            return self.health.error
        if not self._submitted:
            return None
        future: asyncio.Future[StorageError | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((self._submitted[-1][0], future))
        return await future

    def tick(self) -> None:
        """Go on with what the disk refused."""
        if not self._bans.is_complete:
            self.load()
        elif self._changes:
            self._submit()

    async def close(self) -> None:
        if self._changes:
            self._submit()
        if self._state is not None:
            await self._state.close()
        if self._changes:
            _log.warning("bans that were made or lifted, are not stored, and end with the node: %d", len(self._changes))

    def _database(self) -> StateDatabase:
        if self._state is None:
            self._state = self._open_state()
            self._state.listen(self._committed)
        return self._state

    def _restore(self, key: bytes, value: bytes) -> None:
        try:
            self._bans.restore(decode(key, value))
        except (BanError, msgspec.MsgspecError, ValueError) as error:
            _log.error("a ban on the disk cannot be read: %s", error)

    def _change(self, key: bytes, value: bytes | None) -> None:
        self._changes.pop(key, None)
        self._changes[key] = value
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._submit)

    def _submit(self) -> None:
        self._is_scheduled = False
        if not self._changes:
            return
        batch = StateBatch()
        for key, value in self._changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            ticket = self._database().submit(batch)
        except StorageError as error:
            self.health.tell(error)
            return
        self._submitted.append((ticket, self._changes))
        self._changes = {}

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        while self._submitted and self._submitted[0][0] <= ticket:
            _, changes = self._submitted.popleft()
            if error is not None:
                self._changes = changes | self._changes
        answered = [future for until, future in self._waiting if until <= ticket]
        self._waiting = [one for one in self._waiting if one[0] > ticket]
        if self._bans.is_complete or error is not None:
            self.health.tell(error)
        for future in answered:
            if not future.done():
                future.set_result(error)

    def __repr__(self) -> str:
        return f"StoredBans({self._state!r}, {len(self._changes)} changes wait)"


def decode(key: bytes, value: bytes) -> Ban:
    kind, _, who = key[len(BAN) :].decode().partition("\0")
    record = msgspec.msgpack.decode(value, type=_Record)
    key_of(kind, who)
    return Ban(kind, who, record.reason, record.by, record.at_s, record.until_s)


def _key(kind: str, who: str) -> bytes:
    return BAN + "\0".join(key_of(kind, who)).encode()
