"""Where offloaded files lie: a directory or an object store, and opening a file there that must be what was written."""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs, parquet

from heliograph.storage.columnar.offloaded import OffloadedFile, OffloadError


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


def open_file(target: Target, file: OffloadedFile, known: parquet.FileMetaData | None = None) -> parquet.ParquetFile:
    """Open a file that must be what was written.

    Args:
        known: What its footer says, where that was compared already.
    """
    place = target.place(file.path)
    opened = target.filesystem.open_input_file(place)
    try:
        if opened.size() != file.size:
            raise OSError(f"it has {opened.size()} bytes, and {file.size} were written")
        if known is None and footer_checksum(opened) != file.checksum:
            raise OSError("its footer is not the one that was written")
        return parquet.ParquetFile(opened, metadata=known, page_checksum_verification=True)
    except Exception:
        opened.close()
        raise


def footer_checksum(file: pa.NativeFile) -> int:
    """The checksum of what a file ends with: metadata, their length (4 bytes) and the format's mark (4 bytes)."""
    size = file.size()
    file.seek(max(0, size - 8))
    length = int.from_bytes(file.read(4), "little")
    file.seek(max(0, size - 8 - length))
    return zlib.crc32(file.read(length + 8 if length < size else 8))
