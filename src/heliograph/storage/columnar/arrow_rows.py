"""Blocks as record batches of the public schema: what Spark and other bulk readers see.

Only reader processes and the command line import this module, since it needs pyarrow. Rows are never touched one by one
in Python: varying columns are views into the blocks, joined once; constant columns are repeated by Arrow; only distinct
MQTT 5 properties are decoded here.
"""

import base64
import struct
import sys
import threading
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from heliograph.mqtt import properties as mqtt_properties
from heliograph.mqtt.errors import ProtocolError
from heliograph.storage.columnar.block import (
    CLIENTID,
    ERASED,
    FLAGS,
    PROPERTIES,
    TOPIC,
    USERNAME,
    VARIABLE_COLUMNS,
    BlockPart,
    Constants,
    DamagedBlockError,
    constants_data,
    is_stub,
    read_constants,
    read_header,
    read_parts,
)
from heliograph.storage.columnar.replay import BlockSlice, damaged
from heliograph.storage.interface import StreamId
from heliograph.storage.message_columns import COLUMNS
from heliograph.storage.topic_filter import TopicFilter, pattern_of_any

_TYPES: Final = {
    "string": pa.string(),
    "binary": pa.binary(),
    "binary(16)": pa.binary(16),
    "tinyint": pa.int8(),
    "int": pa.int32(),
    "boolean": pa.bool_(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "map<string, string>": pa.map_(pa.string(), pa.string()),
}
PUBLIC_SCHEMA: Final = pa.schema([pa.field(column.name, _TYPES[column.type], column.is_nullable) for column in COLUMNS])


# What files of messages have: shards are directories, and positions are of the database that the messages left.
FILE_COLUMNS: Final = [name for name in PUBLIC_SCHEMA.names if name not in ("shard", "position")]


# What is kept of a message that leaves the database for good: also what the public columns say only in part.
OFFLOADED_SCHEMA: Final = pa.schema(
    [
        *[PUBLIC_SCHEMA.field(name) for name in FILE_COLUMNS],
        pa.field("property_bytes", pa.binary(), nullable=False),
        pa.field("sequence", pa.int32(), nullable=False),
    ]
)
BATCH_ROWS_MAX: Final = 64 << 10
BATCH_BYTES_MAX: Final = 8 << 20
_COUNTED_ROWS_MAX: Final = 16 << 20  # a batch without columns has a bit for each row while it is made
_COLUMNS: Final = {
    TOPIC: pa.field("topic", pa.string()),
    FLAGS: pa.field("flags", pa.uint8()),
    CLIENTID: pa.field("clientid", pa.string()),
    USERNAME: pa.field("username", pa.string()),
    PROPERTIES: pa.field("properties", pa.binary()),
}


# The columns that every block has, and comes with first.
_PAYLOAD: Final = 0
_ID_HIGH: Final = 1
_ID_LOW: Final = 2


def _block_schema(columns: int) -> pa.Schema:
    fields = [pa.field("payload", pa.binary()), pa.field("id_high", pa.uint64()), pa.field("id_low", pa.uint64())]
    return pa.schema(fields + [_COLUMNS[column] for column in VARIABLE_COLUMNS if columns & column])


# Of the record batches in blocks, by the columns that vary.
BLOCK_SCHEMAS: Final = [_block_schema(columns) for columns in range(2 * PROPERTIES)]


class OffloadedRows(NamedTuple):
    """The rows that a stub stands for.

    Attributes:
        columns: Those of `VARIABLE_COLUMNS` that were read; nothing is known of others.
        batch: Of the schema of these columns.
    """

    columns: int
    parts: Sequence[BlockPart]
    batch: pa.RecordBatch


ReadStub = Callable[[bytes, bytes], OffloadedRows]  # of a key and a stub


class _Segment:
    __slots__ = ("batches", "columns", "constants", "constants_key", "flags", "rows")

    def __init__(self, columns: int, flags: int, constants: Constants, constants_key: tuple[int, int, bytes]) -> None:
        self.columns = columns
        self.flags = flags
        self.constants = constants
        self.constants_key = constants_key
        self.batches: list[pa.RecordBatch] = []
        self.rows = 0

    def constant(self, column: int) -> object:
        return {
            TOPIC: self.constants.topic,
            FLAGS: self.flags,
            CLIENTID: self.constants.clientid,
            USERNAME: self.constants.username,
            PROPERTIES: self.constants.property_bytes,
        }[column]


class ReadCounts:
    """What was read since a process began: rows and bytes of the blocks that were looked into, and rows given out.

    Owned by the server of reads; its threads share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows_read = self._bytes_read = self._rows_given = 0

    def add(self, rows_read: int, bytes_read: int, rows_given: int) -> None:
        with self._lock:
            self._rows_read += rows_read
            self._bytes_read += bytes_read
            self._rows_given += rows_given

    def counts(self) -> dict[str, int]:
        with self._lock:
            return {
                "rows_read": self._rows_read,
                "bytes_read": self._bytes_read,
                "rows_given": self._rows_given,
            }


class RowCollector:
    """Gathers blocks of one stream for one read and gives them out as batches of the public schema.

    Args:
        filters: Give out only rows whose topic matches one of them; None if all do.
        columns: The names of the columns to give out, in the order of the schema; all if None.
        may_read: Gives out only rows whose topic it says yes to; None for all.
    """

    def __init__(
        self,
        stream: StreamId,
        filters: Sequence[TopicFilter] | None,
        columns: Sequence[str] | None,
        schema: pa.Schema = PUBLIC_SCHEMA,
        *,
        clientids: Sequence[str] | None = None,
        counts: ReadCounts | None = None,
        may_read: Callable[[str], bool] | None = None,
    ) -> None:
        self._may_read = may_read
        self._stream = stream
        self._clientids = None if clientids is None else frozenset(clientids)
        self._counts = counts or ReadCounts()
        self._filters = filters
        self._pattern = None if filters is None else pattern_of_any(filters)
        names = set(schema.names if columns is None else columns)
        self.schema = pa.schema([field for field in schema if field.name in names])
        self._keeps_erased = schema is OFFLOADED_SCHEMA
        self._segments: list[_Segment] = []
        self._skipped: tuple[int, int, bytes] | None = None
        self._parts: list[tuple[int, int, int, int]] = []
        self._rows = 0
        self._bytes = 0

    def batches(self, slices: Iterator[BlockSlice], read_stub: ReadStub | None = None) -> Iterator[pa.RecordBatch]:
        """The rows of some blocks, in batches of up to about `BATCH_ROWS_MAX` rows or `BATCH_BYTES_MAX` bytes.

        Args:
            read_stub: Gives the rows of what was offloaded; None where there are no stubs.
        """
        for piece in slices:
            try:
                if read_stub is not None and is_stub(piece.value):
                    self._add_offloaded(piece, read_stub(piece.key, piece.value))
                else:
                    self._add(piece)
            except (DamagedBlockError, pa.ArrowInvalid) as error:
                raise damaged(DamagedBlockError(str(error)), self._stream, piece.key) from error
            if self._rows >= BATCH_ROWS_MAX or self._bytes >= BATCH_BYTES_MAX:
                yield from self._flush()
        yield from self._flush()

    def counted(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Batches without columns, of so many rows of which each is given out."""
        for begin in range(0, rows, _COUNTED_ROWS_MAX):
            count = min(_COUNTED_ROWS_MAX, rows - begin)
            self._counts.add(0, 0, count)
            yield _without_columns(count)

    def _add(self, piece: BlockSlice) -> None:
        key, value, time, sequence, first, end = piece
        header = read_header(key, value)
        rows = min(end, header.rows) - first
        if rows <= 0:
            return
        constants_key = (header.columns, header.flags, constants_data(header, value))
        segment = self._segment(constants_key, lambda: read_constants(header, value))
        if segment is None:
            return
        message = pa.py_buffer(value).slice(header.batch_at)
        batch = pa.ipc.read_record_batch(message, BLOCK_SCHEMAS[header.columns])
        segment.batches.append(batch if rows == header.rows else batch.slice(first, rows))
        segment.rows += rows
        parts = read_parts(key, value) if header.has_parts else None
        self._parts += [(time, sequence, first, rows)] if parts is None else _parts(parts, first, rows)
        self._rows += rows
        self._bytes += len(value)

    def _add_offloaded(self, piece: BlockSlice, found: OffloadedRows) -> None:
        rows = min(piece.end, found.batch.num_rows) - piece.first
        if rows <= 0:
            return
        columns = found.columns
        clientid, property_bytes = None if columns & CLIENTID else "", None if columns & PROPERTIES else b""
        segment = self._segment((columns, 0, b""), lambda: Constants(None, clientid, None, property_bytes))
        if segment is None:
            return
        segment.batches.append(found.batch.slice(piece.first, rows))
        segment.rows += rows
        self._parts += _parts(found.parts, piece.first, rows)
        self._rows += rows
        self._bytes += sum([part.message_bytes for part in found.parts])

    def _segment(self, key: tuple[int, int, bytes], read: Callable[[], Constants]) -> _Segment | None:
        """Where rows with some constants go; None if these rows are not wanted."""
        if key == self._skipped:
            return None
        if not self._segments or self._segments[-1].constants_key != key:
            constants = read()
            if not self._wants(constants):
                self._skipped = key
                return None
            columns, flags, _ = key
            self._segments.append(_Segment(columns, flags, constants, key))
        return self._segments[-1]

    def _wants(self, constants: Constants) -> bool:
        topic, clientid = constants.topic, constants.clientid
        if clientid is not None and self._clientids is not None and clientid not in self._clientids:
            return False
        if topic is not None and self._may_read is not None and not self._may_read(topic):
            return False
        return topic is None or self._filters is None or any(one.matches(topic) for one in self._filters)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        if not self._rows:
            return
        batch = self._public_batch()
        self._counts.add(self._rows, self._bytes, batch.num_rows)
        self._segments = []
        self._parts = []
        self._rows = self._bytes = 0
        if batch.num_rows:
            yield batch

    def _public_batch(self) -> pa.RecordBatch:
        needs_topics = self._pattern is not None or self._may_read is not None or "topic" in self.schema.names
        topics = self._column(TOPIC) if needs_topics else None
        arrays = [self._public_column(name, topics) for name in self.schema.names]
        if not arrays:
            rows = self._rows
            for chosen in self._choices(topics):
                rows = chosen.true_count
            return _without_columns(rows)
        batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        for chosen in self._choices(topics):
            batch = batch.filter(chosen)
        return batch

    def _choices(self, topics: pa.Array | None) -> list[pa.Array]:
        """Which rows are given out, where that is not the same for all: a mask, or none."""
        masks = []
        if any(segment.constants.topic is None for segment in self._segments):
            if self._pattern is not None:
                masks.append(pc.match_substring_regex(topics, self._pattern))
            if self._may_read is not None:
                masks.append(_mask_of(topics, self._may_read))
        if self._clients_vary():
            masks.append(self._of_clients())
        if not self._keeps_erased:
            kept = pc.not_equal(self._qos(), pa.scalar(ERASED, pa.uint8()))
            if kept.false_count:
                masks.append(kept)
        return [reduce(pc.and_, masks)] if masks else []

    def _qos(self) -> pa.Array:
        return pc.bit_wise_and(self._column(FLAGS), pa.scalar(3, pa.uint8()))

    def _clients_vary(self) -> bool:
        return self._clientids is not None and any(segment.constants.clientid is None for segment in self._segments)

    def _of_clients(self) -> pa.Array:
        return pc.is_in(self._column(CLIENTID), value_set=pa.array(self._clientids or (), pa.string()))

    def _public_column(self, name: str, topics: pa.Array | None) -> pa.Array:
        if name == "topic":
            return topics
        if name == "payload":
            return self._varying(_PAYLOAD)
        if name == "qos":
            return self._qos().cast(pa.int8())
        if name == "retain":
            return pc.bit_wise_and(self._column(FLAGS), pa.scalar(4, pa.uint8())).cast(pa.bool_())
        if name == "clientid":
            return self._column(CLIENTID)
        if name == "username":
            return self._column(USERNAME)
        if name == "properties":
            if all(segment.constants.property_bytes == b"" for segment in self._segments):
                return pa.nulls(self._rows, PUBLIC_SCHEMA.field("properties").type)
            return _decoded_properties(self._column(PROPERTIES))
        if name == "guid":
            return _guids(self._varying(_ID_HIGH), self._varying(_ID_LOW))
        if name == "received_at":
            return self._varying(_ID_HIGH).view(PUBLIC_SCHEMA.field("received_at").type)
        if name == "stored_at":
            times = b"".join([struct.pack("=q", time) * rows for time, _, _, rows in self._parts])
            return pa.Array.from_buffers(PUBLIC_SCHEMA.field("stored_at").type, self._rows, [None, pa.py_buffer(times)])
        if name == "sequence":
            sequences = b"".join([struct.pack("=i", sequence) * rows for _, sequence, _, rows in self._parts])
            return pa.Array.from_buffers(pa.int32(), self._rows, [None, pa.py_buffer(sequences)])
        if name == "property_bytes":
            return self._column(PROPERTIES)
        if name == "shard":
            return pa.repeat(pa.scalar(self._stream.shard, pa.int32()), self._rows)
        if name == "position":
            return self._positions()
        return pa.repeat(str(self._stream), self._rows)

    def _positions(self) -> pa.Array:
        blocks = _repeated([(f"{time}-{sequence}-", rows) for time, sequence, _, rows in self._parts], pa.string())
        numbers = array("i")
        for _, _, first, rows in self._parts:
            numbers.extend(range(first, first + rows))
        places = pa.Array.from_buffers(pa.int32(), self._rows, [None, pa.py_buffer(numbers)])
        return pc.binary_join_element_wise(blocks, places.cast(pa.string()), "")

    def _varying(self, index: int) -> pa.Array:
        return _joined([batch.column(index) for segment in self._segments for batch in segment.batches])

    def _column(self, column: int) -> pa.Array:
        field = _COLUMNS[column]
        arrays: list[pa.Array] = []
        constants: list[tuple[object, int]] = []
        for segment in self._segments:
            if not segment.columns & column:
                constants.append((segment.constant(column), segment.rows))
                continue
            if constants:
                arrays.append(_repeated(constants, field.type))
                constants = []
            arrays += [batch.column(field.name) for batch in segment.batches]
        if constants:
            arrays.append(_repeated(constants, field.type))
        return _joined(arrays)


def _parts(merged: Sequence[BlockPart], first: int, rows: int) -> list[tuple[int, int, int, int]]:
    """Of some rows of a merged block, time, sequence and first row of each block that it was made of, and how many."""
    parts = []
    begin = 0
    for part in merged:
        since = max(begin, first)
        count = min(begin + part.rows, first + rows) - since
        if count > 0:
            parts.append((part.time, part.sequence, since - begin, count))
        begin += part.rows
    return parts


def _without_columns(rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.nulls(rows, pa.struct([])))


def _mask_of(topics: pa.Array, may_read: Callable[[str], bool]) -> pa.Array:
    """Which topics may be read; each distinct one is checked once."""
    encoded = topics.dictionary_encode()
    return pa.array([may_read(topic) for topic in encoded.dictionary.to_pylist()], pa.bool_()).take(encoded.indices)


def _joined(arrays: Sequence[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _repeated(constants: Sequence[tuple[object, int]], kind: pa.DataType) -> pa.Array:
    if len({value for value, _ in constants}) == 1:
        return pa.repeat(pa.scalar(constants[0][0], kind), sum(rows for _, rows in constants))
    indices = b"".join([struct.pack("=i", index) * rows for index, (_, rows) in enumerate(constants)])
    taken = pa.Array.from_buffers(pa.int32(), len(indices) // 4, [None, pa.py_buffer(indices)])
    return pa.array([value for value, _ in constants], kind).take(taken)


def _guids(high: pa.Array, low: pa.Array) -> pa.Array:
    """The 128-bit ids: both numbers in big-endian order, side by side."""
    rows = len(high)
    pairs = array("Q", bytes(16 * rows))
    pairs[0::2] = _big_endian(high)
    pairs[1::2] = _big_endian(low)
    return pa.Array.from_buffers(pa.binary(16), rows, [None, pa.py_buffer(pairs)])


def _big_endian(numbers: pa.Array) -> "array[int]":
    values = array("Q")
    start = numbers.offset * 8
    values.frombytes(memoryview(numbers.buffers()[1])[start : start + len(numbers) * 8])
    if sys.byteorder == "little":
        values.byteswap()
    return values


def _decoded_properties(column: pa.Array) -> pa.Array:
    """Property bytes as maps of names to texts; null where there are none."""
    encoded = column.dictionary_encode()
    kind = PUBLIC_SCHEMA.field("properties").type
    distinct = [property_texts(value.as_py()) for value in encoded.dictionary]
    if not any(distinct):
        return pa.nulls(len(column), kind)
    return pa.array([None if pairs is None else list(pairs.items()) for pairs in distinct], kind).take(encoded.indices)


def property_texts(property_bytes: bytes) -> dict[str, str] | None:
    """MQTT 5 properties of a PUBLISH under their standard names, all as text.

    Correlation data is base64; user properties stand under `User-Property.<name>`, the last of a name wins. None if
    there are none, or if the bytes are not valid properties.
    """
    if not property_bytes:
        return None
    try:
        properties = mqtt_properties.properties_from_wire(property_bytes, mqtt_properties.ALLOWED_PUBLISH)
    except ProtocolError:
        return None
    names = mqtt_properties.NAMES
    texts = {names[identifier]: str(number) for identifier, number in properties.numbers.items()}
    texts |= {names[identifier]: text for identifier, text in properties.strings.items()}
    texts |= {names[identifier]: base64.b64encode(data).decode() for identifier, data in properties.binaries.items()}
    user = names[mqtt_properties.USER_PROPERTY]
    texts |= {f"{user}.{key}": text for key, text in properties.user}
    return texts
