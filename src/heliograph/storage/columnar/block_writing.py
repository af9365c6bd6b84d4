"""Making blocks: of messages, of other blocks, and of columns that were offloaded; `block` says what a block is."""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from heliograph.storage.columnar.block import (
    CLIENTID,
    FLAGS,
    FORMATS,
    HEADER,
    HEADER_REST,
    LAYOUT_VERSION,
    LENGTH,
    MERGED_VERSION,
    NULL,
    OFFLOADED_VERSION,
    PROPERTIES,
    RETAIN,
    TOPIC,
    USERNAME,
    VARIABLE_COLUMNS,
    BlockHeader,
    BlockPart,
    packed_parts,
    read_header,
    read_parts,
    seal,
    trailer,
)
from heliograph.storage.columnar.block_rows import read_rows
from heliograph.storage.interface import StorableMessage

_NULL_LENGTH: Final = LENGTH.pack(NULL)
_PADDING: Final = [bytes(-length & 7) for length in range(8)]


def encode_block(
    key: bytes, messages: Sequence[StorableMessage], rows_before: int, bytes_before: int
) -> tuple[bytes, int]:
    """A block of at least one message.

    Args:
        key: The key that it will be stored under; part of the checksum, so that no block passes for another.

    Returns:
        The value, and its bytes of topics and payloads.
    """
    return _encode(key, LAYOUT_VERSION, messages, rows_before, bytes_before, b"")


def merge_blocks(blocks: Sequence[tuple[bytes, bytes]]) -> bytes:
    """One block of several that follow one another in a stream; its key is that of the last."""
    first = read_header(*blocks[0])
    messages = [message for key, value in blocks for message in read_rows(key, value, 0, NULL)]
    behind = trailer([part for key, value in blocks for part in read_parts(key, value)])
    key, _ = blocks[-1]
    value, _ = _encode(key, MERGED_VERSION, messages, first.rows_before, first.bytes_before, behind)
    return value


def encode_stub(key: bytes, where: Mapping[str, object], parts: Sequence[BlockPart], before: tuple[int, int]) -> bytes:
    """The stub for offloaded blocks that follow one another, under the key of the last; `where` becomes JSON."""
    place = json.dumps(where, ensure_ascii=False, separators=(",", ":")).encode()
    place += b" " * (-len(place) & 7)
    rows, message_bytes = sum(part.rows for part in parts), sum(part.message_bytes for part in parts)
    fields = (OFFLOADED_VERSION, 0, 0, rows, len(place), message_bytes, *before)
    return seal(key, HEADER_REST.pack(*fields) + place + zlib.compress(packed_parts(parts)))


def encode_columns(
    key: bytes, stub: BlockHeader, parts: Sequence[BlockPart], nulls: Sequence[int], buffers: Sequence[bytes]
) -> bytes:
    """The merged block that a stub stands for, of columns in Arrow's buffers; none of them is taken as constant.

    Args:
        stub: Its head.
        nulls: How many rows are null, for each column.
        buffers: The buffers of all columns, in the order of the layout.
    """
    columns = sum(VARIABLE_COLUMNS)
    fields = (MERGED_VERSION, columns, 0, stub.rows, 0, stub.message_bytes, stub.rows_before, stub.bytes_before)
    batch = FORMATS[columns].encode(stub.rows, nulls, buffers)
    return seal(key, b"".join((HEADER_REST.pack(*fields), *batch, trailer(parts))))


def renumbered_block(key: bytes, value: bytes, rows_before: int, bytes_before: int) -> bytes:
    """The same block with another account of what precedes it in the stream; its rows are not touched."""
    header = read_header(key, value)
    if (header.rows_before, header.bytes_before) == (rows_before, bytes_before):
        return value
    fields = (header.version, *header[:5], rows_before, bytes_before)
    return seal(key, HEADER_REST.pack(*fields) + value[HEADER.size :])


def rewritten_block(
    key: bytes, value: bytes, messages: Sequence[StorableMessage], rows_before: int, bytes_before: int
) -> bytes:
    """A block with as many messages in the place of those that it has; positions in it stay what they are."""
    header = read_header(key, value)
    behind = b""
    if header.has_parts:
        parts, first = [], 0
        for part in read_parts(key, value):
            some = messages[first : first + part.rows]
            parts.append(part._replace(message_bytes=sum(len(one.topic.encode()) + len(one.payload) for one in some)))
            first += part.rows
        behind = trailer(parts)
    block, _ = _encode(key, header.version, messages, rows_before, bytes_before, behind)
    return block


def _encode(
    key: bytes, version: int, messages: Sequence[StorableMessage], rows_before: int, bytes_before: int, behind: bytes
) -> tuple[bytes, int]:
    rows = _RowWriter(len(messages))
    payload_bytes = rows.add_binary([message.payload for message in messages])
    rows.add_numbers([message.id_high for message in messages])
    rows.add_numbers([message.id_low for message in messages])
    topic_bytes = rows.add_text(TOPIC, [message.topic for message in messages])
    flags = bytes([message.qos | RETAIN if message.retain else message.qos for message in messages])
    rows.add_flags(flags)
    rows.add_text(CLIENTID, [message.clientid for message in messages])
    rows.add_nullable_text(USERNAME, [message.username for message in messages])
    rows.add_properties([message.property_bytes for message in messages])

    message_bytes = payload_bytes + topic_bytes
    constants = b"".join(rows.constants)
    constants += _PADDING[len(constants) & 7]  # the Arrow message begins at a multiple of 8
    fields = (version, rows.columns, flags[0], rows.count, len(constants), message_bytes, rows_before, bytes_before)
    batch = FORMATS[rows.columns].encode(rows.count, rows.nulls, rows.buffers)
    return seal(key, b"".join((HEADER_REST.pack(*fields), constants, *batch, behind))), message_bytes


class _RowWriter:
    __slots__ = ("buffers", "columns", "constants", "count", "nulls")

    def __init__(self, count: int) -> None:
        self.count = count
        self.columns = 0
        self.constants: list[bytes] = []
        self.buffers: list[bytes] = []
        self.nulls: list[int] = []

    def add_binary(self, values: list[bytes]) -> int:
        """Add a column of bytes; return how many bytes there are in all."""
        data = b"".join(values)
        self.buffers += (b"", _offsets(self.count, map(len, values)), data)
        self.nulls.append(0)
        return len(data)

    def add_numbers(self, values: list[int]) -> None:
        self.buffers += (b"", struct.pack(f"<{self.count}Q", *values))
        self.nulls.append(0)

    def add_flags(self, flags: bytes) -> None:
        """Add the column of flags; a constant one stands in the header."""
        if flags.count(flags[0]) != self.count:
            self.columns |= FLAGS
            self.buffers += (b"", flags)
            self.nulls.append(0)

    def add_text(self, column: int, values: list[str]) -> int:
        """Add a column of text; return its bytes."""
        if values.count(values[0]) == self.count:
            return self.count * self._add_constant(values[0].encode())
        self.columns |= column
        offsets, data = _text(values)
        self.buffers += (b"", offsets, data)
        self.nulls.append(0)
        return len(data)

    def add_nullable_text(self, column: int, values: list[str | None]) -> None:
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
        if values.count(values[0]) == self.count:
            self._add_constant(values[0])
        else:
            self.columns |= PROPERTIES
            self.add_binary(values)

    def _add_constant(self, value: bytes) -> int:
        self.constants += (LENGTH.pack(len(value)), value)
        return len(value)


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
