"""The rows of a closed generation as Parquet files.

    TARGET/database=DATABASE/shard=SHARD/day=YYYY-MM-DD/SITE-GENERATION-SINCE.parquet    day (UTC) of `stored_at`

Rows are sorted by stream and position, and a row group holds some thousand rows of one stream, or of several small
ones. Names depend only on what is written, so what a crash cut off is overwritten by the next attempt. The columns are
`arrow_rows.OFFLOADED_SCHEMA`: enough to give every row back as it was stored, at its position.

What takes the place of blocks follows from the files alone, so that it can be found again after a crash. When that is
done, and what is committed, is the business of `steps`; `blocks` reads back. Only the offload process imports
this module, since it needs pyarrow.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs, parquet

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.arrow_rows import OFFLOADED_SCHEMA, RowCollector
from heliograph.storage.columnar.block import BlockPart, read_header, read_parts
from heliograph.storage.columnar.block_writing import encode_stub
from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.compaction import has_index, topic_hash
from heliograph.storage.columnar.extent import Extent, extent_until
from heliograph.storage.columnar.offloaded import OffloadedFile, OffloadError, Replacement
from heliograph.storage.columnar.replay import BlockSlice, Selection, block_slices
from heliograph.storage.engine import Rdict, records
from heliograph.storage.interface import END, ROW_MAX, SEQUENCE_MAX, Position, StreamId
from heliograph.storage.offload.target import Target, new_file, offload_errors, open_file, written_file
from heliograph.storage.topic_structure import REST, StreamMatch

_DAY_US: Final = 86_400_000_000
GROUP_ROWS: Final = 8192  # of a row group, so the most that a read of one row must fetch
_GROUP_BYTES: Final = 2 << 20
STUB_ROWS: Final = 1024  # that one stub stands for, so what a reader in an event loop takes apart at once
_STUB_BYTES: Final = 256 << 10
_STUB_COLUMNS: Final = ["topic", "payload", "stored_at", "sequence", "stream"]


def write_files(database: Rdict, catalog: Catalog, generation: Generation, target: Target) -> list[OffloadedFile]:
    """Write the rows of one closed generation of one shard, over whatever is there; return the files, by day.

    Raises:
        StorageDamagedError: A block is not what was written; nothing is to be removed then.
    """
    files: list[OffloadedFile] = []
    batches = _batches(database, catalog, generation)
    first = next(batches, None)
    while first is not None:
        day, batch = first
        path = _file_path(catalog, generation, day)
        with offload_errors(target.place(path), catalog.name):
            first = _write_file(target, path, batch, day, batches)
            files.append(written_file(target, path))
    return files


def _write_file(
    target: Target, path: str, batch: pa.RecordBatch, day: int, batches: Iterator[tuple[int, pa.RecordBatch]]
) -> tuple[int, pa.RecordBatch] | None:
    """Write the rows of a day; return the first rows of the next day."""
    following: tuple[int, pa.RecordBatch] | None = (day, batch)
    with new_file(target, path) as writer:
        waiting: list[pa.RecordBatch] = []
        while following is not None and following[0] == day:
            _, batch = following
            if waiting and not _fit(waiting, batch):
                _write_group(writer, waiting)
                waiting = []
            waiting.append(batch)
            following = next(batches, None)
        _write_group(writer, waiting)
    return following


def _fit(waiting: Sequence[pa.RecordBatch], batch: pa.RecordBatch) -> bool:
    together = [*waiting, batch]
    size: int = sum(one.nbytes for one in together)
    return size <= _GROUP_BYTES and sum(one.num_rows for one in together) <= GROUP_ROWS


def _write_group(writer: parquet.ParquetWriter, batches: Sequence[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(batches)
    writer.write_table(table, row_group_size=table.num_rows)


def files_there(target: Target, catalog: Catalog, generation: Generation) -> list[str]:
    """The files of a generation, whether or not the database names them: an attempt that was cut off leaves some."""
    folder, name = _folder(catalog, generation), _name(catalog, generation)
    with offload_errors(target.place(folder), catalog.name):
        below = fs.FileSelector(target.place(folder), allow_not_found=True, recursive=True)
        found = [one.path for one in target.filesystem.get_file_info(below) if one.type is fs.FileType.File]
    return [path.removeprefix(f"{target.path}/") for path in found if path.rpartition("/")[2].startswith(name)]


def _file_path(catalog: Catalog, generation: Generation, day: int) -> str:
    date = datetime.fromtimestamp(day * _DAY_US // 1_000_000, UTC).strftime("%Y-%m-%d")
    return f"{_folder(catalog, generation)}/day={date}/{_name(catalog, generation)}.parquet"


def _folder(catalog: Catalog, generation: Generation) -> str:
    return f"database={catalog.name}/shard={generation.info.shard}"


def _name(catalog: Catalog, generation: Generation) -> str:
    return f"{catalog.site}-{generation.info.number}-{generation.info.since}"


def _batches(database: Rdict, catalog: Catalog, generation: Generation) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a generation and their days, by day, stream and position; a batch has whole commits of one stream."""
    following = {}
    for stream in catalog.streams_in(generation):
        time = _time_behind(database, stream, Position.before(0))
        if time is not None:
            following[stream] = time
    while following:
        day = min(following.values()) // _DAY_US
        last = Position((day + 1) * _DAY_US - 1, SEQUENCE_MAX, ROW_MAX)
        for stream, time in list(following.items()):
            if time > last.time:
                continue
            slices = block_slices(database, stream, everything(stream), Position.before(time), last)
            for some in _chunks(slices):
                for batch in RowCollector(stream, None, None, OFFLOADED_SCHEMA).batches(iter(some)):
                    yield day, batch
            next_time = _time_behind(database, stream, last)
            if next_time is None:
                del following[stream]
            else:
                following[stream] = next_time


