"""Compaction: small neighbouring blocks of quiet streams become one larger block, a little at a time.

A stream that gets a message now and then has one block for each, and what a block costs to find and to read is the same
however few rows it has. Merging changes neither order nor positions (see `block`), and one merge is one write, so a
reader sees the blocks before it or the block after it.

Blocks are left alone for a while after they were stored: readers at the head of a stream have them in memory, and more
may come. A merge takes a few milliseconds of the event loop (decoding and encoding rows needs the GIL wherever it
runs), and merges come with a pause between them, so that the broker is never held up for long.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from heliograph.config.storage import CompactionConfig
from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import (
    MERGED_VERSION,
    OFFLOADED_VERSION,
    DamagedBlockError,
    is_merged,
    is_stub,
    read_constants,
    read_header,
)
from heliograph.storage.columnar.block_rows import read_rows
from heliograph.storage.columnar.block_writing import merge_blocks
from heliograph.storage.columnar.catalog import Catalog, Generation, generation_record
from heliograph.storage.columnar.salvage import is_damage
from heliograph.storage.engine import Rdict, WriteBatch, new_batch, records
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import SEQUENCE_MAX, StreamId
from heliograph.storage.topic_structure import ANY, REST, hash_of

_log = logging.getLogger(__name__)

_PASSED_BYTES: Final = 1 << 20  # of blocks that are left as they are, in one step
_DEFAULTS: Final = CompactionConfig()
_LOOKING_S: Final = 0.003  # after so long a step ends, also when it found nothing


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """How small blocks are merged.

    Attributes:
        small_rows: A block of more rows is left as it is; likewise `small_bytes`, as it is stored.
        min_blocks: How many there must be to be worth it; in a closed generation, two are.
        max_blocks: The limit of one merge, likewise the three below. A block costs about 40 µs, a row about 4 µs.
        max_shared_rows: For a stream that topics share: a reader of one topic reads a block for each row of it.
        max_bytes: Likewise, of blocks as they are stored.
        pause_s: Between two merges; `rest_s` after a round that found nothing.
    """

    min_age_us: int = round(_DEFAULTS.min_age * 1_000_000)
    small_rows: int = _DEFAULTS.small_messages
    small_bytes: int = _DEFAULTS.small_bytes
    min_blocks: int = 64
    max_blocks: int = 64
    max_rows: int = 1024
    max_shared_rows: int = 16
    max_bytes: int = 256 << 10
    pause_s: float = _DEFAULTS.pause
    rest_s: float = _DEFAULTS.interval


class CompactableDatabase(Protocol):
    """What compaction needs of a database."""

    @property
    def is_open(self) -> bool: ...

    def contents(self) -> tuple[Rdict, Catalog]: ...

    def rewrite(self, batch: WriteBatch) -> None: ...


class Compactor:
    """Merges the small blocks of one database. Owned by the node; runs in its event loop from `start` to `stop`."""

    def __init__(self, database: CompactableDatabase, options: CompactionOptions) -> None:
        self._database = database
        self._options = options
        self._timer: asyncio.TimerHandle | None = None
        self._catalog: Catalog | None = None  # whose generations are waiting
        self._waiting: Iterator[tuple[Generation, StreamId]] = iter(())
        self._again: tuple[Generation, StreamId] | None = None  # the stream that may have more to merge
        self._counts = {"merges": 0, "merged_blocks": 0, "merged_messages": 0, "failures": 0, "looks": 0}
        self._longest_s = 0.0
        self._finished: set[tuple[int, int]] = set()

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._options.rest_s, self._run)

    def use(self, options: CompactionOptions) -> None:
        """Use other options, and begin, or begin again, after a rest."""
        self.stop()
        self._options = options
        self._finished.clear()  # other blocks are small
        self.start()

    def stop(self) -> None:
        """Stop; nothing is under way between two steps."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def step(self, now_us: int) -> bool:
        """Look at some streams and merge some blocks of one of them; False after the last stream of a round."""
        database, catalog = self._database.contents()
        if catalog is not self._catalog:  # it was opened again: what the generations said before is not known to hold
            self._catalog, self._waiting, self._again = catalog, iter(()), None
        end = time.monotonic() + _LOOKING_S
        while time.monotonic() < end:
            found = self._again or next(self._waiting, None)
            self._again = None
            if found is None:
                self._waiting = self._round(catalog, now_us)
                return False
            if self._look_at(database, *found, now_us):
                self._again = found
                return True
        return True

    def statistics(self) -> dict[str, float]:
        counts: dict[str, float] = {f"compaction.{name}": value for name, value in self._counts.items()}
        return {**counts, "compaction.longest_s": self._longest_s}

    def _round(self, catalog: Catalog, now_us: int) -> Iterator[tuple[Generation, StreamId]]:
        """All streams that can have something to merge; a closed generation needs to be gone through only once."""
        generations = catalog.generations()
        self._finished &= {(one.info.shard, one.info.number) for one in generations}
        for generation in generations:
            shard, number, until = generation.info.shard, generation.info.number, generation.info.until
            if (shard, number) in self._finished or _is_leaving(generation):
                continue
            for stream in catalog.streams_in(generation):
                yield generation, stream
            if until is not None and until <= now_us - self._options.min_age_us:
                self._finished.add((shard, number))

    def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s = self._options.rest_s
        if self._database.is_open:
            began = loop.time()
            try:
                pause_s = self._options.pause_s if self.step(_now_us()) else self._options.rest_s
            except StorageError:  # the disk is full or fails, which is logged where messages are refused
                self._counts["failures"] += 1
            except Exception:  # noqa: BLE001 - compaction is never worth a node
                self._counts["failures"] += 1
                _log.exception("compaction failed; it goes on in %s s", pause_s)
            self._longest_s = max(self._longest_s, loop.time() - began)
        self._timer = loop.call_later(pause_s, self._run)

    def _look_at(self, database: Rdict, generation: Generation, stream: StreamId, now_us: int) -> bool:
        """Merge the next blocks of a stream that are due; False if there are none."""
        self._counts["looks"] += 1
        if database.get(keys.generation(stream.shard, stream.generation)) is None:
            return False  # dropped since the round began
        if _is_leaving(generation):
            return False
        structure = (generation.structure.topics_of(stream.number) or REST).split("/")
        max_rows = self._options.max_shared_rows if has_index(structure) else self._options.max_rows
        try:
            blocks, passed = self._next_blocks(database, stream, now_us, max_rows)
        except Exception as error:
            if not is_damage(error):
                raise
            return False
        is_sealed = generation.info.until is not None
        merges = len(blocks) >= (2 if passed or is_sealed else self._options.min_blocks)
        batch = new_batch()
        if merges:
            rows = self._stage_merge(generation, stream, structure, blocks, batch)
            self._counts["merges"] += 1
            self._counts["merged_blocks"] += len(blocks)
            self._counts["merged_messages"] += rows
        elif not passed:
            return False
        last = passed or blocks[-1][0]
        batch.put(keys.compacted(*stream[1:]), _tail(last))
        self._database.rewrite(batch)
        if merges:
            generation.info = replace(generation.info, layout_version=MERGED_VERSION)
        return True

    def _next_blocks(
        self, database: Rdict, stream: StreamId, now_us: int, max_rows: int
    ) -> tuple[list[tuple[bytes, bytes]], bytes | None]:
        """Small neighbouring blocks behind those looked at before, and the key up to which nothing else is to be done.

        That key is None where more may be added to the blocks later.
        """
        options = self._options
        prefix = keys.block_prefix(*stream[1:])
        behind = database.get(keys.compacted(*stream[1:])) or b""
        upper = prefix + keys.tail(max(0, now_us - options.min_age_us), SEQUENCE_MAX)
        blocks: list[tuple[bytes, bytes]] = []
        passed: bytes | None = None
        rows = size = passed_bytes = 0
        for key, value in records(database, prefix + behind + b"\0" if behind else prefix, upper):
            block_rows = self._rows_if_small(key, value)
            rows += block_rows or 0
            size += len(value)
            if blocks and (
                block_rows is None or rows > max_rows or size > options.max_bytes or len(blocks) >= options.max_blocks
            ):
                return blocks, blocks[-1][0]
            if block_rows is not None:
                blocks.append((key, value))
                continue
            passed = key
            rows, size, passed_bytes = 0, 0, passed_bytes + len(value)
            if passed_bytes > _PASSED_BYTES:
                break
        return (blocks, None) if blocks else ([], passed)

    def _rows_if_small(self, key: bytes, value: bytes) -> int | None:
        """The rows of a block, or None if it is to be left as it is: large, merged already, or damaged."""
        if len(value) > self._options.small_bytes or is_merged(value):
            return None
        try:
            header = read_header(key, value)
        except DamagedBlockError:
            return None
        return header.rows if header.rows <= self._options.small_rows else None

    def _stage_merge(
        self,
        generation: Generation,
        stream: StreamId,
        structure: list[str],
        blocks: list[tuple[bytes, bytes]],
        batch: WriteBatch,
    ) -> int:
        """Put a merge into a batch; return its rows."""
        info = generation.info
        if info.layout_version < MERGED_VERSION:
            record = generation_record(info.since, info.until, generation.thresholds, MERGED_VERSION)
            batch.put(keys.generation(info.shard, info.number), record)
        hashes: set[bytes] = set()
        prefix = keys.index_prefix(*stream[1:], b"")
        for key, value in blocks:
            batch.delete(key)
            found = topic_hashes(key, value, structure)
            hashes |= found
            for topic_hash in found:
                batch.delete(prefix + topic_hash + _tail(key))
        last, _ = blocks[-1]
        merged = merge_blocks(blocks)
        batch.put(last, merged)
        for topic_hash in sorted(hashes):
            batch.put(prefix + topic_hash + _tail(last), b"")
        return read_header(last, merged).rows

    def __repr__(self) -> str:
        return f"Compactor({self._counts})"


