"""Erases messages of a database, here and in offloaded files.

A block whose rows all go is deleted. In a block that keeps some, an erased row becomes an empty one with the mark
`block.ERASED`, since a position counts the rows of a commit: the positions of others keep their meaning. Readers leave
these rows out. The names of topic levels that no message is left below are replaced, and RocksDB then writes all its
files again.

Each step may be done twice, so after a crash the same erasure is run again. An offloaded file is written again under
another name; the file before it is removed when everything in the database names the new one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block import (
    ERASED,
    BlockHeader,
    DamagedBlockError,
    is_stub,
    read_constants,
    read_header,
    read_parts,
    stub_place,
)
from heliograph.storage.columnar.block_rows import read_rows
from heliograph.storage.columnar.block_writing import encode_stub, renumbered_block, rewritten_block
from heliograph.storage.columnar.catalog import Catalog, Generation
from heliograph.storage.columnar.compaction import has_index, topic_hash
from heliograph.storage.columnar.node_databases import databases_path
from heliograph.storage.columnar.offloaded import OffloadRecord, OffloadState, offload_record
from heliograph.storage.columnar.replay import damaged
from heliograph.storage.columnar.secondary import reading
from heliograph.storage.engine import (
    Rdict,
    WriteBatch,
    new_batch,
    open_primary,
    records,
    translating,
    write_files_again,
)
from heliograph.storage.erasure.changes import CollectedChanges, RecordChange
from heliograph.storage.erasure.files import RewrittenFile, remove_earlier, rewritten
from heliograph.storage.erasure.subject import ErasureSubject
from heliograph.storage.errors import StorageError
from heliograph.storage.interface import StoredMessage, StreamId
from heliograph.storage.offload.files import files_there
from heliograph.storage.offload.target import Target, remove_file
from heliograph.storage.topic_structure import ANY, REST

_BATCH_BYTES: Final = 4 << 20
_ALL_ROWS: Final = 0xFFFF_FFFF
_NAMELESS: Final = "$erased-"

MessageIds = set[tuple[int, int]]


@dataclass
class ErasedMessages:
    """What is erased of one database, or would be.

    Attributes:
        messages: Also those in offloaded files.
        offloaded: Of them, those in offloaded files.
        ids: Of the ids that were asked about, those whose messages are erased.
    """

    database: str
    messages: int = 0
    offloaded: int = 0
    files: int = 0
    ids: MessageIds = field(default_factory=set)


def erase_messages(
    data_dir: Path, name: str, subject: ErasureSubject, ids: MessageIds, targets: Iterable[str] = (), *, is_tried: bool
) -> ErasedMessages:
    """Erase messages of one database of a stopped node; or only count them, beside a running one too.

    Args:
        targets: Where offload writes by the settings, beside where it has written.

    Raises:
        StorageDamagedError: A block cannot be read; repair it first.
        OffloadError: An offloaded file cannot be read or written.
    """
    if is_tried:
        with reading(data_dir, name) as (rocks, catalog):
            return _Erasure(rocks, catalog, subject, data_dir, ids, None).run(catalog.generations())
    path = databases_path(data_dir) / name
    with translating(name, path):
        rocks = open_primary(path, "zstd")
        try:
            catalog = Catalog(name, path)
            catalog.refresh(rocks)
            erasure = _Erasure(rocks, catalog, subject, data_dir, ids, _Batches(rocks))
            report = erasure.run(catalog.generations())
            write_files_again(rocks)
        finally:
            rocks.close()
        rocks = open_primary(
            path, "zstd"
        )  # so its list of tables, which has the first and last key of each, begins again
        try:
            erasure.remove_files(rocks, targets)
        finally:
            rocks.close()
    return report


def erase_beside(
    data_dir: Path, name: str, subject: ErasureSubject, write: Callable[[list[RecordChange]], object]
) -> ErasedMessages:
    """Find out what becomes of the closed generations of a database of a running node, which writes that itself.

    What was offloaded is left alone: readers may be about to open its files.

    Args:
        write: Takes some changes, in their order.

    Raises:
        StorageDamagedError: A block cannot be read.
    """
    with reading(data_dir, name) as (rocks, catalog):
        closed = [
            one
            for one in catalog.generations()
            if one.info.until is not None and offload_record(rocks, one.info.shard, one.info.number) is None
        ]
        return _Erasure(rocks, catalog, subject, data_dir, set(), CollectedChanges(rocks, write)).run(closed)


def _erased(message: StoredMessage) -> StoredMessage:
    """What stays of a message: its place, its id, and how many levels its topic has."""
    topic = "/" * message.topic.count("/")
    return message._replace(
        topic=topic, payload=b"", qos=ERASED, retain=False, clientid="", username=None, property_bytes=b""
    )


class _Erasure:
    """One walk through a database; lives as long."""

    def __init__(
        self,
        rocks: Rdict,
        catalog: Catalog,
        subject: ErasureSubject,
        data_dir: Path,
        ids: MessageIds,
        output: "_Batches | CollectedChanges | None",
    ) -> None:
        self._rocks = rocks
        self._catalog = catalog
        self._subject = subject
        self._data_dir = data_dir
        self._ids = ids
        self._output = output  # None of a trial
        self._is_tried = output is None
        # A block that went would have its stream lack rows for readers, until all blocks that follow count without it.
        self._is_beside = isinstance(output, CollectedChanges)
        self._targets: dict[str, Target] = {}
        self._report = ErasedMessages(catalog.name)

    def run(self, generations: Sequence[Generation]) -> ErasedMessages:
        for generation in generations:
            self._erase_in(generation)
        self._write()
        return self._report

    def remove_files(self, rocks: Rdict, targets: Iterable[str]) -> None:
        """Remove the offloaded files in whose place others are, and those that an offload which was cut off has left:
        the next one writes them again, from what is in the database.
        """
        offloaded = set()
        for key, value in records(rocks, keys.offloaded(0, 0), keys.OFFLOADED_END):
            record = OffloadRecord.from_bytes(value)
            offloaded.add(keys.shard_and_generation(key))
            for file in record.files:
                remove_earlier(self._target(record.target), file.path)
        for text in {*self._targets, *targets}:
            target = self._target(text)
            for generation in self._catalog.generations():
                if (generation.info.shard, generation.info.number) not in offloaded:
                    for path in files_there(target, self._catalog, generation):
                        remove_file(target, path)

    def _target(self, text: str) -> Target:
        if text not in self._targets:
            self._targets[text] = Target.open(text, self._data_dir)
        return self._targets[text]

    def _erase_in(self, generation: Generation) -> None:
        info = generation.info
        record = offload_record(self._rocks, info.shard, info.number)
        if record is not None and record.state is OffloadState.REPLACING:
            raise StorageError(
                f"generation {info.number} is being offloaded: start the node or run `heliograph storage offload`, "
                "which finishes that, and erase again",
                database=self._catalog.name,
                path=self._catalog.path,
            )
        files = {} if record is None else self._rewritten_files(record)
        live = {
            stream.number
            for stream in self._catalog.streams_in(generation)
            if self._erase_stream(stream, generation, files)
        }
        if self._is_tried:
            return
        self._hide_names(generation, live)
        if record is not None and files:
            new = tuple(files[file.path].file if file.path in files else file for file in record.files)
            self._write()
            self._put(keys.offloaded(info.shard, info.number), replace(record, files=new).to_bytes())
            self._write()

    def _rewritten_files(self, record: OffloadRecord) -> dict[str, RewrittenFile]:
        found = {}
        for file in record.files:
            one = rewritten(self._target(record.target), file, self._subject, self._ids, is_tried=self._is_tried)
            if one is not None:
                found[file.path] = found[one.file.path] = one
                self._report.files += 1
                self._report.messages += one.messages
                self._report.offloaded += one.messages
                self._report.ids |= one.ids
        return found

    def _erase_stream(self, stream: StreamId, generation: Generation, files: dict[str, RewrittenFile]) -> bool:
        """Erase what is wanted of a stream; whether it has anything else."""
        structure = (generation.structure.topics_of(stream.number) or REST).split("/")
        prefix = keys.block_prefix(*stream[1:])
        is_live, rows_before, bytes_before = False, 0, 0
        new: bytes | None
        for key, value in records(self._rocks, prefix, keys.behind(prefix)):
            try:
                header = read_header(key, value)
                if is_stub(value):
                    new, is_left = self._new_stub(key, value, structure, files, (rows_before, bytes_before))
                else:
                    new, is_left = self._new_block(key, value, header, structure, (rows_before, bytes_before))
            except DamagedBlockError as error:
                raise damaged(error, stream, key) from error
            is_live = is_live or is_left
            if new != value:  # in the same write as the first change, or before it
                self._put(keys.erased(stream.shard, stream.generation), b"")
            if new is None:
                self._delete(key)
                continue
            if new != value:
                self._put(key, new)
            header = read_header(key, new)
            rows_before += header.rows
            bytes_before += header.message_bytes
        return is_live

    def _new_block(
        self, key: bytes, value: bytes, header: BlockHeader, structure: Sequence[str], before: tuple[int, int]
    ) -> tuple[bytes | None, bool]:
        """What takes the place of a block, None for nothing; and whether it has a message."""
        if not self._may_have(key, value, header):
            return renumbered_block(key, value, *before), True
        rows = read_rows(key, value, 0, _ALL_ROWS)
        taken = [row for row in rows if row.qos != ERASED and self._takes(row)]
        if not taken:
            return renumbered_block(key, value, *before), any(row.qos != ERASED for row in rows)
        self._report.messages += len(taken)
        self._report.ids |= self._ids & {(row.id_high, row.id_low) for row in taken}
        left = [_erased(row) if row.qos != ERASED and self._takes(row) else row for row in rows]
        kept = {row.topic for row in left if row.qos != ERASED}
        self._delete_entries(key, {row.topic for row in taken}, kept, structure)
        if not kept and not self._is_beside:
            return None, False
        return rewritten_block(key, value, left, *before), bool(kept)

    def _takes(self, row: StoredMessage) -> bool:
        return self._subject.takes(row.clientid, row.topic, row.stored_at)

    def _may_have(self, key: bytes, value: bytes, header: BlockHeader) -> bool:
        """Whether a block may have what is erased, of what is the same in all its rows."""
        constants, subject = read_constants(header, value), self._subject
        if subject.clientid is not None:
            return constants.clientid in (None, subject.clientid)
        if subject.topics is not None:
            return constants.topic is None or subject.topics.matches(constants.topic)
        return subject.before_us is not None and read_parts(key, value)[0].time < subject.before_us

    def _new_stub(
        self,
        key: bytes,
        value: bytes,
        structure: Sequence[str],
        files: dict[str, RewrittenFile],
        before: tuple[int, int],
    ) -> tuple[bytes, bool]:
        """The stub that names the new file, and whether it stands for a message."""
        where = stub_place(key, value)
        found = files.get(str(where["path"]))
        if found is None:
            return renumbered_block(key, value, *before), True
        group, first = int(str(where["group"])), int(str(where["first"]))
        rows = slice(first, first + read_header(key, value).rows)
        taken, kept = found.topics(group, rows)
        self._delete_entries(key, taken, kept, structure)
        new = {**where, **found.file.to_json()}
        return encode_stub(key, new, read_parts(key, value), before), bool(kept) or group not in found.groups

    def _delete_entries(self, key: bytes, taken: set[str], kept: set[str], structure: Sequence[str]) -> None:
        """Delete what the topic index says of topics that a block has not any more."""
        levels = list(structure)
        if not has_index(levels):
            return
        prefix, tail = keys.index_prefix(*keys.stream_of_block(key), b""), key[-keys.TAIL_BYTES :]
        stay = {topic_hash(topic, levels) for topic in kept}
        for topic in taken:
            entry = topic_hash(topic, levels)
            if entry not in stay:
                self._delete(prefix + entry + tail)

    def _hide_names(self, generation: Generation, live: set[int]) -> None:
        """Replace the names of topic levels below which there is no message: a name may be that of a device."""
        shard, number = generation.info.shard, generation.info.number
        lower, upper = keys.topic_level(shard, number, 0), keys.topic_level(shard, number + 1, 0)
        levels = {
            keys.numbered(key)[2]: (value[:4], value[4:].decode()) for key, value in records(self._rocks, lower, upper)
        }
        lower, upper = keys.stream(shard, number, 0), keys.stream(shard, number + 1, 0)
        used: set[int] = set()
        for key, value in records(self._rocks, lower, upper):
            node = int.from_bytes(value, "big")
            while keys.numbered(key)[2] in live and node in levels and node not in used:
                used.add(node)
                node = int.from_bytes(levels[node][0], "big")
        for node, (parent, name) in levels.items():
            if node not in used and name not in (ANY, REST) and not name.startswith(_NAMELESS):
                self._put(keys.topic_level(shard, number, node), parent + f"{_NAMELESS}{node}".encode())

    def _put(self, key: bytes, value: bytes) -> None:
        if self._output is not None:
            self._output.change(key, value)

    def _delete(self, key: bytes) -> None:
        if self._output is not None:
            self._output.change(key, None)

    def _write(self) -> None:
        if self._output is not None:
            self._output.write()


class _Batches:
    """Writes changes into a database that is open for writing."""

    def __init__(self, rocks: Rdict) -> None:
        self._rocks = rocks
        self._batch: WriteBatch = new_batch()
        self._batch_bytes = 0

    def change(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._batch.delete(key)
        else:
            self._batch.put(key, value)
        self._batch_bytes += len(key) + len(value or b"")
        if self._batch_bytes >= _BATCH_BYTES:
            self.write()

    def write(self) -> None:
        self._rocks.write(self._batch)
        self._batch, self._batch_bytes = new_batch(), 0
