"""The blocks that offloaded files are read back as.

A stub (see `block`) says which rows of which file it stands for; read back they become the merged block that would have
been in its place, under the same key, and everything that reads blocks goes on from there. Files are written in
`files`; the broker asks the offload process for blocks (`fetch`) and does not import this module, since
it needs pyarrow.
"""

import sys
import threading
from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from heliograph.storage.columnar.arrow_rows import BLOCK_SCHEMAS, OffloadedRows, ReadStub
from heliograph.storage.columnar.block import (
    CLIENTID,
    FLAGS,
    PROPERTIES,
    TOPIC,
    USERNAME,
    BlockHeader,
    BlockPart,
    read_stub,
)
from heliograph.storage.columnar.block_writing import encode_columns
from heliograph.storage.columnar.offloaded import OffloadedFile, offload_record
from heliograph.storage.columnar.replay import dropped
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import StreamId
from heliograph.storage.offload.row_groups import RowGroups
from heliograph.storage.offload.target import Target, offload_errors, open_source

_CACHED_GROUPS: Final = 4  # times those that are read at once
_WORKERS: Final = 4
_REQUESTS: Final = 8  # under way at once, of row groups that need several
READ_AHEAD: Final = 16  # row groups, of some megabytes in all
_OPEN_FILES_MAX: Final = 16
_PLACE_COLUMNS: Final = ("topic", "qos", "stored_at", "sequence", "stream")  # that every read looks at
_SOURCES: Final = {"received_at": "guid", "properties": "property_bytes"}
_COLUMNS: Final = {"clientid": CLIENTID, "username": USERNAME, "property_bytes": PROPERTIES}
_OTHER_COLUMNS: Final = ("payload", "guid", "retain", *_COLUMNS)
_FULL_BITS: Final = b"\xff"

_GroupKey: TypeAlias = "tuple[str, int, Sequence[str]]"  # path, number, columns


def needed_columns(columns: Sequence[str] | None) -> tuple[str, ...]:
    """The columns of a file that some public columns, or all if None, are made of."""
    if columns is None:
        return (*_PLACE_COLUMNS, *_OTHER_COLUMNS)
    found = {_SOURCES.get(name, name) for name in columns} & set(_OTHER_COLUMNS)
    return (*_PLACE_COLUMNS, *sorted(found))


_ALL_COLUMNS: Final = needed_columns(None)


