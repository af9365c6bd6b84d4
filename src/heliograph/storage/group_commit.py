"""Group commit: what comes in one event-loop turn, or in the time that the last commit took, is stored together.

There is no timer. What comes while nothing is being stored is stored at the end of the loop turn; what comes while a
commit runs is gathered and stored by the next one. So an idle broker answers at once, and a busy one spreads
the cost of a commit over all that came in the meantime.

Order of one commit: encode and write to RocksDB (in the loop thread, in batches of bounded size, one per loop turn) ->
sync the log to the disk (in a worker thread, which does not hold the GIL) -> `on_committed` (in the loop thread).
Encoding stays in the loop thread because it needs the GIL anyway: in the worker it would stop the loop for up to a
switch interval each time, at no gain.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Final, Generic, TypeVar

from heliograph.observe.histogram import Histogram
from heliograph.storage.errors import StorageBusyError, StorageClosedError, StorageError
from heliograph.storage.interface import Grouped, StorableMessage
from heliograph.storage.wal import SyncRequest

# One batch is encoded and written without a pause: 1 to 2 ms. A message with another topic than the one before costs
# three to eight times as much, so fewer of those make a batch.
_BATCH_MESSAGES_MAX: Final = 1024
_BATCH_BYTES_MAX: Final = 256 << 10
_MESSAGE_OVERHEAD_BYTES: Final = 320  # what a message of the broker costs in memory beside its payload,
_TOPIC_OVERHEAD_BYTES: Final = 160  # and one with another topic than the one before
# Batches that are answered for in one loop turn: 1 to 3 ms if acknowledgements wait for all of their messages.
_COMMIT_BOUNDS_S: Final = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_ANSWERS_PER_TURN: Final = 8
_BUSY_PAUSE_S: Final = 0.005

Item = TypeVar("Item")

OnCommitted = Callable[[int, StorageError | None], None]


class _CommitBatch(Generic[Item]):
    __slots__ = ("buffered_bytes", "count", "error", "items", "ticket")

    def __init__(self, ticket: int) -> None:
        self.ticket = ticket
        self.items: list[Item] = []  # until they are written
        self.count = 0  # of those that were written or refused
        self.buffered_bytes = 0
        self.error: StorageError | None = None


class CommitQueue(Generic[Item]):
    """Stores items of one kind in one database. Owned by the node; lives in its event-loop thread from the opening of
    the database to the end of `close`.

    Args:
        database: Where they go. It may be out of order: batches are then refused until it works again.
        on_committed: Called in the loop thread for every ticket in order, with None when its items are durable, or
            with the error for which they were refused. It must not block.
        loop: The event loop; the running one if None.
        fsync: Whether to wait for the disk. Without it, messages survive the process but not the machine.
        max_buffered_bytes: When to say `is_full`.

    Attributes:
        on_written: Called in the loop thread with each ticket whose items were written, before anything else is
            written; None for nothing.
    """

    def __init__(
        self,
        database: Grouped[Item],
        on_committed: OnCommitted,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        fsync: bool = True,
        max_buffered_bytes: int = 64 << 20,
    ) -> None:
        self._database = database
        self._on_committed = on_committed
        self.on_written: Callable[[int], None] | None = None
        self._loop = loop or asyncio.get_running_loop()
        self._max_buffered_bytes = max_buffered_bytes
        self._gathering: _CommitBatch[Item] = _CommitBatch(1)
        self._is_touched = False  # the gathering batch is answered for, empty or not
        self._waiting: deque[_CommitBatch[Item]] = deque()  # gathered and full
        self._committing: deque[_CommitBatch[Item]] = deque()  # still to be written by the commit that runs
        self._written: list[_CommitBatch[Item]] = []  # written or refused by the commit that runs
        self._unanswered: deque[_CommitBatch[Item]] = deque()  # of a commit that is done
        self._error: StorageError | None = None  # why that failed as a whole
        self._running = False
        self._closing = False
        self._idle = asyncio.Event()
        self._awaited: deque[tuple[int, asyncio.Future[None]]] = deque()  # tickets
        self._fsync = fsync
        self._syncer = Syncer(self._loop, self._synced) if fsync else None
        self._buffered_bytes = 0
        self._topic = ""  # of the newest message
        self._began = 0.0
        self._counts = {"commits": 0, "batches": 0, "messages": 0, "refused_messages": 0, "stalls": 0}
        self._commit_s = 0.0
        self._last_commit_s = 0.0
        self.commit_times = Histogram(_COMMIT_BOUNDS_S)

    def use(self, *, fsync: bool, max_buffered_bytes: int) -> None:
        """Use other settings, from the next commit on."""
        self._max_buffered_bytes = max_buffered_bytes
        self._fsync = fsync
        if fsync and self._syncer is None and not self._closing:
            self._syncer = Syncer(self._loop, self._synced)

    def take(self, item: Item, size: int) -> int:
        """Take an item that costs so many bytes and return the ticket of the batch that will hold it.

        Raises:
            StorageClosedError: `close` was called.
        """
        batch = self._gathering
        batch.items.append(item)
        batch.buffered_bytes += size
        self._buffered_bytes += size
        if not self._running:
            self._start()
        if batch.buffered_bytes >= _BATCH_BYTES_MAX or len(batch.items) >= _BATCH_MESSAGES_MAX:
            self._seal()
        return batch.ticket

    @property
    def gathering_ticket(self) -> int:
        """The ticket of what is taken next."""
        return self._gathering.ticket

    def touch(self) -> int:
        """The same ticket; it is answered for even if nothing is taken under it.

        Raises:
            StorageClosedError: `close` was called.
        """
        if not self._running:
            self._start()
        self._is_touched = True
        return self._gathering.ticket

    async def settled(self) -> None:
        """Wait until what was taken so far is committed or refused.

        Raises:
            StorageClosedError: `close` was called.
        """
        answered = self._loop.create_future()
        self._awaited.append((self.touch(), answered))
        await answered

    @property
    def buffered_bytes(self) -> int:
        """What was taken and not yet answered for costs in memory."""
        return self._buffered_bytes

    @property
    def is_full(self) -> bool:
        """Whether the caller should stop taking items until a commit is done."""
        return self._buffered_bytes >= self._max_buffered_bytes

    @property
    def fullness(self) -> float:
        """What was taken and not yet answered for, as a part of what makes it full."""
        return self._buffered_bytes / self._max_buffered_bytes

    @property
    def is_filling(self) -> bool:
        """Whether it is half full: the caller should stop taking items from those that bring many."""
        return self._buffered_bytes >= self._max_buffered_bytes >> 1

    def statistics(self) -> dict[str, float]:
        """Counts since the start, and seconds: of all commits together and of the last one."""
        return {
            **self._counts,
            "buffered_bytes": self._buffered_bytes,
            "commit_s": self._commit_s,
            "last_commit_s": self._last_commit_s,
        }

    async def close(self) -> None:
        """Store what was taken, answer for it, and stop; the database stays open. Several may wait for it at once."""
        self._closing = True
        while self._running:
            await self._idle.wait()
        if self._syncer is not None:
            self._syncer.stop()
            self._syncer = None

    def _start(self) -> None:
        if self._closing:
            self._buffered_bytes -= self._gathering.buffered_bytes
            self._gathering = _CommitBatch(self._gathering.ticket)
            raise StorageClosedError("the node is stopping", database=self._database.name, path=self._database.path)
        self._running = True
        self._idle.clear()
        self._loop.call_soon(self._begin)

    def _seal(self) -> None:
        self._is_touched = False
        self._waiting.append(self._gathering)
        self._gathering = _CommitBatch(self._gathering.ticket + 1)

    def _begin(self) -> None:
        """Begin a commit of everything gathered so far."""
        if self._gathering.items or self._is_touched:
            self._seal()
        self._committing, self._waiting = self._waiting, self._committing
        self._began = self._loop.time()
        self._write_one()

    def _write_one(self) -> None:
        """Write one batch and come back for the next in the next loop turn; after the last, sync."""
        batch = self._committing.popleft()
        try:
            if batch.items:
                self._database.write(batch.items)
        except StorageBusyError:
            self._counts["stalls"] += 1
            self._committing.appendleft(batch)
            self._loop.call_later(_BUSY_PAUSE_S, self._write_one)
            return
        except StorageError as error:
            batch.error = error
        except Exception as fault:  # noqa: BLE001 - a batch that is not answered for would stop all storing for ever
            self._loop.call_exception_handler({"message": "writing a batch failed", "exception": fault})
            name, path = self._database.name, self._database.path
            batch.error = StorageError(f"{type(fault).__name__}: {fault}", database=name, path=path)
        if self.on_written is not None and batch.items and batch.error is None:
            self._tell_written(self.on_written, batch.ticket)
        # To free the items of all batches at once, when they are durable, would take 20 ms for a full buffer.
        batch.count, batch.items = len(batch.items), []
        self._written.append(batch)
        if self._committing:
            self._loop.call_soon(self._write_one)
        else:
            self._sync()

    def _sync(self) -> None:
        is_written = any(batch.count and batch.error is None for batch in self._written)
        if self._syncer is None or not self._fsync or not is_written:
            self._finish(None)
            return
        try:
            request = self._database.sync_request()
        except StorageError as error:
            self._finish(error)
            return
        self._syncer.sync(request)

    def _synced(self, request: SyncRequest, outcome: OSError | None) -> None:
        error: StorageError | None = None
        try:
            self._database.finish_sync(request, outcome)
        except StorageError as failed:
            error = failed
        self._finish(error)

    def _finish(self, error: StorageError | None) -> None:
        """Answer for the batches of this commit, then go on with what was gathered meanwhile."""
        done, self._written = self._written, []
        if error is None and any(batch.count and batch.error is None for batch in done):
            self._wake()
        self._last_commit_s = self._loop.time() - self._began
        self._commit_s += self._last_commit_s
        self.commit_times.add(self._last_commit_s)
        self._counts["commits"] += 1
        self._unanswered.extend(done)
        self._error = error
        self._answer_some()

    def _answer_some(self) -> None:
        """Answer for some batches, and come back for more in the next loop turn."""
        for _ in range(min(_ANSWERS_PER_TURN, len(self._unanswered))):
            batch = self._unanswered.popleft()
            self._buffered_bytes -= batch.buffered_bytes
            error = batch.error or self._error
            self._counts["batches"] += 1
            self._counts["messages" if error is None else "refused_messages"] += batch.count
            self._answer(batch.ticket, error)
        if self._unanswered:
            self._loop.call_soon(self._answer_some)
            return
        if self._waiting or self._gathering.items or self._is_touched:
            self._loop.call_soon(self._begin)
            return
        self._running = False
        self._idle.set()

    def _wake(self) -> None:
        try:
            self._database.committed()
        except Exception as fault:  # noqa: BLE001 - a fault of one reader must not stop all storing
            self._loop.call_exception_handler({"message": "waking the readers of a commit failed", "exception": fault})

    def _tell_written(self, on_written: Callable[[int], None], ticket: int) -> None:
        try:
            on_written(ticket)
        except Exception as fault:  # noqa: BLE001 - a fault of the callback must not stop all storing
            self._loop.call_exception_handler({"message": f"on_written of ticket {ticket} failed", "exception": fault})

    def _answer(self, ticket: int, error: StorageError | None) -> None:
        try:
            self._on_committed(ticket, error)
        except Exception as fault:  # noqa: BLE001 - a fault of one answer must not stop all storing
            self._loop.call_exception_handler(
                {"message": f"on_committed of ticket {ticket} failed", "exception": fault}
            )
        while self._awaited and self._awaited[0][0] <= ticket:
            _, answered = self._awaited.popleft()
            if not answered.done():
                answered.set_result(None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._database.name!r}, {self._counts}, {self._buffered_bytes} bytes buffered)"


class GroupCommit(CommitQueue[StorableMessage]):
    def append(self, message: StorableMessage) -> int:
        """Take a message and return the ticket of the batch that will hold it.

        Raises:
            StorageClosedError: `close` was called.
        """
        topic, size = message.topic, len(message.payload) + _MESSAGE_OVERHEAD_BYTES
        if topic is not self._topic:  # an equal one that is another object does no harm
            self._topic = topic
            size += _TOPIC_OVERHEAD_BYTES
        return self.take(message, size)


class Syncer:
    """A thread that runs sync requests, one at a time. Owned by a `GroupCommit`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_synced: Callable[[SyncRequest, OSError | None], None]
    ) -> None:
        self._loop = loop
        self._on_synced = on_synced
        self._requests: SimpleQueue[SyncRequest | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="storage-sync", daemon=True)
        self._thread.start()

    def sync(self, request: SyncRequest) -> None:
        """Run a request and report it to the loop."""
        self._requests.put(request)

    def stop(self) -> None:
        """End the thread; no request is running."""
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (request := self._requests.get()) is not None:
            outcome: OSError | None = None
            try:
                request.run()
            except OSError as error:
                outcome = error
            self._loop.call_soon_threadsafe(self._on_synced, request, outcome)
