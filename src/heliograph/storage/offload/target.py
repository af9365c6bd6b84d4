"""Where offloaded files lie: a directory or an object store, and opening a file there that must be what was written."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import fs, parquet

from heliograph.storage.columnar.arrow_rows import OFFLOADED_SCHEMA
from heliograph.storage.columnar.offloaded import OffloadedFile, OffloadError
from heliograph.storage.durable_files import force_to_disk

_REPEATING: Final = ["topic", "clientid", "username", "stream"]
_TAIL_BYTES: Final = 256 << 10  # of a file, read at once: the footer of some million rows
_WITH_STATISTICS: Final = ["topic", "clientid", "qos", "received_at", "stored_at", "stream"]


@dataclass(frozen=True, slots=True)
class Target:
    filesystem: fs.FileSystem
    path: str

    @classmethod
    def open(cls, text: str, base: Path) -> "Target":
        """The target of a setting: a URI that `pyarrow.fs` knows, or a directory, a relative one below `base`."""
        with offload_errors(text):
            if "://" in text:
                filesystem, path = fs.FileSystem.from_uri(text)
                return cls(filesystem, path.rstrip("/"))
            return cls(fs.LocalFileSystem(), str(base / text))

    def place(self, file: str) -> str:
        return f"{self.path}/{file}"


@contextmanager
def offload_errors(file: str, database: str = "") -> Iterator[None]:
    """Turn what Arrow and the system say about a file into an error for people."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise OffloadError(f"{file!r} cannot be used: {error}", database=database) from error


def open_source(target: Target, file: OffloadedFile) -> tuple[pa.NativeFile, parquet.FileMetaData]:
    """Open a file that must be what was written; with what its footer says."""
    opened = target.filesystem.open_input_file(target.place(file.path))
    try:
        if opened.size() != file.size:
            raise OSError(f"it has {opened.size()} bytes, and {file.size} were written")
        footer = _footer(opened)
        if zlib.crc32(footer) != file.checksum:
            raise OSError("its footer is not the one that was written")
        return opened, parquet.read_metadata(pa.BufferReader(footer))
    except Exception:
        opened.close()
        raise


def open_file(target: Target, file: OffloadedFile) -> parquet.ParquetFile:
    """As `open_source`, for one who reads it from its beginning to its end."""
    opened, metadata = open_source(target, file)
    return parquet.ParquetFile(opened, metadata=metadata, page_checksum_verification=True)


@contextmanager
def new_file(target: Target, path: str) -> Iterator[parquet.ParquetWriter]:
    """Write a file, over whatever is there; it is on the disk when the block ends."""
    place = target.place(path)
    target.filesystem.create_dir(place.rpartition("/")[0], recursive=True)
    with parquet.ParquetWriter(
        place,
        OFFLOADED_SCHEMA,
        filesystem=target.filesystem,
        compression="zstd",
        use_dictionary=_REPEATING,
        write_statistics=_WITH_STATISTICS,
        write_page_checksum=True,
    ) as writer:
        yield writer
    if isinstance(target.filesystem, fs.LocalFileSystem):  # Arrow leaves that to the system
        file = Path(place)
        for one in (file, *file.parents[:4]):
            force_to_disk(one)


def written_file(target: Target, path: str) -> OffloadedFile:
    """What was written, as the database remembers it."""
    with target.filesystem.open_input_file(target.place(path)) as written:
        footer = _footer(written)
        rows = parquet.read_metadata(pa.BufferReader(footer)).num_rows
        return OffloadedFile(path, written.size(), rows, zlib.crc32(footer))


def remove_file(target: Target, path: str) -> None:
    """Remove a file, and of a local directory what is empty without it."""
    place = target.place(path)
    try:
        if target.filesystem.get_file_info(place).type is not fs.FileType.NotFound:
            target.filesystem.delete_file(place)
    except OSError as error:
        raise OffloadError(f"{place!r} cannot be removed: {error}", database="") from error
    if isinstance(target.filesystem, fs.LocalFileSystem):
        with suppress(OSError):  # others are in it
            Path(place).parent.rmdir()


def _footer(file: pa.NativeFile) -> bytes:
    """What a file ends with: metadata, their length (4 bytes) and the format's mark (4 bytes)."""
    size = file.size()
    tail: bytes = file.read_at(min(size, _TAIL_BYTES), max(0, size - _TAIL_BYTES))
    length = int.from_bytes(tail[-8:-4], "little") + 8
    if length > size:  # it is no such file
        length = 8
    if length > len(tail):
        return bytes(file.read_at(length, size - length))
    return tail[-length:]
