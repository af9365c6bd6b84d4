"""The form of an archive: `emqx-export-TIME.tar.gz`, one directory of that name; encrypted where that was asked for.

META.hocon          version of the form, program, node, time
cluster.hocon       the configuration that was changed while the node ran, with its secrets
mnesia/TABLE        a row of MessagePack each, with its length before it
data/PATH           files below the data directory that the configuration names
"""

import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Final

import msgspec

from heliograph import __version__
from heliograph.management.backups.errors import BackupError

FORM: Final = 1
META: Final = "META.hocon"
CLUSTER: Final = "cluster.hocon"
TABLES: Final = "mnesia"
DATA: Final = "data"
#: What stands for the data directory in the configuration of an archive.
DATA_DIR: Final = "@DATA_DIR@"
SUFFIX: Final = ".tar.gz"
_PREFIX: Final = "emqx-export-"
_EXPANDED_MAX: Final = 64 << 30
_NAME_MAX: Final = 200
_FILES_MAX: Final = 10_000
_SPARE_BYTES: Final = 256 << 20  # that an archive leaves on the disk, which is that of the node
_READ_MAX: Final = 4 << 20  # at once: the head of a file in an archive may say that it has any length
_ROW_BYTES_MAX: Final = 260 << 20  # a retained message with its properties
_TEXT_BYTES_MAX: Final = {META: 64 << 10, CLUSTER: 16 << 20}


class Meta(msgspec.Struct, frozen=True):
    """What an archive says of itself."""

    form: int
    version: str
    edition: str
    node: str
    created_at: float


def new_name(now: float) -> str:
    """The name of an archive that is made now."""
    moment = datetime.fromtimestamp(now).astimezone()
    return f"{_PREFIX}{moment:%Y-%m-%d-%H-%M-%S}.{moment.microsecond // 1000:03d}{SUFFIX}"


def checked_name(name: str) -> str:
    """The name of an archive, which is that of a file and no path.

    Raises:
        BackupError: It is another one.
    """
    plain = name.replace("-", "").replace(".", "").replace("_", "")
    if (
        not name.endswith(SUFFIX)
        or name.startswith(".")
        or not plain.isalnum()
        or not name.isascii()
        or len(name) > _NAME_MAX
    ):
        raise BackupError(
            f"found {name[:_NAME_MAX]!r}, expected the name of an archive: letters, digits, -._ and {SUFFIX}, "
            "and no dot at the front"
        )
    return name


def pack(directory: Path, archive: Path, name: str, meta: Meta) -> None:
    """Make an archive of what stands in a directory."""
    text = msgspec.json.encode(meta)
    root = name.removesuffix(SUFFIX)
    with open(os.open(archive, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        with tarfile.open(fileobj=out, mode="w:gz", compresslevel=6) as tar:
            head = tarfile.TarInfo(f"{root}/{META}")
            head.size = len(text)
            tar.addfile(head, io.BytesIO(text))
            for path in sorted(directory.rglob("*")):
                if path.is_file() and not path.is_symlink():
                    tar.add(path, f"{root}/{path.relative_to(directory)}", recursive=False)
        out.flush()
        os.fsync(out.fileno())


def unpack(archive: Path, directory: Path) -> Meta:
    """Unpack an archive: only plain files with names that one has, and no more than a limit.

    Raises:
        BackupError: It is no archive of a form that is known here.
    """
    size = 0
    try:
        with _BoundedGzip(archive) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
            for number, member in enumerate(tar):
                parts = Path(member.name).parts[1:]
                if number >= _FILES_MAX:
                    raise BackupError(f"the archive has more than {_FILES_MAX:,} files")
                if member.isdir():
                    continue
                size += member.size
                if not member.isreg() or not _is_known(parts) or size > _EXPANDED_MAX:
                    raise BackupError(f"the archive has {member.name[:_NAME_MAX]!r}, which does not belong into one")
                _check_room(parts, member.size, directory)
                source = tar.extractfile(member)
                assert source is not None
                _extract(source, directory.joinpath(*parts))
        meta = msgspec.json.decode((directory / META).read_bytes(), type=Meta)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, msgspec.DecodeError) as error:
        raise BackupError(f"this is no archive of an export: {error}") from None
    if meta.form != FORM:
        raise BackupError(f"the archive has form {meta.form} (of {meta.version}); {__version__} takes form {FORM}")
    return meta


def tables_of(archive: Path) -> list[str]:
    """The tables that an archive has.

    Raises:
        BackupError: It is no archive.
    """
    try:
        with _BoundedGzip(archive) as plain, tarfile.open(fileobj=plain, mode="r:") as tar:
            parts = [Path(member.name).parts for _, member in zip(range(_FILES_MAX), tar, strict=False)]
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise BackupError(f"this is no archive of an export: {error}") from None
    if not any(part[1:] == (META,) for part in parts):
        raise BackupError(f"this is no archive of an export: it has no {META}")
    return [part[2] for part in parts if part[1:2] == (TABLES,) and len(part) == 3]


def write_rows(file: Path, rows: list[bytes]) -> None:
    """Add rows to a table."""
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as out:
        out.writelines(len(row).to_bytes(4, "big") + row for row in rows)


def read_rows(file: Path) -> Iterator[bytes]:
    """The rows of a table.

    Raises:
        BackupError: The file ends in a row, or has one that is too long.
    """
    with file.open("rb") as source:
        while head := source.read(4):
            length = int.from_bytes(head, "big")
            if length > _ROW_BYTES_MAX:
                raise BackupError(f"the table {file.name} has a row of {length:,} bytes, which none has")
            row = source.read(length)
            if len(head) < 4 or len(row) < length:
                raise BackupError(f"the table {file.name} ends in the middle of a row")
            yield row


class _BoundedGzip(gzip.GzipFile):
    """An archive that is unpacked while it is read, in pieces below a limit."""

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        if size is None or not 0 <= size <= _READ_MAX:
            raise BackupError(f"the archive has the head of a file of {size or 0:,} bytes, which none has")
        return super().read(size)


def _check_room(parts: tuple[str, ...], size: int, directory: Path) -> None:
    """Refuse a file that would fill the memory, or the disk."""
    most = _TEXT_BYTES_MAX.get(parts[0], _EXPANDED_MAX)
    if size > most:
        raise BackupError(f"{parts[0]} of the archive has {size:,} bytes; {most:,} are valid")
    free = shutil.disk_usage(directory).free
    if size > free - _SPARE_BYTES:
        raise BackupError(f"{parts[-1]} of the archive has {size:,} bytes, and the disk has room for {free:,}")


def _extract(source: IO[bytes], target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        while chunk := source.read(1 << 20):
            out.write(chunk)


def _is_known(parts: tuple[str, ...]) -> bool:
    if not parts or ".." in parts or any(part.startswith("/") for part in parts):
        return False
    return parts in ((META,), (CLUSTER,)) or (len(parts) == 2 and parts[0] == TABLES) or parts[0] == DATA
