"""Where the files of a table lie: a directory beside the bookkeeping, or by URI whatever `pyarrow.fs` knows.

Both take whole files from the bookkeeping, which is always a local directory, and let a reader see each of them either
not at all or whole. In a directory a rename does that. An object store has no rename; there, an object appears when its
last byte has arrived, under the same name however often it is brought.
"""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs

from heliograph.pipeline.errors import SinkError
from heliograph.storage.durable_files import force_to_disk

#: Directory beside the tables of an output directory; readers skip it for its leading dot.
BOOKKEEPING: Final = ".heliograph"

_OWNER: Final = ".heliograph-owner"
_BLOCK_BYTES: Final = 1 << 20

_S3: Final = (
    *("access_key", "secret_key", "session_token", "region", "scheme", "endpoint_override", "anonymous", "role_arn"),
    *("external_id", "force_virtual_addressing", "allow_bucket_creation", "default_metadata", "connect_timeout"),
    *("request_timeout", "background_writes"),
)
_GCS: Final = ("anonymous", "access_token", "target_service_account", "endpoint_override", "scheme", "project_id")
_AZURE: Final = (
    *("account_key", "blob_storage_authority", "dfs_storage_authority", "blob_storage_scheme", "dfs_storage_scheme"),
    *("sas_token", "tenant_id", "client_id", "client_secret"),
)
#: The options of each kind of store; they are the arguments of pyarrow's file systems.
STORE_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "s3": _S3,
    "gs": _GCS,
    "gcs": _GCS,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "file": (),
}


class TableLocation(Protocol):
    """Where the files of one table lie; its bookkeeping is a local directory. Faults there are an OSError."""

    shown: str
    bookkeeping: Path

    def owner(self) -> str | None:
        """The owner that the place itself names."""

    def set_owner(self, owner: str) -> None: ...

    def has_files(self, suffix: str) -> bool: ...

    def take(self, files: Mapping[Path, str]) -> None:
        """Take finished files over from the bookkeeping. Those that are no longer there were taken before."""

    def find(self, name: str) -> "pa.NativeFile | None":
        """Open a file for reading, None if there is none."""


class Directory:
    """A directory of the output directory, on one file system with its bookkeeping."""

    def __init__(self, output: Path, table: str) -> None:
        self._path = output / table
        self.shown = str(self._path)
        self.bookkeeping = output / BOOKKEEPING / table

    def owner(self) -> str | None:
        """None: the bookkeeping beside it does."""
        return None

    def set_owner(self, owner: str) -> None: ...

    def has_files(self, suffix: str) -> bool:
        return self._path.exists() and any(self._path.rglob(f"*{suffix}"))

    def take(self, files: Mapping[Path, str]) -> None:
        """By renaming."""
        touched = set()
        for file, name in files.items():
            target = self._path / name
            if file.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                file.rename(target)
                touched.add(target.parent)
        for directory in touched:
            force_to_disk(directory)

    def find(self, name: str) -> "pa.NativeFile | None":
        file = self._path / name
        return pa.OSFile(str(file)) if file.exists() else None


