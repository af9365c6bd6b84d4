"""The blocks that offloaded files are read back as.

A stub (see `block`) says which rows of which file it stands for; read back they become the merged block that would have
been in its place, under the same key, and everything that reads blocks goes on from there. Files are written in
`files`; the broker asks the offload process for blocks (`fetch`) and does not import this module, since
it needs pyarrow.
"""

import sys
import threading
from array import array
from collections import OrderedDict
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from heliograph.storage.columnar.arrow_rows import OFFLOADED_SCHEMA
from heliograph.storage.columnar.block import BlockPart, read_header, read_parts, stub_place
from heliograph.storage.columnar.block_writing import encode_columns
from heliograph.storage.columnar.offloaded import OffloadedFile, offload_record
from heliograph.storage.columnar.replay import Fetch, dropped
from heliograph.storage.engine import Rdict
from heliograph.storage.interface import StreamId
from heliograph.storage.offload.target import Target, offload_errors, open_file

_CACHED_GROUPS: Final = 4
_OPEN_FILES_MAX: Final = 16
_PLACE_COLUMNS: Final = ("topic", "stored_at", "sequence", "stream")  # that every read looks at
_SOURCES: Final = {"received_at": "guid", "properties": "property_bytes"}
_EMPTY: Final = {
    "payload": b"",
    "guid": bytes(16),
    "qos": 0,
    "retain": False,
    "clientid": "",
    "username": None,
    "property_bytes": b"",
}
_FULL_BITS: Final = b"\xff"


def needed_columns(columns: Sequence[str] | None) -> tuple[str, ...] | None:
    """The columns of a file that some public columns are made of; None for all."""
    if columns is None:
        return None
    found = {_SOURCES.get(name, name) for name in columns} & _EMPTY.keys()
    return (*_PLACE_COLUMNS, *sorted(found))


