"""The columnar block: messages of one stream as one value in RocksDB.

Version 1 holds what one commit adds to the stream:

    header     40 bytes, see `_HEADER`: checksum of key and value, columns, rows, bytes, what precedes it in the stream
    constants  for every column that has one value in all rows: its length (4 bytes, all ones for null) and value
    rows       an Arrow record-batch message with the columns that differ

Version 2 holds what several neighbouring blocks held, under the key of the last of them, and behind the rows

    parts      for each of them its time (8 bytes), sequence (2), rows (4) and bytes of topics and payloads (8); then
               how many parts there are (4)

so that positions in them stay what they were. Generations of layout version 1 have blocks of version 1 only.

Version 3, a **stub**, stands in the place of blocks whose rows were offloaded. It has no rows, but what is needed to
find and count them: as constants, JSON that says where they are now; behind these, compressed by zlib, the parts.

A device's own stream repeats topic, client id, user name and flags in every row; a block that says them once is smaller
in the log, cheaper to write and cheaper to read. A block holds everything that is needed to read it. Little-endian.
Nothing here knows RocksDB, time or other blocks. pyarrow is not imported: `arrow_rows` reads blocks with it.
"""

import json
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from heliograph.storage.columnar.arrow_message import BatchFormat
from heliograph.storage.columnar.keys import time_and_sequence
from heliograph.storage.interface import StorableMessage, StoredMessage

LAYOUT: Final = "columnar"
LAYOUT_VERSION: Final = 1  # of new generations
MERGED_VERSION: Final = 2  # of those that have merged blocks
OFFLOADED_VERSION: Final = 3  # of those whose rows lie in files elsewhere
LAYOUT_VERSIONS: Final = (LAYOUT_VERSION, MERGED_VERSION, OFFLOADED_VERSION)

# Columns that may be constant, as bits of the header, in the order of the batch (behind payload, id_high, id_low).
TOPIC: Final = 1
FLAGS: Final = 2
CLIENTID: Final = 4
USERNAME: Final = 8
PROPERTIES: Final = 16
VARIABLE_COLUMNS: Final = (TOPIC, FLAGS, CLIENTID, USERNAME, PROPERTIES)

_RETAIN: Final = 4  # flags: QoS in the lowest two bits, then retain
_QOS: Final = 3
_NULL: Final = 0xFFFFFFFF
_CHECKSUM = struct.Struct("<I")
_LENGTH = struct.Struct("<I")
_NULL_LENGTH: Final = _LENGTH.pack(_NULL)
_PADDING: Final = [bytes(-length & 7) for length in range(8)]
# checksum; version, columns in the batch, flags if constant, unused; rows, bytes of constants; bytes of topics and
# payloads; rows and bytes of the stream before this block
_HEADER = struct.Struct("<IBBBxIIQQQ")
_REST = struct.Struct("<BBBxIIQQQ")
_VERSION_AT: Final = 4
_VERSIONS_WITH_PARTS: Final = (MERGED_VERSION, OFFLOADED_VERSION)
_PART = struct.Struct("<QHIQ")
_PART_COUNT = struct.Struct("<I")
_TOPICS_AT: Final = 7  # buffers before those of the topics: three of payloads, two of each half of the ids
_FEW_OF: Final = 8  # one row alone costs what this many of a column cost


def _format(columns: int) -> BatchFormat:
    counts = [3, 2, 2]
    counts += [2 if column == FLAGS else 3 for column in VARIABLE_COLUMNS if columns & column]
    return BatchFormat(counts)


_FORMATS: Final = [_format(columns) for columns in range(2 * PROPERTIES)]


class DamagedBlockError(Exception):
    """The bytes are not those that were written; the caller knows the database and the stream."""


class Constants(NamedTuple):
    """The values of the columns that do not vary; None for those that do (and for no user name)."""

    topic: str | None
    clientid: str | None
    username: str | None
    property_bytes: bytes | None


