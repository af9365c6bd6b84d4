"""The columnar block: messages of one stream as one value in RocksDB.

Version 1 holds what one commit adds to the stream:

    header     40 bytes, see `HEADER`: checksum of key and value, columns, rows, bytes, what precedes it in the stream
    constants  for every column that has one value in all rows: its length (4 bytes, all ones for null) and value
    rows       an Arrow record-batch message with the columns that differ

Version 2 holds what several neighbouring blocks held, under the key of the last of them, and behind the rows

    parts      for each of them its time (8 bytes), sequence (2), rows (4) and bytes of topics and payloads (8); then
               how many parts there are (4)

so that positions in them stay what they were. Generations of layout version 1 have blocks of version 1 only.

Version 3, a **stub**, stands in the place of blocks whose rows were offloaded. It has no rows, but what is needed to
find and count them: as constants, JSON that says where they are now; behind these, compressed by zlib, the parts.

Every function that reads a block raises `DamagedBlockError` if key or value are not what was written.

A device's own stream repeats topic, client id, user name and flags in every row; a block that says them once is smaller
in the log, cheaper to write and cheaper to read. A block holds everything that is needed to read it. Little-endian.
Here are the head, the constants and the parts of a block; `block_writing` makes blocks, `block_rows` takes their rows
apart, and `arrow_rows` reads them with pyarrow, which is not imported here. Nothing here knows RocksDB, time or other
blocks.
"""

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from heliograph.storage.columnar.arrow_message import BatchFormat
from heliograph.storage.columnar.keys import time_and_sequence

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

RETAIN: Final = 4  # flags: QoS in the lowest two bits, then retain
_QOS: Final = 3
ERASED: Final = 3  # in the place of a QoS: a row that was erased; it keeps the place of those behind it
NULL: Final = 0xFFFFFFFF
_CHECKSUM = struct.Struct("<I")
LENGTH = struct.Struct("<I")
# checksum; version, columns in the batch, flags if constant, unused; rows, bytes of constants; bytes of topics and
# payloads; rows and bytes of the stream before this block
HEADER = struct.Struct("<IBBBxIIQQQ")
HEADER_REST = struct.Struct("<BBBxIIQQQ")
_VERSION_AT: Final = 4
_VERSIONS_WITH_PARTS: Final = (MERGED_VERSION, OFFLOADED_VERSION)
_PART = struct.Struct("<QHIQ")
_PART_COUNT = struct.Struct("<I")


def _format(columns: int) -> BatchFormat:
    counts = [3, 2, 2]
    counts += [2 if column == FLAGS else 3 for column in VARIABLE_COLUMNS if columns & column]
    return BatchFormat(counts)


FORMATS: Final = [_format(columns) for columns in range(2 * PROPERTIES)]


class DamagedBlockError(Exception):
    """The bytes are not those that were written; the caller knows the database and the stream."""


class Constants(NamedTuple):
    topic: str | None
    clientid: str | None
    username: str | None
    property_bytes: bytes | None


class BlockHeader(NamedTuple):
    """The head of a block.

    Attributes:
        flags: QoS and retain of all rows, if they do not vary.
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
        return HEADER.size + self.constants_bytes

    @property
    def has_parts(self) -> bool:
        return self.version != LAYOUT_VERSION


class BlockPart(NamedTuple):
    """One of the blocks that a merged block was made of: its time and sequence, rows, and bytes."""

    time: int
    sequence: int
    rows: int
    message_bytes: int


def stub_place(key: bytes, value: bytes) -> dict[str, object]:
    """Where the rows are that a stub stands for."""
    place: dict[str, object] = json.loads(constants_data(read_header(key, value), value))
    return place


def read_stub(key: bytes, value: bytes) -> tuple[BlockHeader, dict[str, object], list[BlockPart]]:
    """The head of a stub, where the rows are that it stands for, and what they were stored as."""
    header = read_header(key, value)
    place: dict[str, object] = json.loads(constants_data(header, value))
    return header, place, _stub_parts(header, value)


def read_header(key: bytes, value: bytes) -> BlockHeader:
    """The head of a block, after the check of its checksum."""
    if len(value) < HEADER.size:
        raise DamagedBlockError(f"a block of {len(value)} bytes is cut off")
    checksum, version, columns, flags, rows, constants_bytes, message_bytes, rows_before, bytes_before = (
        HEADER.unpack_from(value)
    )
    if zlib.crc32(memoryview(value)[4:], zlib.crc32(key)) != checksum:
        raise DamagedBlockError(f"the checksum of a block of {len(value)} bytes does not match")
    if version not in LAYOUT_VERSIONS:
        known = ", ".join(map(str, LAYOUT_VERSIONS))
        raise DamagedBlockError(f"a block says it is of version {version} of its layout; known are {known}")
    return BlockHeader(columns, flags, rows, constants_bytes, message_bytes, rows_before, bytes_before, version)


def is_merged(value: bytes) -> bool:
    """Whether a block says that it stands for several, merged or offloaded; its checksum is not looked at."""
    return len(value) > HEADER.size and value[_VERSION_AT] in _VERSIONS_WITH_PARTS


def is_stub(value: bytes) -> bool:
    """Whether a block says that its rows were offloaded; its checksum is not looked at."""
    return len(value) > HEADER.size and value[_VERSION_AT] == OFFLOADED_VERSION


def read_parts(key: bytes, value: bytes) -> list[BlockPart]:
    """What a block was made of; one of version 1 is its only part. The caller has read its header."""
    if not is_merged(value):
        header = read_header(key, value)
        return [BlockPart(*time_and_sequence(key), header.rows, header.message_bytes)]
    if is_stub(value):
        return _stub_parts(read_header(key, value), value)
    end = len(value) - _PART_COUNT.size
    (count,) = _PART_COUNT.unpack_from(value, end)
    begin = end - count * _PART.size
    if begin < HEADER.size:
        raise DamagedBlockError(f"a merged block of {len(value)} bytes says that it has {count} parts")
    return [BlockPart(*fields) for fields in _PART.iter_unpack(value[begin:end])]


def _stub_parts(header: BlockHeader, value: bytes) -> list[BlockPart]:
    try:
        packed = zlib.decompress(value[header.batch_at :])
        return [BlockPart(*fields) for fields in _PART.iter_unpack(packed)]
    except (zlib.error, struct.error) as error:
        raise DamagedBlockError(f"the parts of a stub of {len(value)} bytes cannot be read: {error}") from error


def constants_data(header: BlockHeader, value: bytes) -> bytes:
    """The constants as they lie in the value; equal for blocks that can be read as one."""
    return value[HEADER.size : header.batch_at]


def read_constants(header: BlockHeader, value: bytes) -> Constants:
    at = HEADER.size
    values: list[bytes | None] = []
    for column in (TOPIC, CLIENTID, USERNAME, PROPERTIES):
        if header.columns & column:
            values.append(None)
            continue
        (length,) = LENGTH.unpack_from(value, at)
        at += LENGTH.size
        if length == NULL:
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
    return flags & _QOS


def retain_of(flags: int) -> bool:
    return bool(flags & RETAIN)


def seal(key: bytes, rest: bytes) -> bytes:
    """A block of everything behind its checksum: `HEADER_REST` of its fields, version first, and what follows."""
    return _CHECKSUM.pack(zlib.crc32(rest, zlib.crc32(key))) + rest


def packed_parts(parts: Sequence[BlockPart]) -> bytes:
    return b"".join([_PART.pack(*part) for part in parts])


def trailer(parts: Sequence[BlockPart]) -> bytes:
    return packed_parts(parts) + _PART_COUNT.pack(len(parts))
