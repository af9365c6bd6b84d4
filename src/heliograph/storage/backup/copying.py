"""Copies what was captured of a data directory to a place; what is there already is not copied again."""

import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from heliograph.storage.backup.capture import captured, is_immutable
from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.manifest import (
    CONTENT,
    BackupManifest,
    SavedFile,
    chosen,
    collect,
    content_name,
    ids_in,
    write_manifest,
)
from heliograph.storage.backup.place import BackupPlace, chunks_of
from heliograph.storage.errors import StorageError

_PAUSE_MIN_S: Final = 0.01
# The rest after a piece, of the time that it took: so much after one as quick as the quickest of its file, and more in
# proportion after a slower one, since then others use the disk and the cores.
_REST: Final = 0.04
_REST_MAX: Final = 1.0


@dataclass(frozen=True, slots=True)
class BackupOrigin:
    """Whose backup it is; `at` is its moment in microseconds since the epoch."""

    node: str
    site: str
    version: str
    at: int
    secrets: bool
    offloaded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Copied:
    """What a backup came to.

    Attributes:
        id: Its name in the place.
        size: Bytes of all of its files.
        copied_files: Those that were not there.
        removed: Older backups that went.
    """

    id: str
    at: int
    files: int
    size: int
    copied_files: int
    copied_bytes: int
    duration_s: float
    removed: list[str]


class Pace:
    """Bounds how many bytes a second are read and written, and rests after each piece.

    Args:
        rate: Bytes a second; None for as many as the disk takes.
    """

    def __init__(
        self,
        rate: float | None,
        now_s: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = rate
        self._now_s = now_s
        self._sleep = sleep
        self._due_s = now_s()

    def of(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The same chunks, not faster."""
        quickest_s = 0.0
        for chunk in chunks:
            began_s = self._now_s()
            yield chunk
            took_s = self._now_s() - began_s
            quickest_s = min(quickest_s, took_s) or took_s
            self._sleep(took_s * min(_REST_MAX, _REST * took_s / quickest_s) if quickest_s else 0.0)
            if self._rate is not None:
                self._due_s = max(self._due_s, self._now_s() - 1.0) + len(chunk) / self._rate
                if (early_s := self._due_s - self._now_s()) > _PAUSE_MIN_S:
                    self._sleep(early_s)


def copy(
    work: Path,
    place: BackupPlace,
    origin: BackupOrigin,
    layouts: dict[str, str],
    pace: Pace,
    keep: int | None = None,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Copied:
    """Make a backup of what was captured, and remove what is too old. The caller holds `place.alone()`.

    Args:
        layouts: Of the databases, by their folders and names.
        progress: Called after each file with the bytes that are in the place, and with those that will be.

    Raises:
        BackupFailedError: It was not made; the earlier backups are whole.
    """
    began = time.monotonic()
    copying = _Copying(work, place, pace, _known(place, origin.site))
    paths = list(captured(work))
    total = sum((work / path).stat().st_size for path in paths)
    saved: list[SavedFile] = []
    done = 0
    for path in paths:
        saved.append(copying.saved(path))
        done += saved[-1].size
        progress(done, total)
    copied = copying.copied
    name = datetime.fromtimestamp(origin.at / 1_000_000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    manifest = BackupManifest(
        name, origin.at, origin.node, origin.site, origin.version, layouts, origin.secrets,
        list(origin.offloaded), saved, copied_bytes=sum(file.size for file in saved if file.content in copied),
    )  # fmt: skip
    write_manifest(place, manifest)
    removed = collect(place, keep)
    duration_s = time.monotonic() - began
    return Copied(name, origin.at, len(saved), manifest.size, len(copied), sum(copied.values()), duration_s, removed)


def _known(place: BackupPlace, site: str) -> dict[str, SavedFile]:
    """The files of the newest backup; a place is of one node, whatever its name."""
    if not ids_in(place):
        return {}
    try:
        newest = chosen(place, None)
    except StorageError:
        return {}  # everything is read again
    if newest.site and site and newest.site != site:
        raise BackupFailedError(
            f"{place.text} has the backups of the node {newest.node} (site {newest.site}), and this one is the site "
            f"{site}: give each node a place of its own"
        )
    return {file.path: file for file in newest.files}


class _Copying:
    """Copies the files of one backup that the place does not have.

    Args:
        known: The files of the newest backup.

    Attributes:
        copied: What was copied: the names of contents, and their sizes.
    """

    def __init__(self, work: Path, place: BackupPlace, pace: Pace, known: dict[str, SavedFile]) -> None:
        self._work = work
        self._place = place
        self._pace = pace
        self._known = known
        self._present = place.sizes(CONTENT)
        self._sizes = set(self._present.values())
        self.copied: dict[str, int] = {}

    def saved(self, path: Path) -> SavedFile:
        """Copy a file, unless it is there, without reading it where it is a table that was saved before."""
        status = (self._work / path).stat()
        before = self._known.get(str(path))
        if (
            before is not None
            and is_immutable(path)
            and (before.size, before.mtime_ns, before.inode) == (status.st_size, status.st_mtime_ns, status.st_ino)
            and self._present.get(before.content) == before.size
        ):
            return before
        sha256 = self._content(self._work / path, status.st_size)
        return SavedFile(
            str(path), status.st_size, sha256, status.st_mode & 0o777, status.st_mtime_ns, status.st_ino
        )  # fmt: skip

    def _content(self, file: Path, size: int) -> str:
        """Copy the content of a file, unless the place has it; its SHA-256."""
        digest = hashlib.sha256()

        def name() -> str:
            return content_name(digest.hexdigest())

        hashed = _hashed(chunks_of(file), digest)
        if size not in self._sizes and not self._place.names_first:
            with closing(_read_ahead(hashed)) as read:
                self._place.put(name, self._pace.of(read), size)  # no other content has its size: it is new
        else:
            for _ in self._pace.of(hashed):
                pass
            if self._present.get(name()) == size:
                return digest.hexdigest()
            self._place.put(name, self._pace.of(chunks_of(file)), size)
        self._present[name()] = self.copied[name()] = size
        self._sizes.add(size)
        return digest.hexdigest()


def _read_ahead(chunks: Iterator[bytes]) -> Generator[bytes, None, None]:
    """The same chunks; a thread reads and hashes the next one while the last is written."""
    with ThreadPoolExecutor(max_workers=1) as reader:
        coming = reader.submit(next, chunks, b"")
        while chunk := coming.result():
            coming = reader.submit(next, chunks, b"")
            yield chunk


def _hashed(chunks: Iterable[bytes], digest: "hashlib._Hash") -> Iterator[bytes]:
    for chunk in chunks:
        digest.update(chunk)
        yield chunk
