"""The database of ways: chunks by the time at which they were written, the newest first, the oldest dropped in time."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Final

import msgspec

from heliograph.observe.alarms import Alarms
from heliograph.storage.errors import StorageError
from heliograph.storage.health import Health
from heliograph.storage.state.interface import StateBatch
from heliograph.storage.state.local import LocalState
from heliograph.tracing.ways.chunks import ChunkHeader, header_of

_log = logging.getLogger(__name__)

ALARM: Final = "storage_message_ways"
SLICE: Final = 40  # headers that are read in one turn
_HEADER: Final = b"H"
_DATA: Final = b"C"
_NEWEST: Final = (1 << 63) - 1
_DROPPED_AT_ONCE: Final = 200


class StoredChunk(msgspec.Struct, frozen=True):
    """A chunk that is there; keys of newer ones sort first.

    Attributes:
        written_us: When it was written; none of its messages is younger.
    """

    key: bytes
    written_us: int
    size_bytes: int


class WayStore:
    """Keeps chunks; owned by `MessageWays`, in the event loop's thread.

    Nothing waits for its commits: the last moments before a crash may be lost.
    """

    def __init__(self, state: LocalState, alarms: Alarms) -> None:
        self.state = state
        self.size_bytes = 0
        self._chunks: deque[StoredChunk] = deque()  # the oldest first
        self._count = 0
        self._added_count = 0
        self._alarms = alarms
        self.health = Health(
            _log, alarms, ALARM, "the ways of messages are not kept", "the ways of messages are kept again"
        )
        self.state.listen(lambda ticket, error: self.health.tell(error))

    def __len__(self) -> int:
        return len(self._chunks)

    @property
    def added_count(self) -> int:
        return self._added_count

    @property
    def oldest_us(self) -> int:
        return self._chunks[0].written_us if self._chunks else 0

    def open(self) -> None:
        """Open it; where that fails each use tries again."""
        with suppress(StorageError):
            self.state.open()

    def load(self) -> Iterator[None]:
        """Know the chunks that an earlier process wrote; a piece for each turn of the event loop."""
        found: list[StoredChunk] = []
        after = b""
        while True:
            rows = self.state.scan(_HEADER, after, SLICE)
            for key, value in rows:
                size = header_of(value).size_bytes
                found.append(StoredChunk(key[1:], _written_us(key[1:]), size))
                self.size_bytes += size
            if len(rows) < SLICE:
                break
            after = rows[-1][0]
            yield
        self._chunks.extendleft(found)

    def add(self, header: bytes, data: bytes, now_us: int) -> None:
        self._count += 1
        key = (_NEWEST - now_us).to_bytes(8, "big") + (0xFFFFFFFF - self._count).to_bytes(4, "big")
        batch = StateBatch()
        batch.put(_HEADER + key, header)
        batch.put(_DATA + key, data)
        try:
            self.state.submit(batch)
        except StorageError as error:
            self.health.tell(error)
            return
        size = len(header) + len(data)
        self._chunks.append(StoredChunk(key, now_us, size))
        self._added_count += 1
        self.size_bytes += size

    def drop(self, before_us: int, size_bytes_max: int) -> None:
        """Drop the oldest ones: those that are older, and what is too much."""
        batch = StateBatch()
        for _ in range(_DROPPED_AT_ONCE):
            if not self._chunks:
                break
            oldest = self._chunks[0]
            if oldest.written_us >= before_us and self.size_bytes <= size_bytes_max:
                break
            batch.delete(_HEADER + oldest.key)
            batch.delete(_DATA + oldest.key)
            self._chunks.popleft()
            self.size_bytes = max(0, self.size_bytes - oldest.size_bytes)
        if batch:
            with suppress(StorageError):  # the next start finds and drops them
                self.state.submit(batch)

    def headers(self, added_count: int) -> Iterator[list[tuple[StoredChunk, ChunkHeader]]]:
        """The chunks with their headers, the newest first; a slice for each turn of the event loop.

        Args:
            added_count: Only those of the time when so many were added.
        """
        after = b""
        while True:
            rows = self.state.scan(_HEADER, after, SLICE)
            newer = {one.key for one in islice(reversed(self._chunks), self._added_count - added_count)}
            found = [(key[1:], value) for key, value in rows if key[1:] not in newer]
            yield [(StoredChunk(key, _written_us(key), 0), header_of(value)) for key, value in found]
            if len(rows) < SLICE:
                return
            after = rows[-1][0]

    def data(self, chunk: StoredChunk) -> bytes | None:
        """The content of a chunk; None if it was dropped meanwhile."""
        return self.state.get(_DATA + chunk.key)

    async def close(self) -> None:
        await self.state.close()
        self._alarms.deactivate(ALARM)


def _written_us(key: bytes) -> int:
    return _NEWEST - int.from_bytes(key[:8], "big")
