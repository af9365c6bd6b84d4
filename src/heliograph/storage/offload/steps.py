"""Offload: closed generations leave RocksDB for Parquet files elsewhere, and are read back where they are asked for.

What is done to one generation of one shard, each step where the one before it ended, also after a crash:

1. The offload process writes its files, and compares every row that they give back with the row that is stored.
2. The record of where they are is committed (`OffloadState.REPLACING`).
3. Stubs take the place of blocks, some at a time, each together with the removal of what it stands for.
4. The record says that it is done, and RocksDB frees the space.

Until 2 nothing has changed in the database, and from then on the files are whole. Topic structure, ranks, positions
and the topic index stay where they are, so a reader finds the same blocks as before, some of them as stubs. A
generation that is dropped leaves its record (`OffloadState.DROPPED`) until its files are removed.

This module decides and commits, in the event loop, a little at a time. Parquet and the target are touched by the
process (`process`) only.
"""

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.offloaded import OffloadedFile, OffloadError, OffloadRecord, OffloadState, Replacement
from heliograph.storage.columnar.replay import Fetch
from heliograph.storage.engine import new_batch, records
from heliograph.storage.errors import StorageBusyError, StorageDamagedError, StorageError
from heliograph.storage.offload.commit import (
    OffloadableDatabase,
    OffloadOptions,
    due_offload,
    finish,
    generation_at,
    mark,
    replace_blocks,
)
from heliograph.storage.offload.fetch import OffloadFetch
from heliograph.storage.offload.process import OffloadProcess

_log = logging.getLogger(__name__)

_LOOK_MIN_US: Final = 500_000
_LOOK_MAX_US: Final = 10_000_000
_RETRY_S: Final = 30.0
_OPERATIONS_AT_ONCE: Final = 64  # of one write, with what one stub needs more: at most some 2,000


