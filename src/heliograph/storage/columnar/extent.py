"""How much of a stream is before a position, and where it ends: from blocks, which say what precedes them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import BlockHeader, BlockPart, is_merged, read_header, read_parts
from heliograph.storage.columnar.salvage import PLACE_MAX, is_damage, nearest_header, place, place_parts
from heliograph.storage.engine import Rdict, last_of, last_record, records
from heliograph.storage.interface import END, ROW_MAX, SEQUENCE_MAX, TIME_MAX, Position, StreamId


class Extent(NamedTuple):
    """How much of a stream lies at or before a position."""

    rows: int
    message_bytes: int


def rows_reached(parts: Sequence[BlockPart], position: Position) -> tuple[int, int]:
    """How many rows of a merged block lie at or before a position, and about how many bytes."""
    rows = message_bytes = 0
    for part in parts:
        if part[:2] > position[:2]:
            break
        if part[:2] == position[:2] and position.row < part.rows - 1:
            return rows + position.row + 1, message_bytes + part.message_bytes * (position.row + 1) // part.rows
        rows += part.rows
        message_bytes += part.message_bytes
    return rows, message_bytes


def extent_until(database: Rdict, stream: StreamId, position: Position) -> Extent:
    """How much of a stream lies at or before a position; found with one seek, since blocks say what precedes them.

    Damage does not make it fail: it is then taken from the nearest blocks that can be read.
    """
    try:
        return _exact_extent(database, stream, position)
    except Exception as error:
        if not is_damage(error):
            raise
        return _extent_beside_damage(database, stream, position)


def rows_between(database: Rdict, stream: StreamId, after: Position, to: Position) -> int | None:
    """How many rows of a stream a reader finds in (after, to], from two seeks; None if only reading them tells.

    That is so where rows were erased, which blocks go on counting, and where either end is damaged. Damage between the
    two is not noticed.
    """
    if database.get(keys.erased(stream.shard, stream.generation)) is not None:
        return None
    try:
        reached = _exact_extent(database, stream, to).rows
        return max(0, reached - _exact_extent(database, stream, after).rows)
    except Exception as error:
        if not is_damage(error):
            raise
        return None


def _exact_extent(database: Rdict, stream: StreamId, position: Position) -> Extent:
    prefix = keys.block_prefix(*stream[1:])
    at = prefix + keys.tail(position.time, position.sequence)
    following = next(records(database, at, keys.behind(prefix)), None)
    if following is not None:
        return _extent_in(*following, position)
    found = last_record(database, prefix, at)
    return Extent(0, 0) if found is None else _through(read_header(*found))


def _extent_in(key: bytes, value: bytes, position: Position) -> Extent:
    header = read_header(key, value)
    rows, message_bytes = 0, 0
    if header.has_parts:
        rows, message_bytes = rows_reached(read_parts(key, value), position)
    elif keys.time_and_sequence(key) == position[:2]:
        rows = min(position.row + 1, header.rows)
        message_bytes = header.message_bytes * rows // header.rows
    return Extent(header.rows_before + rows, header.bytes_before + message_bytes)


def newest(database: Rdict, stream: StreamId, until: int = TIME_MAX) -> Position | None:
    """The position behind the last block stored at or before `until` (µs), or None if there is none."""
    prefix = keys.block_prefix(*stream[1:])
    last = prefix + keys.tail(until, SEQUENCE_MAX)
    try:
        merged = None if until >= TIME_MAX else next(records(database, last, keys.behind(prefix)), None)
        if merged is not None and is_merged(merged[1]):
            read_header(*merged)
            parts = [part for part in read_parts(*merged) if part.time <= until]
            if parts:
                return Position(parts[-1].time, parts[-1].sequence, ROW_MAX)
        found = last_record(database, prefix, last)
    except Exception as error:
        if not is_damage(error):
            raise
        before = nearest_header(database, stream, place(until, SEQUENCE_MAX), 0)
        return None if before is None else Position(*place_parts(before[0]), ROW_MAX)
    return None if found is None else Position(*keys.time_and_sequence(found[0]), ROW_MAX)


def last_positions(database: Rdict, streams: Iterable[StreamId]) -> dict[int, tuple[Position, int]]:
    """The last position and the number of rows of streams of one generation that have any; a seek for each."""
    found = {}
    walk = database.iter()
    for stream in streams:
        prefix = keys.block_prefix(*stream[1:])
        try:
            record = last_of(walk, prefix, keys.behind(prefix))
            if record is not None:
                header = read_header(*record)
                last = Position(*keys.time_and_sequence(record[0]), ROW_MAX)
                found[stream.number] = last, header.rows_before + header.rows
        except Exception as error:
            if not is_damage(error):
                raise
            last_readable = newest(database, stream)
            if last_readable is not None:
                found[stream.number] = last_readable, extent_until(database, stream, last_readable).rows
            walk = database.iter()
    return found


def written_in(database: Rdict, stream: StreamId) -> Extent:
    """How much a stream holds, from its last block; one seek, for the path of a message that is stored."""
    prefix = keys.block_prefix(*stream[1:])
    try:
        last = last_record(database, prefix, keys.behind(prefix))
        if last is None:
            return Extent(0, 0)
        header = read_header(*last)
    except Exception as error:
        if not is_damage(error):
            raise
        return extent_until(database, stream, END)
    return _through(header)


def _extent_beside_damage(database: Rdict, stream: StreamId, position: Position) -> Extent:
    """About how much is before: exactly, if something readable follows; else what is before the damage."""
    at = place(position.time, position.sequence)
    after = nearest_header(database, stream, at, PLACE_MAX)
    if after is not None:
        return Extent(after[1].rows_before, after[1].bytes_before)
    before = nearest_header(database, stream, at, 0)
    return Extent(0, 0) if before is None else _through(before[1])


def _through(header: BlockHeader) -> Extent:
    """How much is before a block and in it."""
    return Extent(header.rows_before + header.rows, header.bytes_before + header.message_bytes)
