"""Repairs a database: copies everything readable into a new one, which replaces the damaged one.

Nothing is mended in place: RocksDB's own compaction would stumble over a damaged piece of a file again and again, and
what a person may still want to save stays as it was. The new database has the same streams, positions and iterators;
its topic index is built again from the topics in the blocks, and what is lost is no longer counted.
"""

import fcntl
import heapq
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import is_stub
from heliograph.storage.columnar.block_writing import renumbered_block
from heliograph.storage.columnar.catalog import Catalog
from heliograph.storage.columnar.compaction import has_index, topic_hashes
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.salvage import Block, is_damage, readable_blocks
from heliograph.storage.columnar.secondary import ReadDatabase, check_exists, database_directories, is_gone
from heliograph.storage.directory_swap import swap_in
from heliograph.storage.engine import (
    Rdict,
    is_absent,
    new_batch,
    open_primary,
    records,
    translated,
    translating,
    write_all,
)
from heliograph.storage.errors import StorageDamagedError, StorageError
from heliograph.storage.interface import StreamId
from heliograph.storage.register import Register
from heliograph.storage.repair.check import CheckReport, check_database
from heliograph.storage.repair.missing_records import Rebuild, has_strays
from heliograph.storage.repair.openable_copy import FINISHED, files_made_readable, named_tables, openable_copy, put_back
from heliograph.storage.site import is_site_id_registered, read_site_id, write_site_id
from heliograph.storage.topic_structure import REST

_MESSAGES: Final = "messages"  # what was stored there is known by its site id: positions, files, leases
_KEPT: Final = ".damaged"
_NEW: Final = ".repair"
_BATCH_BYTES: Final = 4 << 20
_FIXED_KINDS: Final = b"CDGLNOSW"  # records that are copied as they are; see `keys`
_SPARE_KINDS: Final = b"CDW"  # of them, those that a database can do without


class StorageInUseError(StorageError):
    """A database cannot be mended while its node runs."""

    code = "storage_in_use"
    advice = "Stop that node, mend, and start it again."


@dataclass(frozen=True, slots=True)
class RepairReport:
    """What a repair found and did.

    Attributes:
        found: What the check said before.
        messages: How many messages the mended database has.
        kept: Where the damaged one is now; None if there was nothing to mend, or nothing was left.
        begins_anew: Whether nothing was left, so that the next start makes an empty database.
    """

    found: CheckReport
    messages: int
    kept: Path | None
    begins_anew: bool = False

    def to_json(self) -> dict[str, object]:
        kept = None if self.kept is None else str(self.kept)
        found = self.found.to_json()
        return {"found": found, "messages": self.messages, "kept": kept, "begins_anew": self.begins_anew}


def repair_database(data_dir: Path, name: str) -> RepairReport:
    """Mend a database of a stopped node, if anything is damaged.

    Raises:
        StorageDamagedError: The records that say what streams there are cannot be read; nothing was changed.
    """
    path = databases_path(data_dir)
    if path.is_dir() or is_site_id_registered(path):  # a node was here
        with node_is_stopped(data_dir, name), translating(name, path):
            mend_site_id(path)
    if is_gone(path / name):
        return _begin_anew(data_dir, name)
    check_exists(path, name)
    new = path / _NEW / name
    with node_is_stopped(data_dir, name):
        try:
            shutil.rmtree(new.parent, ignore_errors=True)
            new.parent.mkdir(parents=True)
            with _source(name, path / name, mend_site_id(path)) as (rocks, catalog, remark):
                found = check_database(rocks, catalog)
                if remark is not None:
                    found.add_problem(remark)
                if not found.is_damaged:
                    return RepairReport(found, found.messages, None)
                with _without_damaged_tables(found, catalog.path, new.parent / f"{name}.rest") as rest:
                    messages = _copy([rocks, *rest], catalog, new)
            kept = path / _KEPT / f"{name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
            kept.parent.mkdir(exist_ok=True)
            swap_in(new, path / name, kept)
            return RepairReport(found, messages, kept)
        except Exception as error:
            raise translated(error, name, path / name) from error
        finally:
            shutil.rmtree(new.parent, ignore_errors=True)


