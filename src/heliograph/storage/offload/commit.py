"""The commits of offload: when a generation is due, and the writes by which stubs take the place of its blocks.

Each is small and belongs to one generation of one shard. `offload` says in which order they come.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import OFFLOADED_VERSION, read_parts
from heliograph.storage.columnar.catalog import Catalog, Generation, generation_record
from heliograph.storage.columnar.offloaded import (
    OffloadedFile,
    OffloadRecord,
    OffloadState,
    Replacement,
    offload_record,
)
from heliograph.storage.columnar.retention import Usage
from heliograph.storage.engine import Rdict, WriteBatch, new_batch
from heliograph.storage.interface import GenerationInfo
from heliograph.storage.topic_structure import HASH_BYTES
from heliograph.storage.wal import SyncRequest

_EARLY_PART: Final = 0.75  # of `max_bytes`


@dataclass(frozen=True, slots=True)
class OffloadOptions:
    """What is offloaded.

    Attributes:
        target: A directory, or a URI that `pyarrow.fs` knows.
        max_bytes: What the table files may take; at three quarters of it the oldest generation goes early.
        keep_files: Whether files outlive the retention of their messages.
    """

    target: str
    after_us: int = 0
    max_bytes: int | None = None
    keep_files: bool = False


class OffloadableDatabase(Protocol):
    """What offload needs of a database."""

    @property
    def name(self) -> str: ...

    @property
    def is_open(self) -> bool: ...

    def contents(self) -> tuple[Rdict, Catalog]: ...

    def rewrite(self, batch: WriteBatch) -> None: ...

    def free(self, ranges: list[tuple[bytes, bytes]]) -> None: ...

    def usage(self) -> Usage: ...

    def sync_request(self) -> SyncRequest: ...

    def finish_sync(self, request: SyncRequest, error: OSError | None) -> None: ...


def due_offload(
    generations: Sequence[GenerationInfo], usage: Usage, options: OffloadOptions, now_us: int
) -> GenerationInfo | None:
    """The generation of a shard to offload now, or None: the oldest, if it is old enough or room is short."""
    local = [one for one in generations if one.until is not None and one.layout_version < OFFLOADED_VERSION]
    oldest = min(local, key=lambda one: (one.number, one.shard), default=None)
    if oldest is None or oldest.until is None:
        return None
    is_short = options.max_bytes is not None and usage.table_bytes > _EARLY_PART * options.max_bytes
    is_due = oldest.until <= now_us - options.after_us or (is_short and not usage.is_freeing)
    return oldest if is_due else None


def mark(database: OffloadableDatabase, shard: int, number: int, target: str, files: Sequence[OffloadedFile]) -> bool:
    """Commit that the files of a generation are whole.

    Returns:
        Whether its blocks are to be replaced now; not so if it was dropped meanwhile, and the files are to be removed.
    """
    _, catalog = database.contents()
    generation = generation_at(catalog, shard, number)
    state = OffloadState.DROPPED if generation is None else OffloadState.REPLACING
    batch = new_batch()
    batch.put(keys.offloaded(shard, number), OffloadRecord(target, files, state).to_bytes())
    if generation is not None:
        info = generation.info
        record = generation_record(info.since, info.until, generation.thresholds, OFFLOADED_VERSION)
        batch.put(keys.generation(shard, number), record)
    database.rewrite(batch)
    if generation is not None:
        generation.info = replace(generation.info, layout_version=OFFLOADED_VERSION)
    return generation is not None


def replace_blocks(database: OffloadableDatabase, replacements: Sequence[Replacement]) -> None:
    """Put stubs in the place of what they stand for; nothing changes where that was done before.

    Of a generation that was dropped meanwhile nothing is written, for nothing would ever remove it.
    """
    rocks, _ = database.contents()
    batch = new_batch()
    for key, stub, entries, old_entries in replacements:
        if rocks.get(keys.generation(*keys.stream_of_block(key)[:2])) is None:
            continue
        first = read_parts(key, stub)[0]
        batch.delete_range(key[: -keys.TAIL_BYTES] + keys.tail(first.time, first.sequence), key)
        batch.put(key, stub)
        prefix = keys.index_prefix(*keys.stream_of_block(key), b"")
        for entry in _pieces(old_entries, HASH_BYTES + keys.TAIL_BYTES):
            batch.delete(prefix + entry)
        for topic_hash in _pieces(entries, HASH_BYTES):
            batch.put(prefix + topic_hash + key[-keys.TAIL_BYTES :], b"")
    database.rewrite(batch)


def finish(database: OffloadableDatabase, shard: int, number: int) -> None:
    """Commit that all blocks of a generation are replaced, and have their space freed."""
    rocks, _ = database.contents()
    record = offload_record(rocks, shard, number)
    if record is None or record.state is not OffloadState.REPLACING:
        return
    batch = new_batch()
    batch.put(keys.offloaded(shard, number), replace(record, state=OffloadState.OFFLOADED).to_bytes())
    database.rewrite(batch)
    database.free([one for one in keys.ranges_of_generation(shard, number) if one[0].startswith(b"B")])


def generation_at(catalog: Catalog, shard: int, number: int) -> Generation | None:
    for generation in catalog.generations():
        if (generation.info.shard, generation.info.number) == (shard, number):
            return generation
    return None


def _pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))