class BlockHeader(NamedTuple):
    """The head of a block.

    Attributes:
        columns: The bits of the columns that are in the batch.
        flags: QoS and retain of all rows, if they do not vary.
        rows: How many rows.
        constants_bytes: The length of the constants.
        message_bytes: Bytes of topics and payloads.
        rows_before: Rows of the stream before this block.
        bytes_before: Bytes of topics and payloads of the stream before this block.
        version: 1, 2 for a merged one, 3 for a stub.
    """

    columns: int
    flags: int
    rows: int
    constants_bytes: int
    message_bytes: int
    rows_before: int
    bytes_before: int
    version: int = LAYOUT_VERSION

    @property
    def batch_at(self) -> int:
        """Where in the value the Arrow message begins."""
        return _HEADER.size + self.constants_bytes

    @property
    def has_parts(self) -> bool:
        """Whether it stands for several blocks."""
        return self.version != LAYOUT_VERSION


class BlockPart(NamedTuple):
    """One of the blocks that a merged block was made of: its time and sequence, rows, and bytes."""

    time: int
    sequence: int
    rows: int
    message_bytes: int


def encode_block(
    key: bytes, messages: Sequence[StorableMessage], rows_before: int, bytes_before: int
) -> tuple[bytes, int]:
    """A block of at least one message.

    Args:
        key: The key that it will be stored under; part of the checksum, so that no block passes for another.
        messages: Its rows.
        rows_before: Rows of the stream before it.
        bytes_before: Bytes of topics and payloads of the stream before it.

    Returns:
        The value, and its bytes of topics and payloads.
    """
    return _encode(key, LAYOUT_VERSION, messages, rows_before, bytes_before, b"")


def merge_blocks(blocks: Sequence[tuple[bytes, bytes]]) -> bytes:
    """One block of several that follow one another in a stream; its key is that of the last.

    Args:
        blocks: Keys and values of blocks of any version, in order.

    Raises:
        DamagedBlockError: One is not what was written.
    """
    first = read_header(*blocks[0])
    messages = [message for key, value in blocks for message in read_rows(key, value, 0, _NULL)]
    trailer = _trailer([part for key, value in blocks for part in read_parts(key, value)])
    key, _ = blocks[-1]
    value, _ = _encode(key, MERGED_VERSION, messages, first.rows_before, first.bytes_before, trailer)
    return value


def encode_stub(key: bytes, where: Mapping[str, object], parts: Sequence[BlockPart], before: tuple[int, int]) -> bytes:
    """What stands for blocks that follow one another in a stream and were offloaded.

    Args:
        key: The key of the last of them, which it takes.
        where: Where their rows are, for JSON.
        parts: What they were made of.
        before: Rows and bytes of the stream before them.
    """
    place = json.dumps(where, ensure_ascii=False, separators=(",", ":")).encode()
    place += b" " * (-len(place) & 7)
    rows, message_bytes = sum(part.rows for part in parts), sum(part.message_bytes for part in parts)
    rest = _REST.pack(OFFLOADED_VERSION, 0, 0, rows, len(place), message_bytes, *before)
    return _checked(key, rest + place + zlib.compress(b"".join([_PART.pack(*part) for part in parts])))


def stub_place(key: bytes, value: bytes) -> dict[str, object]:
    """Where the rows are that a stub stands for.

    Raises:
        DamagedBlockError: Key or value are not what was written.
    """
    place: dict[str, object] = json.loads(constants_data(read_header(key, value), value))
    return place


