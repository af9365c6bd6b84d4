"""Reading back, in the broker, what was offloaded: the blocks that were fetched, and those that are being fetched.

The event loop never waits for a file: a reader of a stub has to ask again, while the offload process fetches it.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from typing import Final

from heliograph.storage.columnar.offloaded import OffloadError, OffloadPendingError, offload_record
from heliograph.storage.engine import Rdict
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StreamId
from heliograph.storage.offload.process import OffloadProcess

_log = logging.getLogger(__name__)

_FETCHING_MAX: Final = 32
_CACHED_BYTES: Final = 32 << 20
_FAILURES_REMEMBERED_MAX: Final = 1024
FAILED_FETCH_S: Final = 2.0
_GIVEN_AT_ONCE: Final = 4  # blocks, in a turn of the event loop; a reader may take some ms for one


class OffloadFetch:
    """The offloaded blocks of one database. Owned by `Offload`; used in the node's event loop."""

    def __init__(self, name: str, process: OffloadProcess) -> None:
        self._name = name
        self._process = process
        self._blocks: OrderedDict[bytes, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._fetching: dict[bytes, asyncio.Task[None]] = {}
        self._failed: OrderedDict[bytes, tuple[float, OffloadError]] = OrderedDict()
        self._given = 0
        self._is_unreadable = False  # the log has it
        self._counts = dict.fromkeys(("fetches", "fetch_failures", "cache_hits"), 0)

    def fetch_few(self, database: Rdict, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """As `fetch`, for a reader of few messages: what is here is given, however much was in this turn."""
        self._given = min(self._given, _GIVEN_AT_ONCE - 1)
        return self.fetch(database, stream, key, stub)

    def fetch(self, database: Rdict, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """The block that a stub stands for, if it has been fetched; see `replay.Fetch`."""
        block = self._blocks.get(key)
        if block is not None and self._given < _GIVEN_AT_ONCE:
            if not self._given:
                asyncio.get_running_loop().call_soon(self._begin_turn)
            self._given += 1
            self._counts["cache_hits"] += 1
            self._blocks.move_to_end(key)
            return block
        failed_at, error = self._failed.get(key, (0.0, None))
        if error is not None and time.monotonic() < failed_at + FAILED_FETCH_S:
            raise OffloadError(error.problem, database=self._name, stream=str(stream))
        if block is None and key not in self._fetching and len(self._fetching) < _FETCHING_MAX:
            record = offload_record(database, stream.shard, stream.generation)
            if record is None:
                raise OffloadError("the place that it was offloaded to is not recorded", database=self._name)
            loop = asyncio.get_running_loop()
            self._fetching[key] = loop.create_task(self._fetch(record.target, stream, key, stub), name="offload-fetch")
        raise OffloadPendingError("it was offloaded and is being fetched", database=self._name)

    async def fetched(self) -> None:
        """Wait for what is being fetched now."""
        await asyncio.gather(*self._fetching.values())

    async def stop(self) -> None:
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def statistics(self) -> dict[str, float]:
        counts: dict[str, float] = {f"offload.{name}": value for name, value in self._counts.items()}
        return {**counts, "offload.cached_bytes": self._cached_bytes, "offload.fetching": len(self._fetching)}

    async def _fetch(self, target: str, stream: StreamId, key: bytes, stub: bytes) -> None:
        self._counts["fetches"] += 1
        try:
            parts = [
                payload
                async for _, payload in self._process.request(
                    do="fetch", target=target, stream=str(stream), key=key.hex(), stub=stub.hex()
                )
            ]
            self._keep(key, b"".join(parts))
        except StorageError as error:
            self._counts["fetch_failures"] += 1
            if not self._is_unreadable:
                _log.warning("what was offloaded cannot be read now [%s]: %s", error.code, error)
            self._is_unreadable = True
            self._failed[key] = time.monotonic(), OffloadError(error.problem, database=self._name)
            if len(self._failed) > _FAILURES_REMEMBERED_MAX:
                self._failed.popitem(last=False)
        finally:
            self._fetching.pop(key, None)

    def _keep(self, key: bytes, block: bytes) -> None:
        self._is_unreadable = False
        self._failed.pop(key, None)
        self._blocks[key] = block
        self._cached_bytes += len(block)
        while self._cached_bytes > _CACHED_BYTES and len(self._blocks) > 1:
            _, oldest = self._blocks.popitem(last=False)
            self._cached_bytes -= len(oldest)

    def _begin_turn(self) -> None:
        self._given = 0

    def __repr__(self) -> str:
        return f"OffloadFetch({self._name!r}, {len(self._blocks)} blocks, {len(self._fetching)} under way)"
