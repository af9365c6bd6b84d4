"""The register of the databases in a data directory: one that is lost is not taken for a new one.

The file `DATA_DIR/databases` has a line for each: its folder and name, as in `storage/messages`. A line that ends with
`begun anew` says that an operator gave up what that database held. The site id, `storage/site_id`, has a line too.
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from heliograph.storage.durable_files import write_durably

_FILE: Final = "databases"
_SITE_ID: Final = "site_id"
_ANEW: Final = " begun anew"


class Register:
    """The register of one data directory; safe in any thread. Read again each time: a repair may have changed it."""

    def __init__(self, data_dir: Path) -> None:
        self._file = data_dir / _FILE

    @classmethod
    def of(cls, path: Path) -> "Register":
        """The register that lists the database in a directory."""
        return cls(path.parent.parent)

    def has(self, path: Path) -> bool:
        """Whether a database was made there, and neither dropped nor given up since."""
        return _name(path) in self._lines()

    def names(self, folder: str) -> list[str]:
        found = {line.removeprefix(f"{folder}/") for line in self._lines() if line.startswith(f"{folder}/")}
        return sorted(name for name in found - {_SITE_ID} if not name.endswith(_ANEW))

    def first_generation(self, path: Path) -> int:
        """The number of the first generation of a database of messages that is made there.

        Where one was given up it is the time in seconds, which is above all that there were, so that saved positions
        in the old one are those of a dropped generation, and not of streams that only have the same numbers.
        """
        return int(time.time()) if _name(path) + _ANEW in self._lines() else 1

    def add(self, path: Path) -> None:
        """A database was made there."""
        with self._alone():
            self._write(self._lines() | {_name(path)})

    def remove(self, path: Path, *, begins_anew: bool = False) -> None:
        """A database is not there any more, and another may be made.

        Args:
            begins_anew: Whether what it held was given up, so that positions in it may be kept somewhere.
        """
        with self._alone():
            lines = self._lines() - {_name(path)}
            self._write(lines | {_name(path) + _ANEW} if begins_anew else lines)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Let nothing else change the register meanwhile, also in another process: one of two changes would be lost."""
        with self._file.with_name(f"{_FILE}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _lines(self) -> set[str]:
        try:
            return set(self._file.read_text("utf-8", "replace").splitlines())
        except FileNotFoundError:
            return set()

    def _write(self, lines: set[str]) -> None:
        write_durably(self._file, "".join(f"{line}\n" for line in sorted(lines)).encode())

    def __repr__(self) -> str:
        return f"Register({self._file})"


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"