def encode_columns(key: bytes, stub: bytes, nulls: Sequence[int], buffers: Sequence[bytes]) -> bytes:
    """The merged block that a stub stands for, of columns in Arrow's buffers; none of them is taken as constant.

    Args:
        key: Its key.
        stub: What stood for it.
        nulls: How many rows are null, for each column.
        buffers: The buffers of all columns, in the order of the layout.
    """
    header = read_header(key, stub)
    columns = sum(VARIABLE_COLUMNS)
    fields = (columns, 0, header.rows, 0, header.message_bytes, header.rows_before, header.bytes_before)
    batch = b"".join(_FORMATS[columns].encode(header.rows, nulls, buffers))
    return _checked(key, _REST.pack(MERGED_VERSION, *fields) + batch + _trailer(read_parts(key, stub)))


def _encode(
    key: bytes, version: int, messages: Sequence[StorableMessage], rows_before: int, bytes_before: int, trailer: bytes
) -> tuple[bytes, int]:
    rows = _RowWriter(len(messages))
    payload_bytes = rows.add_binary([message.payload for message in messages])
    rows.add_numbers([message.id_high for message in messages])
    rows.add_numbers([message.id_low for message in messages])
    topic_bytes = rows.add_text(TOPIC, [message.topic for message in messages])
    flags = bytes([message.qos | _RETAIN if message.retain else message.qos for message in messages])
    rows.add_flags(flags)
    rows.add_text(CLIENTID, [message.clientid for message in messages])
    rows.add_nullable_text(USERNAME, [message.username for message in messages])
    rows.add_properties([message.property_bytes for message in messages])

    message_bytes = payload_bytes + topic_bytes
    constants = b"".join(rows.constants)
    constants += _PADDING[len(constants) & 7]  # the Arrow message begins at a multiple of 8
    fields = (rows.columns, flags[0], rows.count, len(constants), message_bytes, rows_before, bytes_before)
    batch = _FORMATS[rows.columns].encode(rows.count, rows.nulls, rows.buffers)
    return _checked(key, b"".join((_REST.pack(version, *fields), constants, *batch, trailer))), message_bytes


def _checked(key: bytes, rest: bytes) -> bytes:
    """A block of everything behind its checksum."""
    return _CHECKSUM.pack(zlib.crc32(rest, zlib.crc32(key))) + rest


def _trailer(parts: Sequence[BlockPart]) -> bytes:
    return b"".join([_PART.pack(*part) for part in parts]) + _PART_COUNT.pack(len(parts))


def renumbered_block(key: bytes, value: bytes, rows_before: int, bytes_before: int) -> bytes:
    """The same block with another account of what precedes it in the stream; its rows are not touched.

    Raises:
        DamagedBlockError: Key or value are not what was written.
    """
    header = read_header(key, value)
    if (header.rows_before, header.bytes_before) == (rows_before, bytes_before):
        return value
    fields = (*header[:5], rows_before, bytes_before)
    return _checked(key, _REST.pack(header.version, *fields) + value[_HEADER.size :])


class _RowWriter:
    """Gathers the columns of a block in the order of the layout; lives for one call of `encode_block`."""

    __slots__ = ("buffers", "columns", "constants", "count", "nulls")

    def __init__(self, count: int) -> None:
        self.count = count
        self.columns = 0
        self.constants: list[bytes] = []
        self.buffers: list[bytes] = []
        self.nulls: list[int] = []

    def add_binary(self, values: list[bytes]) -> int:
        """A column of bytes; returns how many there are in all."""
        data = b"".join(values)
        self.buffers += (b"", _offsets(self.count, map(len, values)), data)
        self.nulls.append(0)
        return len(data)

    def add_numbers(self, values: list[int]) -> None:
        """A column of 64-bit numbers."""
        self.buffers += (b"", struct.pack(f"<{self.count}Q", *values))
        self.nulls.append(0)

    def add_flags(self, flags: bytes) -> None:
        """The column of flags; a constant one stands in the header."""
        if flags.count(flags[0]) != self.count:
            self.columns |= FLAGS
            self.buffers += (b"", flags)
            self.nulls.append(0)

    def add_text(self, column: int, values: list[str]) -> int:
        """A column of text; returns how many bytes all rows have."""
        if values.count(values[0]) == self.count:
            return self.count * self._add_constant(values[0].encode())
        self.columns |= column
        offsets, data = _text(values)
        self.buffers += (b"", offsets, data)
        self.nulls.append(0)
        return len(data)

    def add_nullable_text(self, column: int, values: list[str | None]) -> None:
        """A column of text that may be missing."""
        first = values[0]
        if values.count(first) != self.count:
            self.columns |= column
            self.buffers += (_validity(values), *_text([value or "" for value in values]))
            self.nulls.append(values.count(None))
        elif first is None:
            self.constants.append(_NULL_LENGTH)
        else:
            self._add_constant(first.encode())

    def add_properties(self, values: list[bytes]) -> None:
        """The column of property bytes."""
        if values.count(values[0]) == self.count:
            self._add_constant(values[0])
        else:
            self.columns |= PROPERTIES
            self.add_binary(values)

    def _add_constant(self, value: bytes) -> int:
        self.constants += (_LENGTH.pack(len(value)), value)
        return len(value)


