"""The keys of one database in RocksDB, format 1. Big-endian numbers, so that keys sort as the values do.

Every key begins with its kind; this table is the whole of it, and no released format is ever changed:

    meta         0x00                                                 -> JSON: format, database, n_shards, site
    block        'B' shard generation stream time sequence            -> a columnar block (see `block`)
    compacted    'C' shard generation stream                          -> tail of the last block that was looked at
    dropped      'D' shard generation                                 -> JSON: since, until, last positions and rows
    erased       'E' shard generation                                 -> empty; some of its rows were erased
    generation   'G' shard generation                                 -> JSON: layout, version, options, since, until
    last commit  'L' shard                                            -> time of its newest commit (8 bytes)
    offloaded    'O' shard generation                                 -> JSON: where its rows are (see `offload`)
    topic level  'N' shard generation node                            -> parent node (4 bytes), level text
    stream       'S' shard generation stream                          -> the node that its topics end at (4 bytes)
    written      'W' shard generation                                 -> bytes of topics and payloads (8 bytes)
    topic index  'X' shard generation stream topic-hash time sequence -> empty; points at the block of that time
"""

import struct
from typing import Final

FORMAT: Final = 1
META: Final = b"\x00"

_GENERATION = struct.Struct(">cHI")
_NUMBERED = struct.Struct(">cHII")
_BLOCK = struct.Struct(">cHIIQH")
_TAIL = struct.Struct(">QH")
_SHARD = struct.Struct(">cH")
_IN_GENERATION: Final = (b"B", b"C", b"E", b"N", b"S", b"X")
_NUMBER_MAX: Final = 0xFFFF_FFFF
TAIL_BYTES: Final = _TAIL.size
_BEHIND_ALL: Final = _TAIL.pack(0xFFFF_FFFF_FFFF_FFFF, 0xFFFF) + b"\0"
OFFLOADED_END: Final = b"P"  # behind all records of what was offloaded


def generation(shard: int, number: int) -> bytes:
    return _GENERATION.pack(b"G", shard, number)


def dropped_generation(shard: int, number: int) -> bytes:
    return _GENERATION.pack(b"D", shard, number)


def erased(shard: int, number: int) -> bytes:
    """The key of a generation whose blocks may have rows that no reader is given, so that they must be looked at."""
    return _GENERATION.pack(b"E", shard, number)


def offloaded(shard: int, number: int) -> bytes:
    """The key of where the rows of a generation lie; it outlives the generation until its files are gone."""
    return _GENERATION.pack(b"O", shard, number)


def ranges_of_generation(shard: int, number: int) -> list[tuple[bytes, bytes]]:
    """Lower and upper keys of everything in a generation but its own record."""
    return [(_GENERATION.pack(kind, shard, number), _after(kind, shard, number)) for kind in _IN_GENERATION]


def written(shard: int, number: int) -> bytes:
    return _GENERATION.pack(b"W", shard, number)


def last_commit(shard: int) -> bytes:
    return _SHARD.pack(b"L", shard)


def topic_level(shard: int, generation: int, node: int) -> bytes:
    return _NUMBERED.pack(b"N", shard, generation, node)


def stream(shard: int, generation: int, number: int) -> bytes:
    return _NUMBERED.pack(b"S", shard, generation, number)


def compacted(shard: int, generation: int, number: int) -> bytes:
    return _NUMBERED.pack(b"C", shard, generation, number)


def block_prefix(shard: int, generation: int, stream: int) -> bytes:
    """What the keys of all blocks of a stream begin with."""
    return _NUMBERED.pack(b"B", shard, generation, stream)


def block(shard: int, generation: int, stream: int, time: int, sequence: int) -> bytes:
    return _BLOCK.pack(b"B", shard, generation, stream, time, sequence)


def stream_of_block(key: bytes) -> tuple[int, int, int]:
    return numbered(key[: _NUMBERED.size])


def index_prefix(shard: int, generation: int, stream: int, topic_hash: bytes) -> bytes:
    """What the index keys of one topic of a stream begin with; a `tail` follows that names the block."""
    return _NUMBERED.pack(b"X", shard, generation, stream) + topic_hash


def tail(time: int, sequence: int) -> bytes:
    """The end of a block or index key."""
    return _TAIL.pack(time, sequence)


def behind(prefix: bytes) -> bytes:
    """A key behind all blocks, or index entries, with a prefix."""
    return prefix + _BEHIND_ALL


def time_and_sequence(key: bytes) -> tuple[int, int]:
    time, sequence = _TAIL.unpack_from(key, len(key) - _TAIL.size)
    return time, sequence


def numbered(key: bytes) -> tuple[int, int, int]:
    """Shard, generation and number of the key of a topic level or stream."""
    _, shard, generation, number = _NUMBERED.unpack(key)
    return shard, generation, number


def shard_and_generation(key: bytes) -> tuple[int, int]:
    _, shard, number = _GENERATION.unpack(key)
    return shard, number


def record_place(key: bytes) -> tuple[int, int]:
    """Shard and generation of the key of anything in a generation."""
    return shard_and_generation(key[: _GENERATION.size])


def _after(kind: bytes, shard: int, number: int) -> bytes:
    """The first key behind those of a generation."""
    if number < _NUMBER_MAX:
        return _GENERATION.pack(kind, shard, number + 1)
    return _GENERATION.pack(kind, shard, number) + b"\xff"
