"""What a backup holds: its manifest, a JSON document after a line with its own checksum."""

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from heliograph.storage.backup.errors import BackupDamagedError, BackupFailedError
from heliograph.storage.backup.place import BackupPlace

BACKUPS: Final = "backups"
CONTENT: Final = "content"
_FORMAT: Final = 1
_END: Final = ".json"


class SavedFile(msgspec.Struct, frozen=True):
    """A file of the data directory.

    Attributes:
        path: Relative to the data directory.
        sha256: Of its content, by which it is found in the place.
        inode: With `mtime_ns`, what says that a table is the one that was copied before, without reading it.
    """

    path: str
    size: int
    sha256: str
    mode: int
    mtime_ns: int
    inode: int

    @property
    def content(self) -> str:
        """The name of its content in the place."""
        return content_name(self.sha256)


class BackupManifest(msgspec.Struct, frozen=True):
    """One backup.

    Attributes:
        id: Its name: its moment in UTC.
        at: The same in microseconds since the epoch.
        version: The version of Heliograph that made it.
        layouts: The layout of each database, by its folder and name; a version that does not know one refuses it.
        secrets: Whether tokens and private keys are in it.
        offloaded: Where generations were offloaded to outside the data directory; nothing of that is in it.
        format: Of this document.
        copied_bytes: What earlier backups did not have; None where an earlier version made it.
    """

    id: str
    at: int
    node: str
    site: str
    version: str
    layouts: dict[str, str]
    secrets: bool
    offloaded: list[str]
    files: list[SavedFile]
    format: int = _FORMAT
    copied_bytes: int | None = None

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def content_name(sha256: str) -> str:
    return f"{CONTENT}/{sha256[:2]}/{sha256}"


def write_manifest(place: BackupPlace, manifest: BackupManifest) -> None:
    """Make what was copied a backup."""
    document = msgspec.json.encode(manifest)
    digest = hashlib.sha256(document).hexdigest()
    content = b"%b\n%b\n" % (digest.encode(), document)
    place.settle()
    place.put(lambda: f"{BACKUPS}/{manifest.id}{_END}", [content], len(content))
    place.settle()


def ids_in(place: BackupPlace) -> list[str]:
    """The backups of a place, oldest first."""
    names = (name.removeprefix(f"{BACKUPS}/") for name in place.sizes(BACKUPS))
    return sorted(name.removesuffix(_END) for name in names if name.endswith(_END))


def read_manifest(place: BackupPlace, name: str) -> BackupManifest:
    """One backup.

    Raises:
        BackupDamagedError: Its manifest is not what was written.
        BackupFailedError: It is not there, or a later version made it.
    """
    digest, _, document = b"".join(place.chunks(f"{BACKUPS}/{name}{_END}")).partition(b"\n")
    document = document.removesuffix(b"\n")
    if hashlib.sha256(document).hexdigest().encode() != digest:
        raise BackupDamagedError(f"the manifest of the backup {name} in {place.text} is not what was written")
    if msgspec.json.decode(document, type=_Format).format != _FORMAT:
        raise BackupFailedError(f"a later version of Heliograph made the backup {name}: use that one")
    return msgspec.json.decode(document, type=BackupManifest)


def chosen(place: BackupPlace, name: str | None) -> BackupManifest:
    """The backup of a name, or the newest one."""
    ids = ids_in(place)
    if not ids:
        raise BackupFailedError(f"there is no backup in {place.text}")
    if name is not None and name not in ids:
        raise BackupFailedError(f"there is no backup {name!r} in {place.text}; there are {', '.join(ids)}")
    return read_manifest(place, name or ids[-1])


def collect(place: BackupPlace, keep: int | None) -> list[str]:
    """Remove all but the newest backups, then content that none of the others names; what was removed.

    A manifest that cannot be read keeps all content: its backup may be mended.
    """
    ids = ids_in(place)
    gone = [] if keep is None else ids[:-keep]
    for name in gone:
        place.remove(f"{BACKUPS}/{name}{_END}")
    try:
        wanted = {file.content for name in ids[len(gone) :] for file in read_manifest(place, name).files}
    except BackupDamagedError:
        return gone
    _remove(place, (name for name in place.sizes(CONTENT) if name not in wanted))
    place.tidy()
    return gone


def _remove(place: BackupPlace, names: Iterable[str]) -> None:
    for name in names:
        place.remove(name)


class _Format(msgspec.Struct):
    format: int