def everything(stream: StreamId) -> Selection:
    return Selection([StreamMatch(stream.number, "#", None, True)])


def _time_behind(database: Rdict, stream: StreamId, position: Position) -> int | None:
    """When the first row behind a position was stored, or None if there is none."""
    for piece in block_slices(database, stream, everything(stream), position, END):
        return min(part.time for part in read_parts(piece.key, piece.value) if part.time > position.time)
    return None


def _chunks(slices: Iterator[BlockSlice]) -> Iterator[list[BlockSlice]]:
    """Blocks, as many at a time as make a row group."""
    waiting: list[BlockSlice] = []
    rows = size = 0
    for piece in slices:
        piece_rows = min(piece.end, read_header(piece.key, piece.value).rows) - piece.first
        if waiting and (rows + piece_rows > GROUP_ROWS or size + len(piece.value) > _GROUP_BYTES):
            yield waiting
            waiting, rows, size = [], 0, 0
        waiting.append(piece)
        rows += piece_rows
        size += len(piece.value)
    if waiting:
        yield waiting


def verified_replacements(
    database: Rdict, catalog: Catalog, generation: Generation, target: Target, files: Sequence[OffloadedFile]
) -> list[Replacement]:
    """What takes the place of the blocks of a generation, after every row that the files give back was compared.

    Raises:
        OffloadError: A file is not there, or does not give back what was written.
    """
    wanted = _Rows(batch for _, batch in _batches(database, catalog, generation))
    compared = (
        (file, group, table)
        for file, group, table in _groups(target, files, None)
        if wanted.take(table, target.place(file.path))
    )
    found = _replacements(compared, database, generation)
    counted: dict[StreamId, Extent] = {}
    for key, stub, *_ in found:
        header = read_header(key, stub)
        stream = StreamId(catalog.name, *keys.stream_of_block(key))
        counted[stream] = Extent(header.rows_before + header.rows, header.bytes_before + header.message_bytes)
    stored = {stream: extent_until(database, stream, END) for stream in catalog.streams_in(generation)}
    if wanted.left() or counted != {stream: one for stream, one in stored.items() if one.rows}:
        raise OffloadError(f"the files of generation {generation.info.number} have not all rows", database=catalog.name)
    return found


def replacements(
    database: Rdict, generation: Generation, target: Target, files: Sequence[OffloadedFile]
) -> list[Replacement]:
    """The same, of files that were verified before."""
    return _replacements(_groups(target, files, _STUB_COLUMNS), database, generation)


