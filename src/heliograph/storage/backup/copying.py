"""Copies what was captured of a data directory to a place; what is there already is not copied again."""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from heliograph.storage.backup.capture import captured, is_immutable, layouts
from heliograph.storage.backup.errors import BackupFailedError
from heliograph.storage.backup.manifest import (
    CONTENT,
    BackupManifest,
    SavedFile,
    chosen,
    collect,
    ids_in,
    write_manifest,
)
from heliograph.storage.backup.place import BackupPlace, chunks_of
from heliograph.storage.errors import StorageError

_PAUSE_MIN_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class BackupOrigin:
    """Whose backup it is; `at` is the time of its checkpoint in microseconds since the epoch."""

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
    """Bounds how many bytes a second are read and written.

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
        for chunk in chunks:
            yield chunk
            if self._rate is not None:
                self._due_s = max(self._due_s, self._now_s() - 1.0) + len(chunk) / self._rate
                if (early_s := self._due_s - self._now_s()) > _PAUSE_MIN_S:
                    self._sleep(early_s)


def copy(work: Path, place: BackupPlace, origin: BackupOrigin, pace: Pace, keep: int | None = None) -> Copied:
    """Make a backup of what was captured, and remove what is too old. The caller holds `place.alone()`.

    Raises:
        BackupFailedError: It was not made; the earlier backups are whole.
    """
    began = time.monotonic()
    present = place.sizes(CONTENT)
    known = _known(place, origin.site)
    saved: list[SavedFile] = []
    copied: dict[str, int] = {}
    for path in captured(work):
        file = _described(work, path, known, present, pace)
        if present.get(file.content) != file.size and file.content not in copied:
            place.put(file.content, pace.of(chunks_of(work / path)))
            copied[file.content] = file.size
        saved.append(file)
    name = datetime.fromtimestamp(origin.at / 1_000_000, UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    manifest = BackupManifest(
        name, origin.at, origin.node, origin.site, origin.version, layouts(work), origin.secrets,
        list(origin.offloaded), saved,
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


def _described(work: Path, path: Path, known: dict[str, SavedFile], present: dict[str, int], pace: Pace) -> SavedFile:
    """A file with its checksum, without reading it where it is a table that was saved before."""
    status = (work / path).stat()
    before = known.get(str(path))
    if (
        before is not None
        and is_immutable(path)
        and (before.size, before.mtime_ns, before.inode) == (status.st_size, status.st_mtime_ns, status.st_ino)
        and present.get(before.content) == before.size
    ):
        return before
    digest = hashlib.sha256()
    for chunk in pace.of(chunks_of(work / path)):
        digest.update(chunk)
    return SavedFile(
        str(path), status.st_size, digest.hexdigest(), status.st_mode & 0o777, status.st_mtime_ns, status.st_ino
    )