class BlockReader:
    """Turns stubs into the blocks that they stand for. Any thread may use it; it keeps some open files and row groups.

    Who reads a file in its order gets the row groups that follow with one request, and while it takes them apart, those
    after these are fetched.

    Args:
        ahead: Row groups that are read at once by a reader that goes through a file; 1 for readers of few messages.
    """

    def __init__(self, target: Target, ahead: int = 1) -> None:
        self._target = target
        self._ahead = ahead
        self._lock = threading.Lock()
        self._files: OrderedDict[str, RowGroups] = OrderedDict()
        self._groups: OrderedDict[_GroupKey, Future[_Group]] = OrderedDict()
        self._start_threads()

    def block(self, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """The block that a stub stands for; it takes the same key."""
        header, parts, group, first = self._found(stream, key, stub, _ALL_COLUMNS)
        nulls, buffers = group.buffers(first, header.rows)
        return encode_columns(key, header, parts, nulls, buffers)

    def rows(self, stream: StreamId, key: bytes, stub: bytes, columns: Sequence[str]) -> OffloadedRows:
        """The rows that a stub stands for.

        Args:
            columns: The columns of the file to read, as `needed_columns` gives them.
        """
        header, parts, group, first = self._found(stream, key, stub, columns)
        return OffloadedRows(group.columns, parts, group.batch.slice(first, header.rows))

    def _found(
        self, stream: StreamId, key: bytes, stub: bytes, columns: Sequence[str]
    ) -> "tuple[BlockHeader, list[BlockPart], _Group, int]":
        """The head of a stub and what it stands for: the parts, the row group, and its first row of it."""
        header, where, parts = read_stub(key, stub)
        number, first = int(str(where["group"])), int(str(where["first"]))
        path, *numbers = (where[name] for name in ("path", "size", "rows", "checksum"))
        file = OffloadedFile(str(path), *(int(str(number)) for number in numbers))
        with offload_errors(self._target.place(file.path), stream.database):
            group = self._group(file, number, columns)
            if not group.has(stream, parts, first):
                raise OSError(f"row group {number} has not the rows that were written")
            return header, parts, group, first

    def close(self) -> None:
        """Let go of everything; the reader may be used again."""
        for executor in (self._workers, self._requests):
            executor.shutdown()
        self._start_threads()
        with self._lock:
            self._files.clear()
            self._groups.clear()

    def _start_threads(self) -> None:
        """Prepare for work; a thread starts with the first piece of it."""
        self._workers = ThreadPoolExecutor(_WORKERS, "offloaded")
        self._requests = ThreadPoolExecutor(_REQUESTS, "offloaded-request")

    def _group(self, file: OffloadedFile, group: int, columns: Sequence[str]) -> "_Group":
        """A row group; those that follow are fetched if the one before it was read."""
        with self._lock:
            known = self._groups.get((file.path, group, columns))
            is_next = (file.path, group - 1, columns) in self._groups
            mine = [] if known is not None else self._promised(file, group, self._ahead if is_next else 1, columns)
            found = known or self._groups[file.path, group, columns]
            self._groups.move_to_end((file.path, group, columns))
            if is_next and self._ahead > 1:  # it was given out
                self._groups.pop((file.path, group - 1, columns), None)
        if mine:
            self._load(file, group, mine, columns)
        if is_next and self._ahead > 1:
            self._read_ahead(file, group + 1, columns)
        try:
            return found.result()
        except Exception:
            if known is None:
                raise
        return self._group(file, group, columns)  # it was fetched with others, of which one may be to blame

    def _read_ahead(self, file: OffloadedFile, group: int, columns: Sequence[str]) -> None:
        """Begin to fetch what follows the row groups that are here, if these end soon."""
        with self._lock:
            opened = self._files.get(file.path)
            here = group
            while (file.path, here, columns) in self._groups and here < group + self._ahead:
                here += 1
            if opened is None or not here < min(opened.metadata.num_row_groups, group + self._ahead // 2):
                return
            futures = self._promised(file, here, self._ahead, columns)
            self._workers.submit(self._load, file, here, futures, columns)

    def _promised(self, file: OffloadedFile, group: int, count: int, columns: Sequence[str]) -> "list[Future[_Group]]":
        """Promise some row groups to all who come for them meanwhile, up to one that is here. Under the lock."""
        opened = self._files.get(file.path)
        if opened is None:
            count = 1
        else:  # many readers share what is kept; what one of them has not given out yet should not go for another
            room = max(self._ahead // 4, _CACHED_GROUPS * self._ahead - len(self._groups))
            count = max(1, min(count, opened.metadata.num_row_groups - group, room))
        futures = []
        for number in range(group, group + count):
            if (file.path, number, columns) in self._groups:
                break
            futures.append(self._groups.setdefault((file.path, number, columns), Future()))
        while len(self._groups) > _CACHED_GROUPS * self._ahead and next(iter(self._groups.values())).done():
            self._groups.popitem(last=False)
        return futures

    def _load(
        self, file: OffloadedFile, group: int, futures: "Sequence[Future[_Group]]", columns: Sequence[str]
    ) -> None:
        """Keep a promise: fetch row groups that follow one another, with as few requests as Arrow can."""
        numbers = range(group, group + len(futures))
        try:
            opened = self._opened(file)
            table = opened.read(numbers, columns, self._requests.map)
            sizes = [opened.metadata.row_group(number).num_rows for number in numbers]
            at = 0
            for future, size in zip(futures, sizes, strict=True):
                future.set_result(_Group(table.slice(at, size)))
                at += size
        except Exception as error:  # noqa: BLE001 (all who wait get it)
            with self._lock:
                self._files.pop(file.path, None)  # what was changed or is back is opened again
                for number in numbers:
                    self._groups.pop((file.path, number, columns), None)
            if len(futures) > 1 and not futures[0].done():  # one that cannot be read does not keep those before it
                self._load(file, group, futures[:1], columns)
            for future in futures:
                if not future.done():
                    future.set_exception(error)

    def _opened(self, file: OffloadedFile) -> RowGroups:
        with self._lock:
            opened = self._files.get(file.path)
            if opened is not None:
                self._files.move_to_end(file.path)
                return opened
        opened = RowGroups(*open_source(self._target, file))
        with self._lock:
            self._files[file.path] = opened
            if len(self._files) > _OPEN_FILES_MAX:
                self._files.popitem(last=False)
        return opened

    def __repr__(self) -> str:
        return f"BlockReader({self._target}, {len(self._files)} files, {len(self._groups)} row groups)"


class OffloadedBlocks:
    """The blocks of all that a database has offloaded, read where they are asked for, which may take its time.

    Args:
        base: What a target that is a relative directory is below: the node's data directory.
        ahead: Row groups that are read at once by a reader that goes through a file; 1 for readers of few messages.
    """

    def __init__(self, base: Path, ahead: int = 1) -> None:
        self._base = base
        self._ahead = ahead
        self._readers: dict[str, BlockReader] = {}
        self._lock = threading.Lock()

    def fetch(self, database: Rdict, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """The block that a stub stands for."""
        return self._reader(_target(database, stream)).block(stream, key, stub)

    def reading(self, database: Rdict, stream: StreamId, columns: Sequence[str] | None) -> ReadStub:
        """As `fetch`, for a bulk reader that looks at some public columns only; all if None."""
        needed = needed_columns(columns)

        def rows(key: bytes, stub: bytes) -> OffloadedRows:
            return self._reader(_target(database, stream)).rows(stream, key, stub, needed)

        return rows

    def read(self, target: str, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """As `fetch`, of a place that the caller knows."""
        return self._reader(target).block(stream, key, stub)

    def _reader(self, target: str) -> BlockReader:
        with self._lock:
            reader = self._readers.get(target)
            if reader is None:
                reader = self._readers[target] = BlockReader(Target.open(target, self._base), self._ahead)
            return reader

    def close(self) -> None:
        with self._lock:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()


def _target(database: Rdict, stream: StreamId) -> str:
    record = offload_record(database, stream.shard, stream.generation)
    if record is None:
        raise dropped(stream)
    return record.target


class _Group:
    """The rows of a row group.

    Attributes:
        columns: Those of `block.VARIABLE_COLUMNS` that were read.
        batch: All rows as the record batch of a block has them; without payloads and ids that were not read.
    """

    def __init__(self, table: pa.Table) -> None:
        read = {name: _joined(table[name]) for name in table.column_names}
        self._times, self._sequences = _bytes_of(read["stored_at"], 8), _bytes_of(read["sequence"], 4)
        self._run_ends, self._run_streams = _runs(read["stream"])
        flags = read["qos"].cast(pa.uint8())
        if "retain" in read:
            flags = pc.add(flags, pc.multiply(read["retain"].cast(pa.uint8()), pa.scalar(4, pa.uint8())))
        count = table.num_rows
        payload = read["payload"] if "payload" in read else pa.repeat(pa.scalar(b""), count)
        ids = _ids(read["guid"]) if "guid" in read else (pa.repeat(pa.scalar(0, pa.uint64()), count),) * 2
        self.columns = TOPIC | FLAGS | sum(column for name, column in _COLUMNS.items() if name in read)
        columns = [payload, *ids, read["topic"], flags, *(read[name] for name in _COLUMNS if name in read)]
        self.batch = pa.RecordBatch.from_arrays(columns, schema=BLOCK_SCHEMAS[self.columns])

    def has(self, stream: StreamId, parts: Sequence[BlockPart], first: int) -> bool:
        """Whether the rows from one on are those of some commits of a stream."""
        times, sequences = array("q"), array("i")
        for part in parts:
            times.extend(array("q", [part.time]) * part.rows)
            sequences.extend(array("i", [part.sequence]) * part.rows)
        end = first + len(times)
        if first == end or end > self.batch.num_rows:
            return False
        return (
            self._times[8 * first : 8 * end] == times.tobytes()
            and self._sequences[4 * first : 4 * end] == sequences.tobytes()
            and self._is_of(stream, first, end)
        )

    def _is_of(self, stream: StreamId, first: int, end: int) -> bool:
        run = bisect_right(self._run_ends, first)
        return end <= self._run_ends[run] and self._run_streams[run] == str(stream)

    def buffers(self, first: int, count: int) -> tuple[list[int], list[bytes]]:
        """Null counts and buffers of the columns of a block, in the order of its layout (see `block`)."""
        payload, id_high, id_low, topic, flags, clientid, all_usernames, properties = self.batch.columns
        end = first + count
        usernames = pa.concat_arrays([all_usernames.slice(first, count)])
        usernames = usernames if usernames.offset == 0 else usernames.take(pa.array(range(count), pa.int32()))
        buffers = chain(
            _binary(payload, first, end),
            (b"", bytes(_bytes_of(id_high, 8)[8 * first : 8 * end])),
            (b"", bytes(_bytes_of(id_low, 8)[8 * first : 8 * end])),
            _binary(topic, first, end),
            (b"", bytes(_bytes_of(flags, 1)[first:end])),
            _binary(clientid, first, end),
            (_validity(usernames), *_binary(usernames, 0, count)[1:]),
            _binary(properties, first, end),
        )
        return [0] * 6 + [usernames.null_count, 0], list(buffers)


def _binary(values: pa.Array, first: int, end: int) -> tuple[bytes, bytes, bytes]:
    """The buffers of some texts or bytes that follow one another."""
    _, offsets, data = values.buffers()
    at = values.offset + first
    found = pa.Array.from_buffers(pa.int32(), end - first + 1, [None, offsets], offset=at)
    begin, behind = found[0].as_py(), found[-1].as_py()
    ends = pc.subtract(found, pa.scalar(begin, pa.int32()))
    return b"", bytes(_bytes_of(ends, 4)), b"" if data is None else bytes(memoryview(data)[begin:behind])


def _joined(column: pa.ChunkedArray) -> pa.Array:
    chunks = column.chunks
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


def _runs(values: pa.Array) -> tuple[list[int], list[str]]:
    """Where runs of one value end, and their values."""
    runs = pc.run_end_encode(values)
    return runs.run_ends.to_pylist(), runs.values.to_pylist()


def _ids(guids: pa.Array) -> tuple[pa.Array, ...]:
    """The two numbers of each id."""
    numbers = array("Q")
    numbers.frombytes(_bytes_of(guids, 16))
    if sys.byteorder == "little":
        numbers.byteswap()
    high, low = (pa.py_buffer(half) for half in (numbers[0::2], numbers[1::2]))
    return tuple(pa.Array.from_buffers(pa.uint64(), len(guids), [None, half]) for half in (high, low))


def _bytes_of(values: pa.Array, width: int) -> memoryview:
    """The values as they lie in memory, which are not null and have so many bytes each."""
    buffer = values.buffers()[1]
    whole = memoryview(b"" if buffer is None else buffer).cast("B")
    return whole[width * values.offset : width * (values.offset + len(values))]


def _validity(values: pa.Array) -> bytes:
    size = (len(values) + 7) // 8
    bits = values.buffers()[0]
    return _FULL_BITS * size if bits is None else bits.to_pybytes()[:size]
