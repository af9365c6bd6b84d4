"""State databases on the local disk: one RocksDB each, in a directory of their own beside the databases of messages.

Batches that were submitted but not written yet are kept as an overlay over what RocksDB has, so that reading never has
to wait for a commit, nor a commit for reading.
"""

import asyncio
import json
from bisect import bisect_left, insort
from collections.abc import Container, Iterator, Sequence, Sized
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

from heliograph.observe.histogram import Histogram
from heliograph.storage.engine import Rdict, new_batch, records
from heliograph.storage.errors import StorageBusyError, StorageClosedError, StorageError, UnknownLayoutError
from heliograph.storage.group_commit import CommitQueue
from heliograph.storage.state.interface import OnStateCommitted, StateBatch, check_preconditions
from heliograph.storage.store import KeptInStore, Store

_FOLDER: Final = "state"
_META: Final = b"\x00"
_FORMAT: Final = "state-1"
_KEY: Final = b"K"  # what the keys of users begin with in RocksDB
_BATCH_OVERHEAD_BYTES: Final = 256
_PREFIX_KEYS: Final = 4096
_NEW_PART: Final = 16  # fewer new keys than this part of all find their places one by one
_GONE_MAX: Final = 64


class LocalState(KeptInStore):
    """A `StateDatabase` on the disk. Owned by the node; used in its event-loop thread from its making to `close`.

    It may be made while it cannot be opened: what is submitted is then refused, with tickets, until it can.

    Args:
        fsync: Whether a commit waits for the disk. Without it, state survives the process but not the machine.
        max_buffered_bytes: When to say `is_full`.
        reopen_interval_s: How long a database that failed is left alone before it is opened again.
    """

    def __init__(
        self,
        data_dir: Path,
        name: str,
        *,
        fsync: bool = True,
        max_buffered_bytes: int = 64 << 20,
        reopen_interval_s: float = 1.0,
    ) -> None:
        super().__init__(Store(name, data_dir / _FOLDER / name, "lz4", self._prepare, reopen_interval_s))
        self._overlay: dict[bytes, tuple[StateBatch, bytes | None]] = {}
        self._pending_keys = PendingKeys(self._overlay)
        self._listeners: list[OnStateCommitted] = []
        self._fsync = fsync
        self._max_buffered_bytes = max_buffered_bytes
        self._queue: CommitQueue[StateBatch] | None = None

    @property
    def is_full(self) -> bool:
        return self._queue is not None and self._queue.is_full

    def use(self, *, fsync: bool, max_buffered_bytes: int) -> None:
        """Use other settings, from the next commit on."""
        self._fsync, self._max_buffered_bytes = fsync, max_buffered_bytes
        if self._queue is not None:
            self._queue.use(fsync=fsync, max_buffered_bytes=max_buffered_bytes)

    def open(self) -> None:
        """Open it, creating it if it does not exist, and begin to take batches. Called in the event loop's thread."""
        self._queue = CommitQueue(
            self,
            self._committed,
            loop=asyncio.get_running_loop(),
            fsync=self._fsync,
            max_buffered_bytes=self._max_buffered_bytes,
        )
        self._store.open()

    def listen(self, on_committed: OnStateCommitted) -> None:
        self._listeners.append(on_committed)

    def submit(self, batch: StateBatch) -> int:
        if self._queue is None:
            raise StorageClosedError("the database is not open", database=self.name, path=self.path)
        check_preconditions(self, batch)
        for prefix in batch.prefixes:
            for key in self._keys(prefix):
                batch.changes.setdefault(key, None)
        ticket = self._queue.take(batch, batch.size_bytes + _BATCH_OVERHEAD_BYTES)
        for key, value in batch.changes.items():
            is_new = key not in self._overlay
            self._overlay[key] = batch, value
            if is_new:
                self._pending_keys.add(key)
        return ticket

    def get(self, key: bytes) -> bytes | None:
        pending = self._overlay.get(key)
        if pending is not None:
            return pending[1]
        with self._store.reading() as rocks:
            value: bytes | None = rocks.get(_KEY + key)
            return value

    def scan(self, prefix: bytes = b"", after: bytes = b"", limit: int = 1024) -> list[tuple[bytes, bytes]]:
        lower = max(prefix, after + b"\x00" if after else b"")
        pending = ((key, 0, self._overlay[key][1]) for key in self._pending_keys.beginning_with(prefix, lower))
        with self._store.reading() as rocks:
            stored = ((key, 1, value) for key, value in _stored(rocks, lower, prefix))
            return list(islice(_newest(merge(pending, stored, key=_place)), limit))

    def write(self, batches: Sequence[StateBatch]) -> None:
        """Write batches, all or none; for the commit queue."""
        changes: dict[bytes, bytes | None] = {}
        for batch in batches:
            changes.update(batch.changes)
        out = new_batch()
        for key, value in changes.items():
            if value is None:
                out.delete(_KEY + key)
            else:
                out.put(_KEY + key, value)
        try:
            if changes:
                self._store.write(out)
        except StorageBusyError:
            raise
        except StorageError:
            self._forget(batches)
            raise
        self._forget(batches)

    def committed(self) -> None:
        """Nothing to do: nothing waits for what others write here."""

    @property
    def commit_times(self) -> Histogram | None:
        """How long commits took; None before the first."""
        return None if self._queue is None else self._queue.commit_times

    def statistics(self) -> dict[str, float]:
        counts = {} if self._queue is None else self._queue.statistics()
        memory_bytes = self._store.memory_bytes()
        return {
            "open": int(self._store.is_open),
            "pending_keys": len(self._overlay),
            "memory_bytes": memory_bytes,
            **counts,
        }

    async def settled(self) -> None:
        """Wait until what was submitted so far is committed or refused."""
        if self._queue is not None:
            await self._queue.settled()

    async def close(self) -> None:
        """Commit what was taken, answer for it, and close."""
        if self._queue is not None:
            await self._queue.close()
            self._queue = None
        self._store.close()

    def _committed(self, ticket: int, error: StorageError | None) -> None:
        for listener in self._listeners:
            listener(ticket, error)

    def _forget(self, batches: Sequence[StateBatch]) -> None:
        """Batches are written, or refused for good: what RocksDB has is what counts."""
        for batch in batches:
            for key in batch.changes:
                pending = self._overlay.get(key)
                if pending is not None and pending[0] is batch:
                    del self._overlay[key]

    def _keys(self, prefix: bytes) -> Iterator[bytes]:
        after = b""
        while True:
            page = self.scan(prefix, after, _PREFIX_KEYS)
            yield from (key for key, _ in page)
            if len(page) < _PREFIX_KEYS:  # behind the empty key alone, `after` would stay where it began
                return
            after = page[-1][0]

    def _prepare(self, rocks: Rdict) -> None:
        meta = rocks.get(_META)
        if meta is None:
            self._store.check_is_new(rocks)
            batch = new_batch()
            batch.put(*description(self.name))
            rocks.write(batch)
        elif json.loads(meta).get("format") != _FORMAT:
            raise UnknownLayoutError(
                f"its format is {json.loads(meta).get('format')!r}, and this version knows {_FORMAT!r}",
                database=self.name,
                path=self.path,
            )

    def __repr__(self) -> str:
        return f"LocalState({self._store!r}, {len(self._overlay)} keys pending)"


