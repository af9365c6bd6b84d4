"""Reads on past damage for readers that allow it, and reports to them what is missing."""

from collections.abc import Callable, Iterator
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import DamagedBlockError, read_header
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.replay import BlockSlice, Fetch, Selection, block_slices, read_next, slice_between
from heliograph.storage.columnar.salvage import Damage, is_damage, place, readable_blocks
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import ROW_MAX, Batch, EndOfStream, Position, StreamId, StreamIterator

FAIL: Final = "fail"
SKIP: Final = "skip"
ON_DAMAGE: Final = (FAIL, SKIP)

Report = Callable[[Damage], None]


def readable_slices(
    database: Rdict, stream: StreamId, selection: Selection, after: Position, to: Position, report: Report
) -> Iterator[BlockSlice]:
    """As `replay.block_slices`, without what cannot be read.

    Args:
        selection: What is wanted of it. Where its index is damaged, every block is given out, so rows must be chosen.
        report: Called with everything that is left out.
    """
    reached = after
    if selection.hashes is not None:
        try:
            for piece in block_slices(database, stream, selection, after, to):
                if _is_intact(stream, piece, report):
                    yield piece
                reached = Position(piece.time, piece.sequence, ROW_MAX)
            return
        except Exception as error:  # of RocksDB: the index, or a block that it names, cannot be read
            if not is_damage(error):
                raise
    first = place(reached.time, reached.sequence) + (1 if reached.row == ROW_MAX else 0)
    for found in readable_blocks(database, stream, first):
        if isinstance(found, Damage):
            if found.since > to.time:
                return
            report(found)
            continue
        rest = slice_between(found.key, found.value, reached, to)
        if rest is not None:
            yield rest
        if keys.time_and_sequence(found.key) >= to[:2]:
            return


def read_next_readable(
    database: Rdict,
    catalog: Catalog,
    iterator: StreamIterator,
    n: int,
    report: Report,
    fetch: Fetch | None = None,
    looked_at_max: int | None = None,
) -> Batch | EndOfStream:
    """As `replay.read_next`, without what cannot be read; each place is reported each time it is met."""

    def slices(
        database: Rdict, stream: StreamId, selection: Selection, after: Position, to: Position
    ) -> Iterator[BlockSlice]:
        return readable_slices(database, stream, selection, after, to, report)

    return read_next(database, catalog, iterator, n, slices, fetch, looked_at_max)


def _is_intact(stream: StreamId, piece: BlockSlice, report: Report) -> bool:
    try:
        read_header(piece.key, piece.value)
    except DamagedBlockError as error:
        report(Damage(stream, piece.time, piece.time, None, str(error)))
        return False
    return True
