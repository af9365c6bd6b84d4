"""Where documents are read from: the disk, or texts in memory that stand for files; and how bytes become text.

Which file an include means is decided here; what is done with its content is not.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from typing import Protocol

from heliograph.hocon.errors import HoconError, SourcePosition
from heliograph.hocon.limits import ParsingLimits


class Files(Protocol):
    """A place that holds files. Called while a document is read, in the reading thread; it may block."""

    def join(self, directory: str, name: str) -> str: ...

    def directory_of(self, path: str) -> str: ...

    def identity(self, path: str) -> str:
        """Equal for two paths of the same file."""

    def read(self, path: str, size: int) -> bytes:
        """Its first bytes; `FileNotFoundError` where there is none, another `OSError` where it cannot be read."""


class LocalFiles:
    """The files of this machine."""

    def join(self, directory: str, name: str) -> str:
        return os.path.join(directory, name)

    def directory_of(self, path: str) -> str:
        """Of the file, or of the link to it."""
        return os.path.dirname(path)

    def identity(self, path: str) -> str:
        """The real path, links resolved."""
        return os.path.realpath(path)

    def read(self, path: str, size: int) -> bytes:
        with open(path, "rb") as file:
            return file.read(size)


class MemoryFiles:
    """Texts under relative names, with `/` between folders, that stand for files."""

    def __init__(self, texts: Mapping[str, str | bytes]) -> None:
        self._texts = {posixpath.normpath(name): text for name, text in texts.items()}

    def join(self, directory: str, name: str) -> str:
        """Without `.` and `..`."""
        return posixpath.normpath(posixpath.join(directory, name))

    def directory_of(self, path: str) -> str:
        return posixpath.dirname(path)

    def identity(self, path: str) -> str:
        return posixpath.normpath(path)

    def read(self, path: str, size: int) -> bytes:
        text = self._texts.get(posixpath.normpath(path))
        if text is None:
            raise FileNotFoundError(path)
        return (text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))[:size]


def decode(content: bytes, name: str, limits: ParsingLimits) -> str:
    """Raises `HoconError` for a file that is larger than the limit, or not UTF-8."""
    if len(content) > limits.file_bytes:
        raise HoconError(name, None, f"the file is larger than {limits.file_bytes} bytes, which is the limit")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = content[error.start]
        raise HoconError(
            name,
            line,
            f"byte 0x{found:02x} at offset {error.start} is not UTF-8: save the file in that encoding",
        ) from None


def read_text(files: Files, path: str, limits: ParsingLimits) -> str:
    """Raises `FileNotFoundError`, or `HoconError` for a file that cannot be read."""
    try:
        content = files.read(path, limits.file_bytes + 1)
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise HoconError(path, None, "is a directory: name a file") from None
    except (OSError, ValueError) as error:
        # ValueError: the name holds a NUL character.
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HoconError(path, None, f"cannot be read: {reason.lower()}") from None
    return decode(content, path, limits)


def find_include(
    files: Files, name: str, directories: list[str], position: SourcePosition, limits: ParsingLimits
) -> tuple[str, str] | None:
    """Path and text of the first such file; `HoconError`, at the line of the include, for one that cannot be read."""
    for directory in directories:
        path = files.join(directory, name)
        try:
            return path, read_text(files, path, limits)
        except FileNotFoundError:
            continue
        except HoconError as error:
            if error.line is not None:
                raise
            raise HoconError.at(position, f"cannot include {path!r}: {error.message}") from None
    return None