def _is_leaving(generation: Generation) -> bool:
    """Whether stubs take, or are about to take, the place of its blocks, which must be those that were offloaded."""
    return generation.is_leaving or generation.info.layout_version >= OFFLOADED_VERSION


def has_index(structure: list[str]) -> bool:
    """Whether topics share the stream of these levels, so that an index leads to them."""
    return structure == [REST] or ANY in structure


def topic_hashes(key: bytes, value: bytes, structure: list[str]) -> set[bytes]:
    """The index entries of a block of a stream, as `TopicStructure.place` gives them."""
    if not has_index(structure) or is_stub(value):  # the entries of a stub are where its rows are
        return set()
    header = read_header(key, value)
    constant = read_constants(header, value).topic
    topics = {constant} if constant is not None else {row.topic for row in read_rows(key, value, 0, header.rows)}
    return {topic_hash(topic, structure) for topic in topics}


def topic_hash(topic: str, structure: list[str]) -> bytes:
    """The index entry of a topic in a stream of these levels."""
    if structure == [REST]:
        return hash_of([topic])
    return hash_of([level for name, level in zip(structure, topic.split("/"), strict=True) if name == ANY])


def _tail(key: bytes) -> bytes:
    return keys.tail(*keys.time_and_sequence(key))


def _now_us() -> int:
    return time.time_ns() // 1000