class BlockReader:
    """Turns stubs into the blocks that they stand for. Owned by one thread; keeps some open files and row groups."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open: OrderedDict[str, parquet.ParquetFile] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int, Sequence[str] | None], pa.Table] = OrderedDict()

    def block(self, stream: StreamId, key: bytes, stub: bytes, columns: Sequence[str] | None = None) -> bytes:
        """The block that a stub stands for; it takes the same key.

        Args:
            columns: The columns of the file to read, as `needed_columns` gives them; all if None. Others are empty.
        """
        where = stub_place(key, stub)
        group, first = int(str(where["group"])), int(str(where["first"]))
        path, *numbers = (where[name] for name in ("path", "size", "rows", "checksum"))
        file = OffloadedFile(str(path), *(int(str(number)) for number in numbers))
        with offload_errors(self._target.place(file.path), stream.database):
            rows = self._group(file, group, columns).slice(first, read_header(key, stub).rows)
            if not _is_of(rows, stream, read_parts(key, stub)):
                raise OSError(f"row group {group} has not the rows that were written")
            nulls, buffers = _columns(rows)
            return encode_columns(key, stub, nulls, buffers)

    def close(self) -> None:
        for opened in self._open.values():
            opened.close(force=True)
        self._open.clear()
        self._groups.clear()

    def _group(self, file: OffloadedFile, group: int, columns: Sequence[str] | None) -> pa.Table:
        path = file.path
        table = self._groups.pop((path, group, columns), None)
        if table is None:
            opened = self._open.pop(path, None) or open_file(self._target, file)
            self._open[path] = opened
            if len(self._open) > _OPEN_FILES_MAX:
                self._open.popitem(last=False)[1].close(force=True)
            try:
                table = opened.read_row_group(group, columns=columns, use_threads=False)
            except Exception:
                self._open.pop(path).close(force=True)  # what was changed or is back is opened again
                raise
        self._groups[path, group, columns] = table
        if len(self._groups) > _CACHED_GROUPS:
            self._groups.popitem(last=False)
        return table

    def __repr__(self) -> str:
        return f"BlockReader({self._target}, {len(self._open)} files, {len(self._groups)} row groups)"


class OffloadedBlocks:
    """The blocks of all that a database has offloaded, read where they are asked for, which may take its time.

    Used by one thread at a time; others wait.

    Args:
        base: What a target that is a relative directory is below: the node's data directory.
    """

    def __init__(self, base: Path) -> None:
        self._base = base
        self._readers: dict[str, BlockReader] = {}
        self._lock = threading.Lock()

    def fetch(self, database: Rdict, stream: StreamId, key: bytes, stub: bytes) -> bytes:
        """The block that a stub stands for."""
        return self.fetching(None)(database, stream, key, stub)

    def fetching(self, columns: Sequence[str] | None) -> Fetch:
        """As `fetch`, for a reader that looks at some public columns only; all if None."""
        needed = needed_columns(columns)

        def fetch(database: Rdict, stream: StreamId, key: bytes, stub: bytes) -> bytes:
            record = offload_record(database, stream.shard, stream.generation)
            if record is None:
                raise dropped(stream)
            return self.read(record.target, stream, key, stub, needed)

        return fetch

    def read(
        self, target: str, stream: StreamId, key: bytes, stub: bytes, columns: Sequence[str] | None = None
    ) -> bytes:
        with self._lock:
            reader = self._readers.get(target)
            if reader is None:
                reader = self._readers[target] = BlockReader(Target.open(target, self._base))
            return reader.block(stream, key, stub, columns)

    def close(self) -> None:
        with self._lock:
            for reader in self._readers.values():
                reader.close()
            self._readers.clear()


def _is_of(rows: pa.Table, stream: StreamId, parts: Sequence[BlockPart]) -> bool:
    times, sequences = array("q"), array("i")
    for part in parts:
        times.extend(array("q", [part.time]) * part.rows)
        sequences.extend(array("i", [part.sequence]) * part.rows)
    if rows.num_rows != len(times) or rows.num_rows == 0:
        return False
    return (
        _compact(rows["stored_at"]).buffers()[1].to_pybytes()[: 8 * len(times)] == times.tobytes()
        and _compact(rows["sequence"]).buffers()[1].to_pybytes()[: 4 * len(times)] == sequences.tobytes()
        and pc.all(pc.equal(rows["stream"], str(stream))).as_py() is True
    )


def _columns(rows: pa.Table) -> tuple[list[int], list[bytes]]:
    """Null counts and buffers of the columns of a block, in the order of its layout (see `block`)."""
    rows = _with_absent_columns(rows)
    guids = array("Q")
    guids.frombytes(_compact(rows["guid"]).buffers()[1].to_pybytes()[: 16 * rows.num_rows])
    if sys.byteorder == "little":
        guids.byteswap()
    flags = pc.add(rows["qos"].cast(pa.uint8()), pc.multiply(rows["retain"].cast(pa.uint8()), pa.scalar(4, pa.uint8())))
    usernames = _compact(rows["username"])
    buffers = chain(
        _binary(_compact(rows["payload"])),
        (b"", guids[0::2].tobytes(), b"", guids[1::2].tobytes()),
        _binary(_compact(rows["topic"])),
        (b"", _compact(flags).buffers()[1].to_pybytes()[: rows.num_rows]),
        _binary(_compact(rows["clientid"])),
        (_validity(usernames), *_binary(usernames)[1:]),
        _binary(_compact(rows["property_bytes"])),
    )
    return [0] * 6 + [usernames.null_count, 0], list(buffers)


def _with_absent_columns(rows: pa.Table) -> pa.Table:
    """The same with empty values in the columns that were not read."""
    for name, empty in _EMPTY.items():
        if name not in rows.column_names:
            values = pa.repeat(pa.scalar(empty, OFFLOADED_SCHEMA.field(name).type), rows.num_rows)
            rows = rows.append_column(name, pa.chunked_array([values]))
    return rows


def _compact(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array whose buffers begin with its first row."""
    rows = column.combine_chunks()
    return rows.take(pa.array(range(len(rows)), pa.int32()))


def _binary(values: pa.Array) -> tuple[bytes, bytes, bytes]:
    _, offsets, data = values.buffers()
    ends = array("i")
    ends.frombytes(offsets.to_pybytes()[: 4 * (len(values) + 1)])
    return b"", ends.tobytes(), b"" if data is None else data.to_pybytes()[: ends[-1]]


def _validity(values: pa.Array) -> bytes:
    size = (len(values) + 7) // 8
    bits = values.buffers()[0]
    return _FULL_BITS * size if bits is None else bits.to_pybytes()[:size]
