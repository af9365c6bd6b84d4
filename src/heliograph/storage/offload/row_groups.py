"""Row groups of one offloaded file, read with few requests.

Arrow asks for each column of a row group that is more than 8 KiB away from the one before by itself, and a request to
an object store takes as long as some hundred KiB more of another do. So what is wanted is fetched here, with what is
between, and Arrow is given a file that consists of what was fetched.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyarrow import parquet

_GAP_BYTES_MAX: Final = 256 << 10  # read along rather than asked around
_RANGE_BYTES_MAX: Final = 8 << 20  # of one request; a store answers several at once

_Range = tuple[int, int]  # first byte, and the byte after the last one
_ReadRanges = Callable[[Callable[[_Range], bytes], Sequence[_Range]], Iterable[bytes]]


class RowGroups:
    """An open file of which any thread reads row groups. It is closed with the last reference to it."""

    def __init__(self, source: pa.NativeFile, metadata: parquet.FileMetaData) -> None:
        self.metadata = metadata
        self._source = source
        self._size = source.size()

    def read(self, numbers: Sequence[int], columns: Sequence[str], at_once: _ReadRanges = map) -> pa.Table:
        """The rows of some row groups.

        Args:
            numbers: Of the row groups, in their order.
            at_once: Calls a function with each range; `map` of an executor reads them at the same time.
        """
        ranges = list(_together(_chunks(self.metadata, numbers, set(columns))))
        pieces = at_once(self._bytes, ranges) if len(ranges) > 1 else map(self._bytes, ranges)
        fetched = _Fetched([begin for begin, _ in ranges], [pa.py_buffer(piece) for piece in pieces], self._size)
        with pa.PythonFile(fetched, mode="r") as file:
            opened = parquet.ParquetFile(
                file, metadata=self.metadata, pre_buffer=False, page_checksum_verification=True
            )
            return opened.read_row_groups(list(numbers), columns=list(columns), use_threads=False)

    def _bytes(self, span: _Range) -> bytes:
        begin, end = span
        found: bytes = self._source.read_at(end - begin, begin)
        if len(found) != end - begin:
            raise OSError(f"it ends after {begin + len(found)} bytes, and {self._size} were written")
        return found

    def __repr__(self) -> str:
        return f"RowGroups({self.metadata.num_row_groups} of {self._size} bytes)"


class _Fetched:
    """A file of which only some ranges are here, as `pyarrow.PythonFile` reads one."""

    closed = False

    def __init__(self, begins: Sequence[int], pieces: Sequence[pa.Buffer], size: int) -> None:
        self._begins = begins
        self._pieces = pieces
        self._size = size
        self._at = 0

    def seek(self, place: int, whence: int = 0) -> int:
        self._at = place + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read_buffer(self, size: int) -> pa.Buffer:
        """What is at the place of the file, without a copy."""
        number = bisect_right(self._begins, self._at) - 1
        piece, first = self._pieces[number], self._at - self._begins[number]
        if number < 0 or first + size > piece.size:
            raise OSError(f"{size} bytes at {self._at} are not in the row groups that its footer names")
        self._at += size
        return piece.slice(first, size)

    def read(self, size: int) -> bytes:
        found: bytes = self.read_buffer(size).to_pybytes()
        return found

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        """Let go of what was fetched."""
        self._pieces = self._begins = ()


def _chunks(metadata: parquet.FileMetaData, numbers: Iterable[int], columns: set[str]) -> Iterator[_Range]:
    """Where the columns of some row groups are, in the order of the file."""
    names = [metadata.schema.column(index).path.partition(".")[0] for index in range(metadata.num_columns)]
    indices = [index for index, name in enumerate(names) if name in columns]
    for number in numbers:
        group = metadata.row_group(number)
        for index in indices:
            chunk = group.column(index)
            pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
            begin = min(place for place in pages if place is not None)
            yield begin, begin + chunk.total_compressed_size


def _together(chunks: Iterator[_Range]) -> Iterator[_Range]:
    """Ranges for one request each, in the order of the file; a chunk is in one of them as a whole."""
    begin = end = -1
    for first, last in chunks:
        if begin >= 0 and first - end <= _GAP_BYTES_MAX and last - begin <= _RANGE_BYTES_MAX:
            end = last
            continue
        if begin >= 0:
            yield begin, end
        begin, end = first, last
    if begin >= 0:
        yield begin, end
