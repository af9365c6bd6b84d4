"""Verifies the backups of a place, and makes a data directory of one."""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from heliograph.storage.backup.errors import BackupDamagedError, BackupFailedError, BackupFullError
from heliograph.storage.backup.manifest import CONTENT, BackupManifest, SavedFile, chosen, ids_in, read_manifest
from heliograph.storage.backup.place import BackupPlace
from heliograph.storage.durable_files import force_to_disk


class Verified(msgspec.Struct, frozen=True):
    """Whether a backup is what was written.

    Attributes:
        copied_bytes: What earlier backups did not have; None where it is not known.
        problems: What is damaged, each with the file that needs it; empty for a backup that can be restored.
    """

    id: str
    at: int
    node: str
    version: str
    layouts: dict[str, str]
    secrets: bool
    files: int
    size: int
    problems: list[str]
    copied_bytes: int | None = None


def listed(place: BackupPlace) -> Iterator[Verified]:
    """The backups of a place, oldest first, without reading their content."""
    present = place.sizes(CONTENT)
    for name in ids_in(place):
        yield _looked_at(place, name, lambda file: _missing(present, file))


def verify(place: BackupPlace, name: str | None = None) -> Iterator[Verified]:
    """Read all content of one backup, or of all, and compare it with its checksums; each file is read once."""
    present = place.sizes(CONTENT)
    found: dict[str, str] = {}

    def problem(file: SavedFile) -> str:
        if file.content not in found:
            found[file.content] = _missing(present, file) or _changed(place, file)
        return found[file.content]

    for one in ids_in(place) if name is None else [chosen(place, name).id]:
        yield _looked_at(place, one, problem)


def restore(place: BackupPlace, data_dir: Path, name: str | None = None) -> BackupManifest:
    """Make a data directory of a backup, the newest if none is named; every checksum is compared.

    It appears whole: until all is on the disk, it has another name beside.

    Raises:
        BackupFailedError: It was not made.
    """
    manifest = chosen(place, name)
    draft = data_dir.with_name(f".{data_dir.name}.restoring")
    _check_is_new(data_dir)
    try:
        shutil.rmtree(draft, ignore_errors=True)  # of a restore that was killed
        draft.mkdir(mode=0o700, parents=True)
        for file in manifest.files:
            _write(place, file, draft)
        for folder in {(draft / file.path).parent for file in manifest.files} | {draft}:
            force_to_disk(folder)
        os.rename(draft, data_dir)
        force_to_disk(data_dir.parent)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        kind = BackupFullError if error.errno in (errno.ENOSPC, errno.EDQUOT) else BackupFailedError
        raise kind(f"{data_dir} cannot be written: {error.strerror}") from error
    except BackupFailedError:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return manifest


def _check_is_new(data_dir: Path) -> None:
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise BackupFailedError(
            f"{data_dir} is not empty, and a backup is restored to a new or empty directory: choose another, or "
            "move what is there"
        )


def _write(place: BackupPlace, file: SavedFile, draft: Path) -> None:
    target = draft / file.path
    if not target.resolve().is_relative_to(draft.resolve()):
        raise BackupDamagedError(f"the backup names a file outside the data directory: {file.path}")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    digest = hashlib.sha256()
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, file.mode), "wb") as out:
        for chunk in place.chunks(file.content):
            digest.update(chunk)
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != file.sha256:
        raise BackupDamagedError(f"{file.path} is not what was written: the content {file.content} is damaged")


def _looked_at(place: BackupPlace, name: str, problem: Callable[[SavedFile], str]) -> Verified:
    try:
        manifest = read_manifest(place, name)
    except BackupDamagedError as error:
        return Verified(name, 0, "", "", {}, False, 0, 0, [error.problem])
    problems = [f"{file.path}: {text}" for file in manifest.files if (text := problem(file))]
    return Verified(
        name, manifest.at, manifest.node, manifest.version, manifest.layouts, manifest.secrets,
        len(manifest.files), manifest.size, problems, manifest.copied_bytes,
    )  # fmt: skip


def _missing(present: dict[str, int], file: SavedFile) -> str:
    if file.content not in present:
        return f"{file.content} is missing"
    if present[file.content] != file.size:
        return f"{file.content} has {present[file.content]:,} bytes, and {file.size:,} were written"
    return ""


def _changed(place: BackupPlace, file: SavedFile) -> str:
    digest = hashlib.sha256()
    try:
        for chunk in place.chunks(file.content):
            digest.update(chunk)
    except BackupFailedError as error:
        return error.problem
    return "" if digest.hexdigest() == file.sha256 else f"{file.content} is not what was written"
