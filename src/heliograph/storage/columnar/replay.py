"""Reading streams: which blocks follow a position, and `next` for few messages.

Works on any open database, the broker's own or a reader's secondary. Bulk reading as Arrow is in `arrow_rows`, sharing
out a read among streams in `plan`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import ERASED, DamagedBlockError, is_merged, is_stub, read_header, read_parts
from heliograph.storage.columnar.block_rows import read_matching, read_rows
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.extent import rows_reached
from heliograph.storage.columnar.offloaded import OffloadError
from heliograph.storage.engine import Rdict, records
from heliograph.storage.errors import DroppedGenerationError, StorageDamagedError
from heliograph.storage.interface import (
    END,
    END_OF_STREAM,
    ROW_MAX,
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
_BLOCK_COST: Final = 16  # what coming to a block costs, in rows that are looked at
_INDEX_ENTRIES_AT_ONCE: Final = 256


class BlockSlice(NamedTuple):
    """Some rows of one block: from `first` up to, not including, `end` (which may be after the last row).

    Time and sequence are those of its key: of a merged block, those of its last part.
    """

    key: bytes
    value: bytes
    time: int
    sequence: int
    first: int
    end: int


class Selection:
    """What a reader wants of one stream; `matches` says how each of its filters, at least one, meets it."""

    def __init__(self, matches: Sequence[StreamMatch]) -> None:
        self.covered = any(match.covered for match in matches)
        hashes = [match.topic_hash for match in matches if match.topic_hash is not None]
        self.hashes = hashes if len(hashes) == len(matches) else None


Fetch = Callable[[Rdict, StreamId, bytes, bytes], bytes]  # the block that a stub stands for
Slices = Callable[[Rdict, StreamId, Selection, Position, Position], Iterator[BlockSlice]]


def select(catalog: Catalog, stream: StreamId, filters: Sequence[TopicFilter]) -> Selection | None:
    """What filters want of a stream, or None if they cannot find anything in it."""
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
    for key, value in found:
        piece = slice_between(key, value, after, to)
        if piece is not None:
            yield piece
            # What was given out may come again within a block that it was merged into meanwhile.
            after = Position(piece.time, piece.sequence, ROW_MAX)


def whole_slices(
    database: Rdict, slices: Iterable[BlockSlice], stream: StreamId, fetch: Fetch | None
) -> Iterator[BlockSlice]:
    """The same, with the blocks that were offloaded in the place of their stubs."""
    for piece in slices:
        if is_stub(piece.value):
            if fetch is None:
                raise OffloadError("it was offloaded, and nothing here reads it", database=stream.database)
            piece = piece._replace(value=fetch(database, stream, piece.key, piece.value))
        yield piece


def dropped(stream: StreamId) -> DroppedGenerationError:
    """The error about a generation that goes while it is read."""
    return DroppedGenerationError(
        "the generation was dropped while it was read", database=stream.database, stream=str(stream)
    )


def slice_between(key: bytes, value: bytes, after: Position, to: Position) -> BlockSlice | None:
    """The rows of a block in (after, to], or None if there are none."""
    time, sequence = keys.time_and_sequence(key)
    if is_merged(value):
        parts = read_parts(key, value)
        first, _ = rows_reached(parts, after)
        end, _ = rows_reached(parts, to)
    elif after.time < time < to.time:
        first, end = 0, ROW_MAX
    else:
        first = after.row + 1 if (time, sequence) == after[:2] else 0
        end = to.row + 1 if (time, sequence) == to[:2] else ROW_MAX if (time, sequence) < to[:2] else 0
    return BlockSlice(key, value, time, sequence, first, end) if first < end else None


def damaged(error: DamagedBlockError, stream: StreamId, key: bytes) -> StorageDamagedError:
    """The error for people about a damaged block, naming where it is."""
    time, sequence = keys.time_and_sequence(key)
    return StorageDamagedError(
        f"{error}; it was stored at {time} µs, part {sequence}",
        database=stream.database,
        shard=stream.shard,
        stream=str(stream),
    )


def read_next(
    database: Rdict,
    catalog: Catalog,
    iterator: StreamIterator,
    n: int,
    slices: Slices | None = None,
    fetch: Fetch | None = None,
    looked_at_max: int | None = None,
) -> Batch | EndOfStream:
    """Read up to `n` messages that follow an iterator; see `interface.Database.next`.

    Args:
        slices: What finds the blocks; `block_slices` if None.
        fetch: Gives the rows of what was offloaded.
        looked_at_max: After about so many rows that do not match it ends, if need be with an empty batch whose
            iterator has moved: there may be more.
    """
    stream = iterator.stream
    wanted = topic_filter(iterator.topic_filter, stream.database)
    sealed = catalog.generation_of(stream).info.until is not None
    selection = select(catalog, stream, [wanted])
    messages: list[StoredMessage] = []
    positions: list[Position] = []
    position = iterator.position
    looked_at = 0
    is_cut = False
    if selection is not None:
        found = (slices or block_slices)(database, stream, selection, position, END)
        try:
            for piece in whole_slices(database, found, stream, fetch):
                position, looked = _take(piece, stream, None if selection.covered else wanted, n, messages, positions)
                looked_at += looked + _BLOCK_COST
                is_cut = looked_at_max is not None and looked_at >= looked_at_max
                if len(messages) >= n or is_cut:
                    break
        except OffloadError as error:
            if not messages:
                error.iterator = StreamIterator(stream, iterator.topic_filter, position)
                raise
    if not messages and sealed and not is_cut:
        return END_OF_STREAM
    return Batch(StreamIterator(stream, iterator.topic_filter, position), messages, positions)


def _take(
    piece: BlockSlice,
    stream: StreamId,
    wanted: TopicFilter | None,
    n: int,
    messages: list[StoredMessage],
    positions: list[Position],
) -> tuple[Position, int]:
    """Add what matches until there are `n` messages; returns how far it came, and at how many rows it has looked."""
    key, value, time, sequence, first, _ = piece
    places: list[Position] | None = None
    looked_at = 0
    at_once, sought = _ROWS_AT_ONCE, None if wanted is None else wanted.sought
    if isinstance(sought, str):  # rows of other topics cost nearly nothing, and the checksum is compared each time
        at_once = ROW_MAX
    while True:
        try:
            if sought is None:
                rows = list(enumerate(read_rows(key, value, first, n - len(messages)), first))
                count = len(rows)
            else:
                count, rows = read_matching(key, value, first, at_once, sought)
        except DamagedBlockError as error:
            raise damaged(error, stream, key) from error
        looked_at += count
        if not count:
            return Position(time, sequence, ROW_MAX), looked_at
        if places is None:
            places = _places(key, value) if is_merged(value) else []
        for row, message in rows:
            if message.qos == ERASED:
                continue
            messages.append(message)
            positions.append(places[row] if places else Position(time, sequence, row))
            if len(messages) >= n:
                return positions[-1], looked_at
        if sought is not None and count < at_once:
            return Position(time, sequence, ROW_MAX), looked_at
        first += count


def _places(key: bytes, value: bytes) -> list[Position]:
    """The position of each row of a merged block."""
    return [Position(*part[:2], row) for part in read_parts(key, value) for row in range(part.rows)]


def _all_blocks(database: Rdict, stream: StreamId, after: Position, to: Position) -> Iterator[tuple[bytes, bytes]]:
    prefix = keys.block_prefix(*stream[1:])
    last = prefix + keys.tail(to.time, to.sequence)
    for key, value in records(database, _first_key(prefix, after), keys.behind(prefix)):
        if key <= last or is_merged(value):
            yield key, value
        if key >= last:
            return


def _indexed_blocks(
    database: Rdict, stream: StreamId, hashes: Sequence[bytes], after: Position, to: Position
) -> Iterator[tuple[bytes, bytes]]:
    last = keys.tail(to.time, to.sequence)
    begin = _first_key(b"", after)
    given = b""
    while True:
        tails, end = _indexed_tails(database, stream, hashes, begin, last)
        for tail in tails:
            if tail > given:
                key, value = _indexed_block(database, stream, keys.block_prefix(*stream[1:]) + tail)
                given = key[-len(tail) :]
                if given <= last or is_merged(value):
                    yield key, value
        if end is None:
            return
        begin = end + b"\0"


def _indexed_tails(
    database: Rdict, stream: StreamId, hashes: Sequence[bytes], begin: bytes, last: bytes
) -> tuple[list[bytes], bytes | None]:
    """The ends of the keys of the next blocks that the index names, in order; up to which it was read, None for all.

    A reader that wants few messages must not read the index of all that follow.
    """
    tails: set[bytes] = set()
    end: bytes | None = None
    for topic_hash in hashes:
        prefix = keys.index_prefix(*stream[1:], topic_hash)
        for count, (key, _) in enumerate(records(database, prefix + begin, keys.behind(prefix)), 1):
            tail = key[len(prefix) :]
            tails.add(tail)
            if tail >= last:  # a merged block behind `to` may begin before it
                break
            if count == _INDEX_ENTRIES_AT_ONCE:
                end = tail if end is None else min(end, tail)
                break
    return sorted(tail for tail in tails if end is None or tail <= end), end


def _indexed_block(database: Rdict, stream: StreamId, key: bytes) -> tuple[bytes, bytes]:
    """The block that an index entry names, or the one that it was merged into since the entry was read."""
    value = database.get(key)
    if value is not None:
        return key, value
    if database.get(keys.generation(stream.shard, stream.generation)) is None:
        raise dropped(stream)
    merged = next(records(database, key, keys.behind(keys.block_prefix(*stream[1:]))), None)
    if merged is not None and is_merged(merged[1]):
        read_header(*merged)
        if keys.time_and_sequence(key) in {part[:2] for part in read_parts(*merged)}:
            return merged
    raise damaged(DamagedBlockError("the index names a block that is not there"), stream, key)


def _first_key(prefix: bytes, after: Position) -> bytes:
    key = prefix + keys.tail(after.time, after.sequence)
    return key + b"\0" if after.row == ROW_MAX else key