def read_header(key: bytes, value: bytes) -> BlockHeader:
    """The head of a block, after its checksum was compared.

    Raises:
        DamagedBlockError: Key or value are not what was written.
    """
    if len(value) < _HEADER.size:
        raise DamagedBlockError(f"a block of {len(value)} bytes is cut off")
    checksum, version, columns, flags, rows, constants_bytes, message_bytes, rows_before, bytes_before = (
        _HEADER.unpack_from(value)
    )
    if zlib.crc32(memoryview(value)[4:], zlib.crc32(key)) != checksum:
        raise DamagedBlockError(f"the checksum of a block of {len(value)} bytes does not match")
    if version not in LAYOUT_VERSIONS:
        known = ", ".join(map(str, LAYOUT_VERSIONS))
        raise DamagedBlockError(f"a block says it is of version {version} of its layout; known are {known}")
    return BlockHeader(columns, flags, rows, constants_bytes, message_bytes, rows_before, bytes_before, version)


def is_merged(value: bytes) -> bool:
    """Whether a block says that it stands for several, merged or offloaded; its checksum is not looked at."""
    return len(value) > _HEADER.size and value[_VERSION_AT] in _VERSIONS_WITH_PARTS


def is_stub(value: bytes) -> bool:
    """Whether a block says that its rows were offloaded; its checksum is not looked at."""
    return len(value) > _HEADER.size and value[_VERSION_AT] == OFFLOADED_VERSION


def read_parts(key: bytes, value: bytes) -> list[BlockPart]:
    """What a block was made of; one of version 1 is its only part. The caller has read its header."""
    if not is_merged(value):
        header = read_header(key, value)
        return [BlockPart(*time_and_sequence(key), header.rows, header.message_bytes)]
    if is_stub(value):
        return _stub_parts(key, value)
    end = len(value) - _PART_COUNT.size
    (count,) = _PART_COUNT.unpack_from(value, end)
    begin = end - count * _PART.size
    if begin < _HEADER.size:
        raise DamagedBlockError(f"a merged block of {len(value)} bytes says that it has {count} parts")
    return [BlockPart(*fields) for fields in _PART.iter_unpack(value[begin:end])]


def _stub_parts(key: bytes, value: bytes) -> list[BlockPart]:
    try:
        packed = zlib.decompress(value[read_header(key, value).batch_at :])
        return [BlockPart(*fields) for fields in _PART.iter_unpack(packed)]
    except (zlib.error, struct.error) as error:
        raise DamagedBlockError(f"the parts of a stub of {len(value)} bytes cannot be read: {error}") from error


def constants_data(header: BlockHeader, value: bytes) -> bytes:
    """The constants as they lie in the value; equal for blocks that can be read as one."""
    return value[_HEADER.size : header.batch_at]


