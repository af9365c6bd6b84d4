"""Where backups lie: a directory, or an object store that `pyarrow.fs` knows. Files there appear whole or not at all.

PLACE/backups/ID.json       a manifest: written last, and what makes a backup one
PLACE/content/ab/abcd...    a file, by the SHA-256 of its content: backups share what did not change
"""

import errno
import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from heliograph.settings.url_secrets import masked_url, without_url_secrets
from heliograph.storage.backup.direct_file import PIECE_BYTES, write_past_the_cache
from heliograph.storage.backup.errors import BackupFailedError, BackupFullError
from heliograph.storage.durable_files import force_to_disk

_UNFINISHED: Final = ".unfinished"
_LOCK: Final = "lock"
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class BackupPlace(Protocol):
    """What every kind of place can do; names are relative, with `/`. All raise `BackupFailedError`."""

    text: str
    """Where it is, without what is a secret in a URL."""

    names_first: bool
    """Whether the name of a file must be known before its content is written."""

    def alone(self) -> AbstractContextManager[None]:
        """Keep other writers out meanwhile, where that can be done."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The names of all whole files below a folder, with their sizes; empty where there is no such folder."""

    def put(self, name: Callable[[], str], chunks: Iterable[bytes], size: int) -> None:
        """Write a file of so many bytes; after the next `settle` it is there to stay.

        Args:
            name: Gives its name; after its content is written, where the place does not need it first.
        """

    def chunks(self, name: str) -> Iterator[bytes]:
        """What a file holds, a chunk at a time."""

    def settle(self) -> None:
        """Wait until all that was written is there to stay."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def tidy(self) -> None:
        """Remove what writers left that were killed."""


def open_place(text: str) -> BackupPlace:
    """The place that a URI (`s3://bucket/path`) or a directory names."""
    if not text:
        raise BackupFailedError("no place for backups is named: give a directory, or a URI such as s3://bucket/path")
    return ObjectPlace(text) if "://" in text else DirectoryPlace(Path(text))


class DirectoryPlace:
    """A directory; of one writer at a time."""

    names_first = False

    def __init__(self, path: Path) -> None:
        self.text = str(path)
        self._path = path
        self._unsettled: set[Path] = set()  # directories with names that the disk may not have

    @contextmanager
    def alone(self) -> Iterator[None]:
        with _errors(self.text):
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (self._path / _LOCK).open("a")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise BackupFailedError(f"another backup is written to {self.text} now") from None
            yield

    def sizes(self, folder: str) -> dict[str, int]:
        with _errors(self.text):
            found = (self._path / folder).rglob("*")
            return {
                str(file.relative_to(self._path)): file.stat().st_size
                for file in found
                if not file.name.endswith(_UNFINISHED) and file.is_file()
            }

    def put(self, name: Callable[[], str], chunks: Iterable[bytes], size: int) -> None:
        unfinished = self._path / f"new{_UNFINISHED}"
        with _errors(self.text):
            try:
                write_past_the_cache(unfinished, chunks, size)
                file = self._path / name()
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                unfinished.replace(file)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
            self._unsettled.update(folder for folder in file.parents if folder.is_relative_to(self._path))

    def settle(self) -> None:
        with _errors(self.text):
            while self._unsettled:
                force_to_disk(self._unsettled.pop())

    def chunks(self, name: str) -> Iterator[bytes]:
        with _errors(str(self._path / name)):
            yield from chunks_of(self._path / name)

    def remove(self, name: str) -> None:
        with _errors(str(self._path / name)):
            (self._path / name).unlink(missing_ok=True)

    def tidy(self) -> None:
        with _errors(self.text):
            for file in self._path.rglob(f"*{_UNFINISHED}"):
                file.unlink(missing_ok=True)


class ObjectPlace:
    """An object store. It has no lock: give each node a path of its own."""

    names_first = True

    def __init__(self, text: str) -> None:
        from pyarrow import fs  # a directory needs none of it

        self.text = masked_url(text)
        self._fs = fs
        with _errors(self.text):
            self._store, path = fs.FileSystem.from_uri(text)
            self._path = path.rstrip("/")

    @contextmanager
    def alone(self) -> Iterator[None]:
        yield

    def sizes(self, folder: str) -> dict[str, int]:
        with _errors(self.text):
            below = self._fs.FileSelector(f"{self._path}/{folder}", allow_not_found=True, recursive=True)
            found = [one for one in self._store.get_file_info(below) if one.type is self._fs.FileType.File]
            return {one.path.removeprefix(f"{self._path}/"): int(one.size) for one in found}

    def put(self, name: Callable[[], str], chunks: Iterable[bytes], size: int) -> None:
        """An object that is cut off has another size than its manifest says, and is written again."""
        with _errors(f"{self.text}/{name()}"):
            if not self._is_s3():
                self._store.create_dir(f"{self._path}/{name()}".rpartition("/")[0])
            with self._store.open_output_stream(f"{self._path}/{name()}") as out:
                for chunk in chunks:
                    out.write(chunk)

    def chunks(self, name: str) -> Iterator[bytes]:
        with _errors(f"{self.text}/{name}"), self._store.open_input_stream(f"{self._path}/{name}") as source:
            while chunk := source.read(PIECE_BYTES):
                yield chunk

    def settle(self) -> None:
        """An object that was written is there to stay."""

    def remove(self, name: str) -> None:
        with _errors(f"{self.text}/{name}"):
            self._store.delete_file(f"{self._path}/{name}")

    def tidy(self) -> None:
        """Uploads that were cut off are not objects; a rule of the bucket ends them."""

    def _is_s3(self) -> bool:
        return bool(self._store.type_name == "s3")


def chunks_of(file: Path) -> Iterator[bytes]:
    """What a file of this machine holds."""
    with file.open("rb") as source:
        while chunk := source.read(PIECE_BYTES):
            yield chunk


@contextmanager
def _errors(name: str) -> Iterator[None]:
    """Say of what the system and Arrow refuse which file it is about."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise BackupFullError(f"{name} cannot be written: {os.strerror(error.errno or 0)}") from error
        raise BackupFailedError(f"{name} cannot be used: {_problem_of(error)}") from error
    except (ValueError, KeyError) as error:  # `pyarrow.ArrowException` is one of them, or an `OSError`
        raise BackupFailedError(f"{name} cannot be used: {_problem_of(error)}") from error


def _problem_of(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return without_url_secrets(text)