class Offload:
    """Offloads one database, and fetches what is read of it. Owned by the node; used in its event loop.

    Without options nothing is offloaded, and what was is still read, and removed when its time comes.

    Args:
        process: What writes and reads files.
        options: What is offloaded, or None.
        tell: Called after each attempt with the reason why the target refuses, or None if it does not.
    """

    def __init__(
        self,
        database: OffloadableDatabase,
        process: OffloadProcess,
        options: OffloadOptions | None,
        tell: Callable[[StorageError | None], object] = lambda error: None,
    ) -> None:
        self._database = database
        self._process = process
        self._tell = tell
        self._refused: set[tuple[int, int]] = set()  # generations that are damaged
        self._task: asyncio.Task[None] | None = None
        self._is_held = False
        self.use(options)
        self._reading = OffloadFetch(database.name, process)
        names = ("generations", "messages", "bytes", "removed", "failures", "refused_generations")
        self._counts = dict.fromkeys(names, 0)

    def use(self, options: OffloadOptions | None) -> None:
        """Use other options, from the next tick on; what is under way is finished where it began."""
        self._options = options
        after_us = _LOOK_MAX_US if options is None else options.after_us // 4
        self._look_us = min(max(after_us, _LOOK_MIN_US), _LOOK_MAX_US)
        self._next_look_us = 0
        self._tell(None)  # why another target refuses is not known yet

    def tick(self, now_us: int) -> None:
        """Look now and then whether something is due, and begin it; one thing at a time."""
        if self._next_look_us - self._look_us <= now_us < self._next_look_us or not self._database.is_open:
            return
        if self._is_held:
            return
        self._next_look_us = now_us + self._look_us
        if (self._task is None or self._task.done()) and (self._options is not None or self._has_offloaded()):
            self._task = asyncio.get_running_loop().create_task(self._run(now_us), name="offload")

    async def hold(self) -> None:
        """Begin nothing until `release`; returns when the step that is under way has ended."""
        self._is_held = True
        if self._task is not None:
            await asyncio.wait([self._task])

    def release(self) -> None:
        self._is_held = False

    async def stop(self) -> None:
        """End what is under way; the next start goes on with it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._reading.stop()
        await self._process.stop()

    async def step(self, now_us: int) -> bool:
        """Do the next thing that is due, to its end; False if nothing is.

        Raises:
            StorageError: The database failed.
        """
        rocks, _ = self._database.contents()
        refused: OffloadError | None = None
        for key, value in list(records(rocks, keys.offloaded(0, 0), keys.OFFLOADED_END)):
            place, record = keys.shard_and_generation(key), OffloadRecord.from_bytes(value)
            try:
                if record.state is OffloadState.REPLACING:
                    await self._resume(*place, record)
                    return True
                if record.state is OffloadState.DROPPED:
                    await self._remove(key, record)
                    return True
            except OffloadError as error:  # a target of earlier settings must not hold up what goes elsewhere
                refused = refused or error
        if await self._offload_due(now_us):
            return True
        if refused is not None:
            raise refused
        return False

    async def _offload_due(self, now_us: int) -> bool:
        if self._options is None:
            return False
        _, catalog = self._database.contents()
        infos = [one.info for one in catalog.generations() if (one.info.shard, one.info.number) not in self._refused]
        due = due_offload(infos, self._database.usage(), self._options, now_us)
        if due is None:
            return False
        await self._offload(due.shard, due.number, self._options.target)
        return True

    @property
    def fetch(self) -> Fetch:
        """Gives the blocks that stubs stand for, or says that they are being fetched; see `OffloadFetch.fetch`."""
        return self._reading.fetch

    @property
    def fetch_few(self) -> Fetch:
        """The same for readers of few messages; see `OffloadFetch.fetch_few`."""
        return self._reading.fetch_few

    async def fetched(self) -> None:
        """Wait for what is being fetched now."""
        await self._reading.fetched()

    def statistics(self) -> dict[str, float]:
        counts: dict[str, float] = {f"offload.{name}": value for name, value in self._counts.items()}
        counts |= {f"offload.process_{name}": value for name, value in self._process.statistics().items()}
        return {**counts, **self._reading.statistics()}

    def _has_offloaded(self) -> bool:
        try:
            rocks, _ = self._database.contents()
            return next(records(rocks, keys.offloaded(0, 0), keys.OFFLOADED_END), None) is not None
        except Exception:  # noqa: BLE001 - a database that cannot be read now is looked at another time
            return False

    async def _run(self, now_us: int) -> None:
        options = self._options
        try:
            while not self._is_held and await self.step(now_us):
                self._tell(None)
            self._tell(None)
            await self._process.rest()
        except StorageDamagedError as error:
            _log.error("a generation is not offloaded [%s]: %s", error.code, error)
        except StorageBusyError:
            self._counts["failures"] += 1  # the next look goes on
        except StorageError as error:
            self._counts["failures"] += 1
            if options is self._options:  # else nothing would report that it is over: the next look reports those
                self._tell(error)
                await asyncio.sleep(_RETRY_S)
        except Exception:  # noqa: BLE001 - offload is never worth a node
            self._counts["failures"] += 1
            _log.exception("offload failed; the next look goes on")

    async def _offload(self, shard: int, number: int, target: str) -> None:
        generation = generation_at(self._database.contents()[1], shard, number)
        if generation is None:
            return
        generation.is_leaving = True
        answers = self._process.request(
            do="write", database=self._database.name, shard=shard, generation=number, target=target
        )
        try:
            header, _ = await anext(answers)
            files = [OffloadedFile(**file) for file in header["files"]]
            if generation_at(self._database.contents()[1], shard, number) not in (generation, None):
                # Its blocks may have been merged since, and the next look writes the files again.
                raise StorageBusyError("it was opened again while it was offloaded", database=self._database.name)
            if mark(self._database, shard, number, target, files):
                async for _, payload in answers:
                    await self._replace(payload)
                finish(self._database, shard, number)
                self._counts["generations"] += 1
                self._counts["messages"] += sum(file.rows for file in files)
                self._counts["bytes"] += sum(file.size for file in files)
        except StorageDamagedError:
            self._refused.add((shard, number))
            self._counts["refused_generations"] += 1
            raise
        finally:
            generation.is_leaving = False
            await answers.aclose()

    async def _resume(self, shard: int, number: int, record: OffloadRecord) -> None:
        files = [file.to_json() for file in record.files]
        answers = self._process.request(
            do="resume", database=self._database.name, shard=shard, generation=number, target=record.target, files=files
        )
        try:
            async for _, payload in answers:
                await self._replace(payload)
            finish(self._database, shard, number)
        finally:
            await answers.aclose()

    async def _replace(self, payload: bytes) -> None:
        waiting: list[Replacement] = []
        for fields in json.loads(payload):
            waiting.append(Replacement(*map(bytes.fromhex, fields)))
            if sum(one.operations for one in waiting) >= _OPERATIONS_AT_ONCE:
                replace_blocks(self._database, waiting)
                waiting = []
                await asyncio.sleep(0)
        if waiting:
            replace_blocks(self._database, waiting)
            await asyncio.sleep(0)

    async def _remove(self, key: bytes, record: OffloadRecord) -> None:
        if self._options is None or not self._options.keep_files:
            # Were the files removed first, a power failure could bring the generation back without them.
            request = self._database.sync_request()
            error: OSError | None = None
            try:
                await asyncio.to_thread(request.run)
            except OSError as failed:
                error = failed
            self._database.finish_sync(request, error)
            files = [file.to_json() for file in record.files]
            async for _ in self._process.request(do="remove", target=record.target, files=files):
                pass
            self._counts["removed"] += len(files)
        batch = new_batch()
        batch.delete(key)
        self._database.rewrite(batch)

    def __repr__(self) -> str:
        return f"Offload({self._database.name!r}, {self._options}, {self._counts})"