@contextmanager
def node_is_stopped(data_dir: Path, name: str) -> Iterator[None]:
    """Hold the lock of a node's data directory."""
    with (data_dir / "node.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise StorageInUseError("a running node uses it", database=name, path=data_dir) from error
        yield


@contextmanager
def _source(name: str, path: Path, site: str) -> Iterator[tuple[Rdict, Catalog, str | None]]:
    """The database to copy from, with a remark where it could not be opened as it is."""
    with tempfile.TemporaryDirectory(dir=path.parent / _NEW, prefix=f"{name}.") as scratch:
        remark, is_complete = None, False
        try:
            is_complete = _is_complete(name, path, Path(scratch))
        except StorageDamagedError as error:
            remark = f"it could not be opened: {error.problem}"
        if not is_complete:
            path = openable_copy(path, Path(scratch), has_records=remark is None)
            with suppress(StorageDamagedError):
                is_complete = _is_complete(name, path, Path(scratch))
        if not is_complete:
            made = "the records of its topics and generations were made again from the messages"
            remark = made if remark is None else f"{remark}; {made}"
            rocks = open_primary(path, "zstd", compacts=False)
            try:
                Rebuild(rocks, name, site).run()
            finally:
                rocks.close()
        with ReadDatabase(name, path, Path(scratch)).current() as (rocks, catalog):
            yield rocks, catalog, remark


def _is_complete(name: str, path: Path, scratch: Path) -> bool:
    """Whether the records of a database list all streams that have messages."""
    with ReadDatabase(name, path, scratch).current() as (rocks, catalog):
        return not has_strays(rocks, catalog)


def _begin_anew(data_dir: Path, name: str) -> RepairReport:
    """Put back what a crash of an earlier repair left aside, or let the next start make a database again."""
    found = CheckReport(name)
    path = databases_path(data_dir) / name
    with node_is_stopped(data_dir, name), translating(name, path):
        kept = put_back(name, path, path.parent / _KEPT)
        if kept is not None:
            with (
                tempfile.TemporaryDirectory() as scratch,
                ReadDatabase(name, path, Path(scratch)).current() as current,
            ):
                found = check_database(*current)
            found.add_problem(FINISHED)
            return RepairReport(found, found.messages, kept)
        found.add_problem(f"nothing is left of it in {path}; the next start makes an empty one")
        Register(data_dir).remove(path, begins_anew=True)
    return RepairReport(found, 0, None, begins_anew=True)


def mend_site_id(path: Path) -> str:
    """The site id of a directory: the one that `messages` bears, of the file, of other databases, or a new one."""
    try:
        noted = read_site_id(path)
    except StorageDamagedError:
        noted = None
    site_id = next(_sites(path, [_MESSAGES]), None) or noted
    if site_id is None:
        site_id = next(_sites(path, database_directories(path)), None) or secrets.token_hex(8)
    if site_id != noted:
        write_site_id(path, site_id)
    return site_id


def _sites(path: Path, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        if is_absent(path / name):
            continue
        with suppress(StorageError), tempfile.TemporaryDirectory() as scratch:
            with ReadDatabase(name, path / name, Path(scratch)).current() as (_, catalog):
                site = catalog.site
            yield site


@contextmanager
def _without_damaged_tables(found: CheckReport, path: Path, copy: Path) -> Iterator[list[Rdict]]:
    """The same database without the tables that have damaged pieces, if there are any.

    A damaged piece hides what other tables have between its keys and those of the next piece: what was stored later at
    the end of the same stream.
    """
    tables = {name for damage in found.damages for name in named_tables(damage.problem)}
    if not tables:
        yield []
        return
    rest = open_primary(files_made_readable(path, copy, tables), "zstd")
    try:
        yield [rest]
    finally:
        rest.close()


def _copy(sources: Sequence[Rdict], catalog: Catalog, path: Path) -> int:
    """Write everything that can be read into a new database; returns how many messages that is."""
    source = sources[0]
    target = open_primary(path, "zstd")
    try:
        batch = new_batch()
        batch.put(keys.META, source.get(keys.META))
        for kind in _FIXED_KINDS:
            try:
                for key, value in records(source, bytes([kind]), bytes([kind + 1])):
                    batch.put(key, value)
            except Exception as error:
                if kind not in _SPARE_KINDS or not is_damage(error):
                    raise
        target.write(batch)
        messages = 0
        for generation in catalog.generations():
            # Which of them have erased rows is a record that may be lost, too.
            target.put(keys.erased(generation.info.shard, generation.info.number), b"")
            for stream in catalog.streams_in(generation):
                topics = generation.structure.topics_of(stream.number) or REST
                messages += _copy_stream(sources, target, stream, topics.split("/"))
        target.flush()
        return messages
    finally:
        target.close()


def _copy_stream(sources: Sequence[Rdict], target: Rdict, stream: StreamId, structure: Sequence[str]) -> int:
    batch, size, messages, message_bytes = new_batch(), 0, 0, 0
    stubs: list[bytes] = []
    prefix = keys.index_prefix(*stream[1:], b"")
    for found in _blocks(sources, stream):
        batch.put(found.key, renumbered_block(found.key, found.value, messages, message_bytes))
        tail = keys.tail(*keys.time_and_sequence(found.key))
        stubs += [tail] if is_stub(found.value) else []
        for topic_hash in sorted(topic_hashes(found.key, found.value, list(structure))):
            batch.put(prefix + topic_hash + tail, b"")
        messages += found.header.rows
        message_bytes += found.header.message_bytes
        size += len(found.value)
        if size >= _BATCH_BYTES:
            target.write(batch)
            batch, size = new_batch(), 0
    target.write(batch)
    if stubs and has_index(list(structure)):
        _copy_index(sources[0], target, stream, set(stubs))
    return messages


def _copy_index(source: Rdict, target: Rdict, stream: StreamId, tails: set[bytes]) -> None:
    """Copy the index entries of what was offloaded, whose topics are not here."""
    lower = keys.index_prefix(*stream[1:], b"")
    upper = keys.index_prefix(stream.shard, stream.generation, stream.number + 1, b"")
    write_all(target, ((key, b"") for key, _ in records(source, lower, upper) if key[-keys.TAIL_BYTES :] in tails))


def _blocks(sources: Sequence[Rdict], stream: StreamId) -> Iterator[Block]:
    """What can be read of a stream in any of the sources, in its order and once."""
    readable = [(one for one in readable_blocks(source, stream) if isinstance(one, Block)) for source in sources]
    last = b""
    for block in heapq.merge(*readable, key=lambda block: block.key):
        if block.key != last:
            yield block
        last = block.key
