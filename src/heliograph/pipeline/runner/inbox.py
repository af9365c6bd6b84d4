"""Rows that the node has handed over for an action: those that follow what it has reached are its next batch."""

from collections import deque
from threading import Lock
from typing import Final

from heliograph.actions.handover import HandedRows, HandedStream, in_order
from heliograph.pipeline.datasource.offsets import Offset, make_offset, more_lost
from heliograph.pipeline.runner.batch_memory import ROW_BYTES, BatchMemory, BatchShare

_WHOLE_COMMIT: Final = 65_535  # the last block that a commit may have
_BYTES_MAX: Final = 12 << 20  # half of it for one action


def handed_memory() -> BatchMemory:
    """What all actions share for rows that were handed over and wait: a target that is slow for a moment is no reason
    to read the log.
    """
    return BatchMemory(_BYTES_MAX)


class HandedBatch:
    """Rows that follow each other without a gap.

    Attributes:
        time: The commit that it ends with.
        streams: In the order in which the log is read.
    """

    def __init__(self, commits: list[HandedRows]) -> None:
        self.time = commits[-1].time
        self.streams: list[HandedStream] = in_order([stream for rows in commits for stream in rows.streams])
        self._ends = {stream.stream: rows.time for rows in commits for stream in rows.streams}

    def end(self, reached: Offset) -> Offset:
        """The offset after it."""
        ends = {stream: f"{time}-{_WHOLE_COMMIT}" for stream, time in self._ends.items()}
        return make_offset({**reached["streams"], **ends}, reached.get("start"), more_lost(reached, {}))

    def __repr__(self) -> str:
        return f"HandedBatch({self.time}, {len(self.streams)} streams)"


class RowInbox:
    """What was handed over for one action, and is not in a batch yet. Filled by the input's thread, and emptied by that
    of the action.

    It is no queue that must not lose anything: what has no room is read from the log.
    """

    def __init__(self, memory: BatchMemory) -> None:
        self._lock = Lock()
        self._commits: deque[HandedRows] = deque()
        self._share = BatchShare(memory)
        self._size = 0

    def put(self, rows: HandedRows) -> bool:
        """Keep the rows of a commit, or forget all where there is no room for them; whether they are kept."""
        with self._lock:
            size = self._size + _size_of(rows)
            if self._share.take(size) < size:
                self._forget()
                return False
            self._commits.append(rows)
            self._size = size
            self._share.keep(size)
            return True

    def take(self, reached_time: int, rows_max: int, bytes_max: int) -> HandedBatch | None:
        """The next batch; None where nothing is there, or nothing that follows what is reached.

        Args:
            reached_time: A commit up to which all rows were reached, and none after it.
        """
        taken: list[HandedRows] = []
        count = size = 0
        with self._lock:
            while self._commits and self._commits[0].time <= reached_time:
                self._drop_first()
            while self._commits and self._commits[0].after <= reached_time:
                rows = self._commits[0]
                count, size = count + rows.count, size + rows.payload_bytes
                if taken and (count > rows_max or size > bytes_max):
                    break
                if taken and rows.generation != taken[0].generation:  # a batch has the order of the names of streams
                    break
                taken.append(rows)
                self._drop_first()
                reached_time = rows.time
        return HandedBatch(taken) if taken else None

    @property
    def is_empty(self) -> bool:
        return not self._commits

    def clear(self) -> None:
        with self._lock:
            self._forget()

    def _drop_first(self) -> None:
        self._size -= _size_of(self._commits.popleft())
        self._share.keep(self._size)

    def _forget(self) -> None:
        self._commits.clear()
        self._size = 0
        self._share.keep(0)

    def __repr__(self) -> str:
        return f"RowInbox({len(self._commits)} commits, {self._size} bytes)"


def _size_of(rows: HandedRows) -> int:
    return rows.payload_bytes + rows.count * ROW_BYTES