def read_constants(header: BlockHeader, value: bytes) -> Constants:
    """The constant columns of a block."""
    at = _HEADER.size
    values: list[bytes | None] = []
    for column in (TOPIC, CLIENTID, USERNAME, PROPERTIES):
        if header.columns & column:
            values.append(None)
            continue
        (length,) = _LENGTH.unpack_from(value, at)
        at += _LENGTH.size
        if length == _NULL:
            values.append(None)
        else:
            values.append(value[at : at + length])
            at += length
    topic, clientid, username, properties = values
    return Constants(
        None if topic is None else topic.decode(),
        None if clientid is None else clientid.decode(),
        None if username is None else username.decode(),
        properties,
    )


def qos_of(flags: int) -> int:
    """The QoS in a row's flags."""
    return flags & _QOS


def retain_of(flags: int) -> bool:
    """The retain flag in a row's flags."""
    return bool(flags & _RETAIN)


def read_rows(key: bytes, value: bytes, first: int, count: int) -> list[StoredMessage]:
    """Messages of a block, taken apart in Python: for few rows, where Arrow would cost more than it saves.

    Raises:
        DamagedBlockError: Key or value are not what was written.
    """
    header = read_header(key, value)
    if header.version == OFFLOADED_VERSION:
        raise DamagedBlockError("a stub has no rows; they must be fetched from where it says")
    count = min(count, header.rows - first)
    if count <= 0:
        return []
    return _messages(key, value, header, first, count)


def read_matching(
    key: bytes, value: bytes, first: int, count: int, wanted: str | Callable[[str], bool]
) -> tuple[int, list[tuple[int, StoredMessage]]]:
    """How many rows there were, and those of them that are wanted, with their numbers.

    A row that does not match costs a tenth of one that is taken apart, and nearly nothing where one topic is wanted.

    Args:
        wanted: A topic, or what says whether a topic matches.

    Raises:
        DamagedBlockError: Key or value are not what was written.
    """
    header = read_header(key, value)
    if header.version == OFFLOADED_VERSION:
        raise DamagedBlockError("a stub has no rows; they must be fetched from where it says")
    count = min(count, header.rows - first)
    if count <= 0:
        return 0, []
    reader = _RowReader(value, header, first, count)
    if isinstance(wanted, str):
        chosen = [first + row for row in reader.rows_of(wanted)]
    else:
        chosen = [row for row, topic in enumerate(reader.topics(), first) if wanted(topic)]
    if len(chosen) > count // _FEW_OF:
        messages = _messages(key, value, header, first, count)
        return count, [(row, messages[row - first]) for row in chosen]
    return count, [(row, _messages(key, value, header, row, 1)[0]) for row in chosen]


def _messages(key: bytes, value: bytes, header: BlockHeader, first: int, count: int) -> list[StoredMessage]:
    rows = _RowReader(value, header, first, count)
    return [
        StoredMessage(
            high, low, topic, payload, qos_of(flags), retain_of(flags), clientid, username, properties, stored_at
        )
        for (payload, high, low, topic, flags, clientid, username, properties), stored_at in zip(
            rows.columns(), _times(key, value, first, count), strict=True
        )
    ]


def _times(key: bytes, value: bytes, first: int, count: int) -> list[int]:
    """When some rows were stored."""
    if not is_merged(value):
        return [time_and_sequence(key)[0]] * count
    times: list[int] = []
    for part in read_parts(key, value):
        times += [part.time] * part.rows
    return times[first : first + count]