def description(name: str) -> tuple[bytes, bytes]:
    """The record in which a database says what it is."""
    return _META, json.dumps({"format": _FORMAT, "database": name}).encode()


def _stored(rocks: Rdict, lower: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    beginning = (_KEY + prefix).rstrip(b"\xff")  # `_KEY` stays, so there is always a byte to count up
    upper = beginning[:-1] + bytes([beginning[-1] + 1])
    for key, value in records(rocks, _KEY + lower, upper):
        yield key[1:], value


def _place(entry: tuple[bytes, int, bytes | None]) -> tuple[bytes, int]:
    return entry[0], entry[1]


def _newest(entries: Iterator[tuple[bytes, int, bytes | None]]) -> Iterator[tuple[bytes, bytes]]:
    """Of entries in the order of their keys, the first of each key, unless it says that the key is gone."""
    last: bytes | None = None
    for key, _, value in entries:
        if key != last and value is not None:
            yield key, value
        last = key


class _PresentKeys(Container[bytes], Sized, Protocol):
    """What has the keys now."""


class PendingKeys:
    """The keys of a dictionary in order, for a walk while keys are added; owned by the database whose dictionary it is.

    A key that is taken out of the dictionary is left out from then on, without a call.
    """

    def __init__(self, present: _PresentKeys) -> None:
        self._present = present
        self._ordered: list[bytes] = []  # with keys that are gone, as long as these are not more than half
        self._new: list[bytes] = []

    def add(self, key: bytes) -> None:
        """A key has come into the dictionary."""
        self._new.append(key)
        if self._has_too_many():
            self._put_in_order()

    def beginning_with(self, prefix: bytes, lower: bytes) -> Iterator[bytes]:
        """The keys with a prefix, from `lower` on; the dictionary is left alone until the last."""
        self._put_in_order()
        last: bytes | None = None
        for key in islice(self._ordered, bisect_left(self._ordered, lower), None):
            if not key.startswith(prefix):
                return
            if key != last and key in self._present:
                yield key
            last = key

    def _has_too_many(self) -> bool:
        return len(self._ordered) + len(self._new) > 2 * len(self._present) + _GONE_MAX

    def _put_in_order(self) -> None:
        if self._has_too_many():
            self._ordered = sorted({key for key in (*self._ordered, *self._new) if key in self._present})
        elif len(self._new) * _NEW_PART < len(self._ordered):
            for key in self._new:
                insort(self._ordered, key)
        else:
            self._ordered += self._new
            self._ordered.sort()
        self._new = []
