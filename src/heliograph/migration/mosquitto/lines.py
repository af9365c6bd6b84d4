"""The lines of a mosquitto.conf, with those of the files in its `include_dir`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.migration.errors import ImportRefusedError
from heliograph.migration.outcomes import ForeignLine

_INCLUDE: Final = "include_dir"
_DEPTH_MAX: Final = 8  # a directory that includes itself


@dataclass(frozen=True, slots=True)
class Line:
    """One option.

    Attributes:
        folder: Where the file of the line is.
        value: What follows the option's name; empty for nothing.
    """

    place: ForeignLine
    folder: Path
    option: str
    value: str

    def found(self, path: str) -> Path | None:
        """The file or directory that the line names, or one of this name beside the configuration.

        A configuration is often read elsewhere than where it is used: in a container it names /mosquitto/config.
        """
        named = Path(path)
        for candidate in (self.folder / named, self.folder / named.name):
            if candidate.exists():
                return candidate
        return None


def read_lines(file: Path, depth: int = 0) -> Iterator[Line]:
    """The lines of a file, and after a line that includes a directory those of its files.

    Raises:
        ImportRefusedError: A file cannot be read. That a directory is not there is no reason.
    """
    for line in _own_lines(file):
        yield line
        folder = line.found(line.value) if line.option == _INCLUDE and depth < _DEPTH_MAX else None
        for included in included_files(folder) if folder is not None else ():
            yield from read_lines(included, depth + 1)


def included_files(folder: Path) -> list[Path]:
    """The files of a directory that are read, in their order."""
    return sorted(folder.glob("*.conf"))


def _own_lines(file: Path) -> Iterator[Line]:
    try:
        text = file.read_bytes().decode()
    except OSError as error:
        raise ImportRefusedError(f"{file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ImportRefusedError(f"{file} cannot be read: byte {error.start} is not UTF-8") from None
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip()
        if line and not line.startswith("#"):
            option, _, value = line.lstrip(" ").partition(" ")
            yield Line(ForeignLine(str(file), number), file.parent, option, value.strip())
