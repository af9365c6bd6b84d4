"""Exports configuration and records of a node into an archive, and imports one."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

import msgspec

from heliograph import __version__
from heliograph.control.proto_v1.conf import CONF_CHANGE, CONF_SHOW, ConfChangeArgs, ConfShowArgs
from heliograph.hocon.errors import HoconError
from heliograph.hocon.values import Node, to_json
from heliograph.management.asking.nodes import Node as AskedNode
from heliograph.management.backups import archive
from heliograph.management.backups.errors import BackupError, RefusedTableError
from heliograph.management.backups.sealing import is_sealed, seal, unseal
from heliograph.management.backups.tables import TABLES, Table
from heliograph.rpc.methods import RpcError
from heliograph.settings.units import parse_size

_READ_ONLY: Final = frozenset({"node"})
_FILES: Final = ("authz", "certs")  # directories below the data directory that the API writes files to
_ROWS: Final = 200
_ROWS_BYTES: Final = 4 << 20
_BYTES_MAX: Final = "management.max_archive_bytes"
_EDITION: Final = "Opensource"


class Backups:
    """The archives of one node; owned by the routes that export and import.

    Args:
        data_dir: Its data directory; archives are in `backup` below it.
    """

    def __init__(self, node: AskedNode, data_dir: Path) -> None:
        self._node = node
        self._data_dir = data_dir.resolve()
        self.directory = self._data_dir / "backup"

    async def export(
        self, root_keys: Collection[str] | None, table_sets: Collection[str] | None, passphrase: str = ""
    ) -> Path:
        """Make an archive.

        Args:
            root_keys: Which roots of the configuration; None for all.
            table_sets: Which tables; None for all.
            passphrase: What it is encrypted with; empty for not at all.

        Raises:
            BackupError: A name is not valid, or the disk does not take it.
        """
        tables = _chosen(table_sets)
        bytes_max = await self.bytes_max()
        self.directory.mkdir(mode=0o700, exist_ok=True)
        await asyncio.to_thread(self.check_room, 1, bytes_max)
        name = archive.new_name(time.time())
        with _Scratch(self.directory) as directory:
            await asyncio.to_thread(self._write_config, directory, root_keys)
            (directory / archive.TABLES).mkdir(mode=0o700)
            for table_name, table in tables.items():
                file = directory / archive.TABLES / table_name
                async for rows in table.rows(self._node):
                    packed = [msgspec.msgpack.encode(row) for row in rows]
                    await asyncio.to_thread(archive.write_rows, file, packed)
            meta = archive.Meta(archive.FORM, __version__, _EDITION, self._node.name, time.time())
            return await asyncio.to_thread(self._pack, directory, name, meta, passphrase, bytes_max)

    async def take(self, file: Path, passphrase: str = "", refused: Collection[str] = ()) -> dict[str, int]:
        """Import an archive into the node; return how many rows of each table it refused.

        The configuration comes first; where it is refused, nothing is taken.

        Args:
            refused: Tables that an archive may not have.

        Raises:
            BackupError: It is no archive, or what it has does not fit here.
        """
        with _Scratch(self.directory) as directory:
            await asyncio.to_thread(self._unpack, file, directory, passphrase)
            tables = sorted((directory / archive.TABLES).glob("*")) if (directory / archive.TABLES).is_dir() else []
            for table in tables:
                if table.name in refused:
                    raise RefusedTableError(table.name)
                if table.name not in TABLES:
                    raise BackupError(f"the archive has the table {table.name!r}; tables are {', '.join(TABLES)}")
                await asyncio.to_thread(_check, table, TABLES[table.name])
            await self._take_config(directory)
            return {table.name: await self._take_table(table) for table in tables}

    async def tables(self, file: Path) -> list[str]:
        """The tables of an archive that can be read without a passphrase; none of one that is encrypted.

        Raises:
            BackupError: It is no archive.
        """
        return await asyncio.to_thread(self.tables_now, file)

    def tables_now(self, file: Path) -> list[str]:
        """The same; it waits for the disk."""
        return [] if is_sealed(file) else archive.tables_of(file)

    def file(self, name: str) -> Path:
        """An archive that is there.

        Raises:
            BackupError: The name is not valid.
            FileNotFoundError: There is none of that name.
        """
        path = self.directory / archive.checked_name(name)
        if not path.is_file():
            raise FileNotFoundError(name)
        return path

    def files(self) -> list[Path]:
        """All archives, the newest first."""
        found = [path for path in self.directory.glob(f"*{archive.SUFFIX}") if path.is_file()]
        return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)

    async def bytes_max(self) -> int:
        """What all archives may take together."""
        (row,) = await self._node.rows(CONF_SHOW(ConfShowArgs(_BYTES_MAX)))
        return parse_size(msgspec.json.decode(row.plain, type=str))

    def check_room(self, size: int, bytes_max: int) -> None:
        """See whether one more archive finds room; waits for the disk.

        Raises:
            BackupError: It does not.
        """
        taken = sum(path.stat().st_size for path in self.files())
        if taken + size > bytes_max:
            raise BackupError(
                f"the archives in {self.directory} take {taken:,} bytes, and one more of {size:,} would be beyond the "
                f"{bytes_max:,} of {_BYTES_MAX}: delete some first, or allow more"
            )

    def _write_config(self, directory: Path, root_keys: Collection[str] | None) -> None:
        cluster = self._data_dir / "configs" / "cluster.hocon"
        text = cluster.read_text(encoding="utf-8") if cluster.exists() else ""
        tree = _parsed(text, str(cluster))
        assert isinstance(tree.value, dict)
        kept = {name: node for name, node in tree.value.items() if root_keys is None or name in root_keys}
        text = to_json(Node(kept, tree.position)).replace(str(self._data_dir), archive.DATA_DIR)
        file = directory / archive.CLUSTER
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        for name in _FILES:
            for path in sorted((self._data_dir / name).glob("*")):
                if path.is_file() and f"{archive.DATA_DIR}/{name}/{path.name}" in text:
                    target = directory / archive.DATA / name / path.name
                    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    shutil.copyfile(path, target)

    def _pack(self, directory: Path, name: str, meta: archive.Meta, passphrase: str, bytes_max: int) -> Path:
        plain, target = directory / name, self.directory / name
        content = directory / "content"
        content.mkdir()
        for path in list(directory.iterdir()):
            if path != content:
                path.rename(content / path.name)
        archive.pack(content, plain, name, meta)
        if passphrase:
            sealed = directory / f"{name}.sealed"
            seal(plain, sealed, passphrase)
            plain = sealed
        self.check_room(plain.stat().st_size, bytes_max)
        plain.rename(target)
        return target

    def _unpack(self, file: Path, directory: Path, passphrase: str) -> None:
        if is_sealed(file):
            if not passphrase:
                raise BackupError("the archive is encrypted: a passphrase is needed")
            plain = directory / "plain"
            unseal(file, plain, passphrase)
            archive.unpack(plain, directory)
        else:
            archive.unpack(file, directory)

    async def _take_config(self, directory: Path) -> None:
        file = directory / archive.CLUSTER
        if not file.exists():
            return
        new = await asyncio.to_thread(self._copy_files, directory / archive.DATA)
        try:
            text = file.read_text(encoding="utf-8").replace(archive.DATA_DIR, str(self._data_dir))
            tree = _parsed(text, "cluster.hocon of the archive")
            assert isinstance(tree.value, dict)
            kept = {name: node for name, node in tree.value.items() if name not in _READ_ONLY}
            if kept:
                text = to_json(Node(kept, tree.position), None)
                args = ConfChangeArgs(text=text, name="cluster.hocon of the archive", comment="import of an archive")
                await self._node.ask(CONF_CHANGE(args), timeout_s=None)
        except (RpcError, HoconError, UnicodeDecodeError) as error:
            for path in new:
                path.unlink(missing_ok=True)
            raise BackupError(f"the configuration of the archive does not fit here: {error}") from None

    def _copy_files(self, source: Path) -> list[Path]:
        """Files that are new here; one that is there already stays as it is."""
        new: list[Path] = []
        for path in sorted(source.rglob("*")) if source.is_dir() else ():
            relative = path.relative_to(source)
            if not path.is_file() or len(relative.parts) != 2 or relative.parts[0] not in _FILES:
                continue
            target = self._data_dir / relative
            target.parent.mkdir(mode=0o700, exist_ok=True)
            if not target.exists():
                target.touch(mode=0o600)
                shutil.copyfile(path, target)
                new.append(target)
        return new

    async def _take_table(self, file: Path) -> int:
        table, refused = TABLES[file.name], 0
        decoder = msgspec.msgpack.Decoder(table.kind)
        rows = archive.read_rows(file)
        while part := await asyncio.to_thread(_some, rows):
            refused += await table.take(self._node, [decoder.decode(row) for row in part])
        return refused


class _Scratch:
    """A directory that is gone behind the block."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(mode=0o700, exist_ok=True)
        self._directory = tempfile.TemporaryDirectory(prefix=".making-", dir=parent)

    def __enter__(self) -> Path:
        return Path(self._directory.__enter__())

    def __exit__(self, *raised: object) -> None:
        self._directory.cleanup()


def _chosen(names: Collection[str] | None) -> dict[str, Table]:
    if names is None:
        return dict(TABLES)
    unknown = [name for name in names if name not in TABLES]
    if unknown:
        raise BackupError(f"there is no table {', '.join(unknown)[:200]!r}; tables are {', '.join(TABLES)}")
    return {name: TABLES[name] for name in names}


def _check(file: Path, table: Table) -> None:
    """See whether all rows of a table are some.

    Raises:
        BackupError: One is not.
    """
    decoder = msgspec.msgpack.Decoder(table.kind)
    try:
        for row in archive.read_rows(file):
            decoder.decode(row)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BackupError(f"the table {file.name} has a row that is not valid: {error}") from None


def _some(rows: Iterator[bytes]) -> list[bytes]:
    """The next rows: a few, and of long ones fewer."""
    part: list[bytes] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row)
        if len(part) == _ROWS or size >= _ROWS_BYTES:
            break
    return part


def _parsed(text: str, name: str) -> Node:
    from heliograph.hocon.document import parse_text  # the grammar takes memory, and is seldom needed
    from heliograph.hocon.files import MemoryFiles

    return parse_text(text, name=name, files=MemoryFiles({}))
