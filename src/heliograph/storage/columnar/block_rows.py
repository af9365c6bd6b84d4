"""The rows of a block, taken apart in Python: for few rows, where Arrow would cost more than it saves."""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

from heliograph.storage.columnar.block import (
    FLAGS,
    FORMATS,
    OFFLOADED_VERSION,
    USERNAME,
    BlockHeader,
    DamagedBlockError,
    is_merged,
    qos_of,
    read_constants,
    read_header,
    read_parts,
    retain_of,
)
from heliograph.storage.columnar.keys import time_and_sequence
from heliograph.storage.interface import StoredMessage

_TOPICS_AT: Final = 7  # buffers before those of the topics: three of payloads, two of each half of the ids
_FEW_OF: Final = 8  # one row alone costs what this many of a column cost


def read_rows(key: bytes, value: bytes, first: int, count: int) -> list[StoredMessage]:
    """Messages of a block, taken apart in Python: for few rows, where Arrow would cost more than it saves."""
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
    if not is_merged(value):
        return [time_and_sequence(key)[0]] * count
    times: list[int] = []
    for part in read_parts(key, value):
        times += [part.time] * part.rows
    return times[first : first + count]


class _RowReader:
    def __init__(self, value: bytes, header: BlockHeader, first: int, count: int) -> None:
        self._value = value
        self._header = header
        self._first = first
        self._count = count
        self._locations = FORMATS[header.columns].locations(value, header.batch_at)
        self._next = 0

    def columns(
        self,
    ) -> "zip[tuple[bytes, int, int, str, int, str, str | None, bytes]]":
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
        constants = read_constants(self._header, self._value)
        if constants.topic is not None:
            return [constants.topic] * self._count
        self._next = _TOPICS_AT
        return self._texts()

    def rows_of(self, topic: str) -> list[int]:
        """Which rows have a topic; called instead of `columns`. Topics are searched where they lie."""
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
