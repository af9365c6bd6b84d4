"""Arrow record-batch messages written and taken apart with the standard library only.

A block on disk is one message of the Arrow IPC format, so any Arrow library reads it with no code of ours. The broker
writes several thousand small ones a second; building each with pyarrow costs 4 µs a column and 35 MB of memory in
every broker. The metadata of a message is a flatbuffer whose shape depends on the columns alone, so it is laid out once
per set of columns (`BatchFormat`) and then filled in by one `struct.pack`.

Layout of the metadata, with every 64-bit number at a multiple of 8 (offsets from the start of the flatbuffer):

     0 root offset -> 20       4 vtable of Message (version, header type, header, body length)
    20 Message: -> vtable, header -> 52, version, header type, [32] body length
    40 vtable of RecordBatch (length, nodes, buffers)
    52 RecordBatch: -> vtable, [56] rows, nodes ->, buffers ->
    76 field nodes: count, then (rows, nulls) each; then the buffers: count, then (offset, bytes) each

Source: the Arrow columnar format, "Encapsulated message format", and `Message.fbs`, metadata version V5.
"""

import struct
from collections.abc import Sequence
from typing import Final

_CONTINUATION: Final = 0xFFFFFFFF
_VERSION_V5: Final = 4
_RECORD_BATCH: Final = 3
_PREFIX_BYTES: Final = 8
_NODES_AT: Final = 80

# Root offset; Message's vtable and table; RecordBatch's vtable and table up to the counts of its two vectors.
_HEAD: Final = "<IiI 6H4x iIhBx q 5H2x i q II 4x I"
_PADDING: Final = [b"\0" * (-length & 7) for length in range(8)]  # by the length modulo 8


class BatchFormat:
    """The metadata of all record batches with the same kinds of columns.

    Args:
        buffer_counts: For each column how many buffers it has: 2 (validity, values) for numbers, 3 (validity, offsets,
            values) for text and binary.
    """

    def __init__(self, buffer_counts: Sequence[int]) -> None:
        self.columns = len(buffer_counts)
        self.buffers = sum(buffer_counts)
        self._struct = struct.Struct(_HEAD + "qq" * self.columns + "4x I" + "qq" * self.buffers)
        buffers_at = _NODES_AT + 16 * self.columns + 8
        self.metadata_bytes = self._struct.size
        self._before_body_length = (
            _CONTINUATION,
            self.metadata_bytes - _PREFIX_BYTES,
            *(20, 12, 20, 8, 10, 4, 12),
            *(20 - 4, 52 - 24, _VERSION_V5, _RECORD_BATCH),
        )
        self._before_rows = (10, 20, 4, 12, 16, 52 - 40)
        self._after_rows = (76 - 64, buffers_at - 4 - 68, self.columns)
        self._locations = struct.Struct("<" + "qq" * self.buffers)
        self._locations_at = _PREFIX_BYTES + buffers_at

    def encode(self, rows: int, nulls: Sequence[int], buffers: Sequence[bytes]) -> list[bytes]:
        """The parts of a message, to be joined.

        Args:
            buffers: The buffers of all columns, in order; an absent validity buffer is empty.
        """
        parts = [b""]
        numbers: list[int] = []
        at = 0
        for buffer in buffers:
            length = len(buffer)
            numbers += (at, length)
            if length:
                parts.append(buffer)
                parts.append(_PADDING[length & 7])
                at += length + (-length & 7)
        nodes: list[int] = []
        for null_count in nulls:
            nodes += (rows, null_count)
        parts[0] = self._struct.pack(
            *self._before_body_length, at, *self._before_rows, rows, *self._after_rows, *nodes, self.buffers, *numbers
        )
        return parts

    def locations(self, message: bytes, at: int) -> list[tuple[int, int]]:
        """Where the buffers of a message that begins at `at` lie: start and length of each, in `message`."""
        numbers = self._locations.unpack_from(message, at + self._locations_at)
        body = at + self.metadata_bytes
        return [(body + numbers[i], numbers[i + 1]) for i in range(0, len(numbers), 2)]