class _Rows:
    """Rows that are compared with others, however either are cut into batches."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, table: pa.Table, file: str) -> bool:
        """Compare what follows; always true."""
        at = 0
        while at < table.num_rows:
            batch = self._rest or next(self._batches, None)
            if batch is None:
                raise OffloadError(f"{file!r} has rows that were not stored", database="")
            rows = min(batch.num_rows, table.num_rows - at)
            if not table.slice(at, rows).equals(pa.Table.from_batches([batch.slice(0, rows)])):
                raise OffloadError(f"{file!r} does not give back what was written", database="")
            self._rest = batch.slice(rows) if rows < batch.num_rows else None
            at += rows
        return True

    def left(self) -> bool:
        """Whether anything was not compared."""
        return self._rest is not None or next(self._batches, None) is not None


_Group = tuple[OffloadedFile, int, pa.Table]


def _groups(target: Target, files: Sequence[OffloadedFile], columns: Sequence[str] | None) -> Iterator[_Group]:
    for file in files:
        with offload_errors(target.place(file.path)):
            opened = open_file(target, file)
            try:
                for group in range(opened.num_row_groups):
                    yield file, group, opened.read_row_group(group, columns=columns, use_threads=False)
            finally:
                opened.close(force=True)


def _replacements(groups: Iterator[_Group], database: Rdict, generation: Generation) -> list[Replacement]:
    before: dict[StreamId, tuple[int, int]] = {}
    found: dict[StreamId, list[Replacement]] = {}
    for file, group, table in groups:
        first = 0
        for stream, parts in _parts_by_stream(table):
            key = keys.block(*stream[1:], parts[-1].time, parts[-1].sequence)
            where = {**asdict(file), "group": group, "first": first}
            rows, message_bytes = before.get(stream, (0, 0))
            stub = encode_stub(key, where, parts, (rows, message_bytes))
            rows_here = sum(part.rows for part in parts)
            entries = _entries(table["topic"].slice(first, rows_here), _structure(generation, stream))
            found.setdefault(stream, []).append(Replacement(key, stub, entries, b""))
            first += rows_here
            before[stream] = rows + rows_here, message_bytes + sum(part.message_bytes for part in parts)
    return [one for stream, some in found.items() for one in _with_old_entries(some, database, generation, stream)]


def _structure(generation: Generation, stream: StreamId) -> list[str]:
    return (generation.structure.topics_of(stream.number) or REST).split("/")


def _entries(topics: pa.ChunkedArray, structure: list[str]) -> bytes:
    """The hashes of some topics of a stream, side by side; none where topics share no stream."""
    if not has_index(structure):
        return b""
    return b"".join(sorted({topic_hash(topic, structure) for topic in pc.unique(topics).to_pylist()}))


def _with_old_entries(
    found: Sequence[Replacement], database: Rdict, generation: Generation, stream: StreamId
) -> Iterator[Replacement]:
    """The same with the index entries that each makes superfluous."""
    if not has_index(_structure(generation, stream)):
        yield from found
        return
    tails = [one.key[-keys.TAIL_BYTES :] for one in found]
    old = [bytearray() for _ in found]
    prefix = keys.index_prefix(*stream[1:], b"")
    upper = keys.index_prefix(stream.shard, stream.generation, stream.number + 1, b"")
    for key, _ in records(database, prefix, upper):
        tail = key[-keys.TAIL_BYTES :]
        at = bisect_left(tails, tail)
        if at < len(tails) and tails[at] != tail:
            old[at] += key[len(prefix) :]
    for one, entries in zip(found, old, strict=True):
        yield one._replace(old_entries=bytes(entries))


def _parts_by_stream(table: pa.Table) -> Iterator[tuple[StreamId, list[BlockPart]]]:
    """The commits of a row group in its order, as many of one stream at a time as one stub stands for."""
    stream, parts, stub_rows, stub_bytes = "", list[BlockPart](), 0, 0
    for name, time, sequence, count, size in _commits(table):
        is_full = stub_rows + count > STUB_ROWS or stub_bytes + size > _STUB_BYTES
        if parts and (name != stream or is_full):
            yield StreamId.parse(stream), parts
            parts, stub_rows, stub_bytes = [], 0, 0
        stream = name
        stub_rows += count
        stub_bytes += size
        parts.append(BlockPart(time, sequence, count, size))
    if parts:
        yield StreamId.parse(stream), parts


def _commits(table: pa.Table) -> Iterator[tuple[str, int, int, int, int]]:
    """Stream, time, sequence, rows and bytes of each commit of a row group: of its rows with the same of the first."""
    if not table.num_rows:
        return
    places = [table[name].combine_chunks() for name in ("stream", "stored_at", "sequence")]
    differ = [pc.not_equal(values.slice(1), values.slice(0, len(values) - 1)) for values in places]
    starts = [0, *(at + 1 for at in pc.indices_nonzero(pc.or_(pc.or_(*differ[:2]), differ[2])).to_pylist())]
    sizes = pc.add(pc.binary_length(table["topic"]), pc.binary_length(table["payload"])).cast(pa.int64())
    totals = [0, *pc.cumulative_sum(sizes.combine_chunks()).take(pa.array(_ends(starts, table.num_rows))).to_pylist()]
    firsts = pa.array(starts, pa.int64())
    streams, times, sequences = (values.take(firsts) for values in places)
    yield from zip(
        streams.to_pylist(),
        times.cast(pa.int64()).to_pylist(),
        sequences.to_pylist(),
        [end - start for start, end in pairwise([*starts, table.num_rows])],
        [end - start for start, end in pairwise(totals)],
        strict=True,
    )


def _ends(starts: Sequence[int], rows: int) -> list[int]:
    """The last row of each part."""
    return [start - 1 for start in [*starts[1:], rows]]
