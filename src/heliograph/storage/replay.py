"""Reading streams: which blocks follow a position, how far a position is, and `next` for few messages.

Works on any open database, the broker's own or a reader's secondary. Bulk reading as Arrow is in `arrow_rows`, sharing
out a read among streams in `plan`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from heliograph.storage import keys
from heliograph.storage.block import BlockHeader, DamagedBlockError, read_header, read_rows
from heliograph.storage.catalog import Catalog
from heliograph.storage.engine import Rdict, last_record, records
from heliograph.storage.errors import StorageDamagedError
from heliograph.storage.interface import (
    END_OF_STREAM,
    ROW_MAX,
    SEQUENCE_MAX,
    TIME_MAX,
    Batch,
    EndOfStream,
    Position,
    StoredMessage,
    StreamId,
    StreamIterator,
)
from heliograph.storage.topic_filter import TopicFilter, topic_filter
from heliograph.storage.topic_structure import StreamMatch

_ROWS_AT_ONCE = 1024


class Progress(NamedTuple):
    """How much of a stream lies at or before a position."""

    rows: int
    message_bytes: int


class BlockSlice(NamedTuple):
    """Some rows of one block: from `first` up to, not including, `end` (which may lie behind the last row)."""

    key: bytes
    value: bytes
    time: int
    sequence: int
    first: int
    end: int


class Selection:
    """What a reader wants of one stream.

    Args:
        matches: How each of its filters meets the stream; at least one.
    """

    def __init__(self, matches: Sequence[StreamMatch]) -> None:
        self.covered = any(match.covered for match in matches)
        hashes = [match.topic_hash for match in matches if match.topic_hash is not None]
        self.hashes = hashes if len(hashes) == len(matches) else None


def select(catalog: Catalog, stream: StreamId, filters: Sequence[TopicFilter]) -> Selection | None:
    """What filters want of a stream, or None if they cannot find anything in it.

    Raises:
        UnknownStreamError: There is no such stream.
    """
    structure = catalog.generation_of(stream).structure
    matches = [match for one in filters if (match := structure.match(one, stream.number)) is not None]
    return Selection(matches) if matches else None


def block_slices(
    database: Rdict, stream: StreamId, selection: Selection, after: Position, to: Position
) -> Iterator[BlockSlice]:
    """The blocks with rows in (after, to] that the selection wants, in order."""
    if selection.hashes is None:
        found = _all_blocks(database, stream, after, to)
    else:
        found = _indexed_blocks(database, stream, selection.hashes, after, to)
    after_time, to_time = after.time, to.time
    for key, value in found:
        time, sequence = keys.time_and_sequence(key)
        if after_time < time < to_time:
            yield BlockSlice(key, value, time, sequence, 0, ROW_MAX)
            continue
        first = after.row + 1 if (time, sequence) == after[:2] else 0
        end = to.row + 1 if (time, sequence) == to[:2] else ROW_MAX
        if first < end:
            yield BlockSlice(key, value, time, sequence, first, end)


def progress(database: Rdict, stream: StreamId, position: Position) -> Progress:
    """How much of a stream lies at or before a position; found with one seek, since blocks say what precedes them."""
    prefix = keys.block_prefix(*stream[1:])
    found = last_record(database, prefix, prefix + keys.tail(position.time, position.sequence))
    if found is None:
        return Progress(0, 0)
    key, value = found
    header = checked_header(stream, key, value)
    if keys.time_and_sequence(key) != position[:2] or position.row >= header.rows - 1:
        return Progress(header.rows_before + header.rows, header.bytes_before + header.message_bytes)
    part = header.message_bytes * (position.row + 1) // header.rows
    return Progress(header.rows_before + position.row + 1, header.bytes_before + part)


def newest(database: Rdict, stream: StreamId, until: int = TIME_MAX) -> Position | None:
    """The position behind the last block stored at or before `until` (µs), or None if there is none."""
    prefix = keys.block_prefix(*stream[1:])
    found = last_record(database, prefix, prefix + keys.tail(until, SEQUENCE_MAX))
    return None if found is None else Position(*keys.time_and_sequence(found[0]), ROW_MAX)


def checked_header(stream: StreamId, key: bytes, value: bytes) -> BlockHeader:
    """The header of a block of a stream.

    Raises:
        StorageDamagedError: The block is not what was written.
    """
    try:
        return read_header(key, value)
    except DamagedBlockError as error:
        raise damaged(error, stream, key) from error


def damaged(error: DamagedBlockError, stream: StreamId, key: bytes) -> StorageDamagedError:
    """The error for people about a damaged block, naming where it is."""
    time, sequence = keys.time_and_sequence(key)
    return StorageDamagedError(
        f"{error}; it was stored at {time} µs, part {sequence}",
        database=stream.database,
        shard=stream.shard,
        stream=str(stream),
    )


def read_next(database: Rdict, catalog: Catalog, iterator: StreamIterator, n: int) -> Batch | EndOfStream:
    """Read up to `n` messages that follow an iterator; see `interface.Database.next`."""
    stream = iterator.stream
    wanted = topic_filter(iterator.topic_filter, stream.database)
    sealed = catalog.generation_of(stream).info.until is not None
    selection = select(catalog, stream, [wanted])
    messages: list[StoredMessage] = []
    position = iterator.position
    if selection is not None:
        for piece in block_slices(database, stream, selection, position, Position(TIME_MAX, SEQUENCE_MAX, ROW_MAX)):
            position = _take(piece, stream, None if selection.covered else wanted, n, messages)
            if len(messages) >= n:
                break
    if not messages and sealed:
        return END_OF_STREAM
    return Batch(StreamIterator(stream, iterator.topic_filter, position), messages)


def _take(
    piece: BlockSlice, stream: StreamId, wanted: TopicFilter | None, n: int, messages: list[StoredMessage]
) -> Position:
    """Add what matches until there are `n` messages; returns how far it came."""
    key, value, time, sequence, first, _ = piece
    while True:
        count = n - len(messages) if wanted is None else _ROWS_AT_ONCE
        try:
            rows = read_rows(key, value, first, count)
        except DamagedBlockError as error:
            raise damaged(error, stream, key) from error
        if not rows:
            return Position(time, sequence, ROW_MAX)
        for message in rows:
            if wanted is None or wanted.matches(message.topic):
                messages.append(message)
                if len(messages) >= n:
                    return Position(time, sequence, first)
            first += 1


def _all_blocks(database: Rdict, stream: StreamId, after: Position, to: Position) -> Iterator[tuple[bytes, bytes]]:
    prefix = keys.block_prefix(*stream[1:])
    return records(database, _first_key(prefix, after), prefix + keys.tail(to.time, to.sequence) + b"\0")


def _indexed_blocks(
    database: Rdict, stream: StreamId, hashes: Sequence[bytes], after: Position, to: Position
) -> Iterator[tuple[bytes, bytes]]:
    tails: set[bytes] = set()
    for topic_hash in hashes:
        prefix = keys.index_prefix(*stream[1:], topic_hash)
        upper = prefix + keys.tail(to.time, to.sequence) + b"\0"
        tails.update(key[len(prefix) :] for key, _ in records(database, _first_key(prefix, after), upper))
    block_prefix = keys.block_prefix(*stream[1:])
    for tail in sorted(tails):
        key = block_prefix + tail
        value = database.get(key)
        if value is None:
            raise damaged(DamagedBlockError("the index names a block that is not there"), stream, key)
        yield key, value


def _first_key(prefix: bytes, after: Position) -> bytes:
    key = prefix + keys.tail(after.time, after.sequence)
    return key + b"\0" if after.row == ROW_MAX else key
