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

    def join(self, directory: str, name: str) -> str:
        """Path of `name` as seen from `directory`."""

    def directory_of(self, path: str) -> str:
        """Directory of a file, to which the includes in it are relative."""

    def identity(self, path: str) -> str:
        """A text that is equal for two paths of the same file."""

    def read(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a file.

        Raises:
            FileNotFoundError: There is no such file.
            OSError: There is one, but it cannot be read.
        """


class LocalFiles:
    """The files of this machine."""

    def join(self, directory: str, name: str) -> str:
        """Path of `name` as seen from `directory`."""
        return os.path.join(directory, name)

    def directory_of(self, path: str) -> str:
        """Directory in which the file (or the link to it) lies."""
        return os.path.dirname(path)

    def identity(self, path: str) -> str:
        """The real path, links resolved."""
        return os.path.realpath(path)

    def read(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a file."""
        with open(path, "rb") as file:
            return file.read(size)


class MemoryFiles:
    """Texts under relative names that stand for files.

    Args:
        texts: Text or bytes of each file by its path, with `/` between folders.
    """

    def __init__(self, texts: Mapping[str, str | bytes]) -> None:
        self._texts = {posixpath.normpath(name): text for name, text in texts.items()}

    def join(self, directory: str, name: str) -> str:
        """Path of `name` as seen from `directory`, without `.` and `..`."""
        return posixpath.normpath(posixpath.join(directory, name))

    def directory_of(self, path: str) -> str:
        return posixpath.dirname(path)

    def identity(self, path: str) -> str:
        return posixpath.normpath(path)

    def read(self, path: str, size: int) -> bytes:
        """The first `size` bytes of a text, in UTF-8."""
        text = self._texts.get(posixpath.normpath(path))
        if text is None:
            raise FileNotFoundError(path)
        return (text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))[:size]


def decode(content: bytes, name: str, limits: ParsingLimits) -> str:
    """Bytes of a file as text.

    Raises:
        HoconError: The file is larger than the limit, or not UTF-8.
    """
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
    """One file as text.

    Raises:
        FileNotFoundError: There is no such file.
        HoconError: There is one, but it cannot be read.
    """
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
    """The first file called `name` in the directories.

    Returns:
        Its path and its text, or None if no directory has it.

    Raises:
        HoconError: A file or directory of that name is there but cannot be read; at the line of the include.
    """
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