class _RowReader:
    """Reads a range of rows column by column; lives for one call of `read_rows`."""

    def __init__(self, value: bytes, header: BlockHeader, first: int, count: int) -> None:
        self._value = value
        self._header = header
        self._first = first
        self._count = count
        self._locations = _FORMATS[header.columns].locations(value, header.batch_at)
        self._next = 0

    def columns(
        self,
    ) -> "zip[tuple[bytes, int, int, str, int, str, str | None, bytes]]":
        """All columns of the rows, constant ones repeated."""
        header, count = self._header, self._count
        constants = read_constants(header, self._value)
        payloads = self._binary()
        highs = self._numbers()
        lows = self._numbers()
        topics = self._texts() if constants.topic is None else [constants.topic] * count
        flags = self._bytes() if header.columns & FLAGS else bytes([header.flags]) * count
        clientids = self._texts() if constants.clientid is None else [constants.clientid] * count
        usernames: Sequence[str | None] = [constants.username] * count
        if header.columns & USERNAME:
            usernames = self._nullable_texts()
        properties = self._binary() if constants.property_bytes is None else [constants.property_bytes] * count
        return zip(payloads, highs, lows, topics, flags, clientids, usernames, properties, strict=True)

    def topics(self) -> list[str]:
        """The topics alone; called instead of `columns`."""
        constants = read_constants(self._header, self._value)
        if constants.topic is not None:
            return [constants.topic] * self._count
        self._next = _TOPICS_AT
        return self._texts()

    def rows_of(self, topic: str) -> list[int]:
        """Which of the rows have one topic; called instead of `columns`. Topics are searched where they lie."""
        constants = read_constants(self._header, self._value)
        if constants.topic is not None:
            return list(range(self._count)) if constants.topic == topic else []
        value, wanted = self._value, topic.encode()
        (_, (offsets_at, _), (at, _)) = self._locations[_TOPICS_AT : _TOPICS_AT + 3]
        offsets = struct.unpack_from(f"<{self._count + 1}i", value, offsets_at + 4 * self._first)
        rows: list[int] = []
        place = value.find(wanted, at + offsets[0], at + offsets[-1])
        while place >= 0:
            row = bisect_right(offsets, place - at) - 1  # behind empty ones, which begin there too
            if offsets[row] == place - at and offsets[row + 1] == place - at + len(wanted):
                rows.append(row)
            place = value.find(wanted, place + 1, at + offsets[-1])
        return rows

    def _location(self) -> tuple[int, int]:
        location = self._locations[self._next]
        self._next += 1
        return location

    def _binary(self) -> list[bytes]:
        self._location()
        offsets_at, _ = self._location()
        at, _ = self._location()
        offsets = struct.unpack_from(f"<{self._count + 1}i", self._value, offsets_at + 4 * self._first)
        value = self._value
        return [value[at + start : at + end] for start, end in pairwise(offsets)]

    def _texts(self) -> list[str]:
        return [data.decode() for data in self._binary()]

    def _nullable_texts(self) -> list[str | None]:
        validity_at, _ = self._locations[self._next]
        texts = self._texts()
        value = self._value
        rows = range(self._first, self._first + self._count)
        return [
            text if value[validity_at + row // 8] >> row % 8 & 1 else None
            for row, text in zip(rows, texts, strict=True)
        ]

    def _numbers(self) -> tuple[int, ...]:
        self._location()
        at, _ = self._location()
        return struct.unpack_from(f"<{self._count}Q", self._value, at + 8 * self._first)

    def _bytes(self) -> bytes:
        self._location()
        at, _ = self._location()
        return self._value[at + self._first : at + self._first + self._count]


def _offsets(rows: int, lengths: "map[int]") -> bytes:
    return struct.pack(f"<{rows + 1}i", *accumulate(lengths, initial=0))


def _text(texts: list[str]) -> tuple[bytes, bytes]:
    data = "".join(texts).encode()
    if len(data) == sum(map(len, texts)):  # only ASCII: characters count like bytes
        return _offsets(len(texts), map(len, texts)), data
    encoded = [text.encode() for text in texts]
    return _offsets(len(texts), map(len, encoded)), data


def _validity(values: Sequence[str | None]) -> bytes:
    bits = 0
    for row, value in enumerate(values):
        if value is not None:
            bits |= 1 << row
    return bits.to_bytes((len(values) + 7) // 8, "little")
