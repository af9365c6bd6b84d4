"""The writing half of the `columnar` layout: messages become one block per stream, with index and topic records.

`block` knows what a block is, `topic_structure` which stream a topic belongs to, `replay` how blocks are read.
"""

from collections.abc import Sequence
from typing import Final

from heliograph.storage.columnar import keys
from heliograph.storage.columnar.block_writing import encode_block
from heliograph.storage.columnar.catalog import Generation
from heliograph.storage.columnar.extent import written_in
from heliograph.storage.engine import Rdict, WriteBatch
from heliograph.storage.interface import SEQUENCE_MAX, StorableMessage, StreamId
from heliograph.storage.topic_structure import LEARNED_LENGTH_MAX, Placement

# A block is the least that is read, so it must not grow with the commit.
_BLOCK_ROWS_MAX: Final = 4096
_BLOCK_BYTES_MAX: Final = 4 << 20
_PLACEMENTS_BYTES_MAX: Final = 18 << 20  # some 65,536 of common topics
_PLACEMENT_BYTES: Final = 256  # what one costs beside its topic


class _Group:
    __slots__ = ("hashes", "messages")

    def __init__(self) -> None:
        self.messages: list[StorableMessage] = []
        self.hashes: set[bytes] = set()


class ColumnarWriter:
    """Writes the current generation of one shard. Owned by the open database and dropped with the generation.

    `stage` puts records into a RocksDB batch; the caller writes it and then says `applied`, or drops the batch and
    says `discarded`.
    """

    def __init__(self, database: Rdict, generation: Generation) -> None:
        self._database = database
        self._shard = generation.info.shard
        self._number = generation.info.number
        self._structure = generation.structure
        self._recent: dict[str, Placement] = {}
        self._older: dict[str, Placement] = {}
        self._recent_bytes = 0
        self._older_bytes = 0
        self._written: dict[int, tuple[int, int]] = {}
        self._staged: dict[int, tuple[int, int]] = {}
        self._staged_bytes = 0
        self._streams_before = self._structure.stream_count  # later ones have nothing but what is in `_written`
        self._written_bytes = self._read_written_bytes()

    def stage(self, messages: Sequence[StorableMessage], time: int, batch: WriteBatch) -> None:
        """Put messages into a batch.

        Args:
            time: The commit time in µs, greater than that of every earlier commit of the shard.
        """
        groups: dict[int, _Group] = {}
        placements = self._recent
        for message in messages:
            placement = placements.get(message.topic)
            if placement is None:
                placement = self._place(message.topic)
                placements = self._recent
            group = groups.get(placement.stream)
            if group is None:
                group = groups[placement.stream] = _Group()
            group.messages.append(message)
            if placement.topic_hash:
                group.hashes.add(placement.topic_hash)
        self._stage_structure(batch)
        for stream, group in groups.items():
            self._stage_group(stream, group, time, batch)
        written = self._written_bytes + self._staged_bytes
        batch.put(keys.written(self._shard, self._number), written.to_bytes(8, "big"))

    @property
    def written_bytes(self) -> int:
        """What its generation was given: topics and payloads, before compression."""
        return self._written_bytes

    @property
    def memory_bytes(self) -> int:
        """What the topics that it remembers have in memory."""
        return self._recent_bytes + self._older_bytes

    @property
    def stream_count(self) -> int:
        return self._structure.stream_count

    def staged_streams(self, database: str) -> list[StreamId]:
        return [StreamId(database, self._shard, self._number, stream) for stream in self._staged]

    def stream_of(self, topic: str) -> int:
        """The stream that a message of a topic was just written to."""
        return (self._recent.get(topic) or self._place(topic)).stream

    def applied(self) -> None:
        self._written.update(self._staged)
        self._staged.clear()
        self._written_bytes += self._staged_bytes
        self._staged_bytes = 0
        self._structure.written()

    def discarded(self) -> None:
        self._staged.clear()
        self._staged_bytes = 0

    def _place(self, topic: str) -> Placement:
        placement = self._older.get(topic) or self._structure.place(topic)
        if len(topic) > LEARNED_LENGTH_MAX:  # the cache counts topics, so they must be short
            return placement
        if self._recent_bytes >= _PLACEMENTS_BYTES_MAX // 2:
            self._older, self._older_bytes = self._recent, self._recent_bytes
            self._recent, self._recent_bytes = {}, 0
        self._recent[topic] = placement
        self._recent_bytes += len(topic) + _PLACEMENT_BYTES
        return placement

    def _stage_structure(self, batch: WriteBatch) -> None:
        shard, number = self._shard, self._number
        for node in self._structure.new_nodes:
            parent = 0 if node.parent is None else node.parent.number
            batch.put(keys.topic_level(shard, number, node.number), parent.to_bytes(4, "big") + node.level.encode())
        for node in self._structure.new_streams:
            batch.put(keys.stream(shard, number, node.stream or 0), node.number.to_bytes(4, "big"))

    def _stage_group(self, stream: int, group: _Group, time: int, batch: WriteBatch) -> None:
        waiting = [group.messages]
        if len(group.messages) > _BLOCK_ROWS_MAX:
            starts = range(0, len(group.messages), _BLOCK_ROWS_MAX)
            waiting = [group.messages[start : start + _BLOCK_ROWS_MAX] for start in starts]
        waiting.reverse()
        sequence = 0
        rows, total = self._written.get(stream) or self._read_written(stream)
        while waiting:
            messages = waiting.pop()
            key = keys.block(self._shard, self._number, stream, time, sequence)
            value, message_bytes = encode_block(key, messages, rows, total)
            if len(value) > _BLOCK_BYTES_MAX and len(messages) > 1:
                middle = len(messages) // 2
                waiting += (messages[middle:], messages[:middle])
                continue
            batch.put(key, value)
            if group.hashes:
                prefix = keys.index_prefix(self._shard, self._number, stream, b"")
                tail = keys.tail(time, sequence)
                for topic_hash in sorted(group.hashes):  # RocksDB takes neighbouring keys a third faster in order
                    batch.put(prefix + topic_hash + tail, b"")
            rows += len(messages)
            total += message_bytes
            self._staged_bytes += message_bytes
            sequence += 1
            if sequence > SEQUENCE_MAX:
                raise ValueError(f"one commit brings {len(group.messages)} messages to one stream; split it")
        self._staged[stream] = (rows, total)

    def _read_written(self, stream: int) -> tuple[int, int]:
        """Rows and bytes of the stream so far, from its last block that can be read."""
        if stream > self._streams_before:
            return 0, 0
        return written_in(self._database, StreamId("", self._shard, self._number, stream))

    def _read_written_bytes(self) -> int:
        record = self._database.get(keys.written(self._shard, self._number))
        if record is not None:
            return int.from_bytes(record, "big")
        streams = range(1, self._structure.stream_count + 1)  # of an earlier version, which did not write it down
        return sum(self._read_written(stream)[1] for stream in streams)

    def __repr__(self) -> str:
        return f"ColumnarWriter(shard {self._shard}, generation {self._number}, {self._structure})"