class ObjectStore:
    """A place by URI.
    Args:
        options: Arguments of pyarrow's file system, such as `endpoint_override` and `access_key`.
    """

    def __init__(self, uri: str, options: Mapping[str, str], output: Path) -> None:
        parts = urlsplit(uri)
        self.shown = uri
        self.bookkeeping = output / BOOKKEEPING / parts.scheme / parts.netloc / parts.path.strip("/")
        try:
            self._files, path = _file_system(parts.scheme, uri, options)
        except (pa.ArrowException, ValueError, TypeError, OSError) as error:
            raise SinkError(f"{uri} cannot be used: {error}") from None
        self._path = path.rstrip("/")

    def owner(self) -> str | None:
        opened = self.find(_OWNER)
        if opened is None:
            return None
        with opened:
            content: bytes = opened.read()
        return content.decode()

    def set_owner(self, owner: str) -> None:
        self._make_parent(_OWNER)
        with self._files.open_output_stream(f"{self._path}/{_OWNER}") as stream:
            stream.write(owner.encode())

    def has_files(self, suffix: str) -> bool:
        listed = self._files.get_file_info(fs.FileSelector(self._path, recursive=True, allow_not_found=True))
        return any(info.type == fs.FileType.File and info.path.endswith(suffix) for info in listed)

    def take(self, files: Mapping[Path, str]) -> None:
        """By copying, over what an interrupted copy may have left under the same names."""
        present = {file: name for file, name in files.items() if file.exists()}
        for file, name in present.items():
            self._make_parent(name)
            self._copy(file, f"{self._path}/{name}")
        for file in present:
            file.unlink()

    def find(self, name: str) -> "pa.NativeFile | None":
        try:
            return self._files.open_input_file(f"{self._path}/{name}")
        except FileNotFoundError:
            return None

    def _copy(self, file: Path, target: str) -> None:
        # Where there are directories, a file that is half written has a name that readers skip.
        is_local = isinstance(self._files, fs.LocalFileSystem)
        head, _, name = target.rpartition("/")
        written = f"{head}/.{name}.unfinished" if is_local else target
        with file.open("rb") as source, self._files.open_output_stream(written) as stream:
            shutil.copyfileobj(source, stream, _BLOCK_BYTES)
        arrived = self._files.get_file_info(written).size
        if arrived != file.stat().st_size:
            raise OSError(f"{target} has {arrived} bytes after {file.stat().st_size} were sent")
        if is_local:
            force_to_disk(Path(written))
            self._files.move(written, target)
            force_to_disk(Path(head))

    def _make_parent(self, name: str) -> None:
        if isinstance(self._files, fs.LocalFileSystem):
            self._files.create_dir(f"{self._path}/{name}".rpartition("/")[0], recursive=True)


def open_location(path: str, options: Mapping[str, str], output: Path) -> TableLocation:
    return ObjectStore(path, options, output) if is_uri(path) else Directory(output, path)


def is_uri(path: str) -> bool:
    """Whether a path is a URI, and not one below the output directory."""
    return "://" in path


def store_fault(path: str, options: Iterable[str]) -> str | None:
    """What is wrong with a URI, or with options that are given with it; None if nothing can be seen."""
    scheme = urlsplit(path).scheme
    known = STORE_OPTIONS.get(scheme)
    if known is None:
        return f"the scheme must be one of {', '.join(STORE_OPTIONS)}"
    if "@" in urlsplit(path).netloc and not scheme.startswith("abfs"):
        # The path is shown everywhere.
        return f"is {_without_login(path)!r} with a login: give it in storage_options, as access_key and secret_key"
    if not urlsplit(path).path.strip("/"):
        return f"is {path!r}, but must have a path after the bucket: the table needs a directory of its own"
    for option in options:
        if option not in known:
            return f"has the option {option!r}, which {scheme} does not know: {', '.join(known) or 'it has none'}"
    return None


def _without_login(path: str) -> str:
    scheme, _, rest = path.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


def _file_system(scheme: str, uri: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    if not options:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(uri)
        return found
    arguments: dict[str, Any] = {name: _argument(name, value) for name, value in options.items()}
    parts = urlsplit(uri)
    if scheme == "s3":
        return fs.S3FileSystem(**arguments), f"{parts.netloc}{parts.path}"
    if scheme in ("gs", "gcs"):
        return fs.GcsFileSystem(**arguments), f"{parts.netloc}{parts.path}"
    container, _, host = parts.netloc.partition("@")
    return fs.AzureFileSystem(host.partition(".")[0], **arguments), f"{container}{parts.path}"


def _argument(name: str, value: str) -> str | bool | float:
    if value in ("true", "false"):
        return value == "true"
    return float(value) if name.endswith("_timeout") else value
