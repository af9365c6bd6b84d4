"""Chunks of recorded ways: some hundred, compressed together, with a header that says what they hold.

All of it may run in a thread: nothing here knows the broker.
"""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import msgspec
import pyarrow

from heliograph.tracing.ways.way import CHANGED, Step, Way, is_of_receiver

_TOPICS_MAX: Final = 64  # that a header names
_TOPICS_LENGTH_MAX: Final = 16_384  # of all of them: many headers are read for one search
_CLIENTS_MAX: Final = 4096
_MARK_BYTES: Final = 4
_CODEC: Final = "zstd"


class WayRecord(msgspec.Struct, array_like=True):
    """What is kept of a way; see `Way`, whose `row` has the same order."""

    id_high: int
    id_low: int
    at_us: int
    topic: str
    clientid: str
    username: str | None
    qos: int
    retain: bool
    payload_bytes: int
    expiry_s: int
    is_begun: bool
    has_id: bool
    made_by: tuple[str, ...]
    steps: list[Step]
    left_out_count: int

    @property
    def id(self) -> tuple[int, int]:
        return self.id_high, self.id_low

    def topics(self) -> Iterable[str]:
        yield self.topic
        for _, what, _, text, _ in self.steps:
            if what == CHANGED and text:
                yield text

    def clients(self) -> Iterable[str]:
        yield self.clientid
        for _, what, who, _, _ in self.steps:
            if is_of_receiver(what):
                yield who


class ChunkHeader(msgspec.Struct, array_like=True, frozen=True):
    """What a chunk holds.

    Attributes:
        later: Ids' times of ways that go on with what an earlier chunk has.
        raw_bytes: Before compression.
        size_bytes: What it takes on the disk, about.
        topics: Those of its messages; None for too many.
        clients: Marks of its publishers and receivers; None for too many.
    """

    first_us: int
    last_us: int
    later: tuple[int, ...]
    count: int
    raw_bytes: int
    size_bytes: int
    topics: tuple[str, ...] | None
    clients: bytes | None

    def may_have_client(self, clientid: str) -> bool:
        clients = self.clients
        if clients is None:
            return True
        mark = mark_of(clientid)
        return any(clients[at : at + _MARK_BYTES] == mark for at in range(0, len(clients), _MARK_BYTES))

    def may_have_id(self, id_high: int) -> bool:
        return self.first_us <= id_high <= self.last_us or id_high in self.later


_encoder: Final = msgspec.msgpack.Encoder()
_headers: Final = msgspec.msgpack.Decoder(ChunkHeader)
_records: Final = msgspec.msgpack.Decoder(list[WayRecord])


def mark_of(clientid: str) -> bytes:
    """By what a header knows a client."""
    return zlib.crc32(clientid.encode("utf-8", "surrogatepass")).to_bytes(_MARK_BYTES, "big")


def encoded(ways: Sequence[Way]) -> tuple[bytes, bytes]:
    """The header and the content of a chunk."""
    return _packed(ways, [way.row() for way in ways])


def encoded_records(records: Sequence[WayRecord]) -> tuple[bytes, bytes]:
    """The same of ways that were read from another chunk."""
    return _packed(records, records)


def _packed(ways: Sequence[Way] | Sequence[WayRecord], rows: Sequence[object]) -> tuple[bytes, bytes]:
    raw = _encoder.encode(rows)
    data: bytes = pyarrow.compress(raw, codec=_CODEC, asbytes=True)
    return _encoder.encode(_header(ways, len(raw), len(data))), data


def _header(ways: Sequence[Way] | Sequence[WayRecord], raw_bytes: int, size_bytes: int) -> ChunkHeader:
    topics: set[str] = set()
    clients: set[str] = set()
    for way in ways:
        topics.add(way.topic)
        clients.add(way.clientid)
        for _, what, who, text, _ in way.steps:
            if is_of_receiver(what):
                clients.add(who)
            elif what == CHANGED and text:
                topics.add(text)
    begun = [int(way.id_high) for way in ways if way.is_begun]
    later = tuple(int(way.id_high) for way in ways if not way.is_begun)
    marks = None if len(clients) > _CLIENTS_MAX else b"".join(sorted({mark_of(one) for one in clients}))
    are_named = len(topics) <= _TOPICS_MAX and sum(map(len, topics)) <= _TOPICS_LENGTH_MAX
    named = tuple(topics) if are_named else None
    first_us, last_us = (min(begun), max(begun)) if begun else (0, -1)
    size_bytes += len(marks or b"") + sum(len(one) for one in named or ())
    return ChunkHeader(first_us, last_us, later, len(ways), raw_bytes, size_bytes, named, marks)


def header_of(data: bytes) -> ChunkHeader:
    return _headers.decode(data)


def records_of(header: ChunkHeader, data: bytes, is_wanted: Callable[[WayRecord], bool]) -> list[WayRecord]:
    """The ways of a chunk that are wanted."""
    raw = pyarrow.decompress(data, decompressed_size=header.raw_bytes, codec=_CODEC, asbytes=True)
    return [record for record in _records.decode(raw) if is_wanted(record)]


def record_of(way: Way) -> WayRecord:
    record = msgspec.convert(way.row(), WayRecord)
    record.steps = list(way.steps)
    return record
